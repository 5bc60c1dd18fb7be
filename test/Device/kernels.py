#!/usr/bin/env python3
"""Assembles every kernel of models for each generation of GPUs that plans are made for, and reads what the assembler says.

    kernels.py --build build                      all given models, attention with wide heads and convolutions of groups; sm_80, sm_90 and sm_100
    kernels.py --build build --models gpt2 mlp    a selection
    kernels.py --build build --table kernels.md   and a table: registers, shared memory and blocks of each kernel

A kernel fails that spills registers, has a stack, or of which fewer blocks fit a multiprocessor than it says itself
(.minnctapersm). Without ptxas nothing is tried: exit code 77.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "EndToEnd"))
import run  # noqa: E402

MODELS = ROOT / "test" / "Models"
CHIPS = ("sm_80", "sm_90", "sm_100")
# Of a multiprocessor of these generations (CUDA C++ Programming Guide, "Compute Capabilities"): registers, which a warp takes
# in pieces of 256, threads, blocks, and bytes of shared memory, of which a block takes 1024 besides its own.
REGISTERS, PIECE, THREADS, BLOCKS, BLOCK_EXTRA = 65536, 256, 2048, 32, 1024
SHARED = {"sm_80": 164 << 10, "sm_90": 228 << 10, "sm_100": 228 << 10}

# Heads of queries and values that fill a thread's registers.
WIDE_HEADS = ((256, 256), (192, 192), (128, 256), (256, 64))
# Convolutions of groups: window, channels of a group and out channels of one, attributes, and whether channels lie last.
GROUPED = (((3, 3), 1, 1, {}, False), ((3, 3), 1, 1, {}, True), ((5, 5), 1, 1, {}, False), ((5, 5), 1, 1, {}, True), ((7, 7), 1, 1, {}, False),
           ((7, 7), 1, 1, {}, True), ((3, 3), 3, 7, {}, False), ((5, 5), 1, 4, {"strides": [2, 2]}, False), ((3, 3), 2, 4, {"dilations": [2, 3]}, True),
           ((7, 7), 1, 2, {"strides": [2, 2]}, False), ((11, 13), 1, 1, {}, False), ((9, 9), 1, 5, {}, True))

Kernel = collections.namedtuple("Kernel", "name chip registers shared stack spills threads promised blocks")


def find_ptxas():
    places = [os.path.join(os.environ[name], "bin", "ptxas") for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    places += [shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas"]
    places += [str(path) for path in ROOT.glob(".venv/lib/python3*/site-packages/nvidia/cu13/bin/ptxas")]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def blocks_of(chip, threads, registers, shared):
    warps = (threads + 31) // 32
    of_warp = (registers * 32 + PIECE - 1) // PIECE * PIECE
    return min(BLOCKS, THREADS // (32 * warps), REGISTERS // (of_warp * warps) if of_warp else BLOCKS, SHARED[chip] // (shared + BLOCK_EXTRA))


def assemble(ptxas, text, chip, folder):
    """All kernels of the PTX file `text`, as ptxas -v describes them."""
    done = subprocess.run([ptxas, "-v", f"-arch={chip}", str(text), "-o", str(folder / "out.cubin")], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ptxas refuses {text.name} for {chip}: {done.stderr.strip()[:1000]}")
    says = {}  # by kernel: threads, blocks
    for name, body in re.findall(r"\.entry (\S+?)\((.*?)\n\{", text.read_text(), re.S):
        threads = re.search(r"\.maxntid (\d+)", body)
        promised = re.search(r"\.minnctapersm (\d+)", body)
        says[name] = (int(threads[1]) if threads else 1024, int(promised[1]) if promised else 1)
    kernels = []
    pieces = re.split(r"Compiling entry function '(\S+)' for '\S+'", done.stderr)
    for name, piece in zip(pieces[1::2], pieces[2::2]):
        stack, stores, loads = map(int, re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", piece).groups())
        registers = int(re.search(r"Used (\d+) registers", piece)[1])
        shared = re.search(r"(\d+) bytes smem", piece)
        threads, promised = says[name]
        kernels.append(Kernel(name, chip, registers, int(shared[1]) if shared else 0, stack, stores + loads, threads, promised,
                              blocks_of(chip, threads, registers, int(shared[1]) if shared else 0)))
    if {kernel.name for kernel in kernels} != set(says):
        raise RuntimeError(f"{text.name}: ptxas spoke of {len(kernels)} kernels, and there are {len(says)}")
    return kernels


def faults_of(kernel):
    if kernel.spills:
        yield f"spills {kernel.spills} bytes"
    if kernel.stack:
        yield f"has a stack of {kernel.stack} bytes"
    if kernel.blocks < kernel.promised:
        yield f"fits a multiprocessor {kernel.blocks} times ({kernel.registers} registers, {kernel.shared} bytes shared), and says {kernel.promised}"


def compile_model(build, model, folder):
    """Puts the images of a plan of the model into `folder`."""
    cases = run.cases_of(MODELS, model)
    inputs = np.load(MODELS / model / cases[min(1, len(cases) - 1)] / "inputs.npz")
    plan = folder / "model.cplan"
    subprocess.run([str(build / "bin" / "colossal-compile"), str(MODELS / model / "model.onnx"), "--target", "cuda", "-q",
                    *run.bindings(model, inputs, MODELS), "-o", str(plan)], check=True)
    subprocess.run([str(build / "bin" / "extract-images"), str(plan), str(folder)], check=True, stdout=subprocess.DEVNULL)


def compile_attention(build, heads, folder):
    """The same of attention alone, in f16 and with heads of these widths."""
    width, value_width = heads
    f16 = onnx.TensorProto.FLOAT16
    inputs = [helper.make_tensor_value_info(name, f16, [1, 2, 128, size]) for name, size in (("q", width), ("k", width), ("v", value_width))]
    graph = helper.make_graph([helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)], "attention", inputs,
                              [helper.make_tensor_value_info("y", f16, [1, 2, 128, value_width])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), folder / "model.onnx")
    plan = folder / "model.cplan"
    subprocess.run([str(build / "bin" / "colossal-compile"), str(folder / "model.onnx"), "--target", "cuda", "-q", "-o", str(plan)], check=True)
    subprocess.run([str(build / "bin" / "extract-images"), str(plan), str(folder)], check=True, stdout=subprocess.DEVNULL)


def compile_convolutions(build, precision, folder):
    """The same of convolutions of groups, in that precision, each with what follows it."""
    nodes, inputs, outputs, random = [], [], [], np.random.default_rng(1)
    weights = []

    def add(window, inside, out, more, last, follows):
        number, group = len(outputs), 32
        x, w, y = f"x{number}", f"w{number}", f"y{number}"
        shape = [1, inside * group, 21, 24]
        inputs.append(helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, [shape[d] for d in (0, 2, 3, 1)] if last else shape))
        weights.append(onnx.numpy_helper.from_array(random.standard_normal((out * group, inside, *window)).astype(np.float32), w))
        if last:
            nodes.append(helper.make_node("Transpose", [x], [f"{x}t"], perm=[0, 3, 1, 2]))
        nodes.append(helper.make_node("Conv", [f"{x}t" if last else x, w], [f"{y}c"], group=group, auto_pad="SAME_UPPER", **more))
        nodes.append(helper.make_node(follows, [f"{y}c"], [f"{y}t" if last else y]))
        if last:
            nodes.append(helper.make_node("Transpose", [f"{y}t"], [y], perm=[0, 2, 3, 1]))
        outputs.append(helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, None))

    for window, inside, out, more, last in GROUPED:
        add(window, inside, out, more, last, "Sigmoid")
    graph = helper.make_graph(nodes, "convolutions", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), folder / "model.onnx")
    plan = folder / "model.cplan"
    subprocess.run([str(build / "bin" / "colossal-compile"), str(folder / "model.onnx"), "--target", "cuda", "--precision", precision, "-q", "-o", str(plan)],
                   check=True)
    subprocess.run([str(build / "bin" / "extract-images"), str(plan), str(folder)], check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--models", nargs="*", default=sorted(path.parent.name for path in MODELS.glob("*/model.onnx")))
    parser.add_argument("--table", type=pathlib.Path)
    arguments = parser.parse_args()
    ptxas = find_ptxas()
    if not ptxas:
        print("no ptxas is found: nothing was assembled")
        return 77
    seen, bad = {}, []
    cases = [(model, compile_model, model) for model in arguments.models]
    cases += [(f"heads of {heads[0]} and {heads[1]}", compile_attention, heads) for heads in WIDE_HEADS]
    cases += [(f"convolutions of groups in {precision}", compile_convolutions, precision) for precision in ("f32", "bf16")]
    for model, compile_case, case in cases:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            compile_case(arguments.build, case, folder)
            for chip in CHIPS:
                for kernel in assemble(ptxas, folder / f"{chip}.ptx", chip, folder):
                    seen[kernel.name, chip] = kernel
                    bad += [f"{model}: {kernel.name} for {chip} {fault}" for fault in faults_of(kernel)]
                if compile_case is compile_attention and "mma.sync" not in (folder / f"{chip}.ptx").read_text():
                    bad.append(f"{model}: attention for {chip} does not use tensor cores")
    if arguments.table:
        rows = ["| kernel | chip | registers | shared | blocks |", "|---|---|---|---|---|"]
        rows += [f"| {k.name} | {k.chip} | {k.registers} | {k.shared} | {k.blocks} |" for k in sorted(seen.values())]
        arguments.table.write_text("\n".join(rows) + "\n")
    if bad:
        print("\n".join(sorted(set(bad))))
        return 1
    least = min((kernel.blocks * kernel.threads for kernel in seen.values()), default=0)
    print(f"{len(arguments.models)} models: {len(seen)} kernels assembled, without spills or stacks; at least {least} threads of each fit a multiprocessor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
