#!/usr/bin/env python3
"""Stages of a pipeline work on microbatches in the order that the cost model's simulation gives them, as a trace shows.

    pipeline.py --build build

A chain of products is cut into 2, 3 and 4 stages and run in several numbers of microbatches, with --trace. The compiler says with
--json in which order cost::simulate has each stage work on them. So of every rank: all that it does for a microbatch lies before all that
it does for the next of that order, in the order of the model; it begins with a microbatch after the stage before has ended with
that; stages work at the same time; and what the next one needs is asked for while this one is computed. Stages with several chunks do
chunk by chunk what the simulation says, each after the part before it. The result must be ONNX Runtime's.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

WIDTH, LAYERS, BATCH = 256, 8, 24


def model(skips=False):
    """`skips`: what the first product makes is read by all from the third on, whatever lies between."""
    random = np.random.default_rng(1)
    nodes, weights = [], []
    for layer in range(LAYERS):
        product = f"p{layer}" if skips and layer > 1 else f"h{layer + 1}"
        nodes.append(helper.make_node("MatMul", [f"h{layer}", f"w{layer}"], [product], name=f"product{layer}"))
        if skips and layer > 1:
            nodes.append(helper.make_node("Add", [product, "h1"], [f"h{layer + 1}"], name=f"sum{layer}"))
        weights.append(numpy_helper.from_array((random.standard_normal((WIDTH, WIDTH)) / 16).astype(np.float32), f"w{layer}"))
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("h0", TensorProto.FLOAT, ["batch", 64, WIDTH])],
                              [helper.make_tensor_value_info(f"h{LAYERS}", TensorProto.FLOAT, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def call(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return done.returncode, done.stdout.strip()


def layer_of(operator, stage):
    """The number of a product's layer. Equal stages, 1 and so on, share a text, and names in it: product{2,4}."""
    names = operator.removeprefix("product").strip("{}").split(",")
    return int(names[stage - 1 if len(names) > 1 else 0])


def work_of(trace, stages):
    """By rank and layer, the (begin, end) of its products in order of time, of the last run."""
    events = [event for event in trace["traceEvents"] if event["ph"] == "X" and "run" in event.get("args", {})]
    last = max(event["args"]["run"] for event in events)
    work = [collections.defaultdict(list) for _ in range(stages)]
    for event in sorted(events, key=lambda event: event["ts"]):
        if event["args"]["run"] == last:
            for operator in event["args"].get("operators", []):
                if operator.startswith("product") and event["tid"] == 0:
                    work[event["pid"]][layer_of(operator, event["pid"])].append((event["ts"], event["ts"] + event["dur"]))
    return work


def asked_early(trace, rank, spans):
    """Of so many microbatches of a rank, whose work is `spans`, the message of the next was asked for before their end."""
    events = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == rank and event["cat"] == "recv" and "peer" in event["args"]]
    last = max(event["args"]["run"] for event in events)
    begins = sorted(event["ts"] for event in events if event["args"]["run"] == last)
    return sum(begin < span[1] for begin, span in zip(begins[1:], spans)) if len(begins) == len(spans) else -1


def check(trace, stages, parts, orders):
    """What is not as the simulation says, one a line. `orders`: of each stage, the microbatches one after the other."""
    work = work_of(trace, stages)
    problems, spans = [], []
    for stage, layers in enumerate(work):
        counts = {layer: len(found) for layer, found in layers.items()}
        if not layers or set(counts.values()) != {parts}:
            return [f"stage {stage} ran its layers {counts} times, expected {parts} each"]
        passes = [[layers[layer][place] for layer in sorted(layers)] for place in range(parts)]
        flat = [span for one in passes for span in one]
        if any(before[1] > after[0] for before, after in zip(flat, flat[1:])):
            problems.append(f"stage {stage} does not do microbatch after microbatch, each in the model's order")
        if sorted(orders[stage]) != list(range(parts)):
            return [f"stage {stage} is said to do the microbatches {orders[stage]}"]
        done = [(one[0][0], one[-1][1]) for one in passes]
        if stage > 0 and parts >= 8 and asked_early(trace, stage, done) < 1:  # on a busy machine not all of them
            problems.append(f"stage {stage} asks for the next microbatch only when it has ended one")
        spans.append([done[orders[stage].index(part)] for part in range(parts)])
    for stage in range(1, stages):
        for part in range(parts):
            if spans[stage][part][0] < spans[stage - 1][part][1]:
                problems.append(f"stage {stage} begins with microbatch {part} before stage {stage - 1} has ended with it")
    # On a busy machine, stages may happen to take turns; in eight parts, not all of them.
    if parts >= 8 and not any(spans[stage - 1][part + 1][0] < spans[stage][part][1] for stage in range(1, stages) for part in range(parts - 1)):
        problems.append("stages never work at the same time")
    return problems


def check_chunks(trace, stages):
    """The same of stages with chunks; `stages`: what --json says of each."""
    events = [event for event in trace["traceEvents"] if event["ph"] == "X" and "run" in event.get("args", {})]
    last = max(event["args"]["run"] for event in events)
    found = [[] for _ in stages]
    for event in sorted(events, key=lambda event: event["ts"]):
        for operator in event["args"].get("operators", []) if event["args"]["run"] == last and event["tid"] == 0 else []:
            if operator.startswith("product"):
                found[event["pid"]].append((layer_of(operator, event["pid"]), event["ts"], event["ts"] + event["dur"]))
    problems, spans, done = [], {}, []
    for number, stage in enumerate(stages):
        layers = [list(range(*(int(chunk[end].removeprefix("product")) + (end == "last") for end in ("first", "last")))) for chunk in stage["chunks"]]
        done += [layer for chunk in layers for layer in chunk]
        expected = [layer for one in stage["passes"] for layer in layers[one["chunk"]]]
        if [layer for layer, _, _ in found[number]] != expected:
            return [f"stage {number} computes the layers {[layer for layer, _, _ in found[number]]}, expected {expected}"]
        place = 0
        for one in stage["passes"]:
            count = len(layers[one["chunk"]])
            spans[one["chunk"] * len(stages) + number, one["microbatch"]] = found[number][place][1], found[number][place + count - 1][2]
            place += count
    if sorted(done) != list(range(LAYERS)):
        problems.append(f"the chunks have the layers {done}")
    for (part, microbatch), (begin, _) in spans.items():
        if part > 0 and begin < spans[part - 1, microbatch][1]:
            problems.append(f"part {part} begins with microbatch {microbatch} before part {part - 1} has ended with it")
    return problems


def run(stages, parts, binaries, folder, inputs, want, chunks=1):
    plan, trace = folder / "model.cplan", folder / "trace.json"
    code, text = call(binaries / "colossal-compile", folder / "model.onnx", "--dim", f"batch={BATCH}", "--mesh", f"stage={stages}", "--machine", "host", "-q", "--json", "-o", plan,
                      *(["--microbatches", parts] if parts > 1 else []), *(["--chunks", chunks] if chunks > 1 else []))
    if code:
        return [f"exit {code}: {text}"]
    described = json.loads(text)["stages"]
    orders = [[one["microbatch"] for one in stage["passes"]] for stage in described]
    code, text = call(binaries / "colossal-run", plan, "--threads", 1, "--input", inputs, "--output", folder / "outputs.npz", "--trace", trace)
    if code:
        return [f"exit {code}: {text}"]
    error = np.abs(np.load(folder / "outputs.npz")[f"h{LAYERS}"] - want).max() / np.abs(want).max()
    shown = json.loads(trace.read_text())
    return ([] if error < 1e-5 else [f"wrong by {error:.1e}"]) + (check(shown, stages, parts, orders) if chunks == 1 else check_chunks(shown, described))


def skip(binaries, folder, inputs, feed):
    """Values that pass over parts, to other stages and to the own one, also where layouts differ and messages are many."""
    problems = []
    onnx.save(model(skips=True), folder / "skips.onnx")
    want = onnxruntime.InferenceSession(folder / "skips.onnx").run(None, {"h0": feed})[0]
    for mesh, parts, chunks in (("stage=2", 4, 2), ("stage=2", 6, 4), ("stage=3", 5, 2), ("stage=2,model=2", 2, 2), ("stage=2,model=2", 4, 3), ("stage=4", 8, 2), ("stage=2,model=2", 1, 2)):
        for pins in ([], ["--pin", "h[1-4]=[-,-,model]", "--pin", "recv.*=[model,-,-]"]) if "model" in mesh else ([],):
            # With one microbatch chunks have nothing to do side by side.
            code, text = call(binaries / "colossal-compile", folder / "skips.onnx", "--dim", f"batch={BATCH}", "--mesh", mesh, "-q", "-o", folder / "skips.cplan",
                              "--microbatches", parts, "--chunks", chunks, *pins)
            if parts == 1:
                if code != 2 or "--microbatches" not in text:
                    problems.append(f"{mesh}, chunks without microbatches: exit {code}: {text}")
                continue
            if code == 0:
                code, text = call(binaries / "colossal-run", folder / "skips.cplan", "--threads", 1, "--input", inputs, "--output", folder / "outputs.npz")
            error = np.abs(np.load(folder / "outputs.npz")[f"h{LAYERS}"] - want).max() / np.abs(want).max() if code == 0 else None
            if code or not error < 1e-5:
                problems.append(f"{mesh}, {parts} microbatches, {chunks} chunks, {pins}: exit {code}, error {error}: {text}")
    return problems


def overlap(binaries, folder, inputs, want):
    """Runs of a benchmark overlap where the plan was compiled for throughput, or where one asks for it; those in chunks, too."""
    plan, problems = folder / "model.cplan", []
    for chunks, objective in (("--microbatches", 6, "--chunks", 2), "latency"), (("--microbatches", 6, "--chunks", 2), "throughput"), ((), "latency"), ((), "throughput"):
        code, text = call(binaries / "colossal-compile", folder / "model.onnx", "--dim", f"batch={BATCH}", "--mesh", "stage=3", "-q", "-o", plan, "--objective", objective, *chunks)
        if code:
            return [f"exit {code}: {text}"]
        for asked in None, "latency", "throughput":
            code, text = call(binaries / "colossal-run", plan, "--threads", 1, "--input", inputs, "--output", folder / "outputs.npz", "--benchmark", 8, "--json",
                              *(["--objective", asked] if asked else []))
            found = json.loads(text) if code == 0 else {}
            error = np.abs(np.load(folder / "outputs.npz")[f"h{LAYERS}"] - want).max() / np.abs(want).max()
            if found.get("runs_overlap") != ((asked or objective) == "throughput") or found.get("runs") != 8 or not error < 1e-5:
                problems.append(f"compiled for {objective} {chunks}, run for {asked}: exit {code}, error {error}, {text}")
    # A single run is timed, too: from the end of the one that has filled the stages.
    code, text = call(binaries / "colossal-run", plan, "--threads", 1, "--input", inputs, "--benchmark", 1, "--json")
    found = json.loads(text) if code == 0 else {}
    if found.get("runs") != 1 or not 0 < found.get("runs_per_s", 0) < 1e6:
        problems.append(f"a benchmark of one run: exit {code}, {text}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    failed = count = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        onnx.save(model(), folder / "model.onnx")
        inputs = folder / "inputs.npz"
        feed = np.random.default_rng(2).standard_normal((BATCH, 64, WIDTH)).astype(np.float32)
        np.savez(inputs, h0=feed)
        want = onnxruntime.InferenceSession(folder / "model.onnx").run(None, {"h0": feed})[0]
        for stages in 2, 3, 4:
            for parts in 1, 2, 3, 8, 5:  # 5: of 5 rows, the last one padded
                count += 1
                problems = run(stages, parts, arguments.build / "bin", folder, inputs, want)
                failed += bool(problems)
                for problem in problems:
                    print(f"{stages} stages, {parts} microbatches: {problem}", flush=True)
        # In groups of as many as there are stages, with some left or not, and fewer than one group.
        for stages, parts, chunks in (2, 4, 2), (2, 8, 4), (2, 3, 2), (3, 6, 2), (3, 8, 2), (3, 2, 2), (4, 6, 2), (4, 3, 2):
            count += 1
            problems = run(stages, parts, arguments.build / "bin", folder, inputs, want, chunks)
            failed += bool(problems)
            for problem in problems:
                print(f"{stages} stages of {chunks} chunks, {parts} microbatches: {problem}", flush=True)
        count += 1
        problems = skip(arguments.build / "bin", folder, inputs, feed)
        failed += bool(problems)
        for problem in problems:
            print(f"values that pass over parts: {problem}", flush=True)
        count += 1
        problems = overlap(arguments.build / "bin", folder, inputs, want)
        failed += bool(problems)
        for problem in problems:
            print(f"runs that overlap: {problem}", flush=True)
    print(f"{count - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
