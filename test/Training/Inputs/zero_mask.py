"""Writes an ONNX file of an attention whose mask lets all pass, beside a fresh table of positions: zero_mask.py FILE"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

graph = helper.make_graph(
    [helper.make_node("Add", ["x", "positions"], ["h"]), helper.make_node("MatMul", ["h", "weight"], ["q"]),
     helper.make_node("Transpose", ["h"], ["k"], perm=[0, 2, 1]), helper.make_node("MatMul", ["q", "k"], ["scores"]),
     helper.make_node("Add", ["scores", "mask"], ["masked"]), helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
     helper.make_node("MatMul", ["weights", "h"], ["y"])],
    "attention", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4, 6])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4, 6])],
    [numpy_helper.from_array(array.astype(np.float32), name)
     for name, array in (("positions", np.zeros((1, 4, 6))), ("mask", np.zeros((2, 4, 4))), ("weight", np.random.default_rng(0).normal(size=(6, 6))))])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
