"""Layers whose two branches read the same and are added to it side by side, and positions that are written out for each sequence of a batch: parallel_branches.py FILE [first | shuffled]

first: only the first row of each sequence is given, normalized and times a matrix.
shuffled: one of the branches shuffles its rows.
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, INNER, LAYERS, LENGTH = 64, 256, 3, 64
isFirst, isShuffled = "first" in sys.argv[2:], "shuffled" in sys.argv[2:]
random = np.random.default_rng(0)
nodes, initializers = [], []


def parameter(name, *shape):
    initializers.append(numpy_helper.from_array((0.1 * random.standard_normal(shape)).astype(np.float32), name))
    return name


def node(kind, *inputs, **attributes):
    name = f"{kind.lower()}_{len(nodes)}"
    nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
    return name


initializers.append(numpy_helper.from_array(np.arange(2, LENGTH + 2)[None], "row"))
initializers.append(numpy_helper.from_array(np.array([LENGTH]), "length"))
places = node("Expand", "row", node("Concat", node("Shape", "x", start=0, end=1), "length", axis=0))
stream = node("Add", "x", node("Gather", parameter("positions", 512, WIDTH), places, axis=0))
for layer in range(LAYERS):
    branches = []
    for branch in "ab":
        of = f"{layer}.{branch}"
        rows = node("LayerNormalization", stream, parameter(f"{of}.scale", WIDTH), parameter(f"{of}.shift", WIDTH), axis=-1)
        inner = node("Relu", node("Add", node("MatMul", rows, parameter(f"{of}.in", WIDTH, INNER)), parameter(f"{of}.in.bias", INNER)))
        out = node("MatMul", inner, parameter(f"{of}.out", INNER, WIDTH))
        if isShuffled and branch == "a":
            out = node("Gather", out, "order", axis=1)
        branches.append(node("Add", out, parameter(f"{of}.out.bias", WIDTH)) if branch == "b" else out)
    stream = node("Add", node("Add", *branches), stream)
initializers.append(numpy_helper.from_array(random.permutation(LENGTH), "order"))
initializers.append(numpy_helper.from_array(np.array(0), "zero"))
if isFirst:
    stream = node("LayerNormalization", stream, parameter("last.scale", WIDTH), parameter("last.shift", WIDTH), axis=-1)
    stream = node("MatMul", node("Gather", stream, "zero", axis=1), parameter("pooler", WIDTH, INNER))
nodes.append(helper.make_node("Identity", [stream], ["y"], name="y"))
shape = ["batch", LENGTH, WIDTH]
graph = helper.make_graph(nodes, "parallel", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", INNER] if isFirst else shape)], initializers)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
