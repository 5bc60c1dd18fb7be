#!/usr/bin/env python3
"""Operators that ONNX Runtime's optimizers write (domain com.microsoft) give ONNX Runtime's results.

    fused_operators.py --build build

Each is a model of its own, at one and at two ranks, with every combination of optional inputs, outputs and attributes
that is listed below. The error must stay below 1e-5 of the largest output.
"""
import argparse
import concurrent.futures
import itertools
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FUSED = "com.microsoft"
X = [3, 5, 8]


def cases():
    """(operator, domain, shapes of inputs (None: not given; a list in a tuple: a parameter), attributes, outputs)"""
    for name in "Gelu", "QuickGelu":
        yield name, FUSED, [X], {}, 1
    yield "QuickGelu", FUSED, [X], dict(alpha=1.0), 1
    yield "BiasGelu", FUSED, [X, ([8],)], {}, 1
    yield "FastGelu", FUSED, [X], {}, 1
    yield "FastGelu", FUSED, [X, ([8],)], {}, 1
    for a, b in itertools.product((0, 1), (0, 1)):
        yield "FusedMatMul", FUSED, [[2, 3, 6, 4] if a else [2, 3, 4, 6], [3, 5, 6] if b else [3, 6, 5]], dict(transA=a, transB=b, alpha=0.25), 1
    yield "FusedMatMul", FUSED, [[7, 6], ([6, 9],)], dict(alpha=2.0), 1
    yield "FusedGemm", FUSED, [[4, 6], ([9, 6],), ([9],)], dict(transB=1, activation="Tanh"), 1
    yield "FusedGemm", FUSED, [[4, 6], ([6, 9],), ([9],)], dict(alpha=0.5, activation="LeakyRelu", activation_alpha=0.3), 1
    kernel = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    image, weight, bias = [2, 4, 6, 7], ([8, 4, 3, 3],), ([8],)
    for activation, params in ("Relu", []), ("Sigmoid", []), ("Clip", [-0.5, 0.75]), ("LeakyRelu", [0.2]), ("HardSigmoid", [0.3, 0.4]):
        yield "FusedConv", FUSED, [image, weight, bias], dict(**kernel, activation=activation, **(dict(activation_params=params) if params else {})), 1
    yield "FusedConv", FUSED, [image, weight, bias, [2, 8, 6, 7]], dict(**kernel, activation="Relu"), 1
    for skip in X, [1, 5, 8]:
        for rest in [], [([8],)], [([8],), ([8],)], [None, ([8],)]:
            yield "SkipLayerNormalization", FUSED, [X, skip, ([8],), *rest], dict(epsilon=1e-5), 4
            if len(rest) < 2:
                yield "SkipSimplifiedLayerNormalization", FUSED, [X, skip, ([8],), *rest], dict(epsilon=1e-6), 4
    yield "SimplifiedLayerNormalization", "", [X, ([8],)], dict(axis=-1, epsilon=1e-6, stash_type=1), 1


def build(case, random):
    name, domain, shapes, attributes, outputs = case
    inputs, parameters, names = {}, [], []
    for i, shape in enumerate(shapes):
        names.append("" if shape is None else f"i{i}")
        if isinstance(shape, tuple):
            parameters.append(numpy_helper.from_array(random.standard_normal(shape[0]).astype(np.float32), names[-1]))
        elif shape is not None:
            inputs[names[-1]] = random.standard_normal(shape).astype(np.float32)
    # The sum is output 3; the statistics in between are not what ONNX Runtime computes on a CPU.
    given = ["y", "", "", "sum"][:outputs]
    node = helper.make_node(name, names, given, domain=domain, **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in inputs.items()],
                              [helper.make_tensor_value_info(k, TensorProto.FLOAT, None) for k in given if k], parameters)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)], ir_version=10), inputs


def run(number, case, binaries, folder):
    """The problems of a case, one a line."""
    folder.mkdir()
    model, inputs = build(case, np.random.default_rng(number))
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **inputs)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    want = dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))
    problems = []
    for mesh in "1", "2":
        for command in ([binaries / "colossal-compile", folder / "model.onnx", "--mesh", mesh, "-q", "-o", folder / "model.cplan"],
                        [binaries / "colossal-run", folder / "model.cplan", "--input", folder / "inputs.npz", "--output", folder / "outputs.npz"]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
            if done.returncode:
                problems.append(f"mesh {mesh}: exit {done.returncode}: {done.stdout.strip()}")
                break
        else:
            found = np.load(folder / "outputs.npz")
            for key, value in want.items():
                error = np.abs(found[key] - value).max() / np.abs(value).max() if found[key].shape == value.shape else np.inf
                if not error < 1e-5:
                    problems.append(f"mesh {mesh}: {key} is wrong by {error:.1e}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    failed, every = 0, list(cases())
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(run, i, case, arguments.build / "bin", pathlib.Path(scratch) / str(i)) for i, case in enumerate(every)]
        for (name, _, shapes, attributes, _), job in zip(every, jobs):
            problems = job.result()
            failed += bool(problems)
            for problem in problems:
                print(f"{name} {shapes} {attributes}: {problem}", flush=True)
    print(f"{len(every) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
