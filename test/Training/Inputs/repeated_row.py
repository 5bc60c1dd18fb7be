"""Writes two ONNX files of one model with a batch of 4: in the one a token is expanded to the batch, in the other that is folded into
an initializer, as exporters do. repeated_row.py EXPANDED FOLDED DATA.npz"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(3)
token = random.normal(size=(1, 1, 6)).astype(np.float32)
weight = random.normal(size=(6, 5)).astype(np.float32)
rates = np.repeat(random.normal(size=(1, 5)).astype(np.float32), 4, axis=0)  # of four tokens, by chance as many as samples
for path, folded in ((sys.argv[1], False), (sys.argv[2], True)):
    expand = [] if folded else [helper.make_node("Expand", ["token", "shape"], ["tokens"])]
    stored = {"tokens": np.repeat(token, 4, axis=0)} if folded else {"token": token, "shape": np.array([4, 1, 6])}
    graph = helper.make_graph(
        [*expand, helper.make_node("Concat", ["tokens", "x"], ["h"], axis=1), helper.make_node("Tanh", ["h"], ["t"]), helper.make_node("MatMul", ["t", "weight"], ["m"]),
         helper.make_node("Exp", ["rates"], ["e"]), helper.make_node("Reshape", ["e", "one"], ["r"]), helper.make_node("Mul", ["m", "r"], ["y"])],
        "tokens", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3, 6])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4, 5])],
        [numpy_helper.from_array(array, name) for name, array in {**stored, "weight": weight, "rates": rates, "one": np.array([1, 4, 5])}.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
np.savez(sys.argv[3], x=random.normal(size=(8, 3, 6)).astype(np.float32), target=random.normal(size=(8, 4, 5)).astype(np.float32))
