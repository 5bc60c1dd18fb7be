"""An encoder whose layers add one bias of positions to their scores: biased.py FILE.

It is looked up in a trained table, has the mask of what is padded added to it, and goes from layer to layer beside the residual stream.
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS, WIDTH, HEADS, LAYERS, WORDS = 64, 64, 4, 4, 500
random = np.random.default_rng(0)
nodes, initializers = [], []


def constant(name, value, kind=np.int64):
    initializers.append(numpy_helper.from_array(np.asarray(value, kind), name))
    return name


def weight(name, *shape):
    return constant(name, random.normal(0, 0.1, shape), np.float32)


def add(kind, *inputs, **attributes):
    name = f"{kind}_{len(nodes)}"
    nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
    return name


def norm(x, name):
    return add("LayerNormalization", x, constant(f"{name}.scale", np.ones(WIDTH), np.float32), constant(f"{name}.bias", np.zeros(WIDTH), np.float32), axis=-1)


stream = add("Gather", weight("embedding", WORDS, WIDTH), "tokens")
distances = constant("distances", np.clip(np.arange(TOKENS)[None] - np.arange(TOKENS)[:, None], -15, 16) + 15)
biases = add("Unsqueeze", add("Transpose", add("Gather", weight("distance_biases", 32, HEADS), distances), perm=[2, 0, 1]), constant("first", [0]))
padded = add("Mul", add("Sub", "mask", constant("one", 1, np.float32)), constant("far", 1e9, np.float32))
scores_bias = add("Add", biases, add("Unsqueeze", padded, constant("middle", [1, 2])))
heads, whole = constant("heads", [0, 0, HEADS, WIDTH // HEADS]), constant("whole", [0, 0, WIDTH])
scale = constant("scale", (WIDTH // HEADS) ** -0.5, np.float32)
for layer in range(LAYERS):
    x = norm(stream, f"{layer}.before")
    q, k, v = (add("Transpose", add("Reshape", add("MatMul", x, weight(f"{layer}.{part}", WIDTH, WIDTH)), heads), perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3])
               for part in "qkv")
    shares = add("Softmax", add("Add", add("Mul", add("MatMul", q, k), scale), scores_bias), axis=-1)
    joined = add("Reshape", add("Transpose", add("MatMul", shares, v), perm=[0, 2, 1, 3]), whole)
    stream = add("Add", stream, add("MatMul", joined, weight(f"{layer}.o", WIDTH, WIDTH)))
    inner = add("Relu", add("MatMul", norm(stream, f"{layer}.behind"), weight(f"{layer}.up", WIDTH, 4 * WIDTH)))
    stream = add("Add", stream, add("MatMul", inner, weight(f"{layer}.down", 4 * WIDTH, WIDTH)))
nodes.append(helper.make_node("MatMul", [norm(stream, "last"), weight("head", WIDTH, WORDS)], ["logits"], name="head"))
graph = helper.make_graph(nodes, "biased", [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", TOKENS]),
                                            helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", TOKENS])],
                          [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", TOKENS, WORDS])], initializers)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
onnx.save(model, sys.argv[1])
