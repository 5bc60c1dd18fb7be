"""Writes a model of narrow types and strings, its weights packed in an external file, with inputs and expected outputs.

    narrow_model.py FOLDER
"""
import pathlib
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder = pathlib.Path(sys.argv[1])
random = np.random.default_rng(3)
data = b"\0\0\0"


def external(name, array):
    """An initializer whose packed bytes lie in weights.bin, at an odd place."""
    global data
    tensor = numpy_helper.from_array(array, name)
    for key, value in (("location", "weights.bin"), ("offset", len(data)), ("length", len(tensor.raw_data))):
        tensor.external_data.add(key=key, value=str(value))
    data += tensor.raw_data + b"\xff"
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    return tensor


# Rows of an odd number of elements, so that rows begin inside bytes; more elements than are folded.
rows, columns = 94, 67
weight = random.integers(-8, 8, (rows, columns)).astype(ml_dtypes.int4)
points = random.integers(0, 16, (rows, columns)).astype(ml_dtypes.uint4)
twos = random.integers(-2, 2, (rows, columns)).astype(ml_dtypes.int2)
eights = random.standard_normal((rows, columns)).astype(ml_dtypes.float8_e4m3fn)
scale = random.standard_normal(columns).astype(np.float32)
x = random.standard_normal((6, rows)).astype(np.float32)
words = np.array([["a", "b\u00fc", ""], ["\u4e2d", "a", "long one"]], dtype=object)
labels = np.array(["a", "x"], dtype=object)
node = helper.make_node
nodes = [
    node("DequantizeLinear", ["w", "scale"], ["dw"], axis=1),
    node("MatMul", ["x", "dw"], ["y"]),
    node("Cast", ["points"], ["p"], to=TensorProto.FLOAT),
    node("Cast", ["twos"], ["t"], to=TensorProto.FLOAT),
    node("Cast", ["eights"], ["e"], to=TensorProto.FLOAT),
    node("Sum", ["p", "t", "e"], ["sum"]),
    node("MatMul", ["x", "sum"], ["z"]),
    node("QuantizeLinear", ["x", "one", "zero8"], ["q"]),
    node("Transpose", ["q"], ["qt"]),
    node("Transpose", ["words"], ["wt"]),
    node("Concat", ["wt", "more"], ["named"], axis=0),
    node("Gather", ["named", "picks"], ["picked"], axis=0),
    node("Equal", ["picked", "label"], ["is"]),
    node("BitCast", ["x"], ["bits"], to=TensorProto.INT32),
]
value = helper.make_tensor_value_info
picks = np.array([3, 0, 2])
label = np.array("a", dtype=object)
parameters = [external("w", weight), external("points", points), external("twos", twos), external("eights", eights),
              numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(np.float32(1), "one"),
              numpy_helper.from_array(np.zeros((), ml_dtypes.float8_e5m2), "zero8"), numpy_helper.from_array(picks, "picks"),
              helper.make_tensor("more", TensorProto.STRING, [1, 2], [b"a", b"x"]), helper.make_tensor("label", TensorProto.STRING, [], [b"a"])]
outputs = [value("y", TensorProto.FLOAT, [6, columns]), value("z", TensorProto.FLOAT, [6, columns]),
           value("qt", TensorProto.FLOAT8E5M2, [rows, 6]), value("picked", TensorProto.STRING, [3, 2]),
           value("is", TensorProto.BOOL, [3, 2]), value("bits", TensorProto.INT32, [6, rows])]
graph = helper.make_graph(nodes, "narrow", [value("x", TensorProto.FLOAT, [6, rows]), value("words", TensorProto.STRING, [2, 3])],
                          outputs, parameters)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)]), folder / "model.onnx")
(folder / "weights.bin").write_bytes(data)

f32 = np.float32
named = np.concatenate([words.T, labels[None]])
greatest = 57344.0
expected = dict(y=x @ (weight.astype(f32) * scale), z=x @ (points.astype(f32) + twos.astype(f32) + eights.astype(f32)),
                qt=np.clip(x.T, -greatest, greatest).astype(ml_dtypes.float8_e5m2).astype(f32), picked=named[picks].astype(str),
                bits=x.view(np.int32))
expected["is"] = named[picks] == "a"
np.savez(folder / "inputs.npz", x=x, words=words.astype(str))
np.savez(folder / "expected.npz", **expected)
(folder / "words.pb").write_bytes(helper.make_tensor("words", TensorProto.STRING, words.shape, [w.encode() for w in words.flat]).SerializeToString())
np.save(folder / "x.npy", x)
