#!/usr/bin/env python3
"""Compiles the test models for training, trains them, and compares each step's loss with PyTorch's (Recorded/, see record.py).

    run.py --build BUILD [--models mlp gpt2] [--optimizers sgd adamw] [--mesh data=2,model=2 ...] [--compile '--zero 2'] [--steps 100]

A run passes where all losses are within 1e-4 of PyTorch's in f32, relatively, or within twice what PyTorch's f32 has differed from its f64 so
far, where that is more. --mesh may be given several times; 1 is one rank. --compile adds options to colossal-compile's, --train to colossal-run's. Of models with
batch statistics the running ones in the end are compared, too, and the loss of an evaluation.
"""
import argparse
import json
import math
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

import numpy as np

import cases

TOLERANCE = 1e-4


def command(arguments, log):
    done = subprocess.run([str(a) for a in arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log.write(shlex.join(str(a) for a in arguments) + "\n" + done.stdout)
    return done.returncode, done.stdout


def worst_difference(got, recorded):
    """The step whose loss is furthest from what it may be, as (share of the tolerance, step, got, wanted)."""
    worst, apart = (0.0, 0, 0.0, 0.0), 0.0
    for step, loss in enumerate(got):
        single, double = recorded["f32"][step], recorded["f64"][step]
        apart = max(apart, abs(single - double))  # where the two cross says nothing of how far rounding has led
        allowed = max(TOLERANCE * abs(single), 2 * apart)
        share = abs(loss - single) / allowed if loss is not None else float("inf")
        if not share <= worst[0]:
            worst = (share, step + 1, loss, single)
    return worst


def count_parts(case, mesh, options):
    """Of a batch, that have statistics of their own."""
    if not case.takes_statistics:
        return 1
    turns, ranks = re.search(r"--microbatches[ =](\d+)", options), re.search(r"data=(\d+)", mesh)
    return (int(turns[1]) if turns else 1) * (int(ranks[1]) if ranks and "--sync-batch-norm" not in options else 1)


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    for name, about in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = about["data_offsets"]
            yield name, np.frombuffer(data[8 + size + begin:8 + size + end], "<f4")


def compare_statistics(path, recorded):
    """What is wrong with the running statistics that were exported, or ""."""
    have = dict(read_safetensors(path))
    for name, (total, squares) in recorded["running"].items():
        if name not in have:
            return f"{name} is not exported"
        size = math.sqrt(squares * have[name].size)  # bounds the sum
        if abs(float(have[name].astype(float).sum()) - total) > 1e-3 * size or abs(float((have[name].astype(float) ** 2).sum()) - squares) > 2e-3 * squares:
            return f"{name} is {have[name][:4]}... in the end, which is not PyTorch's"
    return ""


def run(case, optimizer, mesh, arguments, scratch):
    parts = count_parts(case, mesh, arguments.compile)
    file = f"{case.name}-{optimizer}" + (f"-parts{parts}" if parts > 1 else "")
    recorded = json.loads((cases.FOLDER / "Recorded" / f"{file}.json").read_text())
    folder = scratch / f"{case.name}-{optimizer}-{mesh.replace(',', '-')}"
    folder.mkdir(parents=True, exist_ok=True)
    log = (folder / "commands.log").open("w")
    data = []
    for name, array in cases.make_data(case).items():
        np.save(folder / f"{name}.npy", array)
        data += ["--data", f"{name}={folder / name}.npy"]
    plan = folder / "train.cplan"
    options = [] if mesh == "1" else ["--mesh", mesh]
    for name, value in case.dimensions().items():
        options += ["--dim", f"{name}={value}"]
    begin = time.time()
    code, text = command([arguments.build / "bin/colossal-compile", case.path(), "--training", optimizer, "--loss", case.loss,
                          "--global-batch", cases.BATCH, *options, *shlex.split(arguments.compile), "-o", plan], log)
    compiled = time.time() - begin
    if code != 0:
        return f"compiling fails with {code}: {text.strip().splitlines()[-1:]}", compiled, 0
    settings = [part for name, value in case.options(optimizer).items() for part in (f"--{name}", value)]
    if "evaluation" in recorded:
        settings += ["--checkpoint", folder / "checkpoint", *(part.replace("--data", "--evaluate-data") for part in data)]
    begin = time.time()
    code, text = command([arguments.build / "bin/colossal-run", "train", plan, *data, "--steps", arguments.steps, *settings, "--log", folder / "log.jsonl",
                          *shlex.split(arguments.train)], log)
    trained = time.time() - begin
    if code != 0:
        return f"training fails with {code}: {text.strip().splitlines()[-1:]}", compiled, trained
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    got = [line["loss"] for line in lines]
    if len(got) != arguments.steps:
        return f"the log has {len(got)} steps", compiled, trained
    share, step, loss, wanted = worst_difference(got, recorded)
    if share > 1:
        return f"the loss of step {step} is {loss}, and PyTorch's {wanted} ({share:.1f} times what is allowed)", compiled, trained
    if "evaluation" in recorded and arguments.steps == len(recorded["f32"]):
        if abs(lines[-1]["evaluation_loss"] - recorded["evaluation"]) > 1e-3 * abs(recorded["evaluation"]):
            return f"evaluation gives {lines[-1]['evaluation_loss']}, and PyTorch's {recorded['evaluation']}", compiled, trained
        code, text = command([arguments.build / "bin/colossal-run", "export", folder / "checkpoint", "--safetensors", folder / "trained.safetensors"], log)
        if code != 0:
            return f"export fails with {code}: {text.strip().splitlines()[-1:]}", compiled, trained
        return compare_statistics(folder / "trained.safetensors", recorded), compiled, trained
    return "", compiled, trained


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", nargs="*", default=list(cases.CASES))
    parser.add_argument("--optimizers", nargs="*", help="(default: all that are recorded of a model)")
    parser.add_argument("--mesh", action="append")
    parser.add_argument("--compile", default="")
    parser.add_argument("--train", default="")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--scratch", type=pathlib.Path, help="keeps plans, data and logs there")
    arguments = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        scratch = arguments.scratch or pathlib.Path(temporary)
        for name in arguments.models:
            for optimizer in arguments.optimizers or cases.CASES[name].optimizers:
                for mesh in arguments.mesh or ["1"]:
                    problem, compiled, trained = run(cases.CASES[name], optimizer, mesh, arguments, scratch)
                    failures += bool(problem)
                    print(f"{'FAIL' if problem else 'ok  '} {name} {optimizer} on {mesh}: compiled in {compiled:.1f} s, {arguments.steps} steps in {trained:.1f} s"
                          + (f": {problem}" if problem else ""), flush=True)
    print(f"{failures} failures" if failures else "all as PyTorch")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
