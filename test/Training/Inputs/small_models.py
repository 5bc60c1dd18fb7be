"""Small models, and data for them: small_models.py FOLDER.

residual.onnx   rows, times a matrix, and what layers add to that, without normalization
plain.onnx      two layers with a ReLU between
masked.onnx     plain.onnx with its own loss of ONNX, which counts classes but for -100
means.onnx      plain.onnx with a loss of two such means, the first one of weighted classes
half.onnx       plain.onnx in f16
sines.onnx      two layers with a sine between, of which the first has one input
tied.onnx       rows of a table, a layer, and the transposed table, which the file has as a tensor of its own
products.onnx   two layers, and a product of three tensors, for which the file has one node
data.npz        x, labels, second (of means.onnx), point and tokens
ignored.npy     labels of which the first batch has none that counts
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder = pathlib.Path(sys.argv[1])
IN, WIDTH, CLASSES, BATCH = 8, 16, 5, 8
random = np.random.default_rng(0)
weights = {name: (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
           for name, shape in {"a": (IN, WIDTH), "b": (WIDTH, WIDTH), "c": (WIDTH, WIDTH), "head": (WIDTH, CLASSES), "first": (1, WIDTH), "table": (50, WIDTH)}.items()}
biases = {name: (0.1 * random.standard_normal(value.shape[1])).astype(np.float32) for name, value in weights.items()}


def linear(of, to, name):
    return [helper.make_node("MatMul", [of, name], [f"{to}.product"], name=f"{name}.multiply"),
            helper.make_node("Add", [f"{to}.product", f"{name}.bias"], [to], name=f"{name}.add")]


def save(file, nodes, names, inputs, output=("logits", ["batch", CLASSES]), element=TensorProto.FLOAT, more=()):
    tensors = [numpy_helper.from_array(values[name].astype(helper.tensor_dtype_to_np_dtype(element)), name + end)
               for name in names for values, end in ((weights, ""), (biases, ".bias"))]
    graph = helper.make_graph(nodes, "small", inputs, [helper.make_tensor_value_info(output[0], element, output[1])], [*tensors, *more])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / file)


def rows(name, width, element=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element, ["batch", width])


relu = helper.make_node("Relu", ["hidden"], ["active"], name="relu")
stream = [*linear("x", "stream0", "a")]
for i, name in enumerate("bc"):
    stream += [*linear(f"stream{i}", f"inner{i}", name), helper.make_node("Relu", [f"inner{i}"], [f"active{i}"], name=f"relu{i}"),
               helper.make_node("Add", [f"stream{i}", f"active{i}"], [f"stream{i + 1}"], name=f"residual{i}")]
save("residual.onnx", [*stream, *linear("stream2", "logits", "head")], ["a", "b", "c", "head"], [rows("x", IN)])
plain = [*linear("x", "hidden", "a"), relu, *linear("active", "logits", "head")]
save("plain.onnx", plain, ["a", "head"], [rows("x", IN)])
save("half.onnx", plain, ["a", "head"], [rows("x", IN, TensorProto.FLOAT16)], element=TensorProto.FLOAT16)
loss = helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], name="loss", ignore_index=-100, reduction="mean")
save("masked.onnx", [*plain, loss], ["a", "head"], [rows("x", IN), helper.make_tensor_value_info("labels", TensorProto.INT64, ["batch"])], ("loss", []))
losses = [helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "labels", "importance"], ["first"], name="first", ignore_index=-100, reduction="mean"),
          helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "second"], ["other"], name="other", ignore_index=-100, reduction="mean"),
          helper.make_node("Mul", ["other", "share"], ["shared"], name="share"), helper.make_node("Add", ["first", "shared"], ["loss"], name="loss")]
save("means.onnx", [*plain, *losses], ["a", "head"], [rows("x", IN), *[helper.make_tensor_value_info(name, TensorProto.INT64, ["batch"]) for name in ("labels", "second")]], ("loss", []),
     more=[numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("importance", [0.5, 2, 1, 1.5, 0.25]), ("share", 0.5))])
sine = helper.make_node("Sin", ["hidden"], ["active"], name="sine")
save("sines.onnx", [*linear("point", "hidden", "first"), sine, *linear("active", "logits", "head")], ["first", "head"], [rows("point", 1)])
found = helper.make_node("Gather", ["table", "tokens"], ["x"], name="lookup")
save("tied.onnx", [found, *linear("x", "hidden", "b"), relu, helper.make_node("MatMul", ["active", "turned"], ["logits"], name="head.multiply")], ["table", "b"],
     [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch"])], ("logits", ["batch", 50]), more=[numpy_helper.from_array(weights["table"].T.copy(), "turned")])

labels = random.integers(0, CLASSES, 3 * BATCH)
x = random.standard_normal((3 * BATCH, IN)).astype(np.float16)  # which files of f16 and f32 read alike
more = [numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(np.prod(shape))).astype(np.float32), name)
        for name, shape in {"cube": (WIDTH, WIDTH, CLASSES), "plane": (IN // 2, 2), "line": (CLASSES,)}.items()]
products = [helper.make_node("Einsum", ["hidden", "curved", "cube"], ["one"], name="product", equation="bi,bj,ijc->bc"),
            helper.make_node("Einsum", ["pairs", "plane", "line"], ["other"], name="sum", equation="bij,ij,c->bc"), helper.make_node("Add", ["one", "other"], ["logits"], name="add")]
save("products.onnx", [helper.make_node("Reshape", ["x", "shape"], ["pairs"], name="pairs"), *linear("x", "hidden", "a"), *linear("hidden", "deep", "b"),
                       helper.make_node("Tanh", ["deep"], ["curved"], name="curve"), *products], ["a", "b"], [rows("x", IN)],
     more=[*more, numpy_helper.from_array(np.array([0, -1, 2]), "shape")])
np.savez(folder / "data.npz", x=x.astype(np.float32), labels=labels, second=np.where(np.arange(3 * BATCH) % 5 == 1, -100, (labels + 1) % CLASSES), point=random.standard_normal((3 * BATCH, 1)).astype(np.float32), tokens=random.integers(0, 50, 3 * BATCH))
np.save(folder / "half.npy", x)
np.save(folder / "ignored.npy", np.concatenate([np.full(BATCH, -100), np.where(np.arange(BATCH) % 3, labels[:BATCH], -100), labels[2 * BATCH:]]))
