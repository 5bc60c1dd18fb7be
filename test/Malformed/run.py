#!/usr/bin/env python3
"""Damaged and hostile model and plan files must be refused with a message, never with a crash.

    run.py --build build-sanitize [--good build] [--count 200] [--seed 1]

`--build` holds the tools under test, best built with COLOSSAL_SANITIZE=ON; `--good` the tools that make the plan to be
damaged. Each attempt truncates, flips bits of, or enlarges fields of a good file, points external data outside of the
model's folder, or alters fields of a plan's message (which mutate-plan does many times in one process). Refusal is an exit code that the tool documents, and a message; a signal, a sanitizer's report, an end by
timeout, or a plan accepted with a flipped bit is a failure. A model with a flipped bit may compile: a weight may change.
"""
import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

MODELS = pathlib.Path(__file__).resolve().parent.parent / "Models"


class Suite:
    def __init__(self, arguments, scratch):
        self.build, self.good, self.scratch = arguments.build, arguments.good or arguments.build, scratch
        self.passed = self.failed = 0
        self.environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:exitcode=99:allocator_may_return_null=1",
                            "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99:print_stacktrace=1"}

    def check(self, what, command, accepted):
        """Runs a command on a damaged file: its exit code must be one of `accepted`, and a refusal must say why."""
        try:
            done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                  env=self.environment, timeout=300)
            code, text = done.returncode, done.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            code, text = "timeout", ""
        good = code in accepted and (code == 0 or text.strip()) and "Sanitizer" not in text and "runtime error:" not in text
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        if not good:
            print(f"FAIL {what}: exit {code}: {text.strip()[:2000]}", flush=True)

    def compile(self, what, model, accepted=(0, 1)):
        self.check(what, [self.build / "bin/colossal-compile", model, "--dim", "batch=2", "-q", "-o", self.scratch / "out.cplan"], accepted)

    def run(self, what, plan, accepted=(4,)):
        os.chmod(plan, 0o644)
        self.check(what, [self.build / "bin/colossal-run", plan, "--random-inputs", "1", "--timeout", "60"], accepted)


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


def external_model(folder, location, offset=0, length=16):
    """A model whose one weight lies in another file."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        weight.external_data.add(key=key, value=str(value))
    tensor = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4])
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [tensor("x")], [tensor("y")], [weight])
    path = folder / "model.onnx"
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
    path = suite.scratch / "damaged.onnx"
    for i in range(count):
        kind, data = damage(good if i % 2 else small, source)
        path.write_bytes(data)
        suite.compile(f"model {i} ({kind})", path)
    for what, data in (("empty", b""), ("text", b"hello\n"), ("zeros", bytes(1000))):
        path.write_bytes(data)
        suite.compile(f"model of {what}", path, (1,))
    suite.compile("no model", suite.scratch / "missing.onnx", (1,))
    suite.compile("a folder as model", suite.scratch, (1,))


def test_external_data(suite):
    folder = suite.scratch / "model"
    folder.mkdir()
    np.arange(4, dtype=np.float32).tofile(folder / "weights")
    np.arange(4, dtype=np.float32).tofile(suite.scratch / "secret")
    suite.compile("external data in place", external_model(folder, "weights"), (0,))
    os.symlink(suite.scratch / "secret", folder / "link")
    os.link(suite.scratch / "secret", folder / "hard")
    os.mkfifo(folder / "fifo")
    for location in ("../secret", "sub/../../secret", str(suite.scratch / "secret"), "link", "hard", "fifo", ".", "", "missing", "weights\0"):
        suite.compile(f"external data at {location!r}", external_model(folder, location), (1,))
    for offset, length in ((8, 16), (2**63 - 1, 16), (-4, 16), (0, 2**64), (0, 12), (0, -16), ("x", 16), (2**64 - 8, 16)):
        suite.compile(f"external data, offset {offset}, length {length}", external_model(folder, "weights", offset, length), (1,))


def test_plans(suite, count, source):
    plan, damaged = suite.scratch / "good.cplan", suite.scratch / "damaged.cplan"
    subprocess.run([suite.good / "bin/colossal-compile", MODELS / "mlp" / "model.onnx", "--mesh", "2", "--dim", "batch=3", "-q", "-o", plan], check=True)
    suite.run("the undamaged plan", plan, (0,))
    good = plan.read_bytes()
    for i in range(count):
        kind, data = damage(good, source)
        damaged.write_bytes(data)
        # Padding between sections may change without effect only if no byte of it is covered: all bytes are.
        suite.run(f"plan {i} ({kind})", damaged, (4, 5) if data != good else (0,))
    for what, data in (("empty", b""), ("text", b"hello\n"), ("zeros", bytes(5000))):
        damaged.write_bytes(data)
        suite.run(f"plan of {what}", damaged)
    # Changed by somebody who can compute digests: fields of all kinds of real plans, validated and not run.
    for model, mesh, bind in (("mlp", "2", "batch=3"), ("resnet", "2x2", "batch=4"), ("gpt2-script", "4", "batch=1,2")):
        options = ["--dim", bind] + (["--dim", "seq=7"] if model == "gpt2-script" else [])
        subprocess.run([suite.good / "bin/colossal-compile", MODELS / model / "model.onnx", "--mesh", mesh, *options, "-q", "-o", plan], check=True)
        suite.check(f"altered plans of {model}", [suite.build / "bin/mutate-plan", plan, count * 20, source.randrange(1000)], (0,))
    damaged.write_bytes(good)
    os.chmod(damaged, 0o666)
    suite.check("a plan that others may write", [suite.build / "bin/colossal-run", damaged, "--random-inputs", "1"], (4,))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--good", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200, help="damaged models, and as many damaged plans")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as scratch:
        suite = Suite(arguments, pathlib.Path(scratch))
        test_external_data(suite)
        test_plans(suite, arguments.count, source)
        test_models(suite, arguments.count, source)
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
