#!/usr/bin/env python3
"""Makes the first call of each function of the driver, of cuBLASLt and of cuDNN fail, in runs of some plans on an emulated GPU. A run has to end soon
with an error that names the call; where the plan does without it, or it only cleans up, as if nothing had been. Each
function that does more than clean up has to be called by one of the plans.

    cuda_faults.py --build BUILD PLAN...
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = {"runtime/cuda/Abi.h": (r"^  X\((cu\w+),", "COLOSSAL_EMULATED_GPU_FAIL", 1),  # invalid value
             "runtime/cuda/cublaslt/Abi.h": (r"^  X\(Result, (cublas\w+),", "COLOSSAL_EMULATED_CUBLASLT_FAIL", 14),  # internal error
             "runtime/cuda/cudnn/Abi.h": (r"^  X\(Result, (cudnn\w+),", "COLOSSAL_EMULATED_CUDNN_FAIL", 5000)}  # execution failed
# Whose failure changes nothing that is computed, and after which the run goes on: what is given back at the end, and words.
CLEANING = {"cuMemFree_v2", "cuMemFreeHost", "cuMemHostUnregister", "cuModuleUnload", "cuStreamDestroy_v2", "cuEventDestroy_v2",
            "cuGraphExecDestroy", "cuGraphDestroy", "cuDevicePrimaryCtxRelease_v2", "cuGetErrorName", "cuGetErrorString",
            "cudnnDestroy", "cudnnBackendDestroyDescriptor", "cublasLtDestroy", "cublasLtMatmulDescDestroy", "cublasLtMatrixLayoutDestroy", "cublasLtMatmulPreferenceDestroy"}
# Called after an error only, or to end, or by what these plans have not (the zeros of a permutation over NCCL), or for what
# was timed before (and then the library's advice is taken instead).
UNUSED = {"cuMemGetInfo_v2", "cuStreamSynchronize", "cuMemsetD8Async", "cublasLtMatmulAlgoCheck"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("plans", nargs="+")
    arguments = parser.parse_args()
    symbols = []
    for header, (pattern, variable, error) in LIBRARIES.items():
        found = re.findall(pattern, (TOOLS / header).read_text(), re.M)
        assert len(found) > 8, found
        symbols += [(symbol, variable, error) for symbol in found]
    bad = []
    for symbol, variable, error in symbols:
        named = False
        for plan in arguments.plans:
            run = [str(TOOLS / "tools" / "on-emulated-gpus"), "--build", str(arguments.build), "1",
                   str(arguments.build / "bin" / "colossal-run"), plan, "--random-inputs", "1", "--benchmark", "3", "--warm-up", "0", "--json"]
            environment = dict(os.environ, **{variable: f"{symbol}@1={error}"})
            try:
                done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=60)
            except subprocess.TimeoutExpired:
                bad.append(f"{symbol}, {plan}: no end")
                continue
            if done.returncode in (4, 5, 6) and symbol in done.stderr:
                named = True
            elif done.returncode != 0:
                bad.append(f"{symbol}, {plan}: exit {done.returncode}, expected an error that names it: {done.stderr.strip()[:300]}")
        if not named and symbol not in CLEANING | UNUSED:
            bad.append(f"{symbol}: no plan needs it")
    print("\n".join(bad) if bad else f"{len(symbols)} functions")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
