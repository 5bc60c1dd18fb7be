"""Writes a classifier that reads one token of each row, chosen by what stands in the row, and data for it: own_rows.py FILE.onnx DATA.npz nd|flat

Tokens are looked up in a table, and pairs of remainders in another by two indices. Four layers of attention add one bias to their scores. `nd`: the token is read by tuples of
row and place; `flat`: from all rows flattened, at row * width + place."""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

path, data, form = sys.argv[1:4]
random = np.random.default_rng(5)
width, hidden = 8, 16
draw = lambda *shape: (0.3 * random.standard_normal(shape)).astype(np.float32)
tensors = {"table": draw(40, hidden), "pairs": draw(5, 3, hidden), "bias": draw(1, width, width), "out": draw(hidden, 3)}
tensors |= {f"w{layer}": draw(hidden, hidden) for layer in range(4)}
integers = {"five": 5, "three": 3, "last": [-1], "zero": 0, "one": 1, "width": width, "rows": [-1, hidden]}
n = helper.make_node
nodes = [n("Gather", ["table", "ids"], ["tokens"]), n("Mod", ["ids", "five"], ["by5"]), n("Mod", ["ids", "three"], ["by3"]),
         n("Unsqueeze", ["by5", "last"], ["i"]), n("Unsqueeze", ["by3", "last"], ["j"]), n("Concat", ["i", "j"], ["ij"], axis=-1), n("GatherND", ["pairs", "ij"], ["pair"]),
         n("Add", ["tokens", "pair"], ["h0"])]
for layer in range(4):
    h, s = f"h{layer}", f"s{layer}"
    nodes += [n("Transpose", [h], [s + "t"], perm=[0, 2, 1]), n("MatMul", [h, s + "t"], [s + "p"]), n("Add", [s + "p", "bias"], [s + "b"]), n("Softmax", [s + "b"], [s + "w"], axis=-1),
              n("MatMul", [s + "w", h], [s + "v"]), n("MatMul", [s + "v", f"w{layer}"], [s + "o"]), n("Add", [h, s + "o"], [f"h{layer + 1}"])]
nodes += [n("ArgMax", ["ids"], ["place"], axis=1, keepdims=0), n("Shape", ["ids"], ["shape"]), n("Gather", ["shape", "zero"], ["count"]), n("Range", ["zero", "count", "one"], ["row"])]
if form == "nd":
    nodes += [n("Unsqueeze", ["row", "last"], ["r"]), n("Unsqueeze", ["place", "last"], ["p"]), n("Concat", ["r", "p"], ["rp"], axis=-1), n("GatherND", ["h4", "rp"], ["token"])]
else:
    nodes += [n("Mul", ["row", "width"], ["begin"]), n("Add", ["place", "begin"], ["flat"]), n("Reshape", ["h4", "rows"], ["all"]), n("Gather", ["all", "flat"], ["token"])]
nodes.append(n("MatMul", ["token", "out"], ["logits"]))
initializers = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
initializers += [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in integers.items()]
graph = helper.make_graph(nodes, "own_rows", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", width])],
                          [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])], initializers)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
np.savez(data, ids=random.integers(0, 40, (8, width)), labels=random.integers(0, 3, 8))
