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
    suite.compile("no model", suite.scratch / "missing.onnx", (1,))
    suite.compile("a folder as model", suite.scratch, (1,))


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
        suite.compile(f"external data at {location!r}", external_model(suite, folder, location), (1,))
    for offset, length in ((8, 16), (2**63 - 1, 16), (-4, 16), (0, 2**64), (0, 12), (0, -16), ("x", 16), (2**64 - 8, 16)):
        suite.compile(f"external data, offset {offset}, length {length}", external_model(suite, folder, "weights", offset, length), (1,))


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
                                  ("gpt2-script", "4", "--dim", "batch=1,2", "--dim", "seq=7")):
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
        test_external_data(suite)
        test_plans(suite, arguments.count, source)
        test_models(suite, arguments.count, source)
        passed, failed = suite.finish()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
