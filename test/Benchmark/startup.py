#!/usr/bin/env python3
"""Start of the runtime: the time of a whole colossal-run, less its run.

    test/Benchmark/startup.py [--rounds 10] [--real gpt2 bert ... --cache DIR]

From exec to exit without the run itself (the plan's digests checked, weights mapped, read and packed) must take under
0.5 s: for the small test models, and with --real for models of published sizes, whose files must be in the page cache.
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

from real_models import ROOT, compile_plan, exported

LIMIT = 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--models", nargs="+", default=["mlp", "gpt2", "resnet"])
    parser.add_argument("--meshes", nargs="+", default=["1", "8"])
    parser.add_argument("--real", nargs="*", default=[])
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/models")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    failed = 0
    print("| model | ranks | median, s | slowest, s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        folders = [(ROOT / "test/Models" / name, arguments.meshes) for name in arguments.models]
        folders += [(exported(name, arguments.cache), ["1"]) for name in arguments.real]
        for folder, meshes in folders:
            name = folder.name + (" (real)" if folder.name in arguments.real and folder.parent == arguments.cache else "")
            inputs_file = sorted(folder.glob("*/inputs.npz"))[0]
            for mesh in meshes:
                plan = pathlib.Path(scratch) / f"{name}.cplan"
                compile_plan(arguments.build, folder / "model.onnx", np.load(inputs_file), plan, mesh)
                seconds = []
                for _ in range(arguments.rounds):
                    begin = time.monotonic()
                    done = subprocess.run([arguments.build / "bin/colossal-run", plan, "--input", inputs_file, "--json"], check=True,
                                          stdout=subprocess.PIPE, text=True)
                    seconds.append(time.monotonic() - begin - json.loads(done.stdout)["median_s"])
                failed += statistics.median(seconds) > LIMIT
                print(f"| {name} | {mesh} | {statistics.median(seconds):.3f} | {max(seconds):.3f} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
