"""Writes a chain of equal products: chain.py FILE LAYERS."""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

layers = int(sys.argv[2])
random = np.random.default_rng(1)
nodes = [helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"], name=f"product{i}") for i in range(layers)]
weights = [numpy_helper.from_array((random.standard_normal((64, 64)) / 8).astype(np.float32), f"w{i}") for i in range(layers)]
graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("h0", TensorProto.FLOAT, ["batch", 64])],
                          [helper.make_tensor_value_info(f"h{layers}", TensorProto.FLOAT, None)], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
