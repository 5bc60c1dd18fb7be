"""Writes an ONNX file with tensors that look like parameters, and such that are: fixed_tensors.py FILE"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

nodes = [
    ("MatMul", ["x", "weight"], "h"), ("Reshape", ["h", "grouped"], "g"), ("InstanceNormalization", ["g", "val_8", "val_11"], "n"),
    ("Reshape", ["n", "square"], "m"), ("Add", ["m", "distances"], "d"), ("Add", ["d", "shifted"], "s"), ("Mul", ["s", "block.alpha"], "a"),
    ("Mul", ["a", "sqrt_two"], "b"),
    ("Mul", ["b", "val_20"], "c"), ("Add", ["c", "zeros_3"], "e"), ("RNN", ["e", "w", "r", "", "", "val_30"], "o"), ("Squeeze", ["o", "one"], "y")]
tensors = {
    "weight": np.random.default_rng(0).normal(size=(6, 6)), "val_8": np.ones(2), "val_11": np.zeros(2), "val_20": np.ones((6, 1)), "block.alpha": np.float64(0.5), "sqrt_two": np.sqrt(2.0),
    "zeros_3": np.zeros((4, 6, 6)),
    "w": np.random.default_rng(1).normal(size=(1, 6, 6)), "r": np.random.default_rng(2).normal(size=(1, 6, 6)), "val_30": np.zeros((1, 6, 6)),
    "distances": np.subtract.outer(np.arange(6.0), np.arange(6.0)), "shifted": np.where(np.arange(36).reshape(6, 6) % 5 < 2, -100.0, 0.0)}
initializers = [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in tensors.items()]
initializers += [numpy_helper.from_array(np.array(shape, np.int64), name) for name, shape in (("grouped", (4, 2, 18)), ("square", (4, 6, 6)), ("one", (1,)))]
graph = helper.make_graph([helper.make_node(kind, inputs, [output], **({"hidden_size": 6} if kind == "RNN" else {})) for kind, inputs, output in nodes], "fixed",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6, 6])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 6, 6])], initializers)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
