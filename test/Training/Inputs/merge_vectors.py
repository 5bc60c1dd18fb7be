"""Writes a model as it would be if it were fresh: vectors are zeros, or ones where a normalization scales by them, and those of a length are one tensor.

    merge_vectors.py MODEL OUTPUT
"""
import sys

import numpy as np
import onnx
from onnx import numpy_helper

model = onnx.load(sys.argv[1])
scales = {node.input[1] for node in model.graph.node if node.op_type == "LayerNormalization"}
vectors = {tensor.name: tensor for tensor in model.graph.initializer if len(tensor.dims) == 1 and tensor.dims[0] > 1 and tensor.data_type == onnx.TensorProto.FLOAT}
merged = {}
for name, tensor in vectors.items():
    kind = "ones" if name in scales else "zeros"
    merged[name] = f"{kind}_{tensor.dims[0]}"
    model.graph.initializer.remove(tensor)
for name in sorted(set(merged.values())):
    kind, length = name.split("_")
    model.graph.initializer.append(numpy_helper.from_array(np.full(int(length), kind == "ones", np.float32), name))
for node in model.graph.node:
    for i, name in enumerate(node.input):
        node.input[i] = merged.get(name, name)
onnx.checker.check_model(model)
onnx.save(model, sys.argv[2])
print(len(merged), "vectors are", len(set(merged.values())))
