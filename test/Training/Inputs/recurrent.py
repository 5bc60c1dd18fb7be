"""Writes an LSTM as PyTorch's exporter does for a batch of a fixed size, with zeros to begin with, and data for it: recurrent.py FOLDER"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BATCH, STEPS, WIDTH, HIDDEN = 8, 16, 32, 48
folder = pathlib.Path(sys.argv[1])
rng = np.random.default_rng(6)
shapes = {"weight_ih": (1, 4 * HIDDEN, WIDTH), "weight_hh": (1, 4 * HIDDEN, HIDDEN), "bias": (1, 8 * HIDDEN), "head": (HIDDEN, 4)}
initializers = [numpy_helper.from_array((rng.standard_normal(shape) / 8).astype(np.float32), name) for name, shape in shapes.items()]
initializers += [numpy_helper.from_array(np.zeros((1, BATCH, HIDDEN), np.float32), "val_16"), numpy_helper.from_array(np.array([1]), "one")]
nodes = [helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0, 2]),
         helper.make_node("LSTM", ["turned", "weight_ih", "weight_hh", "bias", "", "val_16", "val_16"], ["states"], name="lstm", hidden_size=HIDDEN),
         helper.make_node("Squeeze", ["states", "one"], ["rows"]), helper.make_node("Transpose", ["rows"], ["back"], perm=[1, 0, 2]),
         helper.make_node("MatMul", ["back", "head"], ["y"])]
graph = helper.make_graph(nodes, "recurrent", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, STEPS, WIDTH])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, [BATCH, STEPS, 4])], initializers)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "recurrent.onnx")
np.savez(folder / "data.npz", x=rng.standard_normal((24, STEPS, WIDTH)).astype(np.float32), target=rng.standard_normal((24, STEPS, 4)).astype(np.float32))
