#!/usr/bin/env python3
"""Grouped and depthwise convolutions for GPUs give ONNX Runtime's results, each with what follows it in one kernel.

    grouped_convolutions.py --build build

Convolutions of odd sizes, strides, dilations, paddings and channel multipliers, over one and two dimensions, in both orders of
channels and places, with what follows them in models; on an emulated GPU, in f32, f16 and bf16. The plan must have as many
launches as there are convolutions. Over two processes each dimension is split.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from graph import Graph

os.environ["COLOSSAL_MACHINE"] = "cpu"
ROOT = pathlib.Path(__file__).resolve().parents[2]
OPSET = 17
# What a result of a few dozen products may be off by, relatively to the largest.
BOUNDS = {"f32": 1e-5, "f16": 5e-3, "bf16": 4e-2}
# Input, weight, group, attributes, and what follows.
CASES = [
    ((2, 6, 14, 14), (6, 1, 3, 3), 6, dict(pads=[1, 1, 1, 1]), ["bias", "Clip"]),
    ((2, 6, 15, 13), (6, 1, 5, 3), 6, dict(pads=[2, 1, 0, 1], strides=[2, 1]), ["bias", "Relu"]),
    ((1, 8, 16, 16), (8, 1, 3, 3), 8, dict(pads=[1, 1, 1, 1]), ["bias", "residual", "Relu"]),
    ((1, 8, 7, 7), (8, 1, 7, 7), 8, dict(pads=[3, 3, 3, 3]), ["bias", "HardSwish"]),
    ((1, 8, 9, 24), (8, 1, 3, 3), 8, dict(pads=[2, 2, 2, 2], dilations=[2, 2]), ["scale", "Sigmoid"]),
    ((2, 4, 9, 10), (12, 1, 3, 3), 4, dict(pads=[1, 1, 1, 1]), ["bias", "Relu"]),
    ((1, 6, 8, 11), (10, 3, 3, 3), 2, dict(pads=[0, 1, 0, 1]), ["residual"]),
    ((2, 5, 33), (5, 1, 4), 5, dict(pads=[3, 0]), ["bias", "Sigmoid", "product"]),
    ((1, 3, 200), (3, 1, 31), 3, dict(pads=[15, 15], strides=[2]), []),
    ((2, 41, 6, 7), (41, 1, 7, 7), 41, dict(pads=[3, 3, 3, 3]), ["last", "bias"]),
    ((1, 64, 8, 9), (64, 1, 3, 3), 64, dict(pads=[1, 1, 1, 1], strides=[2, 2]), ["last", "bias", "Relu"]),
]
# Group, transposed: input, weight, attributes.
TRANSPOSED = ((1, 6, 5, 7), (6, 1, 3, 3), 6, dict(strides=[2, 2], pads=[1, 1, 1, 1]))


class Model(Graph):
    def add(self, number, shape, weight, group, attributes, follows, kind="Conv"):
        """One convolution. Its input and result lie with channels last where `last` says so, as between linear layers."""
        c, rank = f"c{number}", len(shape)
        last = [0, *range(2, rank), 1]
        x = self.input(f"x{number}", [shape[d] for d in last] if "last" in follows else shape)
        if "last" in follows:
            x = self.node("Transpose", [x], f"t{number}", perm=[0, rank - 1, *range(1, rank - 1)])
        operands = [x, self.parameter(f"w{number}", *weight)]
        channels = weight[1] * group if kind == "ConvTranspose" else weight[0]
        if "bias" in follows:
            operands.append(self.parameter(f"b{number}", channels))
        y = self.node(kind, operands, c, group=group, **attributes)
        found = onnx.shape_inference.infer_shapes(self.build(OPSET, [y])).graph.output[0].type.tensor_type.shape.dim
        result = [d.dim_value for d in found]
        for what in follows:
            if what in ("residual", "product"):
                other = self.input(f"r{number}", result)
                y = self.node({"residual": "Add", "product": "Mul"}[what], [y, other], f"{y}_{what}")
            elif what == "scale":
                y = self.node("Mul", [y, self.parameter(f"s{number}", channels, *[1] * (rank - 2))], f"{y}_scale")
            elif what == "Clip":
                self.parameters += [numpy_helper.from_array(np.float32(bound), f"{c}{bound}") for bound in (0, 6)]
                y = self.node("Clip", [y, f"{c}0", f"{c}6"], f"{y}_clip")
            elif what not in ("bias", "last"):
                y = self.node(what, [y], f"{y}_{what}")
        if "last" in follows:
            y = self.node("Transpose", [y], f"{y}_last", perm=last)
        self.output(y)


def run(command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    bin, failed = arguments.build / "bin", 0
    model = Model(5)
    for number, case in enumerate(CASES):
        model.add(number, *case)
    model.add(len(CASES), *TRANSPOSED, ["bias", "Relu"], kind="ConvTranspose")
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        file, plan, inputs, outputs = (scratch / f for f in ("model.onnx", "model.cplan", "inputs.npz", "outputs.npz"))
        onnx.save(model.build(OPSET), file)
        np.savez(inputs, **model.data)
        want = dict(zip([output.name for output in model.outputs], onnxruntime.InferenceSession(file).run(None, model.data)))
        runs = [("1", "", precision) for precision in BOUNDS]
        runs += [("2", f".*={factor}:x", "f32") for factor in ("group", "batch", "height", "width")]
        for mesh, pin, precision in runs:
            run([bin / "colossal-compile", file, "--target", "cuda:sm_90", "--mesh", mesh, "--precision", precision, "-q", "-o", plan,
                 *(["--pin", pin] if pin else [])])
            launches = run([bin / "colossal-run", plan, "--dump-plan"]).count("launch convolve_groups")
            run([ROOT / "tools/on-emulated-gpus", "--build", arguments.build, mesh, bin / "colossal-run", plan, "--input", inputs,
                 "--output", outputs])
            found = np.load(outputs)
            errors = {name: np.abs(found[name].astype(np.float64) - want[name]).max() / np.abs(want[name]).max() for name in want}
            worst = max(errors, key=errors.get)
            problems = [problem for problem, holds in {
                f"beyond {BOUNDS[precision]}: {worst}": not errors[worst] < BOUNDS[precision],
                f"{launches} launches of grouped convolutions": mesh == "1" and launches < len(CASES)}.items() if holds]
            failed += bool(problems)
            print(f"mesh {mesh} {pin or 'searched':12} {precision:4} error {errors[worst]:.1e} {', '.join(problems) or 'ok'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
