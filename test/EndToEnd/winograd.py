#!/usr/bin/env python3
"""3x3 convolutions that the compiler computes by Winograd's algorithm give ONNX Runtime's results.

    winograd.py --build build

A residual block of odd sizes, large enough that the algorithm is chosen, at one rank and with each dimension split. The
plan must have the algorithm's kernels, the error must stay below 1e-5 of the largest output, and the bits must be equal
for any number of threads. Steps of training, in which weights change and all have gradients, must have the losses
and norms of gradients of a plan without the algorithm, which a limit of memory asks for.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

LAYOUTS = {"1": [None], "2": [None, ".*=batch:x", ".*=channels:x", ".*=in_channels:x", ".*=height:x"]}


def residual_block(channels, height, width, batch):
    """Two convolutions, each with a bias, the first with an activation, and their input added and activated."""
    random = np.random.default_rng(3)

    def weight(name, *shape):
        return numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(9 * channels)).astype(np.float32), name)

    def convolution(inputs, output):
        return helper.make_node("Conv", inputs, [output], kernel_shape=[3, 3], pads=[1, 1, 1, 1], name=output)

    nodes = [convolution(["x", "w1", "b1"], "c1"), helper.make_node("Relu", ["c1"], ["r1"], name="r1"),
             convolution(["r1", "w2", "b2"], "c2"), helper.make_node("Add", ["c2", "x"], ["s"], name="s"),
             helper.make_node("Relu", ["s"], ["y"], name="y")]
    shape = [batch, channels, height, width]
    parameters = [weight("w1", channels, channels, 3, 3), weight("b1", channels), weight("w2", channels, channels, 3, 3),
                  weight("b2", channels)]
    graph = helper.make_graph(nodes, "block", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], parameters)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return model, {"x": random.standard_normal(shape).astype(np.float32)}


def train(build, scratch, batch, shape, asked):
    """Problems of three steps of the model in `scratch`, compiled with the options `asked`."""
    def compiled(name, *options):
        command = [build / "bin/colossal-compile", scratch / "model.onnx", "--training", "sgd", "--loss", "mse,output=y", "--global-batch",
                   str(batch), "--mesh", "1", "-q", "--json", "-o", scratch / name, *asked, *options]
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        text = subprocess.run([build / "bin/colossal-run", scratch / name, "--dump-plan"], check=True, stdout=subprocess.PIPE, text=True).stdout
        return report, text

    def losses(name, threads):
        log = scratch / "log.jsonl"
        log.unlink(missing_ok=True)
        subprocess.run([build / "bin/colossal-run", "train", scratch / name, "--data", scratch / "data.npz", "--steps", "3", "--lr", "1",
                        "--threads", str(threads), "--log", log], check=True, stdout=subprocess.DEVNULL)
        return [json.loads(line)[key] for line in log.read_text().splitlines() for key in ("loss", "grad_norm")]

    random = np.random.default_rng(4)
    np.savez(scratch / "data.npz", x=random.standard_normal(shape).astype(np.float32), target=random.standard_normal(shape).astype(np.float32))
    report, text = compiled("with.cplan")
    _, direct = compiled("without.cplan", "--memory", str(report["memory"]["total"] - 1))
    one, three, want = losses("with.cplan", 1), losses("with.cplan", 3), losses("without.cplan", 1)
    errors = [abs(a - b) / max(b, 1e-30) for a, b in zip(one, want)]
    first, error = max(errors[:2]), max(errors)  # after an update a rectifier whose input is about 0 may be open in one of both
    return text.count("winograd_weight"), error, {
        "no transformed weights in the plan": "winograd_weight" not in text,
        "no transformed gradients of weights": not asked and "winograd_filter" not in text, "Winograd kernels in the other plan": "winograd" in direct,
        "losses do not fall": not want[4] < 0.999 * want[0], "beyond 1e-5 in the first step": not first < 1e-5,
        "beyond 1e-4": not error < 1e-4, "other losses with 3 threads": one != three}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        for channels, height, width, batch in [(64, 30, 27, 2), (72, 57, 54, 2), (160, 14, 14, 2)]:
            model, inputs = residual_block(channels, height, width, batch)
            onnx.save(model, scratch / "model.onnx")
            np.savez(scratch / "inputs.npz", **inputs)
            want = onnxruntime.InferenceSession(scratch / "model.onnx").run(None, inputs)[0]
            for mesh, pins in LAYOUTS.items():
                for pin in pins:
                    plan = scratch / "model.cplan"
                    subprocess.run([arguments.build / "bin/colossal-compile", scratch / "model.onnx", "--mesh", mesh, "-q",
                                    "-o", plan, *(["--pin", pin] if pin else [])], check=True)
                    text = subprocess.run([arguments.build / "bin/colossal-run", plan, "--dump-plan"], check=True,
                                          stdout=subprocess.PIPE, text=True).stdout
                    found = []
                    for threads in 1, 3:
                        subprocess.run([arguments.build / "bin/colossal-run", plan, "--input", scratch / "inputs.npz",
                                        "--threads", str(threads), "--output", scratch / "outputs.npz"], check=True,
                                       stdout=subprocess.DEVNULL)
                        found.append(np.load(scratch / "outputs.npz")["y"])
                    error = np.abs(found[0] - want).max() / np.abs(want).max()
                    problems = [problem for problem, holds in {
                        "no Winograd kernels in the plan": mesh == "1" and "winograd" not in text,
                        "beyond 1e-5": not error < 1e-5,
                        "other bits with 3 threads": found[0].tobytes() != found[1].tobytes()}.items() if holds]
                    failed += bool(problems)
                    print(f"{batch}x{channels}x{height}x{width} mesh {mesh} {pin or 'searched':14} winograd "
                          f"{text.count('contract_winograd')} error {error:.1e} {', '.join(problems) or 'ok'}", flush=True)
            for asked in [], ["--microbatches", "2"]:
                count, error, problems = train(arguments.build, scratch, batch, [batch, channels, height, width], asked)
                failed += any(problems.values())
                print(f"{batch}x{channels}x{height}x{width} training {' '.join(asked)} winograd {count} error {error:.1e} "
                      f"{', '.join(what for what, holds in problems.items() if holds) or 'ok'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
