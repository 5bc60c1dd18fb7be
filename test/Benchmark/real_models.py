"""Models of published sizes for the benchmarks: exported once into a cache, compiled under measurement."""
import os
import pathlib
import subprocess
import time

import onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PYTHON = ROOT / ".venv/bin/python"


def exported(name, cache):
    """The folder of the exported model; exports it, which needs `tools/setup main-job`, if it is not in the cache."""
    if not (cache / name / "about.json").exists():
        subprocess.run([PYTHON, ROOT / "test/Models/export.py", "real", cache, name], check=True, stdout=subprocess.DEVNULL)
    return cache / name


def bindings(model, inputs):
    """The --dim options that bind the model's symbolic dimensions to the shapes of `inputs`."""
    dims = {}
    for value in onnx.load(model, load_external_data=False).graph.input:
        for size, dim in zip(inputs[value.name].shape, value.type.tensor_type.shape.dim):
            if dim.dim_param:
                dims[dim.dim_param] = size
    return [item for symbol, size in sorted(dims.items()) for item in ("--dim", f"{symbol}={size}")]


def compile_plan(build, model, inputs, plan, mesh="1"):
    """Compiles to `plan`; returns (seconds, peak resident bytes)."""
    begin = time.monotonic()
    command = [build / "bin/colossal-compile", model, "--mesh", mesh, *bindings(model, inputs), "-q", "-o", plan]
    process = subprocess.Popen(list(map(str, command)))
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"colossal-compile failed on {model}: exit code {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - begin, usage.ru_maxrss * 1024
