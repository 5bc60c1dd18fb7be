#!/usr/bin/env python3
"""Training steps of real-size models, and inference in bf16, against PyTorch in the same run.

    test/Benchmark/training.py [PART ...] [--threads 2] [--cache DIR] [--rounds 3] [--steps 3]

Parts (all without any):
    inference   a step against our own inference of the same batch: at most 3.5 times
    gpt2        GPT-2 small, 4 x 128 and 8 x 256, f32, against torch.compile: at least 1.3 times as fast
    bf16        the same in bf16, against torch.compile under bf16 autocast: at least 1.2
    models      BERT-base, 4 x 128, and ResNet-50, 4 images, f32, against torch.compile: at least 1.3
    ranks       two ranks of one thread: GPT-2 against DistributedDataParallel, Llama split two ways against DTensor, both over gloo: at least 2
    bf16-inference  GPT-2 small, BERT-base and Llama, 4 x 128, in bf16: at least 1.5 times as fast as in f32 where the CPU multiplies bf16, and as torch.compile
    memory      GPT-2 small, 4 x 128, anonymous memory above the process's start, against eager PyTorch: at most 0.75, with --clip 0.9
    compile     GPT-2 small's training program under 3 s, and 96 equal layers at most 1.3 times the time of 12

AdamW everywhere. Models come from test/Models/export.py, which needs `tools/setup main-job`, and are kept in the cache. The programs take
turns, each several steps, so that what else the machine does meets both; figures are medians over all steps but the first of each turn.
The losses of the first step are compared, so that both are seen to do the same. Exit code 1 where a limit is missed.
"""
import argparse
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import onnx

from real_models import PYTHON, ROOT, compile_plan, exported

LOSSES = {"shift": "cross-entropy,logits=logits,shift=1", "labels": "cross-entropy,logits=logits", "mse": "mse,output=last_hidden_state"}
KIND = {"gpt2": "shift", "llama": "shift", "bert": "mse", "resnet": "labels", "stack-12": "shift", "stack-96": "shift"}
VOCABULARY = {"gpt2": 50257, "llama": 32000, "bert": 30522}


def make_batch(name, batch, seq, path):
    """One batch of random data, without padding."""
    random = np.random.default_rng(0)
    if name == "resnet":
        arrays = {"pixel_values": random.standard_normal((batch, 3, 224, 224), np.float32), "labels": random.integers(0, 1000, batch)}
    else:
        arrays = {"input_ids": random.integers(0, VOCABULARY[name], (batch, seq)), "attention_mask": np.ones((batch, seq), np.int64)}
    if name == "bert":
        arrays["token_type_ids"] = np.zeros((batch, seq), np.int64)
        arrays["target"] = random.standard_normal((batch, seq, 768), np.float32)
    np.savez(path, **arrays)
    return path


class AnonymousMemory:
    """The greatest anonymous resident memory of a process between enter and exit, by looking every few milliseconds."""

    def __init__(self, pid):
        self.pid, self.peak, self.ended = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def now(self):
        try:
            for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    return int(line.split()[1]) * 1024
        except OSError:
            pass
        return 0

    def watch(self):
        while not self.ended.wait(0.005):
            self.peak = max(self.peak, self.now())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


class Ours:
    def __init__(self, arguments, name, batch, seq, scratch, mesh="1", options=(), flags=()):
        self.build, self.flags = arguments.build, [*flags, "--lr", "1e-4"]
        self.data = make_batch(name, batch, seq, pathlib.Path(scratch) / f"{name}-{batch}x{seq}.npz")
        self.plan, self.log = (pathlib.Path(scratch) / f"train.{end}" for end in ("cplan", "jsonl"))
        dims = [] if name == "resnet" else ["--dim", f"seq={seq}"]
        subprocess.run(list(map(str, [self.build / "bin/colossal-compile", exported(name, arguments.cache) / "model.onnx", "--training", "adamw",
                                      "--loss", LOSSES[KIND[name]], "--global-batch", batch, *dims, "--mesh", mesh, *options, "-q", "-o", self.plan])),
                       check=True)

    def run(self, steps, threads):
        """Seconds and losses of the steps, and the peak of anonymous memory."""
        process = subprocess.Popen(list(map(str, [self.build / "bin/colossal-run", "train", self.plan, "--data", self.data, "--steps", steps,
                                                  "--threads", threads, "--log", self.log, *self.flags])), stdout=subprocess.DEVNULL)
        with AnonymousMemory(process.pid) as memory:
            if process.wait():
                raise SystemExit(f"colossal-run train failed: exit code {process.returncode}")
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        self.log.unlink()
        return [line["seconds"] for line in lines], [line["loss"] for line in lines], memory.peak


class Peer:
    """PyTorch in processes of their own, idle between turns."""

    def __init__(self, name, data, threads, precision="f32", parallel="no", clip=0, eager=False, infers=False):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        world = 1 if parallel == "no" else 2
        command = [PYTHON, ROOT / "test/Benchmark/training_peer.py", name, data, "--loss", KIND[name], "--threads", threads, "--precision", precision,
                   "--parallel", parallel, "--clip", clip, "--world", world, "--port", port, *(["--eager"] if eager else []), *(["--inference"] if infers else [])]
        self.processes = [subprocess.Popen(list(map(str, [*command, "--rank", rank])), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                          for rank in range(world)]
        self.version = self.answer()["torch"]
        self.at_start = AnonymousMemory(self.processes[0].pid).now()

    def answer(self):
        while line := self.processes[0].stdout.readline():
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit("PyTorch's side failed; what it printed stands above")

    def run(self, steps):
        with AnonymousMemory(self.processes[0].pid) as memory:
            self.processes[0].stdin.write(f"{steps}\n")
            self.processes[0].stdin.flush()
            got = self.answer()
        return got["seconds"], got["losses"], memory.peak - self.at_start

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait()


class Report:
    def __init__(self):
        self.missed = 0
        print("| what | Colossal | beside it | ratio | limit |\n|---|---|---|---|---|")

    def add(self, what, ours, theirs, unit, limit, at_least=True):
        ratio = theirs / ours if at_least else ours / theirs
        met = ratio >= limit if at_least else ratio <= limit
        self.missed += not met
        print(f"| {what} | {ours:.3g} {unit} | {theirs:.3g} {unit} | {ratio:.2f} | {'at least' if at_least else 'at most'} {limit}{'' if met else ', missed'} |",
              flush=True)


def race(arguments, ours, peer, threads):
    """Medians of both programs' steps, in turns."""
    mine, theirs, first = [], [], None
    for _ in range(arguments.rounds):
        seconds, losses, _ = ours.run(arguments.steps + 1, threads)
        mine += seconds[1:]
        seconds, other, _ = peer.run(arguments.steps + 1)
        theirs += seconds[1:]
        first = first or (losses[0], other[0])
    return statistics.median(mine), statistics.median(theirs), first


def against_pytorch(arguments, report, scratch, what, name, batch, seq, limit, precision="f32", parallel="no", threads=None):
    mesh = {"no": "1", "data": "data=2", "tensor": "model=2"}[parallel]
    threads = threads or arguments.threads
    ours = Ours(arguments, name, batch, seq, scratch, mesh, ["--precision", precision] if precision != "f32" else [])
    with Peer(name, ours.data, threads, precision, parallel) as peer:
        mine, theirs, (loss, other) = race(arguments, ours, peer, threads)
    # Under DistributedDataParallel a rank's loss is that of its half of the batch.
    if parallel != "data" and abs(loss - other) > (1e-4 if precision == "f32" else 2e-2) * abs(other):
        raise SystemExit(f"{what}: the first loss is {loss}, PyTorch's {other}: the two do not train the same")
    report.add(what, mine, theirs, "s", limit)


def infer(arguments, plan, inputs, *flags):
    """The median seconds of a turn of a plan for inference."""
    out = subprocess.run(list(map(str, [arguments.build / "bin/colossal-run", plan, "--input", inputs, "--threads", arguments.threads,
                                        "--benchmark", arguments.steps, "--json", *flags])), stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(out)["median_s"]


def multiplies_bf16():
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def bf16_inference(arguments, report, scratch):
    for name, title in ("gpt2", "GPT-2"), ("bert", "BERT"), ("llama", "Llama"):
        model = exported(name, arguments.cache) / "model.onnx"
        data = make_batch(name, 4, 128, pathlib.Path(scratch) / f"{name}.npz")
        output = onnx.load(model, load_external_data=False).graph.output[0].name
        inputs, results = (pathlib.Path(scratch) / name for name in ("inputs.npz", "results.npz"))
        plans, seconds = {}, {"f32": [], "bf16": [], "torch": []}
        with np.load(data) as arrays:
            np.savez(inputs, **{key: array for key, array in arrays.items() if key != "target"})
        for precision in ("f32", "bf16"):
            plans[precision] = pathlib.Path(scratch) / f"{precision}.cplan"
            with np.load(data) as arrays:
                compile_plan(arguments.build, model, arrays, plans[precision], options=["--precision", precision])
        infer(arguments, plans["bf16"], inputs, "--output", results)
        with Peer(name, data, arguments.threads, "bf16", infers=True) as peer:
            for _ in range(arguments.rounds):
                for precision, plan in plans.items():
                    seconds[precision].append(infer(arguments, plan, inputs))
                taken, means, _ = peer.run(arguments.steps + 1)
                seconds["torch"] += taken[1:]
        with np.load(results) as arrays:
            mean = float(np.abs(arrays[output].astype(np.float32)).mean())
        if abs(mean - means[0]) > 2e-2 * mean:
            raise SystemExit(f"{title}: the mean of the output is {mean}, PyTorch's {means[0]}: the two do not compute the same")
        ours, wide, theirs = (statistics.median(seconds[key]) for key in ("bf16", "f32", "torch"))
        if multiplies_bf16():
            report.add(f"{title}, 4 x 128, inference in bf16, beside our f32", ours, wide, "s", 1.5)
        report.add(f"{title}, 4 x 128, inference in bf16", ours, theirs, "s", 1)


def inference(arguments, report, scratch):
    for batch, seq in (4, 128), (8, 256):
        ours = Ours(arguments, "gpt2", batch, seq, scratch)
        inputs = pathlib.Path(scratch) / "inputs.npz"
        with np.load(ours.data) as data:
            np.savez(inputs, **data)
            plan = pathlib.Path(scratch) / "infer.cplan"
            compile_plan(arguments.build, exported("gpt2", arguments.cache) / "model.onnx", data, plan)
        step, run = [], []
        for _ in range(arguments.rounds):
            step += ours.run(arguments.steps + 1, arguments.threads)[0][1:]
            run.append(infer(arguments, plan, inputs))
        report.add(f"GPT-2, {batch} x {seq}: a step, beside inference", statistics.median(step), statistics.median(run), "s", 3.5, at_least=False)


def gpt2(arguments, report, scratch, precision="f32", limit=1.3):
    for batch, seq in (4, 128), (8, 256):
        against_pytorch(arguments, report, scratch, f"GPT-2, {batch} x {seq}, {precision}", "gpt2", batch, seq, limit, precision)


def bf16(arguments, report, scratch):
    gpt2(arguments, report, scratch, "bf16", 1.2)


def models(arguments, report, scratch):
    against_pytorch(arguments, report, scratch, "BERT, 4 x 128", "bert", 4, 128, 1.3)
    against_pytorch(arguments, report, scratch, "ResNet-50, 4 images", "resnet", 4, 224, 1.3)


def ranks(arguments, report, scratch):
    against_pytorch(arguments, report, scratch, "GPT-2, 4 x 128, two ranks, data parallel", "gpt2", 4, 128, 2, parallel="data", threads=1)
    against_pytorch(arguments, report, scratch, "Llama, 4 x 128, two ranks, tensor parallel", "llama", 4, 128, 2, parallel="tensor", threads=1)


def memory(arguments, report, scratch):
    for flags, limit in ([], 0.75), (["--clip", "1"], 0.9):
        ours = Ours(arguments, "gpt2", 4, 128, scratch, flags=flags)
        with Peer("gpt2", ours.data, arguments.threads, clip=1 if flags else 0, eager=True) as peer:
            theirs = peer.run(arguments.steps)[2]
        mine = ours.run(arguments.steps, arguments.threads)[2]
        report.add(f"memory of GPT-2, 4 x 128 {' '.join(flags)}".rstrip(), mine / 2**20, theirs / 2**20, "MiB", limit, at_least=False)


def compiling(arguments, report, scratch):
    def seconds(name):
        taken, model = [], exported(name, arguments.cache) / "model.onnx"
        for _ in range(arguments.rounds):
            begin = time.monotonic()
            subprocess.run(list(map(str, [arguments.build / "bin/colossal-compile", model, "--training",
                                          "adamw", "--loss", LOSSES[KIND[name]], "--global-batch", 4, "--dim", "seq=128", "--mesh", "1", "-q", "-o",
                                          pathlib.Path(scratch) / "c.cplan"])), check=True)
            taken.append(time.monotonic() - begin)
        return min(taken)
    report.add("compile time of GPT-2, beside the limit", seconds("gpt2"), 3.0, "s", 1, at_least=False)
    report.add("compile time of 96 layers, beside 12", seconds("stack-96"), seconds("stack-12"), "s", 1.3, at_least=False)


PARTS = {"inference": inference, "gpt2": gpt2, "bf16": bf16, "models": models, "ranks": ranks, "bf16-inference": bf16_inference, "memory": memory, "compile": compiling}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/models")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="measured steps in a turn")
    arguments = parser.parse_args()
    for part in arguments.parts:
        if part not in PARTS:
            parser.error(f"there is no part '{part}'; there are {', '.join(PARTS)}")
    report = Report()
    with tempfile.TemporaryDirectory() as scratch:
        for part in arguments.parts or PARTS:
            PARTS[part](arguments, report, scratch)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
