#!/usr/bin/env python3
"""Compile time and memory: GPT-2 small for one and for eight ranks, and 96 equal layers against 12.

    test/Benchmark/compile_time.py [--cache DIR]

Limits: GPT-2 small in 15 s and 2 GiB; 96 equal layers in at most twice the time of 12, with as many bytes of kernels.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

from real_models import ROOT, compile_plan, exported


def code_bytes(build, plan):
    """Bytes of machine code in a plan, from its text."""
    text = subprocess.run([build / "bin/colossal-run", plan, "--dump-plan"], stdout=subprocess.PIPE, text=True, check=True).stdout
    modules = re.findall(r"^\s*module \d+:.*?(\d+) bytes", text, re.MULTILINE)
    if not modules:
        raise SystemExit("colossal-run --dump-plan names no module")
    return sum(map(int, modules))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/models")
    arguments = parser.parse_args()
    rows, failed = {}, []
    print("| model | mesh | seconds | peak memory, MiB | code, bytes |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name, mesh in (("gpt2", "1"), ("gpt2", "8"), ("stack-12", "1"), ("stack-96", "1"), ("stack-12", "4"), ("stack-96", "4")):
            folder = exported(name, arguments.cache)
            inputs = np.load(folder / "batch1-seq128" / "inputs.npz")
            plan = pathlib.Path(scratch) / "model.cplan"
            seconds, peak = compile_plan(arguments.build, folder / "model.onnx", inputs, plan, mesh)
            rows[name, mesh] = seconds, peak, code_bytes(arguments.build, plan)
            print(f"| {name} | {mesh} | {seconds:.2f} | {peak / 2**20:.0f} | {rows[name, mesh][2]} |", flush=True)
    for mesh in ("1", "8"):
        if rows["gpt2", mesh][0] > 15 or rows["gpt2", mesh][1] > 2 * 2**30:
            failed.append(f"gpt2 on mesh {mesh} is beyond 15 s or 2 GiB")
    for mesh in ("1", "4"):
        few, many = rows["stack-12", mesh], rows["stack-96", mesh]
        print(f"96 layers against 12 on mesh {mesh}: {many[0] / few[0]:.2f} times the time, {many[2] / few[2]:.3f} times the code")
        if many[0] > 2 * few[0] or many[2] != few[2]:
            failed.append(f"96 layers on mesh {mesh} take more than twice the time of 12, or other code")
    print("\n".join(failed) or "within the limits")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
