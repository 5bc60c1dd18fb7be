#!/usr/bin/env python3
"""One plan gives the same bits with any number of threads.

    threads.py --build build [--models gpt2 ...] [--threads 1 2 3]

Each model is compiled once and run with each number of threads; all outputs must be equal, byte for byte. The models
cover contractions, attention, convolutions of both kinds (generated and the library's), and normalizations.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from run import MODELS, bindings

DEFAULT = ["bert", "gpt2", "gpt2-decode", "llama", "mobilenet", "resnet", "swin", "unet"]


def outputs_of(arguments, plan, inputs, threads, scratch):
    file = pathlib.Path(scratch) / "outputs.npz"
    subprocess.run([arguments.build / "bin/colossal-run", plan, "--input", inputs, "--threads", str(threads), "--output", file],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {name: value.tobytes() for name, value in np.load(file).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", nargs="+", default=DEFAULT)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--mesh", default="1")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for model in arguments.models:
            inputs = sorted((MODELS / model).glob("*/inputs.npz"))[0]
            plan = pathlib.Path(scratch) / "model.cplan"
            subprocess.run([arguments.build / "bin/colossal-compile", MODELS / model / "model.onnx", "--mesh", arguments.mesh, "-q",
                            *bindings(model, np.load(inputs)), "-o", plan], check=True)
            found = [outputs_of(arguments, plan, inputs, threads, scratch) for threads in arguments.threads]
            differ = [name for name in found[0] if any(other[name] != found[0][name] for other in found[1:])]
            failed += bool(differ)
            print(f"{model:12} {len(found[0])} outputs with {arguments.threads} threads: "
                  f"{'differ: ' + ', '.join(differ) if differ else 'equal'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
