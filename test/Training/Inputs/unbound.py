"""Attention whose queries, keys and values are rows of one tensor, each taken by its number: unbound.py FILE"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LENGTH, WIDTH, HEADS, LAYERS = 16, 64, 4, 2
random = np.random.default_rng(0)
nodes, initializers = [], []


def constant(name, array):
    initializers.append(numpy_helper.from_array(array, name))
    return name


def parameter(name, *shape):
    return constant(name, (0.1 * random.standard_normal(shape)).astype(np.float32))


def node(kind, *inputs, **attributes):
    name = f"{kind.lower()}_{len(nodes)}"
    nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
    return name


parted = constant("parted", np.array([0, LENGTH, 3, HEADS, WIDTH // HEADS]))
joined = constant("joined", np.array([0, LENGTH, WIDTH]))
scale = constant("scale", np.float32((WIDTH // HEADS) ** -0.5))
stream = "x"
for layer in range(LAYERS):
    rows = node("LayerNormalization", stream, parameter(f"{layer}.scale", WIDTH), parameter(f"{layer}.shift", WIDTH), axis=-1)
    all_three = node("Transpose", node("Reshape", node("MatMul", rows, parameter(f"{layer}.in", WIDTH, 3 * WIDTH)), parted), perm=[2, 0, 3, 1, 4])
    queries, keys, values = (node("Gather", all_three, constant(f"{layer}.{i}", np.array(i)), axis=0) for i in range(3))
    weights = node("Softmax", node("MatMul", node("Mul", queries, scale), node("Transpose", keys, perm=[0, 1, 3, 2])), axis=-1)
    out = node("Reshape", node("Transpose", node("MatMul", weights, values), perm=[0, 2, 1, 3]), joined)
    stream = node("Add", stream, node("MatMul", out, parameter(f"{layer}.out", WIDTH, WIDTH)))
nodes[-1].output[0] = "y"
shape = ["batch", LENGTH, WIDTH]
graph = helper.make_graph(nodes, "unbound", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], initializers)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
onnx.checker.check_model(model)
onnx.save(model, sys.argv[1])
