#!/usr/bin/env python3
"""Latency of real-size models on one rank, against ONNX Runtime in the same run.

    test/Benchmark/latency.py [--models gpt2 bert ...] [--threads 1 2] [--cache DIR] [--rounds 5]

Models come from test/Models/export.py, which needs `tools/setup main-job`, and are kept in the cache. Both programs
run in rounds that alternate, each of several runs, so that what else the machine does meets both; the figure is
the median over all runs, and the ratio is ONNX Runtime's over ours: above 1 we are faster.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

from real_models import ROOT, compile_plan, exported

MODELS = ["gpt2", "bert", "vit", "resnet", "llama"]
CASES = {"vit": "batch1", "resnet": "batch1"}


def measure_ours(build, plan, inputs_file, threads, runs):
    out = subprocess.run([build / "bin/colossal-run", plan, "--input", inputs_file, "--threads", str(threads), "--benchmark", str(runs), "--json"],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(out)


def measure_onnxruntime(session, feed, runs):
    session.run(None, feed)
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        session.run(None, feed)
        seconds.append(time.perf_counter() - begin)
    return seconds


def compare(arguments, name, threads, scratch):
    folder = exported(name, arguments.cache)
    case = CASES.get(name, "batch1-seq128")
    inputs_file = folder / case / "inputs.npz"
    feed = dict(np.load(inputs_file))
    plan = pathlib.Path(scratch) / f"{name}.cplan"
    if not plan.exists():
        compile_plan(arguments.build, folder / "model.onnx", feed, plan)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Its threads would spin while ours are measured.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        theirs.append(statistics.median(measure_onnxruntime(session, feed, arguments.runs)))
        ours.append(measure_ours(arguments.build, plan, inputs_file, threads, arguments.runs)["median_s"])
    return statistics.median(ours), statistics.median(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/models")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=10, help="runs in a round")
    arguments = parser.parse_args()
    print("| model | threads | Colossal, ms | ONNX Runtime, ms | ratio |\n|---|---|---|---|---|")
    slower = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.models:
            for threads in arguments.threads:
                ours, theirs = compare(arguments, name, threads, scratch)
                slower += theirs < ours
                print(f"| {name} | {threads} | {1e3 * ours:.2f} | {1e3 * theirs:.2f} | {theirs / ours:.2f} |", flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
