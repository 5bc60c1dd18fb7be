#!/usr/bin/env python3
"""What the layouts of the papers move: counted while plans run, against the closed formulas.

    recipes.py --build build                        chains of contractions, whole transformers, and training steps of both; a transformer
                                                    with one projection for queries, keys and values of different sizes is made for it
    recipes.py --build build --models llama         transformers of test/Models, or folders that hold a model.onnx and a CASE/inputs.npz

A chain of contractions with elementwise functions and normalizations between, at sizes that the meshes divide and at some
that they do not need to. Bytes are those of all ranks together, S the whole tensor's: 1d 2(p-1)S_Y of every second
contraction; sequence (p-1)S_X of every first and (p-1)S_Y of every second; 2d (c-1)S_X + (r-1)S_W; 2.5d (c-1)S_X + d(r-1)S_W;
3d (c-1)S_X + (a-1)S_W + (b-1)S_Y. Statistics of normalizations are counted apart, and outputs must agree with NumPy.

Of a transformer the contractions are found in its ONNX file (products with what comes of parameters alone), and the sizes of what they
read and make by running it with ONNX Runtime, with which outputs must agree. A convolution of patches is a contraction whose K is its channels
and taps. Each kind of collective along each axis must move what the formulas say: contractions that read one value gather it once. Beside
contractions only this moves:

What an axis does not divide counts as if padded: columns, the places of a sequence, the channels of an image.

- ulysses: (p-1)/p of queries, keys, values and of the attention's result, from places to heads and back.
- The rows that a table gives which is the head, too, are partial sums where the head's vocabulary is split.
- Keys and values of fewer heads than the axis has ranks are gathered; 1d and sequence make each head's on all ranks that read it.
- One place of a split sequence (the first token's) is gathered from all, or the sequence becomes whole, and samples split.
- Where the sequence is split, tokens before an image's patches move these on: to whole samples, and back to places with the tokens.
- In 3d, rows of a table that is a head and a second contraction go from features over z to the stream's places, and are summed over y.

A training step moves, beside that, what its gradients take. Contractions dX = dY W^T and dW = X^T dY gather what they read as the forward
pass does, and reduce where it gathers: of all that reads one X the gradients are summed first. (p-1) stands for both passes' gathers and sums:

    1d        2 (p-1) S_Y of every second one, forward, and 2 (p-1) S_X of every first one, backward
    sequence  3 (p-1) S_X of every first one (two gathers, one sum), 2 (p-1) S_Y of every second one (a sum, a gather)
    ulysses   2 (p-1) S_W
    2d        3 (c-1) S_X + 3 (r-1) S_W
    2.5d      3 (c-1) S_X + 3 d (r-1) S_W + 2 (d-1) S_W
    3d        3 (c-1) S_X + 3 (a-1) S_W + 2 (b-1) S_Y

The input of a chain has no gradient. Vectors and tables of a transformer add a little, which is bounded.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

os.environ["COLOSSAL_MACHINE"] = "cpu"

MODELS = pathlib.Path(__file__).resolve().parent.parent / "Models"
MESHES = {"1d": [(4,), (2, 2), (8,)], "sequence": [(4,), (8,)], "2d": [(2, 2), (2, 4), (4, 2)], "2.5d": [(2, 2, 2), (1, 2, 2)],
          "3d": [(2, 2, 2), (1, 2, 2), (2, 2, 1)]}
AXES = "xyz"


def make_chain(path, rows, widths, normalized, random):
    """x -> (norm) contraction relu -> ... ; returns the function that NumPy computes."""
    nodes, weights, steps, value = [], [], [], "x"
    for i, (k, n) in enumerate(zip(widths, widths[1:])):
        if normalized and i % 2 == 0:
            scale = random.uniform(0.5, 1.5, k).astype(np.float32)
            weights.append(numpy_helper.from_array(scale, f"scale{i}"))
            weights.append(numpy_helper.from_array(np.zeros(k, np.float32), f"shift{i}"))
            nodes.append(helper.make_node("LayerNormalization", [value, f"scale{i}", f"shift{i}"], [f"norm{i}"], epsilon=1e-5))
            value = f"norm{i}"
            steps.append(("norm", scale))
        weight = (random.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"y{i}"], name=f"contraction{i}"))
        nodes.append(helper.make_node("Relu", [f"y{i}"], [f"z{i}"]))
        value = f"z{i}"
        steps.append(("contract", weight))
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [*rows, widths[0]])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, [*rows, widths[-1]])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)

    def compute(x):
        for kind, weight in steps:
            if kind == "norm":
                x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight
            else:
                x = np.maximum(x @ weight, 0)
        return x

    return compute, value


# A product of `rows` x `k` activations, the value `source`, with `k` x `n` weights. `inner`: it reads what another one made of the stream;
# `entry`: it makes the stream of something else, such as narrower embeddings, and is none of a pair.
# `places`: those of a sample, of the rows. `grain`: elements of K that are split together (the taps of a convolution's channel).
Contraction = collections.namedtuple("Contraction", "source rows k n inner entry places grain", defaults=[False, 1, 1])


def padded(size, ranks):
    return -(-size // ranks) * ranks


def padded_k(one, ranks):
    return padded(one.k // one.grain, ranks) * one.grain


def padded_rows(one, ranks, samples_over=None):
    """Rows that lie over so many ranks: places, or samples, where `samples_over` ranks have split these and they are divided once more."""
    if one.places == 1 or (samples_over and one.rows // one.places % (samples_over * ranks) == 0):
        return one.rows
    return one.rows // one.places * padded(one.places, ranks)


def expected_bytes(layout, mesh, contractions):
    """Bytes of all contractions, of all ranks, by kind and axes."""
    sent, gathered, ranks = collections.Counter(), set(), math.prod(mesh)
    together = ",".join(axis for axis, size in zip(AXES, mesh) if size > 1)

    def gather_once(one, axis, parts, rows, k):
        if one.source not in gathered:
            sent["all_gather", axis] += 4 * (parts - 1) * rows * k
        gathered.add(one.source)

    for one in contractions:
        if layout == "1d" and one.inner:
            sent["all_reduce", together] += 4 * 2 * (ranks - 1) * one.rows * one.n
        elif layout == "sequence" and not one.entry:
            if one.inner:
                sent["reduce_scatter", together] += 4 * (ranks - 1) * padded_rows(one, ranks) * one.n
            else:
                gather_once(one, together, ranks, padded_rows(one, ranks), one.k)
        elif layout in ("2d", "2.5d"):
            depth, rows, columns = mesh if layout == "2.5d" else (1, *mesh)
            # Fewer channels than ranks are stored whole.
            if one.k // one.grain >= columns:
                gather_once(one, AXES[len(mesh) - 1], columns, one.rows, padded_k(one, columns))
            sent["all_gather", AXES[len(mesh) - 2]] += 4 * depth * (rows - 1) * one.k * padded(one.n, columns)
        elif layout == "3d":
            turned = one.inner or one.entry
            a, (b, c), (k, n) = mesh[0], mesh[:0:-1] if turned else mesh[1:], "zy" if turned else "yz"
            gather_once(one, n, c, padded_rows(one, c, a), padded_k(one, b))
            sent["all_gather", "x"] += 4 * (a - 1) * padded_k(one, b) * padded(one.n, c)
            sent["reduce_scatter", k] += 4 * (b - 1) * padded_rows(one, b, a) * padded(one.n, c)
    return sent


# What else moves in a transformer: the bytes of queries, keys and values of a layer, its heads and those of keys; of a tied table's rows; of
# the values of which one place is taken; of an image's patches that tokens before them move on, and of what these are then. `is_inner`: whether
# the table's other use is a second contraction.
Beside = collections.namedtuple("Beside", "layers queries keys heads key_heads table places shifted is_inner", defaults=[None, False])


def expected_beside(layout, mesh, beside, stream, gathers_places=True):
    """`stream`: a contraction that makes as many rows as the stream has."""
    sent, ranks = collections.Counter(), math.prod(mesh)
    axes = [(axis, size) for axis, size in zip(AXES, mesh) if size > 1]
    together = ",".join(axis for axis, size in axes)
    # Over which axes heads lie.
    split = axes if layout in ("1d", "sequence", "ulysses") else [(AXES[len(mesh) - 1], mesh[-1])]
    names, parts = ",".join(axis for axis, size in split if size > 1), math.prod(size for axis, size in split)
    whole, rest = beside.key_heads, []
    for axis, size in split:
        if not rest and whole % size == 0:
            whole //= size
        else:
            rest.append((axis, size))
    shared = ",".join(axis for axis, size in rest), math.prod(size for axis, size in rest)
    # What an axis does not divide is padded: the stream's places.
    of_places = lambda count: count * padded_rows(stream, ranks) // stream.rows
    if layout == "ulysses":
        sent["all_to_all", together] += beside.layers * 2 * of_places(beside.queries) * (ranks - 1) // ranks
        if shared[1] > 1:
            sent["all_gather", together] += beside.layers * 2 * of_places(beside.keys) * (ranks - 1)
        else:
            sent["all_to_all", together] += beside.layers * 2 * of_places(beside.keys) * (ranks - 1) // ranks
    elif shared[1] > 1 and layout in ("2d", "2.5d", "3d"):
        sent["all_gather", shared[0]] += beside.layers * 2 * beside.keys * (shared[1] - 1)
    # To whole samples on each rank, or, where nothing is gathered, to other samples.
    if layout == "sequence" and gathers_places:
        sent["all_gather", together] += (ranks - 1) * of_places(beside.places)
    elif layout in ("sequence", "ulysses"):
        sent["all_to_all", together] += of_places(beside.places) * (ranks - 1) // ranks
    if layout in ("sequence", "ulysses") and beside.shifted:
        for bytes_of_place, places in beside.shifted:
            sent["all_to_all", together] += bytes_of_place * padded(places, ranks) * (ranks - 1) // ranks
    if beside.is_inner and layout in ("1d", "sequence"):
        kind, share = ("all_gather", 1) if layout == "1d" else ("all_to_all", ranks)
        sent[kind, together] += (ranks - 1) * beside.table // share
    elif beside.is_inner and layout == "3d":
        y, z = mesh[1:]
        sent["all_to_all", "z"] += y * beside.table * (z - 1) // z
        sent["reduce_scatter", "y"] += (y - 1) * beside.table
    elif layout == "1d":
        sent["all_reduce", together] += 2 * (ranks - 1) * beside.table
    elif layout != "ulysses":
        rows = padded_rows(stream, parts, mesh[0]) if layout == "3d" else stream.rows
        sent["reduce_scatter", names] += (parts - 1) * beside.table * rows // stream.rows
    return sent


class Transformer:
    """A model whose sizes its files tell."""

    def __init__(self, path, feeds):
        model = onnx.load(path)
        # What comes of parameters alone, and of which one; what is another view of which value.
        constants, sources = {tensor.name for tensor in model.graph.initializer}, {}
        for node in model.graph.node:
            inputs = [name for name in node.input if name]
            if all(name in constants for name in inputs):
                constants.update(node.output)
                sources.update({output: sources.get(inputs[0], inputs[0]) for output in node.output if inputs})
            elif node.op_type in ("Reshape", "Identity", "Squeeze", "Unsqueeze"):
                sources[node.output[0]] = sources.get(inputs[0], inputs[0])
        # Sizes say nothing of values.
        nodes = [node for node in model.graph.node if node.output[0] not in constants and node.op_type != "Shape"]
        self.weighed = {node.output[0] for node in nodes if node.op_type in ("MatMul", "Gemm", "Conv", "Einsum") and sum(name in constants for name in node.input[:2]) == 1}
        inner, products = set(), []
        for place, node in enumerate(nodes):
            if node.output[0] in self.weighed:
                value, weight = node.input[:2] if node.input[1] in constants else node.input[1::-1]
                entry = value not in inner and self.gives_stream(nodes[place:])
                products.append((value, weight, node, value in inner, entry))
                if value not in inner and not entry:
                    inner.update(node.output)
            elif any(name in inner for name in node.input):
                inner.update(node.output)
        names = {name for product in products for name in (product[0], product[2].output[0])}
        names |= {node.output[0] for node in model.graph.node if node.op_type == "Gather" and node.input[0] in constants and node.output[0] not in constants}
        outputs = [output.name for output in model.graph.output]
        del model.graph.output[:]
        model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in [*outputs, *sorted(names - set(outputs))])
        session = onnxruntime.InferenceSession(model.SerializeToString())
        values = dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds)))
        self.outputs = {name: values[name] for name in outputs}
        self.contractions = [self.make_contraction(sources.get(value, value), values[value], list(node.input).index(value), node, values[node.output[0]], inner, entry)
                             for value, _, node, inner, entry in products]
        # Tables whose rows are looked up, and which are a product's weights; some exporters store these once more, transposed.
        given = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        weights = [(given[name], inner) for name, inner in ((sources.get(weight, weight), inner) for _, weight, _, inner, _ in products) if name in given]
        matches = lambda table, weight: np.array_equal(table, weight) or np.array_equal(table, weight.T)
        looked_up = [(given[name], values[node.output[0]].nbytes) for node in model.graph.node
                     if node.op_type == "Gather" and node.input[0] in constants and node.output[0] in values
                     for name in [sources.get(node.input[0], node.input[0])]]
        tied = [(table, rows, inner) for table, rows in looked_up for inner in {inner for weight, inner in weights if matches(table, weight)}]
        self.table, self.is_table_inner = sum(rows for _, rows, _ in tied), any(inner for *_, inner in tied)
        # What a step trains beside the weights of contractions: no more than this.
        self.other_bytes = sum(table.nbytes for table, _ in looked_up) + sum(array.nbytes for array in given.values() if array.ndim == 1)

    @staticmethod
    def make_contraction(source, value, operand, node, result, inner, entry):
        if node.op_type == "Einsum":
            terms, made = helper.get_node_attr_value(node, "equation").decode().replace(" ", "").split("->")
            rows = [size for label, size in zip(terms.split(",")[operand], value.shape) if label in made]
            return Contraction(source, math.prod(rows), value.size // math.prod(rows), result.size // math.prod(rows), inner, entry, rows[-1] if len(rows) > 1 else 1)
        if node.op_type != "Conv":
            return Contraction(source, math.prod(value.shape[:-1]), value.shape[-1], result.shape[-1], inner, entry, value.shape[-2] if value.ndim > 2 else 1)
        places = math.prod(result.shape[2:])
        taps = value.size // value.shape[1] // (value.shape[0] * places)  # of windows that do not overlap
        return Contraction(source, value.shape[0] * places, value.shape[1] * taps, result.shape[1], inner, entry, places, taps)

    def gives_stream(self, nodes):
        """Whether what the first node makes is added to what other products made of it."""
        direct, made = set(nodes[0].output), set()
        for node in nodes[1:]:
            is_direct, is_made = any(name in direct for name in node.input), any(name in made for name in node.input)
            if node.op_type == "Add" and is_direct and is_made:
                return True
            if is_made or (is_direct and node.output[0] in self.weighed):
                made.update(node.output)
            elif is_direct:
                direct.update(node.output)
        return False


def counted(plan, inputs, outputs, bin):
    """Bytes sent by kind and axes in a run, or what went wrong."""
    ran = subprocess.run([bin / "colossal-run", plan, "--threads", "1", "--input", inputs, "--output", outputs, "--json"], capture_output=True, text=True)
    if ran.returncode:
        return ran.stderr
    sent = collections.Counter()
    for row in json.loads(ran.stdout)["traffic"]:
        sent[row["kind"], row["axes"]] += row["sent_bytes"]
    return sent


# Where a transformer's heads and widths are divided: model, attention heads and those of keys, meshes by layout.
TRANSFORMERS = [
    ("gpt2", 4, 4, {"1d": [(4,), (2, 2)], "sequence": [(4,)], "ulysses": [(2,), (4,)], "2d": [(2, 2), (2, 4)], "2.5d": [(2, 2, 2)], "3d": [(2, 2, 2), (2, 1, 2)]}),
    ("gpt2-script", 4, 4, {"1d": [(4,)], "ulysses": [(4,)], "2d": [(4, 2)], "3d": [(1, 2, 4)]}),
    ("bert", 4, 4, {"1d": [(4,)], "sequence": [(4,)], "ulysses": [(4,)], "2d": [(4, 2)], "2.5d": [(1, 2, 4)], "3d": [(2, 2, 2)]}),
    ("llama", 8, 2, {"1d": [(4,), (2, 2), (2, 4)], "sequence": [(2, 4)], "ulysses": [(2,), (4,)], "2d": [(2, 2), (2, 4)], "2.5d": [(2, 2, 2)], "3d": [(2, 2, 2), (2, 2, 1)]}),
    ("electra", 4, 4, {"1d": [(4,)], "sequence": [(4,)]}),
    # Biases of positions are made of a table.
    ("t5-encoder", 4, 4, {"1d": [(4,)], "sequence": [(4,)], "ulysses": [(4,)]}),
    ("qwen2", 6, 3, {"1d": [(3,)], "2d": [(2, 3)], "3d": [(2, 1, 3)]}),
    # Its patches are a convolution, and 17 places.
    ("vit", 4, 4, {"1d": [(4,)], "sequence": [(4,)], "ulysses": [(2,), (4,)], "2d": [(2, 2), (2, 4)], "2.5d": [(2, 2, 2)], "3d": [(2, 2, 2)]}),
]


def make_fused(folder, heads, key_heads, random, batch=4, places=16, size=8, layers=2, words=53):
    """A transformer whose queries, keys and values come of one projection with a bias, in parts of different sizes where keys have fewer heads,
    and whose table is the second contraction of its head; in `folder`, as test/Models has them."""
    width, weights, nodes = heads * size, [], []

    def weight(name, *shape):
        weights.append(numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(shape[0] if len(shape) > 1 else 4)).astype(np.float32), name))
        return name

    def numbers(name, *values):
        weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add(kind, name, *inputs, outputs=None, **attributes):
        nodes.append(helper.make_node(kind, list(inputs), outputs or [name], name=name, **attributes))
        return name

    def normalize(name, value):
        return add("LayerNormalization", name, value, weight(f"{name}.scale", width), weight(f"{name}.bias", width), epsilon=1e-5)

    stream = add("Gather", "embedding", weight("table", words, width), "ids")
    sizes = numbers("sizes", width, key_heads * size, key_heads * size)
    split = {of: numbers(f"{of}.shape", batch, places, of, size) for of in {heads, key_heads}}
    one, spread = numbers("one", 2), numbers("spread", batch, key_heads, heads // key_heads, places, size)
    joined, rows = numbers("joined", batch, heads, places, size), numbers("rows", batch, places, width)
    weights.append(numpy_helper.from_array(np.float32(size ** -0.5), "scale"))
    for i in range(layers):
        name = f"layer{i}"
        value = add("MatMul", f"{name}.qkv", normalize(f"{name}.norm1", stream), weight(f"{name}.qkv.weight", width, (heads + 2 * key_heads) * size))
        value = add("Add", f"{name}.qkv.sum", value, weight(f"{name}.qkv.bias", (heads + 2 * key_heads) * size))
        add("Split", f"{name}.parts", value, sizes, outputs=[f"{name}.{part}" for part in "qkv"], axis=-1)
        turned = {}
        for part, of in (("q", heads), ("k", key_heads), ("v", key_heads)):
            value = add("Transpose", f"{name}.{part}.heads", add("Reshape", f"{name}.{part}.split", f"{name}.{part}", split[of]), perm=[0, 2, 1, 3])
            if of < heads:
                value = add("Expand", f"{name}.{part}.spread", add("Unsqueeze", f"{name}.{part}.group", value, one), spread)
                value = add("Reshape", f"{name}.{part}.joined", value, joined)
            turned[part] = value
        scores = add("MatMul", f"{name}.scores", turned["q"], add("Transpose", f"{name}.k.turned", turned["k"], perm=[0, 1, 3, 2]))
        scores = add("Softmax", f"{name}.softmax", add("Mul", f"{name}.scaled", scores, "scale"), axis=-1)
        value = add("Transpose", f"{name}.places", add("MatMul", f"{name}.attention", scores, turned["v"]), perm=[0, 2, 1, 3])
        value = add("Reshape", f"{name}.rows", value, rows)
        value = add("Einsum", f"{name}.out", value, weight(f"{name}.out.weight", width, width), equation="bnw,wv->bnv")
        stream = add("Add", f"{name}.stream1", stream, value)
        value = add("MatMul", f"{name}.up", normalize(f"{name}.norm2", stream), weight(f"{name}.up.weight", width, 2 * width))
        value = add("MatMul", f"{name}.down", add("Relu", f"{name}.relu", value), weight(f"{name}.down.weight", 2 * width, width))
        stream = add("Add", f"{name}.stream2", stream, value)
    value = add("MatMul", "head", normalize("norm1", stream), weight("head.weight", width, width))
    value = normalize("norm2", add("Relu", "head.relu", value))
    output = add("MatMul", "logits", value, add("Transpose", "head.table", "table", perm=[1, 0]))
    graph = helper.make_graph(nodes, "fused", [helper.make_tensor_value_info("ids", TensorProto.INT64, [batch, places])],
                              [helper.make_tensor_value_info(output, TensorProto.FLOAT, [batch, places, words])], weights)
    (folder / f"batch{batch}-seq{places}").mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx")
    np.savez(folder / f"batch{batch}-seq{places}" / "inputs.npz", ids=random.integers(0, words, (batch, places)))
    return folder


# Heads, those of keys, and meshes: also of more ranks than heads of keys, and axes that split what a head has.
FUSED = [(8, 4, {"1d": [(4,), (2, 2)], "sequence": [(4,)], "ulysses": [(4,)], "2d": [(2, 2), (2, 4)], "2.5d": [(2, 2, 2)], "3d": [(2, 2, 2), (2, 1, 2)]}),
         (6, 2, {"1d": [(2,), (2, 3)], "sequence": [(2,)], "2d": [(2, 2)], "3d": [(1, 2, 2)]})]
FUSED_STEPS = [("1d", (2, 2)), ("sequence", (2, 2)), ("ulysses", (2, 2)), ("2d", (2, 2)), ("2.5d", (2, 2, 2)), ("3d", (2, 2, 2))]


def run_fused(bin, folder, report):
    random = np.random.default_rng(2)
    for heads, key_heads, meshes in FUSED:
        path = make_fused(pathlib.Path(folder) / f"fused{heads}-{key_heads}", heads, key_heads, random)
        run_transformer(bin, folder, path, heads, key_heads, meshes, report)
        model = Transformer(path / "model.onnx", dict(np.load(path / "batch4-seq16" / "inputs.npz")))
        fused = sum(4 * one.k * one.n for one in model.contractions if one.n == (heads + 2 * key_heads) * one.k // heads)
        check_steps(bin, folder, path.name, path / "model.onnx", ["--training", "adamw", "--global-batch", "4", "--loss", "mse,output=logits"],
                    FUSED_STEPS if key_heads % 4 == 0 else FUSED_STEPS[3:4], model.contractions, (), model.other_bytes + 3 * model.table, report, fused)


def compile_plan(bin, model, layout, mesh, plan, options=()):
    recipe = ["--layout", layout] if layout else []
    done = subprocess.run([bin / "colossal-compile", model, *options, *recipe, "--mesh", "x".join(map(str, mesh)), "-q", "-o", plan],
                          capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if "names of their own" not in line]
    return "\n".join(lines) or ("" if done.returncode == 0 else f"exit {done.returncode}")


def show(sent):
    return " ".join(f"{kind}:{axes} {count}" for (kind, axes), count in sorted(sent.items()) if count)


def without_axes(sent):
    """By kind: who takes all axes as one may go over one after the other, which moves as much."""
    kinds = collections.Counter()
    for (kind, _), count in sent.items():
        kinds[kind, "all"] += count
    return kinds


class Report:
    def __init__(self):
        self.done = self.failed = 0

    def add(self, name, sent, want, error):
        self.done += 1
        statistics = sum(count for (kind, _), count in sent.items() if kind == "statistics")
        moved = collections.Counter({key: count for key, count in sent.items() if key[0] != "statistics" and count})
        good = moved == collections.Counter({key: count for key, count in want.items() if count}) and error < 1e-4
        self.failed += not good
        print(f"{name}: {sum(moved.values())} bytes, formula {sum(want.values())}; statistics {statistics}; error {error:.1e}"
              + ("" if good else f"  WRONG: {show(moved)}; expected {show(want)}"), flush=True)

    def count(self, text, good):
        self.done += 1
        self.failed += not good
        print(text + ("" if good else "  WRONG"), flush=True)

    def fail(self, name, why):
        self.done += 1
        self.failed += 1
        print(f"{name}: {why}", flush=True)


def run_chains(bin, folder, report):
    random = np.random.default_rng(1)
    chains = [((4, 8), (16, 64, 16, 32, 16), False), ((4, 8), (32, 64, 32), True), ((24,), (24, 48, 24), False)]
    for number, (rows, widths, normalized) in enumerate(chains):
        model, plan, inputs, outputs = (f"{folder}/{name}" for name in (f"chain{number}.onnx", "p.cplan", "in.npz", "out.npz"))
        compute, output = make_chain(model, rows, widths, normalized, random)
        x = random.standard_normal((*rows, widths[0])).astype(np.float32)
        np.savez(inputs, x=x)
        contractions = [Contraction(i, math.prod(rows), k, n, i % 2 == 1) for i, (k, n) in enumerate(zip(widths, widths[1:]))]
        for layout, mesh in ((layout, mesh) for layout, choices in MESHES.items() for mesh in choices):
            name = f"{widths} {layout} on {'x'.join(map(str, mesh))}"
            problem = compile_plan(bin, model, layout, mesh, plan)
            sent = problem or counted(plan, inputs, outputs, bin)
            if isinstance(sent, str):
                report.fail(name, sent)
                continue
            report.add(name, sent, expected_bytes(layout, mesh, contractions), np.abs(np.load(outputs)[output] - compute(x)).max())


def run_transformer(bin, folder, path, heads, key_heads, meshes, report):
    # Of whole samples, as many as every mesh divides.
    cases = sorted(path.glob("*/inputs.npz"), key=lambda case: (case.parent.name != "batch4-seq16", -int(case.parent.name.split("-")[0][5:])))
    feeds = dict(np.load(cases[0]))
    declared = onnx.load(path / "model.onnx", load_external_data=False).graph.input
    bound = {dim.dim_param: size for value in declared for size, dim in zip(feeds[value.name].shape, value.type.tensor_type.shape.dim) if dim.dim_param}
    options = [word for name, size in sorted(bound.items()) for word in ("--dim", f"{name}={size}")]
    model = Transformer(path / "model.onnx", feeds)
    first = next(one for one in model.contractions if one.inner)
    most = max(one.rows for one in model.contractions)
    queries = 4 * first.rows * first.k
    taken = 4 * most * first.n if any(one.rows < most for one in model.contractions) else 0
    entry = next((one for one in model.contractions if one.grain > 1), None)
    shifted = [(4 * one.rows // one.places * entry.n, one.places) for one in (entry, first)] if entry and entry.places != first.places else None
    beside = Beside(sum(one.inner for one in model.contractions) // 2, queries, queries * key_heads // heads, heads, key_heads,
                    model.table, taken, shifted, model.is_table_inner)
    plan, inputs, outputs = (f"{folder}/{name}" for name in ("t.cplan", "t.npz", "o.npz"))
    np.savez(inputs, **feeds)
    for layout, mesh in ((layout, mesh) for layout, choices in meshes.items() for mesh in choices):
        name = f"{path.name} {layout} on {'x'.join(map(str, mesh))}"
        problem = compile_plan(bin, path / "model.onnx", layout, mesh, plan, options)
        sent = problem or counted(plan, inputs, outputs, bin)
        if isinstance(sent, str):
            report.fail(name, sent)
            continue
        found = np.load(outputs)
        error = max(np.abs(found[key] - value).max() / np.abs(value).max() for key, value in model.outputs.items())
        wants = [expected_bytes(layout, mesh, model.contractions) + expected_beside(layout, mesh, beside, first, gathers) for gathers in (True, False)]
        if layout in ("1d", "sequence", "ulysses"):
            sent, wants = without_axes(sent), [without_axes(want) for want in wants]
        report.add(name, sent, wants[1] if sum(sent.values()) == sum(wants[1].values()) + sent["statistics", "all"] else wants[0], error)


def expected_step_bytes(layout, mesh, contractions, inputs=()):
    """Of a training step, by what follows the axes: bytes that are gathered and those that are summed (an all-reduce is both)."""
    sent, ranks, seen = collections.Counter(), math.prod(mesh), set()
    depth, rows, columns = (1, *mesh) if layout == "2d" else mesh if layout == "2.5d" else (1, 1, 1)
    for one in contractions:
        x, weight, y = (4 * size for size in (one.rows * one.k, one.k * one.n, one.rows * one.n))
        is_first, has_gradient = one.source not in seen, one.source not in inputs
        seen.add(one.source)
        if layout == "1d":
            both = (ranks - 1) * (y if one.inner else x if is_first and has_gradient else 0)
            sent["gathered"] += both
            sent["summed"] += both
        elif layout == "sequence":
            sent["gathered"] += (ranks - 1) * (y if one.inner else 2 * x if is_first else 0)
            sent["summed"] += (ranks - 1) * (y if one.inner else x if is_first and has_gradient else 0)
        elif layout == "ulysses":
            sent["gathered"] += (ranks - 1) * weight
            sent["summed"] += (ranks - 1) * weight
        elif layout in ("2d", "2.5d"):
            weight = 4 * one.k * padded(one.n, columns)
            sent["gathered"] += is_first * 2 * (columns - 1) * x + (1 + has_gradient) * depth * (rows - 1) * weight + (depth - 1) * weight
            sent["summed"] += is_first * has_gradient * (columns - 1) * x + depth * (rows - 1) * weight + (depth - 1) * weight
        elif layout == "3d":
            a, b, c = (mesh[0], mesh[2], mesh[1]) if one.inner or one.entry else mesh
            weight, y = 4 * one.k * padded(one.n, c), 4 * one.rows * padded(one.n, c)
            sent["gathered"] += is_first * 2 * (c - 1) * x + (1 + has_gradient) * (a - 1) * weight + (b - 1) * y
            sent["summed"] += is_first * has_gradient * (c - 1) * x + (a - 1) * weight + (b - 1) * y
    return sent


def run_step(bin, model, layout, mesh, plan, outputs, options):
    """What a step moves, as expected_step_bytes says it, and its loss and norm of gradients; or what went wrong."""
    problem = compile_plan(bin, model, layout, mesh, plan, options)
    if problem:
        return problem, None
    ran = subprocess.run([bin / "colossal-run", plan, "--program", "step", "--random-inputs", "1", "--random-weights", "1", "--threads", "1", "--output", outputs,
                          "--json"], capture_output=True, text=True)
    if ran.returncode:
        return ran.stderr, None
    sent = collections.Counter()
    for row in json.loads(ran.stdout)["traffic"]:
        if row["kind"] == "all_reduce":
            sent["gathered"] += row["sent_bytes"] // 2
            sent["summed"] += row["sent_bytes"] // 2
        else:
            sent[{"all_gather": "gathered", "reduce_scatter": "summed"}.get(row["kind"], row["kind"])] += row["sent_bytes"]
    return sent, [float(np.load(outputs)[name]) for name in ("colossal.loss", "colossal.grad_norm")]


def check_steps(bin, folder, name, model, options, cases, contractions, inputs, beside, report, parts=0):
    """`beside`: bytes of tables and vectors that are trained, too; the bytes of a step may be more than the formula's by what moves of them.
    `parts`: of weights that are read in parts, which each pass brings from where they are stored to where a part is read, by any collective."""
    plan, outputs = f"{folder}/step.cplan", f"{folder}/step.npz"
    problem, alone = run_step(bin, model, "", (1,), plan, outputs, options)
    if alone is None:
        return report.fail(name, problem)
    for layout, mesh in cases:
        title = f"step of {name} {layout} on {'x'.join(map(str, mesh))}"
        sent, found = run_step(bin, model, layout, mesh, plan, outputs, options)
        if found is None:
            report.fail(title, sent)
            continue
        want = expected_step_bytes(layout, mesh, contractions, inputs)
        error = max(abs(a - b) / abs(b) for a, b in zip(found, alone))
        room = 512 * math.prod(mesh) + 2 * math.prod(mesh) * beside
        good = error < 1e-4 and all(want[kind] <= sent[kind] <= want[kind] + room for kind in ("gathered", "summed"))
        others = {kind: count for kind, count in sent.items() if kind not in ("gathered", "summed", "statistics")}
        if parts:
            excess = sent["gathered"] + sent["summed"] + sum(others.values()) - want["gathered"] - want["summed"]
            good = error < 1e-4 and -2 * parts <= excess <= 2 * parts + 2 * room
        report.count(f"{title}: gathered {sent['gathered']}, formula {want['gathered']}; summed {sent['summed']}, formula {want['summed']}; "
                     f"others {others}; error {error:.1e}", good and (beside or not others))
    return None


STEPS = {"1d": [(4,), (2, 2)], "sequence": [(4,)], "ulysses": [(4,)], "2d": [(2, 2), (2, 4), (4, 2)], "2.5d": [(2, 2, 2)], "3d": [(2, 2, 2), (1, 2, 2), (2, 2, 1)]}
LOSSES = {"gpt2": "cross-entropy,logits=logits,shift=1", "llama": "cross-entropy,logits=logits,shift=1", "bert": "mse,output=pooler_output"}


def run_steps(bin, folder, report):
    random = np.random.default_rng(1)
    rows, widths, model = (4, 8), (16, 64, 16, 32, 16), f"{folder}/chain.onnx"
    _, output = make_chain(model, rows, widths, False, random)
    contractions = [Contraction("x" if i == 0 else i, math.prod(rows), k, n, i % 2 == 1) for i, (k, n) in enumerate(zip(widths, widths[1:]))]
    options = ["--training", "sgd", "--global-batch", "4", "--loss"]
    cases = [(layout, mesh) for layout, meshes in STEPS.items() for mesh in meshes]
    check_steps(bin, folder, "chain", model, [*options, f"mse,output={output}"], cases, contractions, {"x"}, 0, report)
    for name, loss in LOSSES.items():
        path = MODELS / name
        declared = onnx.load(path / "model.onnx", load_external_data=False).graph.input
        feeds = dict(np.load(path / "batch4-seq16" / "inputs.npz"))
        bound = {dim.dim_param: size for value in declared for size, dim in zip(feeds[value.name].shape, value.type.tensor_type.shape.dim) if dim.dim_param}
        dims = [word for dim, size in sorted(bound.items()) if size != 4 for word in ("--dim", f"{dim}={size}")]
        transformer = Transformer(path / "model.onnx", feeds)
        check_steps(bin, folder, name, path / "model.onnx", [*options, loss, *dims], [("1d", (4,)), ("sequence", (4,)), ("2d", (2, 2)), ("2.5d", (2, 2, 2)), ("3d", (2, 2, 2))],
                    transformer.contractions, (), transformer.other_bytes + 3 * transformer.table, report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", nargs="*", help="of test/Models, or folders; default: chains and six transformers")
    parser.add_argument("--heads", type=int, nargs=2, metavar=("ALL", "KEYS"), help="of models that are not of test/Models")
    parser.add_argument("--layouts", nargs="*", help="NAME=MESH, such as 2d=2x4, in place of the usual ones")
    arguments = parser.parse_args()
    bin, report = arguments.build / "bin", Report()
    chosen = {}
    for layout, mesh in (text.split("=") for text in arguments.layouts or ()):
        chosen.setdefault(layout, []).append(tuple(map(int, mesh.split("x"))))
    with tempfile.TemporaryDirectory() as folder:
        if not arguments.models:
            run_chains(bin, folder, report)
            run_fused(bin, folder, report)
            run_steps(bin, folder, report)
        for name, heads, key_heads, meshes in TRANSFORMERS:
            if not arguments.models or name in arguments.models:
                run_transformer(bin, folder, MODELS / name, heads, key_heads, chosen or meshes, report)
        for name in arguments.models or ():
            if pathlib.Path(name).is_dir():
                run_transformer(bin, folder, pathlib.Path(name), *arguments.heads, chosen or TRANSFORMERS[0][3], report)
    print(f"{report.done - report.failed} passed, {report.failed} failed")
    return 1 if report.failed or not report.done else 0


if __name__ == "__main__":
    sys.exit(main())
