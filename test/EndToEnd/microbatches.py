#!/usr/bin/env python3
"""Small models in microbatches give ONNX Runtime's results; what microbatches would change is refused.

    microbatches.py --build build

Each model has what makes one hard to cut: a batch that is not the first dimension, or a part of one; values that all turns
share, before and behind views; outputs that are inputs, or the same; convolutions whose input has a border; checked indices.
Each runs in parts that divide the batch and in some that do not, on one rank, beside two meshes, and in pipeline stages. The
error must stay below 1e-5 of the largest output.
"""
import argparse
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

BATCH, SEQUENCE, WIDTH = 8, 5, 6
SIZES = {"batch": BATCH, "seq": SEQUENCE}
RANDOM = np.random.default_rng(1)


def weight(*shape):
    return (RANDOM.standard_normal(shape) / 4).astype(np.float32)


def shape(*sizes):
    return np.array(sizes, np.int64)


def node(operator, inputs, output, **attributes):
    return helper.make_node(operator, inputs.split(), output.split(), name="node_" + output.split()[0], **attributes)


# Name: inputs (dimensions by name or size; of integers behind "int"), nodes, parameters, outputs.
MODELS = {
    "rows": (dict(x=["batch", WIDTH]), [node("MatMul", "x w", "h"), node("Relu", "h", "r"), node("MatMul", "r v", "y")],
             dict(w=weight(WIDTH, 12), v=weight(12, WIDTH)), "y"),
    "time-major": (dict(x=["seq", "batch", WIDTH]), [node("MatMul", "x w", "h"), node("Softmax", "h", "s", axis=0), node("Tanh", "x", "t")],
                   dict(w=weight(WIDTH, WIDTH)), "s t h"),
    "merged": (dict(x=["batch", "seq", WIDTH]),
               [node("Reshape", "x flat", "f"), node("MatMul", "f w", "h"), node("Reshape", "h back", "b"), node("Transpose", "b", "t", perm=[1, 0, 2]),
                node("Reshape", "t flat", "g"), node("MatMul", "g w", "y")],
               dict(w=weight(WIDTH, WIDTH), flat=shape(-1, WIDTH), back=shape(-1, SEQUENCE, WIDTH)), "y b"),
    "shared": (dict(x=["batch", "seq", WIDTH], mask=["seq", "seq"]),
               [node("Transpose", "mask", "turned", perm=[1, 0]), node("Reshape", "turned row", "line"), node("Exp", "line", "e"),
                node("Reshape", "e square", "m"), node("Add", "m mask", "both"), node("Transpose", "x", "xt", perm=[0, 2, 1]),
                node("MatMul", "x xt", "scores"), node("Add", "scores both", "masked"), node("Softmax", "masked", "p", axis=-1), node("MatMul", "p x", "y")],
               dict(row=shape(-1), square=shape(SEQUENCE, SEQUENCE)), "y both"),
    "taken": (dict(x=["batch", WIDTH], bias=[1, WIDTH]), [node("Exp", "bias", "e"), node("Neg", "e", "n"), node("Add", "x n", "a"), node("Mul", "a n", "y")], {}, "y"),
    "positions": (dict(x=["batch", WIDTH]), [node("Add", "x rows", "a"), node("MatMul", "a w", "y")], dict(rows=weight(BATCH, WIDTH), w=weight(WIDTH, WIDTH)), "y"),
    "nothing": (dict(x=["batch", WIDTH], z=["batch", 3]), [node("Identity", "x", "y"), node("Transpose", "z", "t", perm=[1, 0]), node("Neg", "z", "n"), node("Identity", "n", "m")],
                {}, "y t n m"),
    "image": (dict(x=["batch", 3, 9, 9]),
              [node("Conv", "x w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), node("Relu", "c", "r"), node("Conv", "r v", "d", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
               node("Add", "d c", "s"), node("GlobalAveragePool", "s", "p"), node("Flatten", "p", "y")],
              dict(w=weight(8, 3, 3, 3), v=weight(8, 8, 3, 3)), "y s"),
    "tokens": (dict(ids=["int", "batch", "seq"]), [node("Gather", "table ids", "e"), node("LayerNormalization", "e g", "n"), node("ReduceMean", "n", "y", axes=[1])],
               dict(table=weight(11, WIDTH), g=weight(WIDTH)), "y"),
    # What pads the last part must not be 0.
    "division": (dict(a=["int", "batch", "seq"], b=["int", "batch", "seq"]), [node("Div", "a b", "q"), node("Cast", "q", "y", to=TensorProto.FLOAT)], {}, "y"),
}

# Which nodes are named where the batch would have to be seen whole.
REFUSED = {
    "mean": ([node("Relu", "x", "r"), node("ReduceMean", "r", "y", axes=[0])], {}, ["node_y"]),
    "softmax": ([node("Softmax", "x", "s", axis=0), node("MatMul", "s w", "y")], dict(w=weight(WIDTH, 4)), ["node_s"]),
    "several": ([node("Softmax", "x", "s", axis=0), node("ReduceSum", "x zero", "t"), node("Add", "s t", "y")], dict(zero=shape(0)), ["node_s", "node_t"]),
    "training": ([node("BatchNormalization", "x g b m v", "y mean var", training_mode=1)],
                 dict(g=weight(WIDTH), b=weight(WIDTH), m=weight(WIDTH), v=np.ones(WIDTH, np.float32)), ["node_y"]),
    "first": ([node("Slice", "x begin end", "y")], dict(begin=shape(0), end=shape(1)), ["node_y"]),
    "products": ([node("Transpose", "x", "t", perm=[1, 0]), node("MatMul", "x t", "y")], {}, ["node_y"]),
    "flattened": ([node("Reshape", "x flat", "f"), node("ReduceMax", "f", "y")], dict(flat=shape(-1)), ["node_y"]),
}


def build(inputs, nodes, parameters, outputs):
    values = [helper.make_tensor_value_info(name, TensorProto.INT64 if dims[0] == "int" else TensorProto.FLOAT, dims[dims[0] == "int":])
              for name, dims in inputs.items()]
    graph = helper.make_graph(nodes, "g", values, [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs.split()],
                              [numpy_helper.from_array(value, name) for name, value in parameters.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def call(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    return done.returncode, done.stdout.strip()


def dims_of(inputs):
    return [word for name in sorted({dim for dims in inputs.values() for dim in dims if dim in SIZES}) for word in ("--dim", f"{name}={SIZES[name]}")]


def run(name, binaries, folder):
    """The problems of a model, one a line."""
    folder.mkdir()
    inputs, nodes, parameters, outputs = MODELS[name]
    onnx.save(build(inputs, nodes, parameters, outputs), folder / "model.onnx")
    feeds = {}
    for key, dims in inputs.items():
        sizes = [SIZES.get(dim, dim) for dim in dims if dim != "int"]
        feeds[key] = RANDOM.integers(1, 11, sizes) if dims[0] == "int" else weight(*sizes)
    np.savez(folder / "inputs.npz", **feeds)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    want = dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds)))
    problems = []
    for mesh in "1", "2", "data=2,model=2", "stage=2", "stage=3", "stage=2,model=2":
        for parts in 2, 3, BATCH:  # of 4; of 3, the last one padded; of 1
            what = f"{name}, mesh {mesh}, {parts} parts: "
            code, text = call(binaries / "colossal-compile", folder / "model.onnx", *dims_of(inputs), "--mesh", mesh, "--microbatches", parts, "-q", "-o", folder / "model.cplan")
            if "operators that can stand in one of their own" in text:
                continue
            if code:
                problems.append(f"{what}exit {code}: {text}")
                continue
            code, text = call(binaries / "colossal-run", folder / "model.cplan", "--input", folder / "inputs.npz", "--output", folder / "outputs.npz")
            if code:
                problems.append(f"{what}exit {code}: {text}")
                continue
            found = np.load(folder / "outputs.npz")
            for key, value in want.items():
                error = np.abs(found[key] - value).max() / np.abs(value).max() if found[key].shape == value.shape else np.inf
                if not error < 1e-5:
                    problems.append(f"{what}{key} is wrong by {error:.1e}")
    return problems


def refuse(name, binaries, folder):
    folder.mkdir()
    nodes, parameters, culprits = REFUSED[name]
    outputs = nodes[-1].output[0]
    onnx.save(build(dict(x=["batch", WIDTH]), nodes, parameters, outputs), folder / "model.onnx")
    command = (binaries / "colossal-compile", folder / "model.onnx", "--dim", f"batch={BATCH}", "-q", "-o", folder / "model.cplan")
    problems = []
    code, text = call(*command)
    if code:
        problems.append(f"{name}: is refused without microbatches, too: {text}")
    code, text = call(*command, "--microbatches", 2)
    errors = [line for line in text.splitlines() if "error: " in line]
    if code != 1 or len(errors) != len(culprits) or not all(f"node '{culprit}': " in line for culprit, line in zip(culprits, errors)):
        problems.append(f"{name}: exit {code}, expected 1 with errors of {culprits}: {text}")
    return problems


def limits(_, binaries, folder):
    """Too many parts, and a batch by another name."""
    folder.mkdir()
    onnx.save(build(*MODELS["rows"]), folder / "model.onnx")
    command = (binaries / "colossal-compile", folder / "model.onnx", "--dim", f"batch={BATCH}", "-q", "-o", folder / "model.cplan", "--microbatches")
    problems = []
    for arguments, code, told in (([BATCH + 1], 2, "--microbatches 9: the batch has 8 rows"), ([0], 2, "--microbatches"),
                                  ([2, "--batch-dim", "rows"], 2, "no input has a dimension named 'rows'"), ([2, "--batch-dim", "batch"], 0, ""),
                                  ([5], 0, "the batch is cut into 4"), ([2, "--mesh", "microbatch=2"], 2, "give it another name")):
        found, text = call(*command, *arguments)
        if found != code or told not in text:
            problems.append(f"{arguments}: exit {found}, expected {code} and '{told}': {text}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", nargs="+", default=[*MODELS, *REFUSED, "limits"])
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        how = lambda name: run if name in MODELS else refuse if name in REFUSED else limits
        jobs = [pool.submit(how(name), name, arguments.build / "bin", pathlib.Path(scratch) / name) for name in arguments.models]
        for job in jobs:
            problems = job.result()
            failed += bool(problems)
            for problem in problems:
                print(problem, flush=True)
    print(f"{len(jobs) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
