#!/usr/bin/env python3
"""What the layouts of the papers move: counted while plans run, against the closed formulas.

    recipes.py --build build                        chains of contractions, and whole transformers
    recipes.py --build build --models llama         transformers of test/Models, or folders that hold a model.onnx and a CASE/inputs.npz

A chain of contractions with elementwise functions and normalizations between, at sizes that the meshes divide and at some
that they do not need to. Bytes are those of all ranks together, S the whole tensor's: 1d 2(p-1)S_Y of every second
contraction; sequence (p-1)S_X of every first and (p-1)S_Y of every second; 2d (c-1)S_X + (r-1)S_W; 2.5d (c-1)S_X + d(r-1)S_W;
3d (c-1)S_X + (a-1)S_W + (b-1)S_Y. Statistics of normalizations are counted apart, and outputs must agree with NumPy.

Of a transformer the contractions are found in its ONNX file (products with what comes of parameters alone), and the sizes of what they
read and make by running it with ONNX Runtime, with which outputs must agree. Each kind of collective along each axis must move what the
formulas say: contractions that read one value gather it once; an odd vocabulary counts as if padded. Beside contractions only this moves:

- ulysses: (p-1)/p of queries, keys, values and of the attention's result, from places to heads and back.
- The rows that a table gives which is the head, too, are partial sums where the head's vocabulary is split.
- Keys and values of fewer heads than the axis has ranks are gathered.
- One place of a split sequence (the first token's) is gathered from all; in ulysses the sequence becomes whole, and samples split.
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
Contraction = collections.namedtuple("Contraction", "source rows k n inner entry", defaults=[False])


def padded(size, ranks):
    return -(-size // ranks) * ranks


def expected_bytes(layout, mesh, contractions):
    """Bytes of all contractions, of all ranks, by kind and axes."""
    sent, gathered, ranks = collections.Counter(), set(), math.prod(mesh)
    together = ",".join(axis for axis, size in zip(AXES, mesh) if size > 1)

    def gather_once(one, axis, parts):
        if one.source not in gathered:
            sent["all_gather", axis] += 4 * (parts - 1) * one.rows * padded(one.k, parts)
        gathered.add(one.source)

    for one in contractions:
        if layout == "1d" and one.inner:
            sent["all_reduce", together] += 4 * 2 * (ranks - 1) * one.rows * one.n
        elif layout == "sequence" and not one.entry:
            if one.inner:
                sent["reduce_scatter", together] += 4 * (ranks - 1) * one.rows * one.n
            else:
                gather_once(one, together, ranks)
        elif layout in ("2d", "2.5d"):
            depth, rows, columns = mesh if layout == "2.5d" else (1, *mesh)
            gather_once(one, AXES[len(mesh) - 1], columns)
            sent["all_gather", AXES[len(mesh) - 2]] += 4 * depth * (rows - 1) * one.k * padded(one.n, columns)
        elif layout == "3d":
            turned = one.inner or one.entry
            a, (b, c), (k, n) = mesh[0], mesh[:0:-1] if turned else mesh[1:], "zy" if turned else "yz"
            gather_once(one, n, c)
            sent["all_gather", "x"] += 4 * (a - 1) * one.k * padded(one.n, c)
            sent["reduce_scatter", k] += 4 * (b - 1) * one.rows * padded(one.n, c)
    return sent


# What else moves in a transformer: the bytes of queries, keys and values of a layer, its heads and those of keys; of a tied table's rows; of
# the values of which one place is taken.
Beside = collections.namedtuple("Beside", "layers queries keys heads key_heads table places")


def expected_beside(layout, mesh, beside):
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
    if layout == "ulysses":
        sent["all_to_all", together] += beside.layers * 2 * beside.queries * (ranks - 1) // ranks
        if shared[1] > 1:
            sent["all_gather", together] += beside.layers * 2 * beside.keys * (ranks - 1)
        else:
            sent["all_to_all", together] += beside.layers * 2 * beside.keys * (ranks - 1) // ranks
    elif shared[1] > 1:
        sent["all_gather", shared[0]] += beside.layers * 2 * beside.keys * (shared[1] - 1)
    # To whole samples on each rank, or, where nothing is gathered, to other samples.
    if layout == "sequence":
        sent["all_gather", together] += (ranks - 1) * beside.places
    if layout == "ulysses":
        sent["all_to_all", together] += beside.places * (ranks - 1) // ranks
    if layout == "1d":
        sent["all_reduce", together] += 2 * (ranks - 1) * beside.table
    elif layout != "ulysses":
        sent["reduce_scatter", names] += (parts - 1) * beside.table
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
        self.weighed = {node.output[0] for node in nodes if node.op_type in ("MatMul", "Gemm") and sum(name in constants for name in node.input[:2]) == 1}
        inner, products = set(), []
        for place, node in enumerate(nodes):
            if node.output[0] in self.weighed:
                value, weight = node.input[:2] if node.input[1] in constants else node.input[1::-1]
                entry = value not in inner and self.gives_stream(nodes[place:])
                products.append((value, weight, node.output[0], value in inner, entry))
                if value not in inner and not entry:
                    inner.update(node.output)
            elif any(name in inner for name in node.input):
                inner.update(node.output)
        names = {name for product in products for name in (product[0], product[2])}
        names |= {node.output[0] for node in model.graph.node if node.op_type == "Gather" and node.input[0] in constants and node.output[0] not in constants}
        outputs = [output.name for output in model.graph.output]
        del model.graph.output[:]
        model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in [*outputs, *sorted(names - set(outputs))])
        session = onnxruntime.InferenceSession(model.SerializeToString())
        values = dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds)))
        self.outputs = {name: values[name] for name in outputs}
        self.contractions = [Contraction(sources.get(value, value), math.prod(values[value].shape[:-1]), values[value].shape[-1], values[result].shape[-1], inner, entry)
                             for value, _, result, inner, entry in products]
        # Tables whose rows are looked up, and which are a product's weights; some exporters store these once more, transposed.
        given = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        weights = [given[name] for name in (sources.get(weight, weight) for _, weight, *_ in products) if name in given]
        tied = lambda table: any(np.array_equal(table, weight) or np.array_equal(table, weight.T) for weight in weights)
        self.table = sum(values[node.output[0]].nbytes for node in model.graph.node
                         if node.op_type == "Gather" and node.input[0] in constants and node.output[0] in values and tied(given[sources.get(node.input[0], node.input[0])]))

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
    ("qwen2", 6, 3, {"2d": [(2, 3)]}),
    ("electra", 4, 4, {"1d": [(4,)], "sequence": [(4,)]}),
    # Its patches are a convolution, which moves nothing where it is computed whole.
    ("vit", 4, 4, {"1d": [(4,)]}),
]


def compile_plan(bin, model, layout, mesh, plan, options=()):
    done = subprocess.run([bin / "colossal-compile", model, *options, "--layout", layout, "--mesh", "x".join(map(str, mesh)), "-q", "-o", plan],
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
    beside = Beside(sum(one.inner for one in model.contractions) // 2, queries, queries * key_heads // heads, heads, key_heads, model.table, taken)
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
        want = expected_bytes(layout, mesh, model.contractions) + expected_beside(layout, mesh, beside)
        if layout in ("1d", "sequence", "ulysses"):
            sent, want = without_axes(sent), without_axes(want)
        report.add(name, sent, want, error)


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
