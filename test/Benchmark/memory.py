#!/usr/bin/env python3
"""Planned against measured memory of each rank, of real-size models.

    test/Benchmark/memory.py [--models gpt2 ...] [--meshes 1 4] [--cache DIR]

Every allocation that the runtime counts must be within 1 % of what the plan states; the process's peak anonymous memory
above its start, which counts everything, libraries included, within 5 %.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from real_models import ROOT, compile_plan, exported

MODELS = ["gpt2", "bert", "vit", "resnet", "llama"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/models")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--meshes", nargs="+", default=["1", "4"])
    arguments = parser.parse_args()
    failed = 0
    print("| model | mesh | planned, MiB | measured, MiB | process, MiB | measured / planned | process / planned |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.models:
            folder = exported(name, arguments.cache)
            inputs_file = sorted(folder.glob("batch1*/inputs.npz"))[0]
            for mesh in arguments.meshes:
                plan = pathlib.Path(scratch) / f"{name}.cplan"
                compile_plan(arguments.build, folder / "model.onnx", np.load(inputs_file), plan, mesh)
                out = subprocess.run([arguments.build / "bin/colossal-run", plan, "--input", inputs_file, "--threads", "1", "--json"],
                                     stdout=subprocess.PIPE, text=True, check=True).stdout
                memory = json.loads(out)["memory"]
                kinds = [kind for rank in memory["ranks"] for kind in rank["kinds"]]
                planned, measured = (sum(kind[key] for kind in kinds) for key in ("planned", "measured"))
                process = memory["process_peak_anonymous_bytes"]
                bad = abs(measured / planned - 1) > 0.01 or abs(process / planned - 1) > 0.05
                failed += bad
                print(f"| {name} | {mesh} | {planned / 2**20:.1f} | {measured / 2**20:.1f} | {process / 2**20:.1f} | {measured / planned:.4f} | "
                      f"{process / planned:.4f} |{' beyond' if bad else ''}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
