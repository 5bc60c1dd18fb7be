"""An ONNX model of one node after the other, with random inputs and parameters."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """`data`: an array for each input."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.inputs, self.outputs, self.parameters, self.data = [], [], [], [], {}

    def input(self, name, shape):
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.data[name] = self.random.standard_normal(shape).astype(np.float32)
        return name

    def parameter(self, name, *shape):
        self.parameters.append(numpy_helper.from_array(self.random.standard_normal(shape).astype(np.float32), name))
        return name

    def node(self, kind, inputs, name, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def output(self, name):
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))

    def build(self, opset, outputs=None):
        """The model; `outputs`: names of its outputs, in place of those that were added."""
        made = self.outputs if outputs is None else [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "test", self.inputs, made, self.parameters)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11 if opset > 22 else 10)
