#!/usr/bin/env python3
"""Compiles and runs every test model on several meshes, and compares with the recorded outputs.

    run.py --build build                               everything: each model, each case, 1 to 8 ranks, local and MPI
    run.py --build build --fast                        one case of each model, at 1 and 4 ranks
    run.py --build build --models gpt2 --meshes 2x2    a selection

A row of the table is one plan: compiled for one case on one mesh, then run. The error is the largest absolute
difference over the largest absolute value of an output, the worst over outputs; beyond 1e-4 a row fails. This script
computes it from the outputs that colossal-run wrote, and colossal-run's own --expect must agree.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

MODELS = pathlib.Path(__file__).resolve().parent.parent / "Models"
TOLERANCE = 1e-4
Job = collections.namedtuple("Job", "model case mesh comm pins")
Row = collections.namedtuple("Row", "job status error seconds detail")


def ranks_of(mesh):
    ranks = 1
    for axis in mesh.replace(",", "x").split("x"):
        ranks *= int(axis.split("=")[-1])
    return ranks


def bindings(model, inputs):
    """The command line's --dim options that bind the model's symbolic dimensions to the shapes of `inputs`."""
    dims = {}
    for value in onnx.load(MODELS / model / "model.onnx", load_external_data=False).graph.input:
        for size, dim in zip(inputs[value.name].shape, value.type.tensor_type.shape.dim):
            if dim.dim_param:
                dims[dim.dim_param] = size
    return [item for symbol, size in sorted(dims.items()) for item in ("--dim", f"{symbol}={size}")]


def relative_error(output, expected):
    """NaN and infinity count as equal only where both have them."""
    if output.shape != expected.shape or output.dtype != expected.dtype:
        return float("inf"), f"is {output.dtype}{list(output.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if expected.size == 0:
        return 0.0, ""
    same = (output == expected) | ((output != output) & (expected != expected))
    with np.errstate(all="ignore"):
        difference = np.where(same, 0.0, np.abs(output.astype(np.float64) - expected.astype(np.float64)))
    difference = np.where(np.isnan(difference), np.inf, difference)
    finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    return float(difference.max() / max(finite.max(initial=0.0), 1e-30)), ""


def call(command, timeout, environment=None):
    """Runs a command; returns (exit code, last lines of what it printed)."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, env=environment)
        return done.returncode, done.stdout.strip()
    except subprocess.TimeoutExpired:
        return -1, f"no end after {timeout} s"


def brief(text):
    """The line of a tool's output that says what went wrong."""
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines:
        if "error" in line.lower() or "runtime error" in line:
            return line[:300]
    return lines[-1][:300] if lines else "no message"


def run_job(job, arguments):
    begin = time.monotonic()

    def row(status, error=None, detail=""):
        return Row(job, status, error, time.monotonic() - begin, detail)

    case = MODELS / job.model / job.case
    inputs, expected = np.load(case / "inputs.npz"), np.load(case / "outputs.npz")
    with tempfile.TemporaryDirectory(prefix="colossal-") as scratch:
        plan, outputs = f"{scratch}/model.cplan", f"{scratch}/outputs.npz"
        pins = [item for pin in job.pins for item in ("--pin", pin)]
        binaries = arguments.build / "bin"
        code, text = call([str(binaries / "colossal-compile"), str(MODELS / job.model / "model.onnx"), "--mesh", job.mesh, "-q",
                           *bindings(job.model, inputs), *pins, "-o", plan], arguments.timeout)
        if code:
            return row("compile", detail=f"exit {code}: {brief(text)}")
        run = [str(binaries / "colossal-run"), plan, "--comm", job.comm, "--threads", "1", "--input", str(case / "inputs.npz"),
               "--output", outputs, "--expect", str(case / "outputs.npz"), "--rtol", str(TOLERANCE)]
        environment = None
        if job.comm == "mpi":
            run = ["mpirun", "--oversubscribe", "-n", str(ranks_of(job.mesh)), *run]
            environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                           "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_mpi_yield_when_idle": "1"}
        code, text = call(run, arguments.timeout, environment)
        if not os.path.exists(outputs):
            return row("run", detail=f"exit {code}: {brief(text)}")
        found, worst, detail = np.load(outputs), 0.0, ""
        if sorted(found.files) != sorted(expected.files):
            return row("wrong", detail=f"outputs {found.files}, expected {expected.files}")
        for name in expected.files:
            error, why = relative_error(found[name], expected[name])
            if not error <= worst:
                worst, detail = error, f"{name} {why}"
        if worst > TOLERANCE:
            return row("wrong", worst, detail)
        if code:
            return row("run", worst, f"outputs are right, but exit {code}: {brief(text)}")
        return row("ok", worst)


def cases_of(model):
    return sorted(path.parent.name for path in (MODELS / model).glob("*/outputs.npz"))


def jobs_of(arguments):
    models = arguments.models or sorted(path.parent.name for path in MODELS.glob("*/model.onnx"))
    for model in models:
        cases = cases_of(model)
        if arguments.fast:
            chosen = [(cases[min(1, len(cases) - 1)], mesh, "local") for mesh in ("1", "4")]
        else:
            chosen = [(case, mesh, "local") for case in cases for mesh in ("1", "2", "4", "8", "2x2", "2x2x2")]
            chosen += [(case, "4", "mpi") for case in cases]
        if arguments.meshes:
            chosen = [(case, mesh, comm) for case, mesh, comm in dict.fromkeys((c, m, comm) for c, _, comm in chosen for m in arguments.meshes)]
        for case, mesh, comm in chosen:
            if (not arguments.comm or comm == arguments.comm) and (not arguments.cases or case in arguments.cases):
                yield Job(model, case, mesh, comm, tuple(arguments.pin))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder")
    parser.add_argument("--fast", action="store_true", help="one case of each model, at 1 and 4 ranks, local")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--cases", nargs="+")
    parser.add_argument("--meshes", nargs="+")
    parser.add_argument("--comm", choices=["local", "mpi"])
    parser.add_argument("--pin", action="append", default=[], help="handed to colossal-compile")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one command")
    parser.add_argument("--report", type=pathlib.Path, help="write the table as Markdown")
    arguments = parser.parse_args()
    jobs = list(jobs_of(arguments))
    if not jobs:
        sys.exit("nothing matches the selection")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        rows = []
        for row in pool.map(lambda job: run_job(job, arguments), jobs):
            rows.append(row)
            error = "" if row.error is None else f"{row.error:.1e}"
            print(f"{row.job.model:12} {row.job.case:14} {row.job.mesh:6} {row.job.comm:6} {row.status:8} {error:8} {row.seconds:6.1f} s  {row.detail}",
                  flush=True)
    failed = [row for row in rows if row.status != "ok"]
    if arguments.report:
        lines = ["| model | case | mesh | communicator | result | error |", "|---|---|---|---|---|---|"]
        lines += [f"| {r.job.model} | {r.job.case} | {r.job.mesh} | {r.job.comm} | {r.status} | {'' if r.error is None else f'{r.error:.1e}'} |" for r in rows]
        arguments.report.write_text("\n".join(lines) + "\n")
    print(f"{len(rows) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
