#!/usr/bin/env python3
"""Compiles the test models for training, trains them, and compares each step's loss with PyTorch's (Recorded/, see record.py).

    run.py --build BUILD [--models mlp gpt2] [--optimizers sgd adamw] [--mesh data=2,model=2 ...] [--compile '--zero 2'] [--steps 100]
    run.py --build BUILD --device cuda --steps 10 [--mesh data=2 ...]

A run passes where all losses are within 1e-4 of PyTorch's in f32, relatively, or within twice what PyTorch's f32 has differed from its f64 so
far, where that is more. --mesh may be given several times; 1 is one rank. --compile adds options to colossal-compile's, --train to colossal-run's. Of models with
batch statistics the running ones in the end are compared, too, and the loss of an evaluation.

With --device cuda the plan is one for GPUs, which emulated ones run, a process for each rank (tools/on-emulated-gpus), and is compared with the CPU at one
rank, by all optimizers: losses, norms of gradients, and what CPUs make of the GPUs' checkpoint in half as many steps again.
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

TOLERANCE, NORM_TOLERANCE = 1e-4, 1e-2


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
    """Turns of the loop over microbatches, and ranks, whose parts of a batch have statistics of their own."""
    if not case.takes_statistics:
        return 1, 1
    turns, ranks = re.search(r"--microbatches[ =](\d+)", options), re.search(r"data=(\d+)", mesh)
    return int(turns[1]) if turns else 1, int(ranks[1]) if ranks and "--sync-batch-norm" not in options else 1


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


def write_data(case, folder):
    """Files of the data, as options of colossal-run train."""
    data = []
    for name, array in cases.make_data(case).items():
        np.save(folder / f"{name}.npy", array)
        data += ["--data", f"{name}={folder / name}.npy"]
    return data


def compile_case(case, optimizer, mesh, more, build, plan, log):
    options = [] if mesh == "1" else ["--mesh", mesh]
    for name, value in case.dimensions().items():
        options += ["--dim", f"{name}={value}"]
    return command([build / "bin/colossal-compile", case.path(), "--training", optimizer, "--loss", case.loss, "--global-batch", cases.BATCH, *options,
                    *more, "-o", plan], log)


def settings_of(case, optimizer):
    return [part for name, value in case.options(optimizer).items() for part in (f"--{name}", value)]


def run(case, optimizer, mesh, arguments, scratch):
    path = cases.FOLDER / "Recorded" / f"{case.name}-{optimizer}{cases.suffix_of(*count_parts(case, mesh, arguments.compile))}.json"
    if not path.exists():
        return f"nothing is recorded for batches of such parts ({path.name}; record.py makes some)", 0, 0
    recorded = json.loads(path.read_text())
    folder = scratch / f"{case.name}-{optimizer}-{mesh.replace(',', '-')}"
    folder.mkdir(parents=True, exist_ok=True)
    log = (folder / "commands.log").open("w")
    data, plan = write_data(case, folder), folder / "train.cplan"
    begin = time.time()
    code, text = compile_case(case, optimizer, mesh, shlex.split(arguments.compile), arguments.build, plan, log)
    compiled = time.time() - begin
    if code != 0:
        return f"compiling fails with {code}: {text.strip().splitlines()[-1:]}", compiled, 0
    settings = settings_of(case, optimizer)
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


class Failure(Exception):
    pass


def count_ranks(mesh):
    return math.prod(int(size) for size in re.findall(r"\d+", mesh))


def furthest(got, wanted):
    """Says where lines of a log differ by more than TOLERANCE, or "". Norms of gradients may by NORM_TOLERANCE after the first update: where a gradient
    is nothing but rounding errors, as that of a bias before a batch normalization, Adam and its like make a whole step of them."""
    for one, other in zip(got, wanted, strict=True):
        for name in ("step", "loss", "grad_norm", "samples"):
            tolerance = NORM_TOLERANCE if name == "grad_norm" and one["step"] > 1 else TOLERANCE
            if one[name] is None or not abs(one[name] - other[name]) <= tolerance * abs(other[name]):
                return f"{name} of step {one['step']} is {one[name]}, and on the CPU {other[name]}"
    return ""


def compare_devices(case, optimizer, mesh, arguments, scratch):
    """Trains on emulated GPUs, and on with their checkpoint on CPUs; the CPU alone, at one rank, is to give the same."""
    folder = scratch / f"{case.name}-{optimizer}-{mesh.replace(',', '-')}-cuda"
    folder.mkdir(parents=True, exist_ok=True)
    log = (folder / "commands.log").open("w")
    data, steps, more = write_data(case, folder), arguments.steps, shlex.split(arguments.compile)
    spent = {"compiling": 0.0, "training": 0.0}

    def timed(kind, what, function, *given):
        begin = time.time()
        code, text = function(*given)
        spent[kind] += time.time() - begin
        if code != 0:
            raise Failure(f"{what} fails with {code}: {text.strip().splitlines()[-1:]}")

    def train(what, plan, count, *options, launcher=()):
        file = folder / f"{what}.jsonl"
        file.unlink(missing_ok=True)
        timed("training", f"training ({what})", command,
              [*launcher, arguments.build / "bin/colossal-run", "train", plan, *data, "--steps", count, *settings_of(case, optimizer), "--log", file,
               *options, *shlex.split(arguments.train)], log)
        return [json.loads(line) for line in file.read_text().splitlines()]

    try:
        # Statistics are those of a rank's part of the batch, so the CPU has as many ranks where there are any.
        alone = mesh if count_parts(case, mesh, "") != (1, 1) else "1"
        timed("compiling", "compiling for the CPU", compile_case, case, optimizer, alone, more, arguments.build, folder / "cpu.cplan", log)
        timed("compiling", "compiling for GPUs", compile_case, case, optimizer, mesh, ["--target", "cuda:sm_90", *more], arguments.build,
              folder / "cuda.cplan", log)
        wanted = train("cpu", folder / "cpu.cplan", steps + steps // 2)
        launcher = [pathlib.Path(__file__).parents[2] / "tools/on-emulated-gpus", "--build", arguments.build, count_ranks(mesh)]
        problem = furthest(train("cuda", folder / "cuda.cplan", steps, "--checkpoint", folder / "checkpoint", launcher=launcher), wanted[:steps])
        if problem:
            raise Failure(problem)
        problem = furthest(train("resumed", folder / "cpu.cplan", steps + steps // 2, "--resume", folder / "checkpoint"), wanted[steps:])
        if problem:
            raise Failure(f"with the checkpoint of the GPUs, {problem}")
    except Failure as failure:
        return str(failure), spent["compiling"], spent["training"]
    return "", spent["compiling"], spent["training"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", nargs="*", default=list(cases.CASES))
    parser.add_argument("--optimizers", nargs="*", help="(default: all that are recorded of a model; with --device cuda all)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--mesh", action="append")
    parser.add_argument("--compile", default="")
    parser.add_argument("--train", default="")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--scratch", type=pathlib.Path, help="keeps plans, data and logs there")
    arguments = parser.parse_args()
    on_gpus = arguments.device == "cuda"
    known = {**cases.OPTIMIZERS, **(cases.UNRECORDED if on_gpus else {})}
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        scratch = arguments.scratch or pathlib.Path(temporary)
        for name in arguments.models:
            for optimizer in arguments.optimizers or (known if on_gpus else cases.CASES[name].optimizers):
                for mesh in arguments.mesh or ["1"]:
                    problem, compiled, trained = (compare_devices if on_gpus else run)(cases.CASES[name], optimizer, mesh, arguments, scratch)
                    failures += bool(problem)
                    print(f"{'FAIL' if problem else 'ok  '} {name} {optimizer} on {mesh}: compiled in {compiled:.1f} s, {arguments.steps} steps in {trained:.1f} s"
                          + (f": {problem}" if problem else ""), flush=True)
    print(f"{failures} failures" if failures else "all as on the CPU" if on_gpus else "all as PyTorch")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
