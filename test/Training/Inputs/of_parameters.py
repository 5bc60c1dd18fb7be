"""Writes a model that computes things of its parameters alone, and data for it: of_parameters.py FOLDER

Weights are standardized by a batch normalization in training form, as those of BiT; a table of relative positions is repeated for each
sample, as DeBERTa's; and parameters begin with a dimension of one element, as positions and the weights of LSTMs do.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder = pathlib.Path(sys.argv[1])
rng = np.random.default_rng(5)
# The samples' number stands in the shapes, as exporters write it that are told no dimension is dynamic.
nodes = [("Add", ["x", "positions"], "placed", {}),
         ("Reshape", ["weight", "rows"], "sheet", {}), ("BatchNormalization", ["sheet", "val_1", "val_2", "val_2", "val_1"], "standard", {"training_mode": 1, "epsilon": 1e-6}),
         ("Reshape", ["standard", "matrix"], "weight.standard", {}), ("MatMul", ["placed", "weight.standard"], "hidden", {}),
         ("Reshape", ["hidden", "split"], "heads", {}), ("Transpose", ["heads"], "apart", {"perm": [0, 2, 1, 3]}), ("Reshape", ["apart", "flat"], "queries", {}),
         ("Expand", ["relative", "samples"], "repeated", {}), ("Reshape", ["repeated", "flat"], "keys", {}), ("Transpose", ["keys"], "turned", {"perm": [0, 2, 1]}),
         ("MatMul", ["queries", "turned"], "scores", {}), ("Tanh", ["scores"], "bent", {}), ("Reshape", ["bent", "long"], "features", {}), ("MatMul", ["features", "head"], "y", {})]
shapes = {"positions": (1, 6, 8), "weight": (8, 16), "relative": (1, 2, 6, 8), "head": (72, 5)}
initializers = [numpy_helper.from_array((rng.standard_normal(shape) / 4).astype(np.float32), name) for name, shape in shapes.items()]
initializers += [numpy_helper.from_array(np.full(8, value, np.float32), name) for name, value in (("val_1", 1), ("val_2", 0))]
initializers += [numpy_helper.from_array(np.array(shape, np.int64), name) for name, shape in (
    ("rows", (1, 8, 16)), ("matrix", (8, 16)), ("split", (8, 6, 2, 8)), ("flat", (16, 6, 8)), ("samples", (8, 2, 6, 8)), ("long", (8, 72)))]
outputs = {"BatchNormalization": ["mean", "variance"]}
graph = helper.make_graph([helper.make_node(kind, inputs, [output, *outputs.get(kind, [])], name=output, **attributes) for kind, inputs, output, attributes in nodes], "of_parameters",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 6, 8])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 5])], initializers)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "of_parameters.onnx")
np.savez(folder / "data.npz", x=rng.standard_normal((24, 6, 8)).astype(np.float32), labels=rng.integers(0, 5, 24))
