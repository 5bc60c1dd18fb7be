#!/usr/bin/env python3
"""One plan gives the same bits with any number of threads, and by any communicator.

    threads.py --build build [--models gpt2 ...] [--threads 1 2 3] [--mesh 2 --mpi]

Each model is compiled once and run with each number of threads; all outputs must be equal, byte for byte. The models
cover contractions, attention, convolutions of both kinds (generated and the library's), and normalizations.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from run import MODELS, bindings, mpi_environment, ranks_of

DEFAULT = ["bert", "gpt2", "gpt2-decode", "llama", "mobilenet", "resnet", "swin", "unet"]


def outputs_of(arguments, plan, inputs, threads, scratch, openmp=None):
    """With `openmp`, one process a rank under mpirun, with that value of OMP_NUM_THREADS."""
    file = pathlib.Path(scratch) / "outputs.npz"
    command = [arguments.build / "bin/colossal-run", plan, "--input", inputs, "--threads", str(threads), "--output", file]
    environment = None
    if openmp:
        command = ["mpirun", "--oversubscribe", "-n", str(ranks_of(arguments.mesh)), *command, "--comm", "mpi"]
        environment = {**mpi_environment(scratch), "OMP_NUM_THREADS": str(openmp), "OMP_DYNAMIC": "false", "OMP_PROC_BIND": "true"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, timeout=120)
    return {name: value.tobytes() for name, value in np.load(file).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", nargs="+", default=DEFAULT)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--mesh", default="1")
    parser.add_argument("--mpi", action="store_true", help="also under mpirun, whatever OpenMP's variables say")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for model in arguments.models:
            inputs = sorted((MODELS / model).glob("*/inputs.npz"))[0]
            plan = pathlib.Path(scratch) / "model.cplan"
            subprocess.run([arguments.build / "bin/colossal-compile", MODELS / model / "model.onnx", "--mesh", arguments.mesh, "-q",
                            *bindings(model, np.load(inputs)), "-o", plan], check=True)
            found = [outputs_of(arguments, plan, inputs, threads, scratch) for threads in arguments.threads]
            if arguments.mpi:
                found += [outputs_of(arguments, plan, inputs, threads, scratch, openmp) for threads in arguments.threads for openmp in (1, 8)]
            differ = [name for name in found[0] if any(other[name] != found[0][name] for other in found[1:])]
            failed += bool(differ)
            print(f"{model:12} {len(found[0])} outputs with {arguments.threads} threads{' and by MPI' if arguments.mpi else ''}: "
                  f"{'differ: ' + ', '.join(differ) if differ else 'equal'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
