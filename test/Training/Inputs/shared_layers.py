"""Layers that have the same weights, as ALBERT's, between a table and a head with a bias of its own: shared_layers.py FILE."""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, INNER, LAYERS, LENGTH, VOCABULARY = 128, 512, 6, 64, 4000
random = np.random.default_rng(0)
nodes, initializers = [], {}


def parameter(name, *shape):
    if name not in initializers:
        initializers[name] = numpy_helper.from_array((0.1 * random.standard_normal(shape)).astype(np.float32), name)
    return name


def node(kind, *inputs, **attributes):
    name = f"{kind.lower()}_{len(nodes)}"
    nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
    return name


stream = node("Gather", parameter("table", VOCABULARY, WIDTH), "input_ids", axis=0)
for layer in range(LAYERS):
    rows = node("LayerNormalization", stream, parameter("scale", WIDTH), parameter("shift", WIDTH), axis=-1)
    inner = node("Relu", node("Add", node("MatMul", rows, parameter("in", WIDTH, INNER)), parameter("in.bias", INNER)))
    stream = node("Add", stream, node("MatMul", inner, parameter("out", INNER, WIDTH)))
nodes.append(helper.make_node("Add", [node("MatMul", stream, parameter("head", WIDTH, VOCABULARY)), parameter("head.bias", VOCABULARY)], ["logits"], name="logits"))
tokens = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", LENGTH])
logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", LENGTH, VOCABULARY])
graph = helper.make_graph(nodes, "shared", [tokens], [logits], list(initializers.values()))
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
