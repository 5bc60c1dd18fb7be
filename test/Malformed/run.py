#!/usr/bin/env python3
"""Damaged and hostile model and plan files must be refused with a message, never with a crash.

    run.py --build build-sanitize [--good build] [--count 200] [--seed 1] [--jobs 2]

`--build` holds the tools under test, best built with COLOSSAL_SANITIZE=ON; `--good` the tools that make the plan to be
damaged. Each attempt truncates, flips bits of, or enlarges fields of a good file, points external data outside of the
model's folder, or alters fields of a plan's message (which mutate-plan does many times in one process). Refusal is an exit code that the tool documents, and a message; a signal, a sanitizer's report, an end by
timeout, or a plan accepted with a flipped bit is a failure. A model with a flipped bit may compile: a weight may change.
"""
import argparse
import concurrent.futures
import itertools
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

# Layouts must not depend on the host or on the user's configuration.
os.environ["COLOSSAL_MACHINE"] = "cpu"

MODELS = pathlib.Path(__file__).resolve().parent.parent / "Models"


class Suite:
    def __init__(self, arguments, scratch):
        self.build, self.good, self.scratch = arguments.build, arguments.good or arguments.build, scratch
        self.pool, self.numbers = concurrent.futures.ThreadPoolExecutor(arguments.jobs), itertools.count()
        self.outcomes = []
        self.environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:exitcode=99:allocator_may_return_null=1",
                            "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99:print_stacktrace=1"}

    def new_file(self, data, suffix):
        path = self.scratch / f"{next(self.numbers)}{suffix}"
        path.write_bytes(data)
        path.chmod(0o644)
        return path

    def check(self, what, command, accepted, remove=()):
        """Queues a command on a damaged file: its exit code must be one of `accepted`, and a refusal must say why."""
        self.outcomes.append(self.pool.submit(self.execute, what, command, accepted, remove))

    def execute(self, what, command, accepted, remove):
        try:
            done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                  env=self.environment, timeout=300)
            code, text = done.returncode, done.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            code, text = "timeout", ""
        good = code in accepted and (code == 0 or text.strip()) and "Sanitizer" not in text and "runtime error:" not in text
        for path in remove:
            path.unlink(missing_ok=True)
        if not good:
            print(f"FAIL {what}: exit {code}: {text.strip()[:2000]}", flush=True)
        return bool(good)

    def compile(self, what, model, accepted=(0, 1), remove=()):
        plan = self.scratch / f"{next(self.numbers)}.cplan"
        self.check(what, [self.build / "bin/colossal-compile", model, "--dim", "batch=2", "-q", "-o", plan], accepted, (plan, *remove))

    def compile_bytes(self, what, data, accepted=(0, 1)):
        model = self.new_file(data, ".onnx")
        self.compile(what, model, accepted, (model,))

    def run_bytes(self, what, data, accepted=(4,)):
        plan = self.new_file(data, ".cplan")
        self.check(what, [self.build / "bin/colossal-run", plan, "--random-inputs", "1", "--timeout", "60"], accepted, (plan,))

    def finish(self):
        """Waits for all checks, saying how far they are; returns how many passed and failed."""
        for number, outcome in enumerate(self.outcomes, 1):
            outcome.result()
            if number % 100 == 0:
                print(f"{number} of {len(self.outcomes)} done", flush=True)
        passed = sum(outcome.result() for outcome in self.outcomes)
        return passed, len(self.outcomes) - passed


def damage(data, source):
    """One of: cut off, some bits flipped, a run of bytes overwritten, bytes inserted."""
    data, kind = bytearray(data), source.choice(["cut", "flip", "overwrite", "insert"])
    at = source.randrange(len(data))
    if kind == "cut":
        return kind, bytes(data[:at])
    if kind == "flip":
        for _ in range(source.choice([1, 1, 4])):
            data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    elif kind == "overwrite":
        data[at:at + 8] = source.choice([b"\xff" * 8, b"\x00" * 8, b"\x80" * 7 + b"\x01"])
    else:
        data[at:at] = source.randbytes(source.choice([1, 3, 16]))
    return kind, bytes(data)


def external_model(suite, folder, location, offset=0, length=16):
    """A model whose one weight lies in another file."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        weight.external_data.add(key=key, value=str(value))
    tensor = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4])
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [tensor("x")], [tensor("y")], [weight])
    path = folder / f"{next(suite.numbers)}.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    return path


def test_models(suite, count, source):
    good = (MODELS / "mlp" / "model.onnx").read_bytes()
    # Damage falls on the graph, not only on the weights, which are most of the bytes.
    small = onnx.load_from_string(good)
    for tensor in small.graph.initializer:
        if len(tensor.raw_data) > 4096:
            tensor.raw_data = b""
            tensor.dims[:] = [0] * len(tensor.dims)
    small = small.SerializeToString()
    for i in range(count):
        kind, data = damage(good if i % 2 else small, source)
        suite.compile_bytes(f"model {i} ({kind})", data)
    for what, data in (("empty", b""), ("text", b"hello\n"), ("zeros", bytes(1000))):
        suite.compile_bytes(f"model of {what}", data, (1,))
    suite.compile("no model", suite.scratch / "missing.onnx", (3,))
    suite.compile("a folder as model", suite.scratch, (3,))


def model_of(nodes, inputs=(), initializers=(), functions=(), outputs=("y",)):
    tensor = lambda name, shape=None: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", [tensor(*given) for given in inputs], [tensor(name) for name in outputs], initializers)
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10, functions=functions).SerializeToString()


def test_sizes(suite):
    """Sizes whose sums or products overflow, in every place where a model gives some: refused, each with a message."""
    integers = lambda name, *values: helper.make_tensor(name, TensorProto.INT64, [len(values)], values)

    def refuse(op, inputs=(), initializers=(), outputs=("y",), **attributes):
        names = [name for name, _ in inputs] + [tensor.name for tensor in initializers]
        data = model_of([helper.make_node(op, names, outputs, **attributes)], inputs, initializers, outputs=outputs)
        suite.compile_bytes(f"{op} of {[list(t.int64_data) for t in initializers]} {attributes}", data, (1,))

    matrix, image = [("x", [2, 3])], [("x", [1, 4, 6, 6])]
    for huge in (2**33 + 1, 2**62, 2**63 - 1, -2**63):
        refuse("ConstantOfShape", (), [integers("s", huge, huge)])
        refuse("Expand", [("x", [1, 1])], [integers("s", huge, huge)])
        refuse("Tile", matrix, [integers("s", huge, huge)])
        refuse("DepthToSpace", image, blocksize=huge)
        refuse("RandomUniform", shape=[huge, huge])
        refuse("Relu", [("x", [huge, huge])])
    for huge in (2**62, 2**63 - 1, -2**63):
        refuse("Pad", matrix, [integers("s", huge, 0, huge, 0)])
        refuse("Reshape", matrix, [integers("s", huge, huge)])
        refuse("Split", matrix, [integers("s", huge, huge)], ("y", "z"))
        refuse("Split", matrix, (), ("y", "z"), num_outputs=huge)
        refuse("SpaceToDepth", image, blocksize=huge)
        refuse("MaxPool", image, kernel_shape=[2, 2], strides=[huge, huge])
        refuse("MaxPool", image, kernel_shape=[2, 2], pads=[huge] * 4)
        refuse("MaxPool", image, kernel_shape=[huge, huge])
        refuse("ConvTranspose", [*image, ("w", [4, 2, 3, 3])], output_padding=[huge, huge])
        refuse("ConvTranspose", [*image, ("w", [4, 2, 3, 3])], pads=[huge] * 4)
        for dims in ([huge, huge], [0, huge]):
            refuse("Add", [("x", [1])], [TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=bytes(16 if dims[0] else 0))])
    # The sum of sizes that are each possible is not.
    refuse("Add", [("x", [2**39, 1]), ("z", [1, 2**39])])
    # What stands in another type's field.
    refuse("Add", [("x", [4])], [TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], int64_data=[1, 2])])
    # Functions that call themselves, or call the next one twice; subgraphs in subgraphs.
    call = lambda name, source, target: helper.make_node(name, [source], [target], domain="local")
    function = lambda name, nodes: helper.make_function("local", name, ["a"], ["z"], nodes, [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)])
    suite.compile_bytes("a function that calls itself", model_of([call("f", "x", "y")], [("x", [2])], functions=[function("f", [call("f", "a", "z")])]), (1,))
    doubling = [function(f"f{i}", [call(f"f{i + 1}", "a", "t"), call(f"f{i + 1}", "t", "z")]) for i in range(40)]
    doubling.append(function("f40", [helper.make_node("Relu", ["a"], ["z"])]))
    suite.compile_bytes("functions that double 40 times", model_of([call("f0", "x", "y")], [("x", [2])], functions=doubling), (1,))
    length = lambda size: bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21])
    nested = b""
    for field in (6, 5, 1) * 5000:
        nested = bytes([field << 3 | 2]) + length(len(nested)) + nested
    suite.compile_bytes("a node in a subgraph in a node, 5000 times", b"\x3a" + length(len(nested)) + nested + b"\x42\x02\x10\x15", (1,))


def test_inputs(suite):
    """Files with inputs, to the compiler and to the runtime."""
    data = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", ["n", 2])])
    model, plan = suite.new_file(data, ".onnx"), suite.scratch / "relu.cplan"
    subprocess.run([suite.good / "bin/colossal-compile", model, "--shape", "x=2x2", "-q", "-o", plan], check=True)

    def refuse(what, given, suffix):
        path = suite.new_file(given, suffix)
        suite.check(f"{what} as value", [suite.build / "bin/colossal-compile", model, "--value", f"x={path}", "-q", "-o", suite.scratch / "no.cplan"], (1,))
        suite.check(f"{what} as input", [suite.build / "bin/colossal-run", plan, "--input", f"x={path}"], (2, 3))

    def array(shape, payload=b"", order="False", descr="'<f4'"):
        header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode() + b"\n"
        return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + payload

    for shape in ("(0, 18446744073709551615)", "(9223372036854775807, 2)", "(4294967296, 4294967296)", "(-1, 2)", "(2, 99999999999999999999)", "(2,", "2"):
        refuse(f".npy of shape {shape}", array(shape, bytes(16)), ".npy")
    refuse("a header that is longer than the file", b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(8), ".npy")
    refuse("text in place of numbers", array("(2, 2)", bytes(16), descr="'<U1'"), ".npy")
    for dims in ([2**62, 4], [-1, 2], [0, 2**63 - 1]):
        refuse(f"TensorProto of {dims}", TensorProto(data_type=TensorProto.FLOAT, dims=dims, raw_data=bytes(16)).SerializeToString(), ".pb")
    refuse("floats among the doubles", TensorProto(data_type=TensorProto.FLOAT, dims=[2, 2], double_data=[1, 2]).SerializeToString(), ".pb")
    deep = "[" * 100000
    suite.check("a literal of 100000 brackets", [suite.build / "bin/colossal-compile", model, "--value", f"x={deep}", "-q", "-o", suite.scratch / "no.cplan"], (1,))
    for what, text in (("deep", "[" * 1000000), ("deep objects", '{"a":' * 1000000), ("huge number", '{"device": {"memory_bytes": 1e400}}')):
        machine = suite.new_file(text.encode(), ".json")
        suite.check(f"machine of {what}", [suite.build / "bin/colossal-compile", model, "--shape", "x=2x2", "--machine", machine, "-q", "-o", suite.scratch / "no.cplan"], (1, 2))
        suite.check(f"problem of {what}", [suite.build / "bin/colossal-solve", machine], (2,))


def test_external_data(suite):
    folder = suite.scratch / "model"
    folder.mkdir()
    np.arange(4, dtype=np.float32).tofile(folder / "weights")
    np.arange(4, dtype=np.float32).tofile(suite.scratch / "secret")
    suite.compile("external data in place", external_model(suite, folder, "weights"), (0,))
    os.symlink(suite.scratch / "secret", folder / "link")
    os.link(suite.scratch / "secret", folder / "hard")
    os.mkfifo(folder / "fifo")
    for location in ("../secret", "sub/../../secret", str(suite.scratch / "secret"), "link", "hard", "fifo", ".", "", "missing", "weights\0"):
        suite.compile(f"external data at {location!r}", external_model(suite, folder, location), (1, 3))
    for offset, length in ((8, 16), (2**63 - 1, 16), (-4, 16), (0, 2**64), (0, 12), (0, -16), ("x", 16), (2**64 - 8, 16)):
        suite.compile(f"external data, offset {offset}, length {length}", external_model(suite, folder, "weights", offset, length), (1, 3))


def test_plans(suite, count, source):
    def make(name, model, mesh, *options):
        plan = suite.scratch / name
        subprocess.run([suite.good / "bin/colossal-compile", MODELS / model / "model.onnx", "--mesh", mesh, *options, "-q", "-o", plan], check=True)
        return plan

    good = make("good.cplan", "mlp", "2", "--dim", "batch=3").read_bytes()
    suite.run_bytes("the undamaged plan", good, (0,))
    for i in range(count):
        kind, data = damage(good, source)
        # Padding between sections may change without effect only if no byte of it is covered: all bytes are.
        suite.run_bytes(f"plan {i} ({kind})", data, (4, 5) if data != good else (0,))
    for what, data in (("empty", b""), ("text", b"hello\n"), ("zeros", bytes(5000))):
        suite.run_bytes(f"plan of {what}", data)
    # Changed by somebody who can compute digests: fields of all kinds of real plans, validated and not run.
    for model, mesh, *options in (("mlp", "2", "--dim", "batch=3"), ("resnet", "2x2", "--dim", "batch=4"),
                                  ("gpt2-script", "4", "--dim", "batch=1,2", "--dim", "seq=7"),
                                  ("mlp", "stage=2,model=2", "--dim", "batch=3")):
        plan = make(f"{model}.cplan", model, mesh, *options)
        suite.check(f"altered plans of {model}", [suite.build / "bin/mutate-plan", plan, count * 20, source.randrange(1000)], (0,))
    writable = suite.new_file(good, ".cplan")
    writable.chmod(0o666)
    suite.check("a plan that others may write", [suite.build / "bin/colossal-run", writable, "--random-inputs", "1"], (4,))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--good", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200, help="damaged models, and as many damaged plans")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as scratch:
        suite = Suite(arguments, pathlib.Path(scratch))
        test_sizes(suite)
        test_inputs(suite)
        test_external_data(suite)
        test_plans(suite, arguments.count, source)
        test_models(suite, arguments.count, source)
        passed, failed = suite.finish()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
