"""Writes small ONNX models for the import tests: make_model.py NAME OUT.onnx"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper as h, numpy_helper as nh

F, I = TensorProto.FLOAT, TensorProto.INT64


def save(path, nodes, inputs, outputs, initializers=(), opset=17, functions=(), domains=()):
    graph = h.make_graph(nodes, "g", inputs, outputs, [nh.from_array(v, k) for k, v in dict(initializers).items()])
    opsets = [h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in domains]
    onnx.save(h.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=8), path)


def value(name, shape, kind=F):
    return h.make_tensor_value_info(name, kind, shape)


def f(x):
    return np.array(x, np.float32)


def gelu(path, variant):
    """0.5 x (1 + erf(x / sqrt 2)) in four orders of operands."""
    c = {"half": f(0.5), "one": f(1), "root": f(np.sqrt(2)), "inverse": f(np.sqrt(0.5))}
    n = h.make_node
    head = {
        0: [n("Div", ["x", "root"], ["u"]), n("Erf", ["u"], ["e"]), n("Add", ["e", "one"], ["s"])],
        1: [n("Mul", ["inverse", "x"], ["u"]), n("Erf", ["u"], ["e"]), n("Add", ["one", "e"], ["s"])],
    }[variant % 2]
    tail = {
        0: [n("Mul", ["x", "s"], ["p"]), n("Mul", ["p", "half"], ["y"])],
        1: [n("Mul", ["x", "half"], ["p"]), n("Mul", ["s", "p"], ["y"])],
        2: [n("Mul", ["half", "s"], ["p"]), n("Mul", ["p", "x"], ["y"])],
    }[variant % 3]
    save(path, head + tail, [value("x", [2, 8])], [value("y", [2, 8])], c)


def not_gelu(path):
    """0.5 x (1 + erf(x / 2)): near, but another function."""
    c = {"half": f(0.5), "one": f(1), "root": f(2)}
    n = h.make_node
    save(path, [n("Div", ["x", "root"], ["u"]), n("Erf", ["u"], ["e"]), n("Add", ["e", "one"], ["s"]),
                n("Mul", ["x", "s"], ["p"]), n("Mul", ["p", "half"], ["y"])], [value("x", [2, 8])], [value("y", [2, 8])], c)


def gelu_halves(path):
    """x (0.5 + 0.5 erf(x / sqrt 2))."""
    n = h.make_node
    save(path, [n("Mul", ["x", "inverse"], ["u"]), n("Erf", ["u"], ["e"]), n("Mul", ["e", "half"], ["p"]), n("Add", ["p", "half"], ["s"]),
                n("Mul", ["s", "x"], ["y"])], [value("x", [2, 8])], [value("y", [2, 8])], {"half": f(0.5), "inverse": f(np.sqrt(0.5))})


def silu(path, form):
    """x sigmoid(x), the sigmoid as an operator, as a quotient, or as the divisor of x."""
    n = h.make_node
    exp = [n("Neg", ["x"], ["m"]), n("Exp", ["m"], ["e"]), n("Add", ["one", "e"], ["d"])]
    nodes = {"operator": [n("Sigmoid", ["x"], ["s"]), n("Mul", ["s", "x"], ["y"])],
             "quotient": exp + [n("Reciprocal", ["d"], ["s"]), n("Mul", ["x", "s"], ["y"])],
             "divisor": exp + [n("Div", ["x", "d"], ["y"])]}[form]
    save(path, nodes, [value("x", [2, 8])], [value("y", [2, 8])], {"one": f(1)})


def attention_of_matrices(path):
    """Batch and heads as one dimension."""
    n = h.make_node
    save(path, [n("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), n("MatMul", ["q", "kt"], ["p"]), n("Mul", ["p", "s"], ["r"]),
                n("Softmax", ["r"], ["w"], axis=-1), n("MatMul", ["w", "v"], ["y"])], [value(t, [8, 6, 16]) for t in "qkv"],
         [value("y", [8, 6, 16])], {"s": f(0.25)})


def layernorm(path, variant):
    n = h.make_node
    c = {"two": f(2), "eps": f(1e-6), "scale": np.linspace(0.5, 2, 8, dtype=np.float32), "bias": np.linspace(-1, 1, 8, dtype=np.float32)}
    nodes = [n("ReduceMean", ["x"], ["m"], axes=[-1]), n("Sub", ["x", "m"], ["d"])]
    nodes += [n("Pow", ["d", "two"], ["q"])] if variant == 0 else [n("Mul", ["d", "d"], ["q"])]
    nodes += [n("ReduceMean", ["q"], ["v"], axes=[-1]), n("Add", ["v", "eps"] if variant == 0 else ["eps", "v"], ["w"]), n("Sqrt", ["w"], ["r"])]
    if variant == 0:
        nodes += [n("Div", ["d", "r"], ["z"]), n("Mul", ["z", "scale"], ["zs"]), n("Add", ["zs", "bias"], ["y"])]
    else:
        nodes += [n("Reciprocal", ["r"], ["i"]), n("Mul", ["i", "d"], ["z"]), n("Mul", ["scale", "z"], ["zs"]), n("Add", ["bias", "zs"], ["y"])]
    save(path, nodes, [value("x", [3, 8])], [value("y", [3, 8])], c)


def attention(path, scale="score", mask="none", guard=False, heads=4, clamp=False, kind="f32", wide="no"):
    """Softmax attention of 4 query heads, with `heads` key heads repeated; scale "after" the mask. All in `kind`, but f32 from the
    scores (wide=scores), the masked scores (wide=softmax) or the weights (wide=weights) on until after the softmax, which is
    multiplied in f32 as well if wide=values; wide=narrow rounds the weights to f16."""
    element = {"f32": F, "f16": TensorProto.FLOAT16, "f64": TensorProto.DOUBLE}[kind]
    numpy_of = {"f32": np.float32, "f16": np.float16, "f64": np.float64}[kind]
    n, c = h.make_node, {"s": f(0.25), "r": f(0.5), "d": f(4), "zero": f(0), "inf": f(-np.inf), "low": f(np.finfo(np.float32).min)}
    if kind != "f32":
        c = {k: x.astype(numpy_of) for k, x in c.items() if k != "low" or kind == "f64"}
    inputs = [value("q", [2, 4, 6, 16], element), value("k", [2, heads, 6, 16], element), value("v", [2, heads, 6, 16], element)]
    nodes, q, k, v = [], "q", "k", "v"
    if heads != 4:
        c |= {"five": np.array([2, heads, 4 // heads, 6, 16]), "four": np.array([2, 4, 6, 16]), "two": np.array([2])}
        for t in "kv":
            nodes += [n("Unsqueeze", [t, "two"], [t + "1"]), n("Expand", [t + "1", "five"], [t + "2"]), n("Reshape", [t + "2", "four"], [t + "3"])]
        k, v = "k3", "v3"
    nodes += [n("Transpose", [k], ["kt"], perm=[0, 1, 3, 2])]
    kt = "kt"
    if scale == "both":
        nodes += [n("Mul", [q, "r"], ["qs"]), n("Mul", ["kt", "r"], ["ks"])]
        q, kt = "qs", "ks"
    nodes += [n("MatMul", [q, kt], ["p0"])]
    p = "p0"
    if scale == "score":
        nodes += [n("Mul", ["s", p], ["p1"])]
        p = "p1"
    elif scale == "div":
        nodes += [n("Div", [p, "d"], ["p1"])]
        p = "p1"
    if wide in ("scores", "values"):
        nodes += [n("Cast", [p], ["p1w"], to=F)]
        p, element = "p1w", F
        c |= {"zero": f(0), "inf": f(-np.inf), "low": f(np.finfo(np.float32).min)}
    if mask in ("causal", "causal-low"):
        c |= {"start": np.array(0), "end": np.array(6), "one": np.array(1), "col": np.array([0]), "row": np.array([1])}
        nodes += [n("Range", ["start", "end", "one"], ["i"]), n("Unsqueeze", ["i", "col"], ["j"]), n("Unsqueeze", ["i", "row"], ["iq"]),
                  n("LessOrEqual", ["j", "iq"], ["see"]), n("Where", ["see", "zero", "inf" if mask == "causal" else "low"], ["m"]), n("Add", [p, "m"], ["p2"])]
        p = "p2"
    elif mask == "bool":
        inputs += [value("keep", [2, 1, 1, 6], TensorProto.BOOL)]
        nodes += [n("Where", ["keep", p, "inf"], ["p2"])]
        p = "p2"
    elif mask == "float":
        inputs += [value("bias", [4, 6, 6], element)]
        nodes += [n("Add", ["bias", p], ["p2"])]
        p = "p2"
    if scale == "after":
        nodes += [n("Div", [p, "d"], ["p3"])]
        p = "p3"
    if clamp:
        nodes += [n("Max", [p, "low"], ["p4"])]
        p = "p4"
    if wide == "softmax":
        nodes += [n("Cast", [p], ["p5"], to=F)]
        p = "p5"
    nodes += [n("Softmax", [p], ["w"], axis=-1)]
    w = "w"
    if guard:
        nodes += [n("IsNaN", [w], ["nan"]), n("Where", ["nan", "zero", w], ["w1"])]
        w = "w1"
    kind = inputs[0].type.tensor_type.elem_type
    if wide == "weights":
        nodes += [n("Cast", [w], ["w2"], to=F)]
        w = "w2"
    if wide == "values":
        nodes += [n("Cast", [v], ["vw"], to=F)]
        v, kind = "vw", F
    elif wide == "narrow":
        nodes += [n("Cast", [w], ["w2"], to=TensorProto.FLOAT16), n("Cast", ["w2"], ["w3"], to=kind)]
        w = "w3"
    elif wide != "no":
        nodes += [n("Cast", [w], ["w3"], to=kind)]
        w = "w3"
    save(path, nodes + [n("MatMul", [w, v], ["y"])], inputs, [value("y", [2, 4, 6, 16], kind)], c)


def wide_pool(path):
    """A window larger than the input, which ceil_mode makes hang over the end."""
    pool = h.make_node("AveragePool", ["x"], ["y"], kernel_shape=[8, 8], strides=[8, 8], ceil_mode=1, count_include_pad=1)
    save(path, [pool], [value("x", [2, 5, 3, 4])], [value("y", [2, 5, 1, 1])])


def attention_regrouped(path):
    """Batch and heads as one dimension for the products and a bias per head, as two for a mask and the softmax, as three for
    another mask; a temperature per query; the softmax of f16 scores in f32."""
    n, half = h.make_node, TensorProto.FLOAT16
    c = {"s": np.float16(0.25), "flat": np.array([8, 6, 6]), "heads": np.array([2, 4, 6, 6]), "three": np.array([2, 2, 2, 6, 6])}
    save(path, [n("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), n("MatMul", ["q", "kt"], ["p"]), n("Mul", ["p", "s"], ["r"]),
                n("Mul", ["r", "temperature"], ["r1"]), n("Add", ["bias", "r1"], ["b"]), n("Reshape", ["b", "heads"], ["b1"]),
                n("Add", ["b1", "m"], ["b2"]), n("Reshape", ["b2", "three"], ["b3"]), n("Add", ["b3", "m3"], ["b4"]),
                n("Reshape", ["b4", "heads"], ["b5"]), n("Cast", ["b5"], ["x"], to=F), n("Softmax", ["x"], ["w"], axis=-1),
                n("Cast", ["w"], ["w1"], to=half), n("Reshape", ["w1", "flat"], ["w2"]), n("MatMul", ["w2", "v"], ["y"])],
         [value(t, [8, 6, 16], half) for t in "qkv"] + [value("temperature", [8, 6, 1], half), value("bias", [8, 1, 6], half),
                                                        value("m", [2, 1, 6, 6], half), value("m3", [2, 1, 6, 6], half)],
         [value("y", [8, 6, 16], half)], c)


def softmax(path):
    n = h.make_node
    save(path, [n("ReduceMax", ["x"], ["m"], axes=[1], keepdims=1), n("Sub", ["x", "m"], ["d"]), n("Exp", ["d"], ["e"]),
                n("ReduceSum", ["e", "axis"], ["t"], keepdims=0), n("Unsqueeze", ["t", "axis"], ["s"]), n("Div", ["e", "s"], ["y"])],
         [value("x", [2, 8])], [value("y", [2, 8])], {"axis": np.array([1])})


def layernorm_scaled(path):
    """The scale before the division, the variance's dimension put back."""
    n = h.make_node
    save(path, [n("ReduceMean", ["x"], ["m"], axes=[-1]), n("Sub", ["x", "m"], ["d"]), n("Mul", ["d", "d"], ["q"]),
                n("ReduceMean", ["q"], ["v0"], axes=[-1], keepdims=0), n("Unsqueeze", ["v0", "last"], ["v"]), n("Add", ["v", "eps"], ["v1"]),
                n("Sqrt", ["v1"], ["r"]), n("Mul", ["scale", "d"], ["u"]), n("Div", ["u", "r"], ["w"]), n("Add", ["w", "bias"], ["y"])],
         [value("x", [2, 8])], [value("y", [2, 8])],
         {"eps": f(1e-6), "last": np.array([-1]), "scale": np.linspace(0.5, 2, 8, dtype=np.float32), "bias": np.linspace(-1, 1, 8, dtype=np.float32)})


def rotary(path, form, turned=16):
    """`form`: halves, or pairs side by side, turned by tables of full width; or written out. Of 16 elements the first `turned`. In
    pairs-tiled the table's elements are repeated before a dimension of size 1, in pairs-written-apart the pairs are a dimension, in
    halves-first the position is 0, whose cosines fold away."""
    n, half = h.make_node, turned // 2
    c = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "half": np.array([half]), "turned": np.array([turned]),
         "width": np.array([16]), "last": np.array([-1]), "wide": np.array([2, 4, 6, turned]), "double": np.array([6, half, 2]),
         "table": np.array([6, turned])}
    cut = lambda x, start, end, out, step="one": n("Slice", [x, start, end, "last", step], [out])
    nodes = [cut("x", "zero", "turned", "t")] if turned < 16 else [n("Identity", ["x"], ["t"])]
    pairs = "pairs" in form
    if "apart" in form:
        c |= {"five": np.array([2, 4, 6, half, 2])}
        nodes += [n("Reshape", ["t", "five"], ["tp"])]
        for i, part in (("zero", "a"), ("one", "b")):
            c |= {i + "s": np.array(int(i == "one"))}
            nodes += [n("Gather", ["tp", i + "s"], [part], axis=-1)]
    else:
        nodes += [cut("t", "zero", "turned", "a", "two"), cut("t", "one", "turned", "b", "two")] if pairs else \
             [cut("t", "zero", "half", "a"), cut("t", "half", "turned", "b")]

    def join(first, second, out):
        if not pairs:
            return [n("Concat", [first, second], [out], axis=-1)]
        return [n("Unsqueeze", [first, "last"], [first + "u"]), n("Unsqueeze", [second, "last"], [second + "u"]),
                n("Concat", [first + "u", second + "u"], [out + "c"], axis=-1), n("Reshape", [out + "c", "wide"], [out])]
    if "written" in form:
        nodes += [n("Mul", ["a", "cos"], ["ac"]), n("Mul", ["sin", "b"], ["bs"]), n("Sub", ["ac", "bs"], ["p"]),
                  n("Mul", ["a", "sin"], ["as"]), n("Mul", ["cos", "b"], ["bc"]), n("Add", ["as", "bc"], ["q"]), *join("p", "q", "r")]
    else:
        for t in ("cos", "sin"):
            if form == "pairs-tiled":
                c |= {"behind": np.array([2, 3]), "repeats": np.array([1, 1, 2, 1])}
                nodes += [n("Unsqueeze", [t, "behind"], [t + "1"]), n("Tile", [t + "1", "repeats"], [t + "2"]), n("Reshape", [t + "2", "table"], [t + "t"])]
                continue
            nodes += [n("Unsqueeze", [t, "last"], [t + "1"]), n("Expand", [t + "1", "double"], [t + "2"]), n("Reshape", [t + "2", "table"], [t + "t"])] \
                if pairs else [n("Concat", [t, t], [t + "t"], axis=-1)]
        nodes += [n("Neg", ["b"], ["m"]), *join("m", "a", "z"), n("Mul", ["z", "sint"], ["zs"]),
                  n("Identity", ["t"], ["tc"]) if form == "halves-first" else n("Mul", ["t", "cost"], ["tc"]), n("Add", ["tc", "zs"], ["r"])]
    nodes += [cut("x", "turned", "width", "o"), n("Concat", ["r", "o"], ["y"], axis=-1)] if turned < 16 else [n("Identity", ["r"], ["y"])]
    save(path, nodes, [value("x", [2, 4, 6, 16]), value("cos", [6, half]), value("sin", [6, half])], [value("y", [2, 4, 6, 16])], c)


def unsupported_inside(path, condition):
    """Unsupported operators in the body of a Loop (unless there is a condition only) and in the branches of an If."""
    n = h.make_node
    body = h.make_graph([n("Frobnicate", ["v"], ["w"], name="inner", domain="com.example"), n("Identity", ["c"], ["c1"])], "body",
                        [value("i", [], I), value("c", [], TensorProto.BOOL), value("v", [2])], [value("c1", [], TensorProto.BOOL), value("w", [2])])
    branches = [h.make_graph([n(kind, ["x"], [kind], name="in" + kind, domain="com.example")], kind, [], [value(kind, [2])]) for kind in ("Grok", "Fathom")]
    plain = h.make_graph([n("Relu", ["x"], ["b2"])], "plain", [], [value("b2", [2])])
    loop = [n("Loop", ["trips", "", "x"], ["z"], body=body)] if condition == "loop" else [n("Identity", ["x"], ["z"])]
    save(path, loop + [n("If", ["yes"], ["y1"], then_branch=branches[0], else_branch=branches[1] if condition != "other" else plain),
                       n("Add", ["y1", "z"], ["y"])], [value("x", [2])], [value("y", [2])],
         {"trips": np.array(2), "yes": np.array(condition != "other")}, domains=["com.example"])


def unsupported(path):
    n = h.make_node
    save(path, [n("Frobnicate", ["x"], ["a"], name="first", domain="com.example"), n("Frobnicate", ["a"], ["b"], domain="com.example"),
                n("DeformConv", ["b", "b", "b"], ["y"], name="deform")], [value("x", [1, 1, 4, 4])], [value("y", None)], opset=19, domains=["com.example"])


def dynamic(path):
    save(path, [h.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")],
         [value("x", ["batch", 6]), value("shape", [2], I)], [value("y", None)])


def interpreted(path):
    """A shape that the largest of each pair of constants decides; a sum of x and a softmax of constants."""
    n = h.make_node
    save(path, [n("Constant", [], ["c"], value=nh.from_array(f([[[2, 3, 1, 6]]]))),
                n("Constant", [], ["equal"], value=nh.from_array(f([[1, 1, 1, 1, 0, 1]]) * 200)),
                n("MaxPool", ["c"], ["m"], kernel_shape=[2], strides=[2]), n("Cast", ["m"], ["i"], to=I),
                n("Reshape", ["i", "flat"], ["shape"]), n("Reshape", ["x", "shape"], ["r"]),
                n("Softmax", ["equal"], ["s"]), n("Add", ["r", "s"], ["y"])],
         [value("x", [2, 9])], [value("y", [3, 6])], {"flat": np.array([-1])})


def unsorted(path, form):
    """Nodes behind their readers, one of which reads inside a branch; a cycle; a tensor that two nodes give."""
    n = h.make_node
    branch = h.make_graph([n("Neg", ["a"], ["b1"]), n("Exp", ["b1"], ["b"])], "branch", [], [value("b", [2])])
    nodes = [n("If", ["yes"], ["c"], then_branch=branch, else_branch=branch), n("Add", ["c", "a"], ["y"], name="sum"), n("Relu", ["x"], ["a"])]
    if form == "cycle":
        nodes[2] = n("Add", ["x", "y"], ["a"], name="first")
    if form == "twice":
        nodes.insert(0, n("Sqrt", ["x"], ["y"], name="other"))
    save(path, nodes, [value("x", [2])], [value("y", [2])], {"yes": np.array(True)})


def external(path, location):
    save(path, [h.make_node("Add", ["x", "w"], ["y"])], [value("x", [4])], [value("y", [4])], {"w": np.arange(4, dtype=np.float32)})
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    with open(os.path.join(os.path.dirname(path), "weights.bin"), "wb") as file:
        file.write(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    with open(path, "wb") as file:
        file.write(model.SerializeToString())


def function(path):
    """A function with an attribute, called twice; an If whose condition folds."""
    n = h.make_node
    body = n("LeakyRelu", ["a"], ["b"])
    body.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    fn = h.make_function("local", "Leak", ["a"], ["b"], [body], [h.make_opsetid("", 17)], ["slope"])
    branch = lambda op: h.make_graph([n(op, ["r"], ["o"])], op, [], [value("o", [4])])
    save(path, [n("Leak", ["x"], ["r"], domain="local", slope=0.25), n("Shape", ["x"], ["s"]), n("Equal", ["s", "four"], ["e"]),
                n("Squeeze", ["e"], ["c"]), n("If", ["c"], ["y"], then_branch=branch("Exp"), else_branch=branch("Log"))],
         [value("x", [4])], [value("y", [4])], {"four": np.array([4])}, functions=[fn], domains=["local"])


def gather_tuples(path, form, queries=2):
    """mask[batch, key] for all queries by tuples that the file holds; `crossed`: the keys' order depends on the batch."""
    batch, key = np.meshgrid(np.arange(3), np.arange(1, 5), indexing="ij")
    if form == "crossed":
        key = (key + batch) % 5
    tuples = np.broadcast_to(np.stack([batch, key], -1)[:, None], (3, queries, 4, 2))
    save(path, [h.make_node("GatherND", ["x", "tuples"], ["y"])], [value("x", [3, 5])], [value("y", [3, queries, 4])], {"tuples": tuples})


def gather_last(path, first=0):
    """x[row, place[row]] for each row of a batch, counted from `first`."""
    n = h.make_node
    save(path, [n("Unsqueeze", ["place", "last"], ["p"]), n("Concat", ["rows", "p"], ["tuples"], axis=1), n("GatherND", ["x", "tuples"], ["y"])],
         [value("x", [3, 5, 8]), value("place", [3], I)], [value("y", [3, 8])],
         {"rows": (np.arange(3) + first).reshape(3, 1) % 3, "last": np.array([1])})


def gather_flat(path, order="rows"):
    """x[row, place[row]] of a batch, read from all rows flattened; `order`: what is counted row by row, or from the last row."""
    n = h.make_node
    begin = np.arange(3) * 5
    save(path, [n("ArgMax", ["scores"], ["place"], axis=1, keepdims=0), n("Add", ["place", "begin"], ["flat"]), n("Reshape", ["x", "all"], ["rows"]), n("Gather", ["rows", "flat"], ["y"])],
         [value("x", [3, 5, 8]), value("scores", [3, 5])], [value("y", [3, 8])], {"begin": begin if order == "rows" else begin[::-1].copy(), "all": np.array([15, 8])})


def gather_single(path):
    """Rows of a table by tuples of one index."""
    save(path, [h.make_node("GatherND", ["x", "tuples"], ["y"])], [value("x", [3, 5]), value("tuples", [2, 4, 1], I)], [value("y", [2, 4, 5])], {})


def gather_places(path, form):
    """Rows of a table at places that the file holds for each sequence of a batch; `back`: counted from the end; `shifted`: others in each."""
    places = np.tile(np.arange(2, 7), (3, 1)) + (np.arange(3)[:, None] if form == "shifted" else -9 if form == "back" else 0)
    save(path, [h.make_node("Gather", ["x", "places"], ["y"], axis=1)], [value("x", [2, 9, 4])], [value("y", [2, 3, 5, 4])], {"places": places})


def tied(path):
    """A head tied to the embedding, transposed; and two biases that are equal because they are zero."""
    w = np.arange(12, dtype=np.float32).reshape(4, 3)
    n = h.make_node
    save(path, [n("Gather", ["table", "ids"], ["e"]), n("Add", ["e", "b1"], ["e1"]), n("Add", ["e1", "b2"], ["e2"]), n("MatMul", ["e2", "head"], ["y"])],
         [value("ids", [5], I)], [value("y", [5, 4])], {"table": w, "head": np.ascontiguousarray(w.T), "b1": np.zeros(3, np.float32), "b2": np.zeros(3, np.float32)})


def from_the_end(path):
    """A shape that lists the input's sizes from the last to the first, by indices that count from the end."""
    n = h.make_node
    save(path, [n("Shape", ["x"], ["s"]), n("Gather", ["s", "places"], ["g"]), n("Reshape", ["x", "g"], ["y"])],
         [value("x", [2, 3])], [value("y", [3, 2])], {"places": np.array([-1, -2])})


def indices(path, last):
    """Rows of a table of four: at given places, at those that the input says, at its running sum, and at its greatest element's."""
    n = h.make_node
    save(path, [n("Gather", ["table", "places"], ["a"], name="given"), n("Gather", ["table", "ids"], ["b"], name="direct"),
                n("Unsqueeze", ["ids", "axes"], ["row"]), n("Gather", ["table", "row"], ["c"], name="reshaped"),
                n("CumSum", ["ids", "zero"], ["sum"]), n("Gather", ["table", "sum"], ["d"], name="summed"),
                n("ArgMax", ["ids"], ["most"]), n("Gather", ["table", "most"], ["e"], name="greatest"),
                n("Clip", ["sum", "zero", "three"], ["near"]), n("Gather", ["table", "near"], ["f"], name="clipped"),
                n("Sum", ["a", "b", "c", "d", "e", "f"], ["y"])],
         [value("ids", [3], I)], [value("y", [1, 3, 2])],
         {"table": np.arange(8, dtype=np.float32).reshape(4, 2), "places": np.array([0, -4, last]), "zero": np.array(0), "axes": np.array([0]), "three": np.array(3)})


def elsewhere(name, shape, location, kind=F, offset=0):
    tensor = TensorProto(name=name, dims=shape, data_type=kind, data_location=TensorProto.EXTERNAL)
    for key, entry in (("location", location), ("offset", offset), ("length", int(np.prod(shape)) * (8 if kind == I else 4))):
        tensor.external_data.add(key=key, value=str(entry))
    return tensor


def missing(path, nodes, initializers):
    graph = h.make_graph(nodes, "g", [value("x", [2, 8])], [value("y", [2, 8])], initializers)
    with open(path, "wb") as file:
        file.write(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString())


def missing_escape(path):
    missing(path, [h.make_node("MatMul", ["x", "w"], ["y"])], [elsewhere("w", [8, 8], "folder/../../weights")])


def missing_tied(path):
    missing(path, [h.make_node("MatMul", ["x", "first"], ["a"]), h.make_node("MatMul", ["a", "second"], ["y"])],
            [elsewhere("first", [8, 8], "weights"), elsewhere("second", [8, 8], "weights")])


def missing_shape(path):
    missing(path, [h.make_node("Reshape", ["x", "shape"], ["y"])], [elsewhere("shape", [2], "weights", I)])


def unnamed(path):
    """Open dimensions of several exporters: no name, '?', -1, Python's None."""
    save(path, [h.make_node("Relu", ["x"], ["y"]), h.make_node("Neg", ["z"], ["w"])], [value("x", ["?", 3, None, -1]), value("z", ["None", "?"])],
         [value("y", None), value("w", None)])


def split_sequence(path, split="sizes", keepdims=1):
    """What PyTorch's exporter writes for a split whose parts are taken one by one."""
    n, c = h.make_node, {"sizes": np.array([2, 3, 1]), "scalar": np.array(4), "first": np.array(0), "last": np.array(-1)}
    inputs = ["x"] + ([] if split == "none" else [split])
    more = {} if split != "none" else {"keepdims": keepdims}
    save(path, [n("SplitToSequence", inputs, ["s"], axis=1, **more), n("SequenceAt", ["s", "first"], ["a"]), n("SequenceAt", ["s", "last"], ["b"]),
                n("SequenceLength", ["s"], ["count"]), n("Relu", ["a"], ["y"]), n("Neg", ["b"], ["z"])],
         [value("x", [4, 6])], [value("y", None), value("z", None), value("count", [], I)], c)


def sequences(path, new_axis=0):
    """Constructed, passed on, changed, joined again."""
    n, c = h.make_node, {"zero": np.array(0), "one": np.array(1)}
    save(path, [n("SequenceConstruct", ["a", "b"], ["s"]), n("SequenceInsert", ["s", "c", "zero"], ["t"]), n("SequenceInsert", ["t", "a"], ["u"]),
                n("SequenceErase", ["u", "one"], ["v"]), n("Identity", ["v"], ["w"]), n("ConcatFromSequence", ["w"], ["y"], axis=1, new_axis=new_axis)],
         [value(t, [2, 3]) for t in "abc"], [value("y", None)], c)


def sequence_loop(path):
    """A list that a loop makes longer, as TorchScript writes it."""
    n = h.make_node
    body = h.make_graph([n("Identity", ["go"], ["on"]), n("Cast", ["i"], ["f"], to=F), n("Mul", ["x", "f"], ["m"]), n("SequenceInsert", ["list", "m"], ["longer"])],
                        "body", [value("i", [], I), value("go", [], TensorProto.BOOL), value("list", None)], [value("on", [], TensorProto.BOOL), value("longer", None)])
    save(path, [n("SequenceEmpty", [], ["empty"]), n("Loop", ["three", "", "empty"], ["all"], body=body), n("ConcatFromSequence", ["all"], ["y"], axis=0)],
         [value("x", [2])], [value("y", [6])], {"three": np.array(3)})


def sequence_misuse(path, what):
    n, c = h.make_node, {"far": np.array(2)}
    make = n("SequenceConstruct", ["a", "a"], ["s"])
    last = {"relu": n("Relu", ["s"], ["y"]), "far": n("SequenceAt", ["s", "far"], ["y"]), "output": n("Identity", ["s"], ["y"]),
            "tensor": n("SequenceLength", ["a"], ["y"])}[what]
    save(path, [make, last], [value("a", [2])], [value("y", None)], c)


def streams(path, seed="no"):
    """Random values without a seed: twice in the graph, in two calls of a function, in the trips of a loop."""
    n, sets = h.make_node, [h.make_opsetid("", 17)]
    given = {"seed": 5} if seed == "yes" else {}
    drop = lambda source, target: n("Dropout", [source, "half", "yes"], [target, target + "_mask"], **given)
    noisy = h.make_function("local", "Noisy", ["a"], ["z"], [n("RandomUniformLike", ["a"], ["r"]), n("Add", ["a", "r"], ["z"])], sets)
    body = h.make_graph([n("Identity", ["go"], ["on"]), n("RandomNormalLike", ["c"], ["r"]), n("Add", ["c", "r"], ["d"])], "body",
                        [value("i", [], I), value("go", [], TensorProto.BOOL), value("c", [8])], [value("on", [], TensorProto.BOOL), value("d", [8])])
    save(path, [drop("x", "a"), drop("a", "b"), n("Noisy", ["b"], ["c"], domain="local"), n("Noisy", ["c"], ["d"], domain="local"),
                n("Loop", ["two", "", "d"], ["y"], body=body)], [value("x", [8])], [value("y", [8])],
         {"half": f(0.5), "yes": np.array(True), "two": np.array(2)}, functions=[noisy], domains=["local"])


def noisy_layers(path, layers=4):
    """Layers of equal shape, each with its own weights and dropout."""
    n, c, x = h.make_node, {"half": f(0.5), "yes": np.array(True)}, "x"
    nodes = []
    for i in range(layers):
        c |= {f"u{i}": np.full((16, 32), 0.1 + i, np.float32), f"d{i}": np.full((32, 16), 0.2 + i, np.float32)}
        nodes += [n("MatMul", [x, f"u{i}"], [f"a{i}"]), n("Relu", [f"a{i}"], [f"r{i}"]), n("Dropout", [f"r{i}", "half", "yes"], [f"p{i}"]),
                  n("MatMul", [f"p{i}", f"d{i}"], [f"x{i}"])]
        x = f"x{i}"
    save(path, nodes, [value("x", [8, 16])], [value(x, [8, 16])], c)


def data_dependent(path, what):
    """Sizes that depend on data: places of scores, experts by routing, an input that only shapes, one that is counted."""
    n, c = h.make_node, {"w": np.ones((8, 4), np.float32), "k": np.array([1]), "two": np.array(2), "zero": f(0), "one": np.array(1), "none": np.array(0)}
    x, ids = value("x", [6, 8]), value("ids", [6], I)
    route = [n("MatMul", ["x", "w"], ["scores"]), n("Softmax", ["scores"], ["p"]), n("TopK", ["p", "k"], ["best", "expert"]), n("Equal", ["expert", "two"], ["mine"])]
    nodes, inputs = {
        "scores": ([n("Greater", ["x", "zero"], ["some"]), n("NonZero", ["some"], ["y"])], [x]),
        "routing": (route + [n("NonZero", ["mine"], ["y"])], [x]),
        "split": (route + [n("Cast", ["mine"], ["i"], to=I), n("ReduceSum", ["i"], ["size"], keepdims=0), n("Unsqueeze", ["size", "none"], ["sizes"]),
                           n("Expand", ["zero", "sizes"], ["y"])], [x]),
        "counted": ([n("Equal", ["ids", "two"], ["some"]), n("NonZero", ["some"], ["y"])], [ids]),
        "longest": ([n("ReduceMax", ["ids"], ["most"], keepdims=0), n("Range", ["none", "most", "one"], ["y"])], [ids]),
        "loop": (route + [n("Cast", ["mine"], ["i"], to=I), n("ReduceMax", ["i"], ["most"], keepdims=0), n("Loop", ["most", "", "x"], ["y"], body=h.make_graph(
            [n("Identity", ["go"], ["on"]), n("Relu", ["a"], ["b"])], "body", [value("i", [], I), value("go", [], TensorProto.BOOL), value("a", [6, 8])],
            [value("on", [], TensorProto.BOOL), value("b", [6, 8])]))], [x]),
    }[what]
    save(path, nodes, inputs, [value("y", None)], c)


def large(path, form):
    """Ones that are too many to store, as a mask that is never made, as an output, and as what is summed."""
    n, c = h.make_node, {"shape": np.array([2**21, 2**21]), "k": np.array([0])}
    ones = n("ConstantOfShape", ["shape"], ["ones"], value=h.make_tensor("one", F, [1], [1.0]))
    tail = {"output": [n("Trilu", ["ones"], ["y"], upper=0)],
            "sum": [n("Trilu", ["ones"], ["t"], upper=0), n("MatMul", ["t", "x"], ["y"])],
            "product": [n("Transpose", ["x"], ["xt"], perm=[1, 0]), n("MatMul", ["x", "xt"], ["p"]), n("Relu", ["p"], ["r"]), n("MatMul", ["r", "x"], ["y"])]}[form]
    save(path, [ones] + tail, [value("x", [2**21, 1])], [value("y", None)], c)


name, out, *rest = sys.argv[1:]
arguments = [int(r) if r.isdigit() else r for r in rest if "=" not in r]
options = {k: (v == "True" if v in ("True", "False") else int(v) if v.isdigit() else v) for k, v in (r.split("=") for r in rest if "=" in r)}
globals()[name](out, *arguments, **options)
