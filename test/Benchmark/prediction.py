#!/usr/bin/env python3
"""Predicted against measured times and memory of plans on this machine.

    test/Benchmark/prediction.py [--models gpt2 ...] [--ranks 1 2 4] [--machine FILE] [--cache DIR] [--rounds 5]

Calibrates the machine (unless a machine file is given), compiles real-size models for each number of ranks with it, and
runs the plans in rounds that alternate over all of them, so that what else the machine does meets every one. The
measured time is the least of the rounds' medians. Memory is the plan's sum over all kinds against the runtime's. Exits with
1 where a time is off by more than 15 %, or a byte of memory.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from real_models import ROOT, compile_plan, exported

MODELS = ["gpt2", "bert", "vit", "resnet"]


def run(arguments, plan, inputs_file):
    out = subprocess.run([arguments.build / "bin/colossal-run", plan, "--input", inputs_file, "--benchmark", str(arguments.runs), "--json"],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/models")
    parser.add_argument("--machine", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=7, help="runs in a round")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        machine = arguments.machine or pathlib.Path(scratch) / "machine.json"
        if not arguments.machine:
            subprocess.run([arguments.build / "bin/colossal-cost", "calibrate", "-o", machine], check=True)
        rows = []
        for name in arguments.models:
            folder = exported(name, arguments.cache)
            inputs_file = sorted(folder.glob("batch1*/inputs.npz"))[0]
            for ranks in arguments.ranks:
                plan = pathlib.Path(scratch) / f"{name}-{ranks}.cplan"
                compile_plan(arguments.build, folder / "model.onnx", np.load(inputs_file), plan, str(ranks), ["--machine", machine])
                dump = json.loads(subprocess.run([arguments.build / "bin/colossal-run", plan, "--input", inputs_file, "--benchmark", "1", "--json"],
                                                 stdout=subprocess.PIPE, text=True, check=True).stdout)
                rows.append({"name": name, "ranks": ranks, "plan": plan, "inputs": inputs_file, "predicted": dump["predicted_s"], "seconds": []})
        for _ in range(arguments.rounds):
            for row in rows:
                row["json"] = run(arguments, row["plan"], row["inputs"])
                row["seconds"].append(row["json"]["median_s"])
        print("| model | ranks | predicted, ms | measured, ms | error | planned, bytes | measured, bytes |\n|---|---|---|---|---|---|---|")
        errors = []
        for row in rows:
            measured = min(row["seconds"])
            error = row["predicted"] / measured - 1
            errors.append(abs(error))
            kinds = [kind for rank in row["json"]["memory"]["ranks"] for kind in rank["kinds"]]
            planned, used = (sum(kind[key] for kind in kinds) for key in ("planned", "measured"))
            bad = abs(error) > 0.15 or planned != used
            failed += bad
            print(f"| {row['name']} | {row['ranks']} | {1e3 * row['predicted']:.1f} | {1e3 * measured:.1f} | {100 * error:+.1f} % | {planned} | {used} |"
                  f"{' beyond' if bad else ''}", flush=True)
        print(f"\nabsolute error of {len(errors)} measured rows: mean {100 * statistics.mean(errors):.1f} %, median {100 * statistics.median(errors):.1f} %, "
              f"largest {100 * max(errors):.1f} %")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
