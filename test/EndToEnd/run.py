#!/usr/bin/env python3
"""Compiles and runs every test model on several meshes, and compares with the recorded outputs.

    run.py --build build                               everything: each model, each case, 1 to 8 ranks, local and MPI,
                                                       by search and by pinned layouts
    run.py --build build --fast                        one case of each model, at 1 and 4 ranks, one pinned layout, one of
                                                       the papers and one mesh with stages
    run.py --build build --models gpt2 --meshes 2x2    a selection
    run.py --build build --device discrete             on the test device whose memory the host cannot touch
    run.py --build build --device cpu discrete         each plan on the one, then on the other
    run.py --build build --device cuda                 for GPUs, on emulated ones, a process for each rank, over NCCL
    run.py --build build --transfers late any:1        where transfers take their time, and each ends when it likes (TestCommunicators.h)
    run.py --build build --precision bf16              compiled in another precision than the file's, with its own bound

A row of the table is one plan on one device: compiled for one case on one mesh, then run. The error is the largest absolute
difference over the largest absolute value of an output, the worst over outputs; beyond 1e-4 (5e-3 where an output is
f16) a row fails. This script computes it from the outputs that colossal-run wrote, and colossal-run's own --expect must
agree.
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

# Layouts must not depend on the host or on the user's configuration.
os.environ["COLOSSAL_MACHINE"] = "cpu"

MODELS = pathlib.Path(__file__).resolve().parent.parent / "Models"
TOLERANCE, HALF_TOLERANCE = 1e-4, 5e-3
# What whole models may be off by, computed in 16 bits: some roundings to 8 and 11 bits one after another.
BOUNDS = {"bf16": 4e-2, "f16": 5e-3, "tf32": 5e-3, "f32": TOLERANCE}
# Ranks share the cores of one machine, and may be root's in a container.
MPI_SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
                "OMPI_MCA_mpi_yield_when_idle": "1"}

# Layouts by hand, one factor of every op that has it over the whole mesh; what has none is left to the search. They are
# what a search would hardly choose, and each brings other collectives.
PINNED = {
    "replicated": ".*=replicated",
    "columns": ".*=n:x",
    "rows": ".*=k:x",
    "row-parts": ".*=k.1:x",  # inside of the parts that a fused or reshaped dimension is made of
    "batch": ".*=m0:x",
    "sequence": ".*=m1:x",
    "heads": ".*=heads:x",
    "images": ".*=batch:x",
    "channels": ".*=channels:x",
    "in-channels": ".*=in_channels:x",
    "height": ".*=height:x",
    "width": ".*=width:x",
}
IMAGES = ["replicated", "images", "channels", "in-channels", "height", "width"]
TEXT = ["replicated", "columns", "rows", "row-parts", "batch", "sequence", "heads"]
LAYOUTS_OF = {"mlp": ["replicated", "columns", "rows"], "convnext": IMAGES + ["columns", "rows"], "mobilenet": IMAGES, "resnet": IMAGES,
              "unet": IMAGES, "vit": TEXT + ["channels"], "swin": TEXT}

# The layouts of the papers, on the meshes that they take.
RECIPES = {"1d": ["4", "2x2", "8"], "sequence": ["2", "4", "8"], "ulysses": ["2", "4"], "2d": ["2x2", "2x3", "2x4", "4x2"],
           "2.5d": ["2x2x2", "1x2x2", "2x1x2"], "3d": ["2x2x2", "1x2x2", "2x2x1"]}

# Pipeline stages, alone and with axes inside of them.
STAGES = ["stage=2", "stage=3", "stage=4", "stage=2,model=2", "data=2,stage=2,model=2", "data=3,stage=2"]

# The batch in so many parts, one after the other: also where they do not divide it, and beside meshes.
MICROBATCHES = ["microbatches-2", "microbatches-3"]

Job = collections.namedtuple("Job", "model case mesh comm layout pins")
Row = collections.namedtuple("Row", "job device status error compile_seconds seconds detail")


def ranks_of(mesh):
    ranks = 1
    for axis in mesh.replace(",", "x").split("x"):
        ranks *= int(axis.split("=")[-1])
    return ranks


def bindings(model, inputs, folder=MODELS):
    """The command line's --dim options that bind the model's symbolic dimensions to the shapes of `inputs`."""
    dims = {}
    for value in onnx.load(folder / model / "model.onnx", load_external_data=False).graph.input:
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


ON_EMULATED_GPUS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "on-emulated-gpus"


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
    # What colossal-run says of an output that agrees names an error, too.
    lines = [line for line in text.splitlines() if line.strip() and not line.endswith(": ok")]
    for line in lines:
        if "error" in line.lower() or "runtime error" in line:
            return line[:300]
    # What mpirun prints comes after it.
    lines = [line for line in lines if line.startswith("colossal-") and "warning" not in line] or lines
    return lines[-1][:300] if lines else "no message"


def mpi_environment(scratch):
    """Two mpiruns that begin at once may both make Open MPI's folder under /tmp, and one then fails: each gets its own."""
    return {**os.environ, **MPI_SETTINGS, "OMPI_MCA_orte_tmpdir_base": str(scratch)}


def run_job(job, arguments):
    """Compiles a plan, and runs it on each device: a row for each of these."""
    begin = time.monotonic()
    case = arguments.folder / job.model / job.case
    inputs, expected = np.load(case / "inputs.npz"), np.load(case / "outputs.npz")
    with tempfile.TemporaryDirectory(prefix="colossal-") as scratch:
        plan = f"{scratch}/model.cplan"
        pins = [item for pin in job.pins for item in ("--pin", pin)]
        if job.layout.startswith("paper-"):
            pins += ["--layout", job.layout.removeprefix("paper-")]
        if job.layout in MICROBATCHES:
            pins += ["--microbatches", job.layout.removeprefix("microbatches-")]
        target = ["--target", "cuda:sm_90"] if arguments.device == ["cuda"] else []
        if arguments.precision:
            target += ["--precision", arguments.precision]
        code, text = call([str(arguments.build / "bin/colossal-compile"), str(arguments.folder / job.model / "model.onnx"), "--mesh", job.mesh,
                           "-q", *bindings(job.model, inputs, arguments.folder), *pins, *target, "-o", plan], arguments.timeout)
        compiled = time.monotonic() - begin
        rows = []
        for device in arguments.device:
            begin = time.monotonic()
            result = ("compile", None, f"exit {code}: {brief(text)}") if code else run_plan(plan, job, device, expected, arguments, scratch)
            rows.append(Row(job, device, *result[:2], compiled, time.monotonic() - begin, result[2]))
        return rows


def run_plan(plan, job, device, expected, arguments, scratch):
    """Runs a plan; (status, error, detail)."""
    case, binaries, outputs = arguments.folder / job.model / job.case, arguments.build / "bin", f"{scratch}/{device}.npz"
    tolerance = HALF_TOLERANCE if any(expected[name].dtype == np.float16 for name in expected.files) else TOLERANCE
    if arguments.precision:
        tolerance = max(tolerance, BOUNDS[arguments.precision])
    device, _, transfers = device.partition(", ")
    program = "colossal-run-on-test-devices" if device == "discrete" or transfers else "colossal-run"
    processes = ranks_of(job.mesh) if job.comm == "nccl" else 1
    emulated = [str(ON_EMULATED_GPUS), "--build", str(arguments.build), str(processes)] if device == "cuda" else []
    run = [*emulated, str(binaries / program), plan, "--comm", job.comm, "--threads", "1", "--input", str(case / "inputs.npz"),
           "--output", outputs, "--expect", str(case / "outputs.npz"), "--rtol", str(tolerance)]
    environment = dict(os.environ)
    if job.comm == "mpi":
        run = ["mpirun", "--oversubscribe", "-n", str(ranks_of(job.mesh)), *run]
        environment = mpi_environment(scratch)
    environment["COLOSSAL_TEST_DEVICE"] = device
    if transfers:
        environment["COLOSSAL_TEST_COMMUNICATOR"] = transfers
    code, text = call(run, arguments.timeout, environment)
    if not os.path.exists(outputs):
        return "run", None, f"exit {code}: {brief(text)}"
    found, worst, detail = np.load(outputs), 0.0, ""
    if sorted(found.files) != sorted(expected.files):
        return "wrong", None, f"outputs {found.files}, expected {expected.files}"
    for name in expected.files:
        error, why = relative_error(found[name], expected[name])
        if not error <= worst:
            worst, detail = error, f"{name} {why}"
    if worst > tolerance:
        return "wrong", worst, detail
    if code:
        return "run", worst, f"outputs are right, but exit {code}: {brief(text)}"
    return "ok", worst, ""


def cases_of(folder, model):
    return sorted(path.parent.name for path in (folder / model).glob("*/outputs.npz"))


def jobs_of(arguments):
    for number, model in enumerate(sorted(path.parent.name for path in arguments.folder.glob("*/model.onnx"))):
        if arguments.models and model not in arguments.models:
            continue
        cases, layouts = cases_of(arguments.folder, model), LAYOUTS_OF.get(model, TEXT)
        middle = cases[min(1, len(cases) - 1)]
        if arguments.fast:
            chosen = [(middle, mesh, "local", "search") for mesh in ("1", "4")]
            # Another layout for each model in turn; gpt2 gets row-parts, in which its fused contraction once went wrong.
            chosen.append((middle, "3", "local", layouts[(number + 4) % len(layouts)]))
            recipe = list(RECIPES)[number % len(RECIPES)]
            chosen.append((middle, RECIPES[recipe][0], "local", "paper-" + recipe))
            chosen.append((middle, STAGES[number % len(STAGES)], "local", "search"))
            chosen.append((middle, ("1", "stage=2", "2", "stage=3", "data=2,model=2", "data=2,stage=2,model=2")[number % 6], "local", MICROBATCHES[number // 6 % 2]))
        else:
            chosen = [(case, mesh, "local", "search") for case in cases for mesh in ("1", "2", "4", "8", "2x2", "2x2x2")]
            chosen += [(case, "4", "mpi", "search") for case in cases]
            chosen += [(case, mesh, "local", "search") for case in cases for mesh in STAGES]
            chosen += [(middle, mesh, "mpi", "search") for mesh in STAGES]
            chosen += [(middle, mesh, "local", layout) for layout in layouts for mesh in ("2", "3", "4", "8")]
            chosen += [(middle, "4", "mpi", layout) for layout in layouts]
            chosen += [(middle, mesh, "local", "paper-" + recipe) for recipe, meshes in RECIPES.items() for mesh in meshes]
            chosen += [(middle, "2x2", "mpi", "paper-2d")]
            chosen += [(case, mesh, "local", parts) for case in cases if case.split("-")[0] not in ("batch1", "batch2") for parts in MICROBATCHES
                       for mesh in ("1", "2", "data=2", "data=2,model=2", "2x2x2")]
            chosen += [(middle, mesh, "mpi", parts) for parts in MICROBATCHES for mesh in ("data=2,model=2", "stage=3", "stage=2,model=2")]
            chosen += [(middle, mesh, "local", parts) for parts in MICROBATCHES for mesh in STAGES]
        if arguments.device == ["cuda"]:
            # A process for each GPU, except where one is enough.
            chosen = [(case, mesh, "nccl" if ranks_of(mesh) > 1 else "local", layout) for case, mesh, comm, layout in chosen]
            if arguments.fast:
                chosen.insert(1, (middle, "2", "nccl", "search"))
        if arguments.pin:
            chosen = [(case, mesh, comm, "given") for case, mesh, comm, layout in chosen if layout == "search"]
        if arguments.meshes:
            chosen = [(case, mesh, comm, layout) for case, _, comm, layout in chosen for mesh in arguments.meshes]
        for case, mesh, comm, layout in dict.fromkeys(chosen):
            if ((not arguments.comm or comm == arguments.comm) and (not arguments.cases or case in arguments.cases)
                    and (not arguments.layouts or layout in arguments.layouts)):
                pins = tuple(arguments.pin) if layout == "given" else (PINNED[layout],) if layout in PINNED else ()
                yield Job(model, case, mesh, comm, layout, pins)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder")
    parser.add_argument("--fast", action="store_true", help="one case of each model, at 1, 3 and 4 ranks, local")
    parser.add_argument("--folder", type=pathlib.Path, default=MODELS, help="holds NAME/model.onnx, NAME/CASE/{inputs,outputs}.npz")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--cases", nargs="+")
    parser.add_argument("--meshes", nargs="+")
    parser.add_argument("--comm", choices=["local", "mpi", "nccl"])
    parser.add_argument("--device", choices=["cpu", "cuda", "discrete"], nargs="+", default=["cpu"],
                        help="cuda, by itself: plans for GPUs, on emulated ones (docs/CUDA.md); discrete: the test device whose memory the "
                             "host cannot touch, in the CPU's place (docs/AddingADevice.md)")
    parser.add_argument("--transfers", nargs="+", default=[], help="late, any:SEED: each plan with such transfers between its ranks, too; of the local "
                        "communicator on the CPU")
    parser.add_argument("--precision", choices=sorted(BOUNDS), help="handed to colossal-compile (default: the file's types)")
    parser.add_argument("--layouts", nargs="+", choices=["search", *PINNED, *("paper-" + name for name in RECIPES), *MICROBATCHES], help="only these")
    parser.add_argument("--pin", action="append", default=[], help="handed to colossal-compile")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--part", type=int, nargs=2, metavar=("I", "N"), default=(1, 1), help="only part I of N, I from 1")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one command")
    parser.add_argument("--report", type=pathlib.Path, help="write the table as Markdown")
    arguments = parser.parse_args()
    if "cuda" in arguments.device and arguments.device != ["cuda"]:
        parser.error("--device cuda: plans for GPUs run on nothing else")
    if arguments.transfers:
        if arguments.device != ["cpu"]:
            parser.error("--transfers: of ranks on the CPU")
        arguments.comm = "local"
        arguments.device = [f"cpu, {kind}" for kind in arguments.transfers]
    part, parts = arguments.part
    if not 1 <= part <= parts:
        parser.error("--part: parts are numbered from 1 to their number")
    jobs = list(jobs_of(arguments))[part - 1::parts]
    if not jobs:
        sys.exit("nothing matches the selection")
    rows = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for of_job in pool.map(lambda job: run_job(job, arguments), jobs):
            for row in of_job:
                rows.append(row)
                error = "" if row.error is None else f"{row.error:.1e}"
                print(f"{row.job.model:12} {row.job.case:14} {row.job.mesh:6} {row.job.comm:6} {row.job.layout:12} {row.device:8} {row.status:8} "
                      f"{error:8} {row.compile_seconds:6.1f} + {row.seconds:4.1f} s  {row.detail}", flush=True)
    if arguments.report:
        lines = ["| model | case | mesh | communicator | layout | result | error |", "|---|---|---|---|---|---|---|"]
        lines += [f"| {r.job.model} | {r.job.case} | {r.job.mesh} | {r.job.comm} | {r.job.layout} | {r.status} |"
                  f" {'' if r.error is None else f'{r.error:.1e}'} |" for r in rows if r.device == arguments.device[0]]
        arguments.report.write_text("\n".join(lines) + "\n")
    wrong = False
    for device in arguments.device:
        statuses = [row.status for row in rows if row.device == device]
        wrong |= any(status != "ok" for status in statuses)
        name = f"{device}: " if len(arguments.device) > 1 else ""
        print(f"{name}{statuses.count('ok')} passed, {len(statuses) - statuses.count('ok')} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
