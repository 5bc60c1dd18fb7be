#!/usr/bin/env python3
"""Compile time and memory: GPT-2 small for one and for eight ranks, and 96 equal layers against 12.

    test/Benchmark/compile_time.py [--cache DIR]

Each model is compiled nine times, the models in turn; the shortest time counts. Limits: GPT-2 small in 15 s and 2 GiB; 96 equal layers
in at most 1.3 times the time of 12, with as many bytes of kernels, as many instructions beside calls, and a plan of at most twice the bytes.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

from real_models import ROOT, compile_plan, exported


STACK_MESHES = ("1", "4", "2x2", "8")
ROUNDS = 9
# Of 96 equal layers against 12.
MOST_TIME, MOST_PLAN = 1.3, 2.0


def measure_plan(build, plan):
    """Bytes of machine code in a plan, instructions that are no calls, calls, and bytes of the file."""
    text = subprocess.run([build / "bin/colossal-run", plan, "--dump-plan"], stdout=subprocess.PIPE, text=True, check=True).stdout
    modules = re.findall(r"^\s*module \d+: code@\d+\+(\d+)", text, re.MULTILINE)
    if not modules:
        raise SystemExit("colossal-run --dump-plan names no module")
    instructions = re.findall(r"^ +\d[\d.]* (?:queue \d+ )?(?:after \S+ )?(\w+)", text, re.MULTILINE)
    calls = instructions.count("call")
    return sum(map(int, modules)), len(instructions) - calls, calls, plan.stat().st_size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/models")
    arguments = parser.parse_args()
    rows, failed = {}, []
    print("| model | mesh | seconds | peak memory, MiB | code, bytes | instructions | calls | plan, bytes |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        cases = [("gpt2", "1"), ("gpt2", "8")] + [(f"stack-{n}", mesh) for mesh in STACK_MESHES for n in (12, 96)]
        for name, mesh in ROUNDS * cases:
            folder = exported(name, arguments.cache)
            inputs = np.load(folder / "batch1-seq128" / "inputs.npz")
            plan = pathlib.Path(scratch) / "model.cplan"
            seconds, peak = compile_plan(arguments.build, folder / "model.onnx", inputs, plan, mesh)
            best = min(seconds, rows.get((name, mesh), (seconds,))[0])
            rows[name, mesh] = best, peak, *measure_plan(arguments.build, plan)
        for (name, mesh), (seconds, peak, *sizes) in rows.items():
            print(f"| {name} | {mesh} | {seconds:.2f} | {peak / 2**20:.0f} | {' | '.join(map(str, sizes))} |")
    for mesh in ("1", "8"):
        if rows["gpt2", mesh][0] > 15 or rows["gpt2", mesh][1] > 2 * 2**30:
            failed.append(f"gpt2 on mesh {mesh} is beyond 15 s or 2 GiB")
    for mesh in STACK_MESHES:
        few, many = rows["stack-12", mesh], rows["stack-96", mesh]
        print(f"96 layers against 12 on mesh {mesh}: {many[0] / few[0]:.2f} times the time, {many[2] / few[2]:.3f} times the code, "
              f"{many[3] - few[3]} instructions more beside calls, {many[5] / few[5]:.2f} times the plan")
        if many[0] > MOST_TIME * few[0]:
            failed.append(f"96 layers on mesh {mesh} take more than {MOST_TIME} times the time of 12")
        if many[2] != few[2]:
            failed.append(f"96 layers on mesh {mesh} have other code than 12")
        if many[3] != few[3]:
            failed.append(f"96 layers on mesh {mesh} take other instructions than 12, beside calls")
        if many[5] > MOST_PLAN * few[5]:
            failed.append(f"the plan of 96 layers on mesh {mesh} has more than {MOST_PLAN} times the bytes of that of 12")
    print("\n".join(failed) or "within the limits")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
