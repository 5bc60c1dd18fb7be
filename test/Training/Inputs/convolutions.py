#!/usr/bin/env python3
"""A classifier of images whose convolutions have windows of 3 x 3 and many channels: convolutions.py FILE.onnx [residual | widths | normalized]

residual: what a pair of them makes is added to what they take, as in ResNet-18, and some go in steps of two.
widths: the same in blocks that are alike, of 64 and of 128 channels.
normalized: and with a batch normalization behind each convolution, of fresh scales and statistics, which the file has once for each width.
"""
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, SIZE, CLASSES, LAYERS = 256, 14, 10, 6
isResidual = "residual" in sys.argv[2:]
random = numpy.random.default_rng(0)
nodes, weights, value = [], [], "image"


def weight(name, *shape):
    weights.append(numpy_helper.from_array((random.standard_normal(shape) / numpy.sqrt(numpy.prod(shape[1:]))).astype(numpy.float32), name))
    return name


def uniform(name, value, width):
    if all(known.name != name for known in weights):
        weights.append(numpy_helper.from_array(numpy.full(width, value, numpy.float32), name))
    return name


def convolve(name, source, channels, width, step=1):
    nodes.append(helper.make_node("Conv", [source, weight(f"{name}.weight", width, channels, 3, 3)], [name], kernel_shape=[3, 3], pads=[1] * 4, strides=[step] * 2))
    if "normalized" not in sys.argv[2:]:
        return name
    ones, zeros = uniform(f"ones{width}", 1, width), uniform(f"zeros{width}", 0, width)
    nodes.append(helper.make_node("BatchNormalization", [name, ones, zeros, zeros, ones], [f"{name}.norm"], name=f"{name}.norm"))
    return f"{name}.norm"


def activate(source):
    nodes.append(helper.make_node("Relu", [source], [f"{source}.relu"]))
    return f"{source}.relu"


if "widths" in sys.argv[2:] or "normalized" in sys.argv[2:]:
    CHANNELS, before, LAYERS = 128, 8, 0
    for width in (64, 128):
        value = activate(convolve(f"to{width}", value, before, width, 1 + (before > 8)))
        for block in range(3):
            made = convolve(f"second{width}.{block}", activate(convolve(f"first{width}.{block}", value, width, width)), width, width)
            nodes.append(helper.make_node("Add", [made, value], [f"sum{width}.{block}"]))
            value = activate(f"sum{width}.{block}")
        before = width
taken = None  # by a pair of convolutions
for layer in range(LAYERS):
    inSteps = isResidual and layer in (0, 3)
    nodes.append(helper.make_node("Conv", [value, weight(f"conv{layer}.weight", CHANNELS, CHANNELS if layer else 8, 3, 3)], [f"conv{layer}"], kernel_shape=[3, 3], pads=[1] * 4,
                                  strides=[1 + inSteps] * 2))
    made = f"conv{layer}"
    if isResidual and layer % 3 == 2:
        nodes.append(helper.make_node("Add", [made, taken], [f"sum{layer}"]))
        made = f"sum{layer}"
    nodes.append(helper.make_node("Relu", [made], [f"relu{layer}"]))
    value = f"relu{layer}"
    taken = value if layer % 3 == 0 else taken
nodes.append(helper.make_node("GlobalAveragePool", [value], ["pooled"]))
nodes.append(helper.make_node("Flatten", ["pooled"], ["features"]))
nodes.append(helper.make_node("Gemm", ["features", weight("head.weight", CLASSES, CHANNELS)], ["logits"], transB=1))
graph = helper.make_graph(nodes, "convolutions", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 8, SIZE, SIZE])],
                          [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), sys.argv[1])
