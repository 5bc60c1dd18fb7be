#!/usr/bin/env python3
"""Trains GPT-2 (tiny) in bf16 for 300 steps: the loss, averaged over each 20 steps, lies between the smallest and the largest of PyTorch's under
bf16 autocast over five orders of the data (Recorded/gpt2-bf16.json, see record_bf16.py), and is close to PyTorch's in the same order.

    bf16.py --build BUILD [--mesh data=2,model=2 ...] [--order 4 ...]

Where PyTorch's smallest or largest is that of the same order, rounding decides on which side of it a loss lies: there it is close, and no more.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import cases

STEPS, WINDOW, ORDERS, LENGTH, RATE = 300, 20, 5, 16, 1e-3
CLOSE = 1e-3
SAMPLES, VOCABULARY, FOLLOWERS = STEPS * cases.BATCH, 503, 3
MASK = 0xffffffffffffffff


def make_data():
    """Sequences of a language in which each token has three followers, the first of them most often."""
    generator = np.random.default_rng(cases.SEED)
    followers = generator.integers(0, VOCABULARY, (VOCABULARY, FOLLOWERS))
    tokens = np.empty((SAMPLES, LENGTH), np.uint16)
    tokens[:, 0] = generator.integers(0, VOCABULARY, SAMPLES)
    for place in range(1, LENGTH):
        tokens[:, place] = followers[tokens[:, place - 1], generator.choice(FOLLOWERS, SAMPLES, p=[0.6, 0.3, 0.1])]
    return {"input_ids": tokens}


def mix(x):
    x = x + 0x9e3779b97f4a7c15 & MASK
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & MASK
    x = (x ^ x >> 27) * 0x94d049bb133111eb & MASK
    return x ^ x >> 31


def permute(i, count, seed, epoch):
    """The sample that stands at place `i` of an epoch, as docs/Training.md has it."""
    k = 0
    while k < 32 and 1 << 2 * k < count:
        k += 1
    mask, base = (1 << k) - 1, mix(mix(seed) + epoch & MASK)
    while True:
        left, right = i >> k, i & mask
        for number in range(8):
            left, right = right, (left ^ mix(right + mix(base + number & MASK) & MASK)) & mask
        i = left << k | right
        if i < count:
            return i


def windows(losses):
    return np.asarray(losses).reshape(-1, WINDOW).mean(axis=1).tolist()


def run(build, mesh, order, folder):
    """What is wrong, or ""."""
    np.save(folder / "tokens.npy", make_data()["input_ids"])
    plan = folder / "train.cplan"
    subprocess.run([build / "bin/colossal-compile", cases.MODELS / "gpt2/model.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1",
                    "--global-batch", str(cases.BATCH), "--dim", f"seq={LENGTH}", "--precision", "bf16", "--mesh", mesh, "-q", "-o", plan], check=True)
    subprocess.run([build / "bin/colossal-run", "train", plan, "--data", f"input_ids={folder}/tokens.npy", "--data", "attention_mask=fill:1", "--shuffle", str(order),
                    "--steps", str(STEPS), "--lr", str(RATE), "--log", folder / "log.jsonl"], check=True, stdout=subprocess.DEVNULL)
    got = windows([json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()])
    recorded = np.asarray(json.loads((cases.FOLDER / "Recorded/gpt2-bf16.json").read_text())["orders"])
    print(f"order {order} on {mesh}: " + " ".join(f"{loss:.4f}" for loss in got))
    wrong = []
    for window, (loss, column) in enumerate(zip(got, recorded.T)):
        same, others = column[order], np.delete(column, order)
        low, high = min(same * (1 - CLOSE), others.min()), max(same * (1 + CLOSE), others.max())
        if not low <= loss <= high or abs(loss - same) > 3 * CLOSE * same:
            wrong.append(f"steps {WINDOW * window + 1} to {WINDOW * (window + 1)}: {loss:.5f}, PyTorch's are {column}")
    return "; ".join(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--mesh", action="append")
    parser.add_argument("--order", type=int, action="append")
    arguments = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        for mesh in arguments.mesh or ["1"]:
            for order in arguments.order or [4]:
                wrong = run(arguments.build, mesh, order, pathlib.Path(scratch))
                failures += bool(wrong)
                print(f"FAIL order {order} on {mesh}: {wrong}" if wrong else f"ok   order {order} on {mesh}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
