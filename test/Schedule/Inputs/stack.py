#!/usr/bin/env python3
"""Writes a stack of equal layers, model.onnx, and what it computes: stack.py FOLDER LAYERS."""
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

WIDTH, HIDDEN = 32, 64


def main():
    folder, layers = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    random = np.random.default_rng(0)
    nodes, weights = [], []

    def weight(name, *shape):
        weights.append(numpy_helper.from_array((random.standard_normal(shape) / WIDTH**0.5).astype(np.float32), name))
        return name

    def node(kind, name, inputs, **attributes):
        nodes.append(helper.make_node(kind, inputs, [f"{name}_output"], name=name, **attributes))
        return f"{name}_output"

    x = "x"
    for layer in range(layers):
        at, own = f"/layers.{layer}", f"layers.{layer}"
        normed = node("LayerNormalization", f"{at}/norm", [x, weight(f"{own}.norm.weight", WIDTH), weight(f"{own}.norm.bias", WIDTH)])
        up = node("MatMul", f"{at}/up", [normed, weight(f"{own}.up", WIDTH, HIDDEN)])
        gate = node("Softmax", f"{at}/gate", [up], axis=-1)
        down = node("MatMul", f"{at}/down", [gate, weight(f"{own}.down", HIDDEN, WIDTH)])
        mixed = node("Softmax", f"{at}/mix", [node("Transpose", f"{at}/turn", [down], perm=[1, 0])], axis=-1)
        x = node("Add", f"{at}/add", [x, node("Transpose", f"{at}/back", [mixed], perm=[1, 0])])
    shape = [16, WIDTH]
    graph = helper.make_graph(nodes, "stack", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)], weights)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), folder / "model.onnx")
    inputs = {"x": random.standard_normal(shape).astype(np.float32)}
    np.savez(folder / "inputs.npz", **inputs)
    np.savez(folder / "outputs.npz", **{x: onnxruntime.InferenceSession(folder / "model.onnx").run(None, inputs)[0]})


if __name__ == "__main__":
    main()
