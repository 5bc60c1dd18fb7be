#!/usr/bin/env python3
"""What the layout search finds and how long it takes, over the test models; compared with what was found before.

    test/Benchmark/search_costs.py --record /tmp/before.json          a build's layouts and times
    test/Benchmark/search_costs.py --against /tmp/before.json         this build beside them
    test/Benchmark/search_costs.py --models swin --meshes 2x2x2       a selection
    test/Benchmark/search_costs.py --record before.json.gz --cases batch4-seq16 --meshes 4 2x2
    test/Benchmark/search_costs.py --folder build/models --models gpt2 bert --meshes 2x2x2x2 --limit 3

A row is one model with one binding of its dimensions on one mesh: what the search predicts for the layout it chose, the gap to its
bound, and the seconds of the search phase. With --against, the layout that was found before is priced again by this build, as pins, so
that both are prices of one cost model; a ratio above 1 means that this build finds worse. Exit code 1 where one is, beyond rounding, or
where a search takes longer than --limit seconds, or where nothing was found before.

Recorded/search_costs.json.gz beside this file has what was found on one and two axes, and a test compares with it.
"""
import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from real_models import ROOT, bindings

# Costs are whole picoseconds; the sums of a few thousand of them are rounded differently.
ROUNDING = 1e-6


def search(build, model, inputs, mesh, machine, pins=None):
    """The JSON of a search, or what it said where it failed."""
    command = [build / "bin/colossal-compile", model, "--mesh", mesh, *bindings(model, inputs), "--machine", machine, "-q", "--explain",
               "--as-pins", "--json"]
    with tempfile.NamedTemporaryFile("w", suffix=".pins") as file:
        if pins is not None:
            file.write("\n".join(pins) + "\n")
            file.flush()
            command += ["--pins", file.name]
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()[:300]


def seconds_of(result):
    return next(phase["seconds"] for phase in result["phases"] if phase["name"] == "search")


def read(path):
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


def write(path, found):
    """Of each row what it is compared by."""
    brief = {key: {"predicted_s": row["predicted_s"], "pins": row["pins"], "phases": [{"name": "search", "seconds": round(seconds_of(row), 3)}]}
             for key, row in found.items()}
    text = json.dumps(brief, indent=1).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "test/Models", help="folders NAME/model.onnx and NAME/CASE/inputs.npz")
    parser.add_argument("--models", nargs="*", help="default: all of the folder")
    parser.add_argument("--cases", nargs="*", help="default: all of the model")
    parser.add_argument("--meshes", nargs="*", default=["2", "4", "8", "2x2", "2x4", "4x2"])
    parser.add_argument("--machine", default="cpu")
    parser.add_argument("--record", type=pathlib.Path, help="write the layouts found to this file")
    parser.add_argument("--against", type=pathlib.Path, help="compare with the layouts of such a file")
    parser.add_argument("--limit", type=float, help="seconds that a search may take")
    arguments = parser.parse_args()
    before = read(arguments.against) if arguments.against else {}
    models = arguments.models or sorted(path.parent.name for path in arguments.folder.glob("*/model.onnx"))
    found, failed, ratios = {}, [], []
    print("| model | case | mesh | predicted, ms | gap, % | search, s |" + (" before, ms | ratio | before, s |" if before else ""))
    print("|---|---|---|---|---|---|" + ("---|---|---|" if before else ""))
    for name in models:
        for case in sorted(path.parent.name for path in (arguments.folder / name).glob("*/inputs.npz")):
            if arguments.cases and case not in arguments.cases:
                continue
            inputs = np.load(arguments.folder / name / case / "inputs.npz")
            for mesh in arguments.meshes:
                key = f"{name} {case} {mesh} {arguments.machine}"
                result = search(arguments.build, arguments.folder / name / "model.onnx", inputs, mesh, arguments.machine)
                if isinstance(result, str):
                    failed.append(f"{key}: {result}")
                    continue
                found[key] = result
                cost, seconds = result["predicted_s"], seconds_of(result)
                gap = f"{100 * result['gap']:.2f}" if result["gap"] is not None else "-"
                row = f"| {name} | {case} | {mesh} | {1e3 * cost:.6g} | {gap} | {seconds:.2f} |"
                if key in before:
                    same = search(arguments.build, arguments.folder / name / "model.onnx", inputs, mesh, arguments.machine, before[key]["pins"])
                    if isinstance(same, str):
                        failed.append(f"{key}, pinned as before: {same}")
                        continue
                    ratio = cost / same["predicted_s"] if same["predicted_s"] else 1.0
                    ratios.append(ratio)
                    row += f" {1e3 * same['predicted_s']:.6g} | {ratio:.4f} | {seconds_of(before[key]):.2f} |"
                    if ratio > 1 + ROUNDING:
                        failed.append(f"{key}: {ratio:.6f} of what was found before")
                if arguments.limit and seconds > arguments.limit:
                    failed.append(f"{key}: the search took {seconds:.2f} s")
                print(row, flush=True)
    if ratios:
        print(f"geometric mean of {len(ratios)} ratios {np.exp(np.mean(np.log(ratios))):.4f}, smallest {min(ratios):.4f}, largest {max(ratios):.4f}")
    elif arguments.against:
        failed.append(f"nothing of this is in {arguments.against}")
    if arguments.record:
        write(arguments.record, found)
    print("\n".join(failed) or "within the limits")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.pop("COLOSSAL_MACHINE", None)
    sys.exit(main())
