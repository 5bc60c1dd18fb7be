#!/usr/bin/env python3
"""Predicted against measured times and memory of plans on this machine.

    test/Benchmark/prediction.py [--models gpt2 ...] [--ranks 1 2 4] [--machine FILE] [--cache DIR] [--rounds 5] [--keep DIR]

Calibrates the machine (unless a machine file is given), compiles real-size models for each number of ranks with it, and
runs the plans in rounds that alternate over all of them, so that what else the machine does meets every one. Printed are
the least time of all runs and the least of the rounds' medians; the error is against the second. Memory is what the
compiler says of a rank, less the staging between processes, against what the runtime counts. With --keep, the machine file and plans stay in a folder,
and those that it holds already are used as they are. Exits with 1 where a time is off by more than 15 %, or a byte of
memory.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from real_models import ROOT, bindings, exported

MODELS = ["gpt2", "bert", "vit", "resnet"]


def run(arguments, plan, inputs_file):
    out = subprocess.run([arguments.build / "bin/colossal-run", plan, "--input", inputs_file, "--benchmark", str(arguments.runs), "--json"],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(out)


def prepare(arguments, folder):
    """Machine file and plans in `folder`: a row for each model and number of ranks."""
    machine = arguments.machine or folder / "machine.json"
    if not machine.exists():
        subprocess.run([arguments.build / "bin/colossal-cost", "calibrate", "-o", machine], check=True)
    rows = []
    for name in arguments.models:
        model = exported(name, arguments.cache)
        inputs_file = sorted(model.glob("batch1*/inputs.npz"))[0]
        for ranks in arguments.ranks:
            plan, summary = folder / f"{name}-{ranks}.cplan", folder / f"{name}-{ranks}.json"
            if not plan.exists() or not summary.exists():
                command = [arguments.build / "bin/colossal-compile", model / "model.onnx", "--mesh", str(ranks), *bindings(model / "model.onnx", np.load(inputs_file)),
                           "--machine", machine, "--json", "-o", plan]
                summary.write_text(subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout)
            memory = json.loads(summary.read_text())["memory"]
            planned = memory["total"] - memory["staging"]  # ranks that are threads stage nothing
            rows.append({"name": name, "ranks": ranks, "plan": plan, "inputs": inputs_file, "bytes": planned, "min": [], "median": []})
    return rows


def report(rows):
    """Prints the table; returns how many rows are beyond the goal."""
    print("| model | ranks | predicted, ms | least, ms | median, ms | error | predicted, bytes a rank | measured, bytes |\n|---|---|---|---|---|---|---|---|")
    errors, failed = [], 0
    for row in rows:
        predicted, least, median = row["json"]["predicted_s"], min(row["min"]), min(row["median"])
        error = predicted / median - 1
        errors.append(abs(error))
        used = {sum(kind["measured"] for kind in rank["kinds"]) for rank in row["json"]["memory"]["ranks"]}
        bad = abs(error) > 0.15 or used != {row["bytes"]}
        failed += bad
        print(f"| {row['name']} | {row['ranks']} | {1e3 * predicted:.1f} | {1e3 * least:.1f} | {1e3 * median:.1f} | {100 * error:+.1f} % | {row['bytes']} | "
              f"{' '.join(map(str, sorted(used)))} |{' beyond' if bad else ''}", flush=True)
    print(f"\nabsolute error of {len(errors)} measured rows: mean {100 * statistics.mean(errors):.1f} %, median {100 * statistics.median(errors):.1f} %, "
          f"largest {100 * max(errors):.1f} %")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/models")
    parser.add_argument("--machine", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=7, help="runs in a round")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the machine file and the plans")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        rows = prepare(arguments, folder)
        for _ in range(arguments.rounds):
            for row in rows:
                row["json"] = run(arguments, row["plan"], row["inputs"])
                row["min"].append(row["json"]["min_s"])
                row["median"].append(row["json"]["median_s"])
        return 1 if arguments.rounds and report(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
