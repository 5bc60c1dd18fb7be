#!/usr/bin/env python3
"""Takes `training_mode` from the batch normalizations of a model: inference_mode.py MODEL OUT"""
import sys

import onnx

model = onnx.load(sys.argv[1])
for node in model.graph.node:
    if node.op_type == "BatchNormalization":
        del node.output[1:]
        kept = [attribute for attribute in node.attribute if attribute.name != "training_mode"]
        del node.attribute[:]
        node.attribute.extend(kept)
onnx.save(model, sys.argv[2])
