"""Trains a character model and a classifier on 4 ranks, and the classifier with large batches; see tools/run-training-demo.

    demo.py --build BUILD --out FOLDER [--steps 150]
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

TEXTS = pathlib.Path("/usr/share/common-licenses")  # of the package base-files
SEQ = 64


class Demo:
    def __init__(self, build, out):
        self.bin, self.out = build / "bin", out
        out.mkdir(parents=True, exist_ok=True)

    def run(self, tool, *arguments, quiet=True):
        line = [str(self.bin / tool), *map(str, arguments)]
        done = subprocess.run(line, cwd=self.out, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{' '.join(line)}\n{done.stdout}\nexit code {done.returncode}")
        if not quiet:
            print(done.stdout, end="")
        return done.stdout

    def log(self, name):
        return [json.loads(line) for line in (self.out / name).read_text().splitlines()]


def bytes_per_rank(text):
    """What `colossal-run train --memory` says that rank 0 holds."""
    return sum(int(found) for found in re.findall(r"^rank 0: .*planned (\d+)", text, re.M))


def character_model(demo, steps):
    """A GPT of two layers on the texts of licences; returns steps, losses, evaluation losses."""
    text = "\n".join(file.read_text(errors="replace") for file in sorted(TEXTS.iterdir()) if file.is_file() and not file.is_symlink())
    characters = sorted(set(text))
    tokens = np.array([characters.index(c) for c in text], np.uint16)
    held_out = len(tokens) // 10
    tokens[:-held_out].tofile(demo.out / "text.bin")
    tokens[-held_out:].tofile(demo.out / "held-out.bin")
    subprocess.run([sys.executable, pathlib.Path(__file__).parent.parent / "make-transformer", demo.out / "characters.onnx", "--family", "gpt", "--layers", "2",
                    "--hidden", "128", "--heads", "4", "--vocabulary", str(len(characters)), "--positions", str(SEQ), "--weights", "1"], check=True, stdout=subprocess.DEVNULL)
    compile = ["characters.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--global-batch", 16, "--dim", f"seq={SEQ}"]
    whole = demo.run("colossal-compile", *compile, "-o", "whole.cplan", "--json")
    needed = json.loads(next(line for line in whole.splitlines() if line.startswith("{")))["memory"]["total"]
    limit = int(needed * 0.62)  # so that neither samples nor weights can lie whole on each rank
    demo.run("colossal-compile", *compile, "--mesh", "data=2,model=2", "--memory", f"{limit // 1024}KiB", "-o", "characters.cplan")
    data = lambda file: ["input_ids=" + file + ":u16"]
    print(f"characters: {len(tokens)} of {len(characters)} kinds; one rank alone would need {needed / 1e6:.1f} MB, and each of 4 may hold {limit / 1e6:.1f} MB", flush=True)
    output = demo.run("colossal-run", "train", "characters.cplan", "--data", *data("text.bin"), "--shuffle", 1, "--steps", steps, "--lr", "1e-3", "--lr-schedule", "cosine",
                      "--warmup", steps // 10, "--clip", 1, "--evaluate-every", max(1, steps // 10), "--evaluate-data", *data("held-out.bin"), "--log", "characters.jsonl",
                      "--checkpoint", "characters", "--keep", 1, "--memory")
    lines = demo.log("characters.jsonl")
    print(f"characters: loss {lines[0]['loss']:.3f} to {lines[-1]['loss']:.3f} in {steps} steps on 4 ranks of {bytes_per_rank(output) / 1e6:.1f} MB", flush=True)
    return lines


def digits_model(path, generator):
    def tensor(name, *shape):
        spread = np.sqrt(2 / shape[0]) if len(shape) > 1 else 0
        return numpy_helper.from_array((generator.standard_normal(shape) * spread).astype(np.float32), name)

    weights = [tensor("hidden.weight", 64, 256), tensor("hidden.bias", 256), tensor("more.weight", 256, 128), tensor("more.bias", 128), tensor("head.weight", 128, 10), tensor("head.bias", 10)]
    nodes = [helper.make_node("Gemm", ["x", "hidden.weight", "hidden.bias"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Gemm", ["b", "more.weight", "more.bias"], ["c"]), helper.make_node("Relu", ["c"], ["d"]),
             helper.make_node("Gemm", ["d", "head.weight", "head.bias"], ["logits"])]
    graph = helper.make_graph(nodes, "digits", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def accuracy(demo, checkpoint, images, labels):
    demo.run("colossal-run", "export", checkpoint, "--safetensors", "digits.safetensors")
    demo.run("colossal-run", "digits-infer.cplan", "--weights", "digits.safetensors", "--input", "x=test.npy", "--output", "logits.npz")
    return float((np.load(demo.out / "logits.npz")["logits"].argmax(-1) == labels).mean())


def train_digits(demo, name, optimizer, batch, epochs, settings, mesh, test):
    """Returns the samples seen and the accuracy after each of some epochs, and the log."""
    steps = max(1, epochs * 1500 // batch)
    demo.run("colossal-compile", "digits.onnx", "--training", optimizer, "--loss", "cross-entropy,logits=logits", "--global-batch", batch, "--mesh", mesh, "-o", f"{name}.cplan")
    demo.run("colossal-run", "train", f"{name}.cplan", "--data", "x=train.npy", "labels=labels.npy", "--shuffle", 1, "--steps", steps, *settings(steps), "--log", f"{name}.jsonl",
             "--checkpoint", name, "--every", max(1, steps // 10))
    points = []
    for folder in sorted((demo.out / name).glob("step-*")):
        step = int(folder.name[5:])
        points.append((step * batch, accuracy(demo, folder, *test)))
    print(f"digits, {optimizer}, batch {batch}: {100 * points[-1][1]:.1f} % after {epochs} epochs, {steps} steps", flush=True)
    return points, demo.log(f"{name}.jsonl")


def digits(demo):
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(labels))
    images, labels = (images[order] / 16).astype(np.float32), labels[order].astype(np.int64)
    np.save(demo.out / "train.npy", images[:1500])
    np.save(demo.out / "labels.npy", labels[:1500])
    np.save(demo.out / "test.npy", images[1500:])
    digits_model(demo.out / "digits.onnx", np.random.default_rng(2))
    demo.run("colossal-compile", "digits.onnx", "--dim", f"batch={len(images) - 1500}", "-o", "digits-infer.cplan")
    test = (images[1500:], labels[1500:])
    warm = lambda lr, share: lambda steps: ["--lr", lr, "--momentum", 0.9, "--weight-decay", 1e-4, "--lr-schedule", "polynomial", "--power", 2, "--warmup", max(1, int(share * steps))]
    runs = {
        "SGD, batch 64": ("sgd", 64, warm(0.1, 0.05)),
        # Sixteen times the batch and as many epochs: the rate scaled with it, and a longer warm-up (LARS and LAMB, section 4).
        "SGD, batch 1024": ("sgd", 1024, lambda steps: [*warm(1.6, 0.2)(steps), "--clip", 1]),
        "LARS, batch 1024": ("lars", 1024, lambda steps: [*warm(3.0, 0.3)(steps), "--trust", 0.02]),
        "LAMB, batch 1024": ("lamb", 1024, lambda steps: ["--lr", 0.02, "--weight-decay", 0.01, "--lr-schedule", "polynomial", "--warmup", max(1, int(0.2 * steps))]),
    }
    return {title: train_digits(demo, title.lower().replace(", ", "-").replace(" ", ""), optimizer, batch, 30, settings, "data=2,model=2", test)
            for title, (optimizer, batch, settings) in runs.items()}


def plot(path, characters, runs):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.5))
    left.plot([line["step"] for line in characters], [line["loss"] for line in characters], label="training")
    evaluated = [line for line in characters if "evaluation_loss" in line]
    left.plot([line["step"] for line in evaluated], [line["evaluation_loss"] for line in evaluated], "o-", label="held-out text")
    left.set(title="Characters, 4 ranks", xlabel="step", ylabel="cross-entropy")
    left.legend()
    for title, (points, log) in runs.items():
        middle.plot([line["samples"] for line in log], [line["loss"] for line in log], label=title)
        right.plot([samples for samples, _ in points], [100 * share for _, share in points], "o-", label=title)
    middle.set(title="Digits", xlabel="samples", ylabel="cross-entropy", yscale="log")
    right.set(title="Digits, of the test set", xlabel="samples", ylabel="accuracy in %")
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=150)
    arguments = parser.parse_args()
    demo = Demo(arguments.build.resolve(), arguments.out.resolve())
    characters = character_model(demo, arguments.steps)
    runs = digits(demo)
    plot(demo.out / "training.png", characters, runs)
    print(f"{demo.out / 'training.png'}")


if __name__ == "__main__":
    main()
