#!/usr/bin/env python3
"""What the layouts of the papers move: counted while plans run, against the closed formulas.

    recipes.py --build build

A chain of contractions with elementwise functions and normalizations between, at sizes that the meshes divide and at some
that they do not need to. Bytes are those of all ranks together, S the whole tensor's: 1d 2(p-1)S_Y of every second
contraction; 2d (c-1)S_X + (r-1)S_W; 2.5d (c-1)S_X + d(r-1)S_W; 3d (c-1)S_X + (a-1)S_W + (b-1)S_Y. Statistics of
normalizations are counted apart, and outputs must agree with NumPy.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

os.environ["COLOSSAL_MACHINE"] = "cpu"


def make_chain(path, rows, widths, normalized, random):
    """x -> (norm) contraction relu -> ... ; returns the function that NumPy computes."""
    nodes, weights, steps, value = [], [], [], "x"
    for i, (k, n) in enumerate(zip(widths, widths[1:])):
        if normalized and i % 2 == 0:
            scale = random.uniform(0.5, 1.5, k).astype(np.float32)
            weights.append(numpy_helper.from_array(scale, f"scale{i}"))
            weights.append(numpy_helper.from_array(np.zeros(k, np.float32), f"shift{i}"))
            nodes.append(helper.make_node("LayerNormalization", [value, f"scale{i}", f"shift{i}"], [f"norm{i}"], epsilon=1e-5))
            value = f"norm{i}"
            steps.append(("norm", scale))
        weight = (random.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"y{i}"], name=f"contraction{i}"))
        nodes.append(helper.make_node("Relu", [f"y{i}"], [f"z{i}"]))
        value = f"z{i}"
        steps.append(("contract", weight))
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [*rows, widths[0]])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, [*rows, widths[-1]])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)

    def compute(x):
        for kind, weight in steps:
            if kind == "norm":
                x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight
            else:
                x = np.maximum(x @ weight, 0)
        return x

    return compute, value


def expected_bytes(layout, mesh, rows, widths):
    """Bytes of all contractions, of all ranks."""
    m, total = int(np.prod(rows)), 0
    for i, (k, n) in enumerate(zip(widths, widths[1:])):
        x, w, y = 4 * m * k, 4 * k * n, 4 * m * n
        if layout in ("1d", "sequence"):
            p = int(np.prod(mesh))
            # Sequence parallelism gathers what enters a pair, and scatters what leaves it.
            total += 2 * (p - 1) * y * (i % 2) if layout == "1d" else (p - 1) * (y if i % 2 else x)
        elif layout == "2d":
            r, c = mesh
            total += (c - 1) * x + (r - 1) * w
        elif layout == "2.5d":
            d, r, c = mesh
            total += (c - 1) * x + d * (r - 1) * w
        else:
            a, b, c = mesh if i % 2 == 0 else (mesh[0], mesh[2], mesh[1])
            total += (c - 1) * x + (a - 1) * w + (b - 1) * y
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    bin, random, failed, done = arguments.build / "bin", np.random.default_rng(1), 0, 0
    chains = [((4, 8), (16, 64, 16, 32, 16), False), ((4, 8), (32, 64, 32), True), ((24,), (24, 48, 24), False)]
    meshes = {"1d": [(4,), (2, 2), (8,)], "sequence": [(4,), (8,)], "2d": [(2, 2), (2, 4), (4, 2)],
              "2.5d": [(2, 2, 2), (1, 2, 2)], "3d": [(2, 2, 2), (1, 2, 2), (2, 2, 1)]}
    with tempfile.TemporaryDirectory() as folder:
        for number, (rows, widths, normalized) in enumerate(chains):
            model, plan, inputs, outputs = (f"{folder}/{name}" for name in (f"chain{number}.onnx", "p.cplan", "in.npz", "out.npz"))
            compute, output = make_chain(model, rows, widths, normalized, random)
            x = random.standard_normal((*rows, widths[0])).astype(np.float32)
            np.savez(inputs, x=x)
            for layout, mesh in ((layout, mesh) for layout, choices in meshes.items() for mesh in choices):
                done += 1
                name = f"{widths} {layout} on {'x'.join(map(str, mesh))}"
                compiled = subprocess.run([bin / "colossal-compile", model, "--layout", layout, "--mesh", "x".join(map(str, mesh)), "-q", "-o", plan],
                                          capture_output=True, text=True)
                ran = subprocess.run([bin / "colossal-run", plan, "--threads", "1", "--input", inputs, "--output", outputs, "--json"],
                                     capture_output=True, text=True) if compiled.returncode == 0 else None
                if compiled.returncode or compiled.stderr or ran.returncode:
                    print(f"{name}: {compiled.stderr}{ran.stderr if ran else ''}")
                    failed += 1
                    continue
                sent = collections.Counter()
                for row in json.loads(ran.stdout)["traffic"]:
                    sent["statistics" if row["kind"] == "statistics" else "contractions"] += row["sent_bytes"]
                error = np.abs(np.load(outputs)[output] - compute(x)).max()
                want = expected_bytes(layout, mesh, rows, widths)
                good = sent["contractions"] == want and error < 1e-4
                failed += not good
                print(f"{name}: {sent['contractions']} bytes, formula {want}; statistics {sent['statistics']}; error {error:.1e}{'' if good else '  WRONG'}")
    print(f"{done - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
