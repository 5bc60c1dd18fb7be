#!/usr/bin/env python3
"""Plans that leave convolutions and attention to cuDNN give the CPU's results, on an emulated GPU with what stands in for cuDNN.

    cudnn.py --build build

Convolutions over one, two and three dimensions, in groups, strided, dilated, padded on one side, transposed, with what the library does
on their results and what it does not; attention with grouped heads, causal and with masks, of widths that the library takes and one that
it does not. Each is the library's where it takes it, and a note says why where not. Runs are recorded and replayed, and without the
library, or with one that is too old, the message says what to do.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx

from graph import Graph

os.environ["COLOSSAL_MACHINE"] = "cpu"
ROOT = pathlib.Path(__file__).resolve().parents[2]
# What results may differ by from the CPU's in the same precision, relatively to the largest.
BOUNDS = {"f32": 1e-5, "f16": 4e-3, "bf16": 3e-2}
# Input, weight, group, attributes, and what follows.
CONVOLUTIONS = [
    ((2, 6, 14, 13), (8, 6, 3, 3), 1, dict(pads=[1, 1, 1, 1]), ["bias", "Relu"]),
    ((1, 3, 17, 16), (5, 3, 3, 2), 1, dict(pads=[0, 1, 1, 0], strides=[2, 1], dilations=[1, 2]), ["bias"]),
    ((1, 8, 9, 9), (12, 2, 3, 3), 4, dict(pads=[1, 1, 1, 1]), ["bias", "residual", "Relu"]),
    ((2, 8, 7, 7), (8, 1, 5, 5), 8, dict(pads=[2, 2, 2, 2]), ["Relu"]),
    ((1, 4, 40), (6, 4, 5), 1, dict(pads=[4, 0], strides=[3]), ["bias", "Sigmoid"]),
    ((1, 2, 5, 6, 7), (4, 2, 3, 3, 2), 1, dict(pads=[1, 1, 0, 1, 1, 1]), ["bias", "Relu"]),
    ((1, 16, 8, 8), (8, 16, 2, 2), 1, dict(strides=[2, 2]), ["last"]),
]
POINTWISE = ((1, 6, 5, 5), (4, 6, 1, 1), 1, {}, ["bias", "Relu"])
# Query heads, key heads, queries, keys, width, causal, and the shape of a mask that is added.
ATTENTIONS = [(4, 4, 12, 12, 16, False, None), (4, 2, 9, 20, 24, False, (2, 1, 1, 20)), (4, 4, 17, 17, 8, True, None),
              (2, 2, 10, 10, 16, True, (10, 10)), (4, 1, 1, 13, 32, False, None)]
ODD = (2, 2, 6, 6, 12, False, None)


class Model(Graph):
    def convolution(self, number, shape, weight, group, attributes, follows, kind="Conv"):
        """`last`: the result goes where channels lie last."""
        channels = weight[0] if kind == "Conv" else weight[1] * group
        operands = [self.input(f"x{number}", shape), self.parameter(f"w{number}", *weight)]
        if "bias" in follows:
            operands.append(self.parameter(f"b{number}", channels))
        y = self.node(kind, operands, f"c{number}", group=group, **attributes)
        if "residual" in follows:
            y = self.node("Add", [y, self.input(f"r{number}", [shape[0], channels, *shape[2:]])], f"{y}_residual")
        for what in follows:
            if what in ("Relu", "Sigmoid"):
                y = self.node(what, [y], f"{y}_{what}")
        if "last" in follows:
            y = self.node("Transpose", [y], f"{y}_last", perm=[0, *range(2, len(shape)), 1])
        self.output(y)

    def attention(self, number, heads, key_heads, queries, keys, width, causal, mask):
        operands = [self.input(f"{name}{number}", (2, of, length, width))
                    for name, of, length in (("q", heads, queries), ("k", key_heads, keys), ("v", key_heads, keys))]
        if mask:
            operands.append(self.input(f"m{number}", mask))
        self.output(self.node("Attention", operands, f"a{number}", is_causal=int(causal)))


class Failures:
    def __init__(self):
        self.count = 0

    def expect(self, what, holds, detail=""):
        print(f"{what}: {'ok' if holds else 'FAILED ' + str(detail)}", flush=True)
        self.count += not holds


def run(command, **environment):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=dict(os.environ, **{name: str(value) for name, value in environment.items()}))


def checked(command, **environment):
    done = run(command, **environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    bin, failures = arguments.build / "bin", Failures()
    emulated = [ROOT / "tools/on-emulated-gpus", "--build", arguments.build, "1", bin / "colossal-run"]
    convolutions, attentions = Model(11), Model(11)
    for number, case in enumerate(CONVOLUTIONS):
        convolutions.convolution(number, *case)
    convolutions.convolution(len(CONVOLUTIONS), *POINTWISE)
    # Four remainders of places by the strides, each a convolution of its own.
    convolutions.convolution(len(CONVOLUTIONS) + 1, (1, 4, 5, 6), (4, 3, 3, 3), 1, dict(strides=[2, 2], pads=[1, 1, 1, 1]), ["bias"],
                             kind="ConvTranspose")
    for number, case in enumerate(ATTENTIONS + [ODD]):
        attentions.attention(number, *case)
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        for model, what, precisions in ((convolutions, "convolution", ("f32", "f16", "bf16")), (attentions, "attention", ("f16", "bf16"))):
            file, inputs = scratch / f"{what}.onnx", scratch / f"{what}.npz"
            onnx.save(model.build(23), file)
            np.savez(inputs, **model.data)
            for precision in precisions:
                plan, ours, wanted = (scratch / f"{what}-{precision}{end}" for end in (".cplan", ".npz", "-cpu.npz"))
                checked([bin / "colossal-compile", file, "--precision", precision, "-q", "-o", scratch / "cpu.cplan"])
                checked([bin / "colossal-run", scratch / "cpu.cplan", "--input", inputs, "--output", wanted])
                compiled = checked([bin / "colossal-compile", file, "--precision", precision, "--target", "cuda:sm_90", "--cudnn", what, "-o", plan])
                dump = checked([bin / "colossal-run", plan, "--dump-plan"]).stdout
                checked([*emulated, plan, "--input", inputs, "--warm-up", "3", "--output", ours])
                checked([*emulated, plan, "--input", inputs, "--eager", "--output", scratch / "eager.npz"])
                found, eager, want = np.load(ours), np.load(scratch / "eager.npz"), np.load(wanted)
                errors = {key: float(np.abs(found[key].astype(np.float64) - want[key]).max() / np.abs(want[key]).max()) for key in want.files}
                worst = max(errors, key=errors.get)
                failures.expect(f"{what} in {precision}: {errors[worst]:.1e}", errors[worst] < BOUNDS[precision], worst)
                failures.expect(f"{what} in {precision}, replayed", all((found[key] == eager[key]).all() for key in want.files))
                calls = len(re.findall(r"library convolution\.unpacked\(|library attention\(|convolution\.unpacked\(|[^_a-z]attention\(", dump))
                expected = len(CONVOLUTIONS) if what == "convolution" else len(ATTENTIONS)
                failures.expect(f"{what} in {precision}: {calls} calls", calls >= expected, f"expected {expected}\n{dump}")
                if what == "attention":
                    failures.expect("a note says what is not left to cuDNN", "multiples of 8 elements" in compiled.stderr, compiled.stderr)
        plans = {what: scratch / f"{what}-f16.cplan" for what in ("convolution", "attention")}
        versions = checked([*emulated, "--devices"]).stdout
        failures.expect("--devices has the version", "cuDNN: 9.21.0" in versions, versions)
        for what, version, words in (("convolution", 90700, "cuDNN 9.7.0 is too old: 9.8 or newer is needed"),
                                     ("attention", 90800, "cuDNN 9.8.0 is too old for the plan's attention: 9.21 or newer")):
            done = run([*emulated, plans[what], "--input", scratch / f"{what}.npz"], COLOSSAL_EMULATED_CUDNN_VERSION=version)
            failures.expect(f"{what} with version {version}", done.returncode == 5 and words in done.stderr, done.stderr)
        done = run([*emulated, plans["convolution"], "--input", scratch / "convolution.npz"], COLOSSAL_EMULATED_CUDNN_FAIL="cudnnBackendExecute@1=5000")
        failures.expect("a failing call is named", done.returncode in (4, 5, 6) and "cudnnBackendExecute failed" in done.stderr, done.stderr)
        if "libcudnn.so.9" not in run(["ldconfig", "-p"]).stdout:
            (scratch / "without").mkdir()
            for library in ("libcuda.so.1", "libcublasLt.so.13"):
                (scratch / "without" / library).symlink_to((arguments.build / "lib/emulated" / library).resolve())
            done = run([bin / "colossal-run", plans["convolution"], "--input", scratch / "convolution.npz"], LD_LIBRARY_PATH=scratch / "without")
            failures.expect("without the library", done.returncode == 5 and "the plan calls cuDNN: cuDNN cannot be opened" in done.stderr and
                            "compile the plan without --cudnn" in done.stderr, done.stderr)
        for extra, words in (([], "give --target cuda"), (["--target", "cuda", "--training", "sgd"], "inference only"),
                             (["--target", "cuda:sm_90+cudnn-other"], "behind '+'")):
            done = run([bin / "colossal-compile", scratch / "convolution.onnx", *(["--cudnn", "all"] if "other" not in str(extra) else []), *extra])
            failures.expect(f"{' '.join(extra) or 'for the CPU'} is refused", done.returncode == 2 and words in done.stderr, done.stderr)
    return 1 if failures.count else 0


if __name__ == "__main__":
    sys.exit(main())
