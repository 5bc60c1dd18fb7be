"""Models of published sizes for the benchmarks: exported once into a cache, compiled under measurement."""
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


def compile_plan(build, model, inputs, plan, mesh="1", options=()):
    """Compiles to `plan`; returns (seconds, peak resident bytes)."""
    command = [build / "bin/colossal-compile", model, "--mesh", mesh, *bindings(model, inputs), "-q", *options, "-o", plan]
    begin = time.monotonic()
    process = subprocess.Popen(list(map(str, command)))
    # The usage that wait gives includes what this process held when it forked, so the kernel's mark is read while it runs.
    peak = 0
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            if "colossal-compil" in status:
                peak = max([peak] + [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")])
        except OSError:
            pass
        time.sleep(0.005)
    if process.returncode:
        raise SystemExit(f"colossal-compile failed on {model}: exit code {process.returncode}")
    return time.monotonic() - begin, peak
