"""Writes a model whose equal parameters are one tensor of the file, as exporters have them, and looks what a trained one gives.

    merged_initializers.py model FOLDER             writes model.onnx, inputs.npz and target.npy there
    merged_initializers.py compare FOLDER LOG       compares the loss of trained.onnx under ONNX Runtime with the last evaluation of LOG
"""
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SAMPLES, IN, WIDTH, OUT = 16, 6, 8, 3
mode, folder = sys.argv[1], pathlib.Path(sys.argv[2])
generator = np.random.default_rng(5)

if mode == "model":
    parameters = {"w1": generator.standard_normal((IN, WIDTH)), "w2": generator.standard_normal((WIDTH, WIDTH)), "w3": generator.standard_normal((WIDTH, WIDTH)),
                  "zeros": np.zeros(WIDTH), "ones": np.ones(WIDTH), "even": np.full((OUT, WIDTH), 0.1),
                  "tokens": np.zeros((2, 1)), "w4": generator.standard_normal((4, OUT)), "two": np.float32(2), "eps": np.float32(1e-5)}
    nodes = []

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], name="" if output == "a2" else f"node_{output}", **attributes))

    node("MatMul", ["x", "w1"], "h1")
    node("Add", ["h1", "zeros"], "a1")
    node("LayerNormalization", ["a1", "ones", "zeros"], "n1", axis=-1)
    node("Relu", ["n1"], "r1")
    node("MatMul", ["r1", "w2"], "h2")
    node("Add", ["h2", "zeros"], "a2")  # without a name
    # The same normalization, in the nodes of which exporters make it.
    node("ReduceMean", ["a2"], "mean", axes=[-1])
    node("Sub", ["a2", "mean"], "centered")
    node("Pow", ["centered", "two"], "square")
    node("ReduceMean", ["square"], "variance", axes=[-1])
    node("Add", ["variance", "eps"], "more")
    node("Sqrt", ["more"], "deviation")
    node("Div", ["centered", "deviation"], "normal")
    node("Mul", ["normal", "ones"], "scaled")
    node("Add", ["scaled", "zeros"], "n2")
    node("Relu", ["n2"], "r2")
    # Statistics and scales are one tensor.
    node("MatMul", ["r2", "w3"], "h3")
    node("BatchNormalization", ["h3", "ones", "zeros", "zeros", "ones"], "n3", epsilon=1e-5, momentum=0.5)
    # The same twice of one value, and once more of other names for the tensors.
    node("BatchNormalization", ["h3", "ones", "zeros", "zeros", "ones"], "n4", epsilon=1e-5, momentum=0.5)
    node("Identity", ["ones"], "ones_of_another")
    node("Identity", ["zeros"], "zeros_of_another")
    node("BatchNormalization", ["n2", "ones_of_another", "zeros_of_another", "zeros_of_another", "ones_of_another"], "n5", epsilon=1e-5, momentum=0.5)
    node("Mul", ["n4", "n5"], "n45")
    node("Add", ["n3", "n45"], "n345")
    node("Relu", ["n345"], "r3")
    # Read through a node that two share.
    node("Transpose", ["even"], "turned", perm=[1, 0])
    node("MatMul", ["r1", "turned"], "y1")
    node("MatMul", ["r3", "turned"], "y2")
    node("Add", ["y1", "y2"], "y12")
    # Two tokens that begin alike, as those of a classifier and of its teacher do.
    node("Transpose", ["tokens"], "token", perm=[1, 0])
    node("Concat", ["token", "token"], "both", axis=1)
    node("MatMul", ["both", "w4"], "y3")
    node("Add", ["y12", "y3"], "y")
    graph = helper.make_graph(nodes, "merged", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", IN])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", OUT])],
                              [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in parameters.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=generator.standard_normal((SAMPLES, IN)).astype(np.float32))
    np.save(folder / "target.npy", generator.standard_normal((SAMPLES, OUT)).astype(np.float32))
else:
    trained = onnx.load(folder / "trained.onnx")
    onnx.checker.check_model(trained, full_check=True)
    names = [tensor.name for tensor in trained.graph.initializer]
    assert len(set(names)) == len(names), names
    y = onnxruntime.InferenceSession(folder / "trained.onnx").run(None, dict(np.load(folder / "inputs.npz")))[0]
    loss = float(((y - np.load(folder / "target.npy")) ** 2).mean())
    want = [json.loads(line) for line in open(sys.argv[3])][-1]["evaluation_loss"]
    assert abs(loss - want) <= 1e-5 * want, f"ONNX Runtime gives {loss}, and the evaluation was {want}"
    for name, value in ((tensor.name, numpy_helper.to_array(tensor)) for tensor in trained.graph.initializer):
        isFixed = name in ("two", "eps") or name.endswith("@statistic")  # a frozen statistic that was one tensor with a scale
        assert (np.ptp(value) > 0) != isFixed, f"'{name}' was {'' if isFixed else 'not '}trained"
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in trained.graph.initializer}
    assert np.abs(values["tokens"] - values["tokens@node_both:1"]).max() > 1e-3
    print(len(names), "initializers")
