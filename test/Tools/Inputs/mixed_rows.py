"""Writes a model whose rows depend on each other.

    mixed_rows.py FILE
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(1)
weights = [numpy_helper.from_array(random.standard_normal((64, 64)).astype(np.float32), f"w{i}") for i in range(4)]
nodes = [helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"], name=f"product{i}") for i in range(4)]
nodes.append(helper.make_node("ReduceMean", ["h4"], ["mean"], axes=[0], keepdims=1, name="mix"))
nodes.append(helper.make_node("Sub", ["h4", "mean"], ["y"], name="center"))
graph = helper.make_graph(nodes, "mixed", [helper.make_tensor_value_info("h0", TensorProto.FLOAT, ["batch", 64])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
