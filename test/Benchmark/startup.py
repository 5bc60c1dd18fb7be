#!/usr/bin/env python3
"""Start of the runtime: the time of a whole colossal-run, less its runs and the reading of weights.

    test/Benchmark/startup.py [--rounds 10]

Runs the small test models, whose weights are nothing: from exec to exit, one run included, must take under 0.5 s.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from real_models import ROOT, compile_plan

LIMIT = 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--models", nargs="+", default=["mlp", "gpt2", "resnet"])
    parser.add_argument("--meshes", nargs="+", default=["1", "8"])
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    failed = 0
    print("| model | ranks | median, s | slowest, s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.models:
            folder = ROOT / "test/Models" / name
            inputs_file = sorted(folder.glob("*/inputs.npz"))[0]
            for mesh in arguments.meshes:
                plan = pathlib.Path(scratch) / f"{name}.cplan"
                compile_plan(arguments.build, folder / "model.onnx", np.load(inputs_file), plan, mesh)
                seconds = []
                for _ in range(arguments.rounds):
                    begin = time.monotonic()
                    subprocess.run([arguments.build / "bin/colossal-run", plan, "--input", inputs_file], check=True, stdout=subprocess.DEVNULL)
                    seconds.append(time.monotonic() - begin)
                failed += statistics.median(seconds) > LIMIT
                print(f"| {name} | {mesh} | {statistics.median(seconds):.3f} | {max(seconds):.3f} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
