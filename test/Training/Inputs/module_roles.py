"""Writes an ONNX file with what torch.onnx says of its initializers: module_roles.py FILE"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(7)
nodes = [("MatMul", ["x", "weight"], "a"), ("Sin", ["a"], "b"), ("MatMul", ["b", "silent"], "c"), ("Mul", ["c", "temperature"], "d"), ("Add", ["d", "offset"], "e"),
         ("Add", ["e", "zeros"], "f"), ("Tanh", ["f"], "g"), ("Add", ["g", "zeros"], "h"), ("MatMul", ["h", "rates"], "i"), ("Tanh", ["i"], "j"), ("MatMul", ["j", "rates"], "k"), ("MatMul", ["k", "others"], "y")]
tensors = {"weight": random.normal(size=(6, 6)), "silent": random.normal(size=(6, 6)), "temperature": np.float64(0.5), "offset": random.normal(size=(1, 6)), "zeros": np.zeros(6),
           "rates": np.repeat(random.normal(size=(1, 6)), 6, axis=0)}
tensors["others"] = tensors["rates"]
roles = {"weight": "PARAMETER", "temperature": "PARAMETER", "offset": "BUFFER", "zeros": "BUFFER"}
graph = helper.make_graph([helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes], "roles", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 6])],
                          [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in tensors.items()])
for name, role in roles.items():
    entry = graph.value_info.add(name=name).metadata_props.add()
    entry.key, entry.value = "pkg.torch.export.graph_signature.InputSpec.kind", role
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
