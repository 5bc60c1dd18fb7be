#!/usr/bin/env python3
"""Foreseen against compiled memory of a training step: what the joint search says of a plan, and the arenas of that plan's program.

    test/Benchmark/training_memory.py                                         a selection of models and plans, some minutes
    test/Benchmark/training_memory.py --models gpt2 llama-4x256 --all         every plan of two models
    test/Benchmark/training_memory.py --plans 'stage=2.*zb-v'                 plans that match, of all models
    test/Benchmark/training_memory.py --models build/models/stack-12 --seq 128 --batch 8 --list

A model is a folder NAME/model.onnx of --folder, a path to such a folder, or FAMILY-LAYERSxWIDTH, which tools/make-transformer makes (gpt or
llama, heads 64 wide, 2,048 tokens). A plan is fixed in all that the joint search decides but layouts and stages. A row has the rank that needs most: bytes
foreseen and in arenas (MiB), their ratio, and by how much of all the arenas (%) each kind of memory is foreseen as more (or less, below 0): what lasts from
step to step, what goes in and out, what passes use; then what is foreseen of the last by purpose, in per cent of the arenas. Exit code 1 where the arenas are more than what
was foreseen, or it is more than 5 % above them.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import onnx

from real_models import PYTHON, ROOT

MODELS = ["gpt2", "llama", "bloom", "bert", "t5-encoder", "vit", "swin", "resnet", "gpt-4x256", "llama-4x256"]
MOST = 1.05  # times what the arenas take
LOSSES = {"logits": "cross-entropy,logits=logits", "last_hidden_state": "mse,output=last_hidden_state"}
SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-1p", "zb-2p", "zb-v"]


def plans(whole):
    """(mesh, microbatches, other options): `whole`, every combination that has a meaning; else each option by itself."""
    found = []
    for mesh in ("1", "data=2", "model=2", "stage=2", "data=2,model=2", "stage=2,data=2"):
        for turns in (4,) if "stage" in mesh else (1, 4):
            for schedule in (SCHEDULES if whole or mesh == "stage=2" else ["1f1b"]) if "stage" in mesh else [None]:
                for zero in ((0, 1, 2, 3) if whole or mesh == "data=2" else (0, 2)) if "data" in mesh else (0,):
                    for recompute in ("none", "selective", "full"):
                        for precision in ("f32", "bf16"):
                            # One thing at a time is unusual: the others are as they are by default.
                            unusual = (schedule not in (None, "1f1b")) + (zero > 0) + (recompute != "none") + (precision != "f32")
                            if whole or unusual <= 1:
                                options = [*(["--pipeline-schedule", schedule] if schedule else []), "--zero", zero, "--recompute", recompute, "--precision", precision]
                                found.append((mesh, turns, options))
    return found


def name_of(mesh, turns, options):
    values = {key: value for key, value in zip(options[::2], options[1::2])}
    words = [mesh, f"in {turns}", values.get("--pipeline-schedule"), f"ZeRO {values['--zero']}" if values["--zero"] else None,
             values["--recompute"] if values["--recompute"] != "none" else None, values["--precision"] if values["--precision"] != "f32" else None]
    return " ".join(word for word in words if word)


def make(name, folder):
    """The path of the model of that name, made in `folder` where it is none that is stored."""
    for path in (pathlib.Path(name) / "model.onnx", folder / name / "model.onnx"):
        if path.exists():
            return path
    made = re.fullmatch(r"(gpt|llama)-(\d+)x(\d+)", name)
    if not made:
        raise SystemExit(f"there is no model {name}")
    family, layers, width = made.groups()
    path = pathlib.Path(tempfile.gettempdir()) / "training_memory" / f"{name}.onnx"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        subprocess.run([PYTHON, ROOT / "tools/make-transformer", path, "--family", family, "--layers", layers, "--hidden", width, "--heads", str(max(1, int(width) // 64)),
                        "--vocabulary", "2048", "--weights", "1"], check=True, stdout=subprocess.DEVNULL)
    return path


def describe(path, seq):
    """The options that say what is trained: the loss, and the model's dimensions."""
    graph = onnx.load(path, load_external_data=False).graph
    output = graph.output[0]
    loss = LOSSES.get(output.name, f"mse,output={output.name}")
    shape = output.type.tensor_type.shape.dim
    if output.name == "logits" and len(shape) == 3:
        loss += ",shift=1"
    elif output.name == "logits" and shape[-1].dim_param:
        loss = "mse,output=logits"
    tokens = graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.INT64
    return ["--loss", loss, *(["--dim", f"seq={seq}"] if tokens else [])]


def measure(build, path, described, batch, plan, scratch):
    """(bytes foreseen by kind, arenas by kind) of the rank that needs most, or what was said where it is refused."""
    mesh, turns, options = plan
    devices = 1
    for size in re.findall(r"\d+", mesh):
        devices *= int(size)
    command = [build / "bin/colossal-compile", path, "--training", "adamw", *described, "--machine", "cpu", "--global-batch", batch, "--devices", devices,
               "--mesh", "data=1" if mesh == "1" else mesh, "--microbatches", turns, *options, "--memory", "1TiB", "--json", "-q", "-o", pathlib.Path(scratch) / "step.cplan"]
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["?"])[-1][:160]
    got = json.loads(done.stdout)
    if got["training_plan"]["not_taken"]:
        return f"another plan was compiled: {got['training_plan']['not_taken'][0]}"[:160]
    foreseen = max(got["training_plan"]["predicted_memory"], key=lambda memory: memory["total"])
    ranks = [stage["memory"] for stage in got.get("stages") or [got]]
    arenas = max(ranks, key=lambda memory: memory["weights"] + memory["activations"] + memory["io"])
    return foreseen, arenas


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "test/Models")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--plans", default="", metavar="REGEX", help="only plans whose name has this")
    parser.add_argument("--all", action="store_true", help="every combination of options, not each by itself")
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--bad", action="store_true", help="print only rows beyond the limits")
    parser.add_argument("--list", action="store_true", help="list the plans, and stop")
    arguments = parser.parse_args()
    chosen = [plan for plan in plans(arguments.all) if re.search(arguments.plans, name_of(*plan))]
    if arguments.list:
        print("\n".join(name_of(*plan) for plan in chosen))
        return 0
    print("| model | plan | foreseen, MiB | arenas, MiB | ratio | state | in and out | passes | gradients | kept | transient |\n|---|---|---|---|---|---|---|---|---|---|---|")
    ratios, refused = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.models:
            path = make(name, arguments.folder)
            described = describe(path, arguments.seq)
            for plan in chosen:
                row = f"{name} | {name_of(*plan)}"
                got = measure(arguments.build, path, described, arguments.batch, plan, scratch)
                if isinstance(got, str):
                    refused.append(f"{row}: {got}")
                    continue
                foreseen, arenas = got
                all_of = arenas["weights"] + arenas["activations"] + arenas["io"]
                ratio = foreseen["total"] / all_of
                bad = not 1 <= ratio <= MOST
                ratios.append(ratio)
                if arguments.bad and not bad:
                    continue
                passes = foreseen["gradients"] + foreseen["activations"] + foreseen["transient"]
                more = [foreseen["parameters"] + foreseen["optimizer"] - arenas["weights"], foreseen["io"] - arenas["io"], passes - arenas["activations"],
                        foreseen["gradients"], foreseen["activations"], foreseen["transient"]]
                print(f"| {row} | {foreseen['total'] / 2**20:.2f} | {all_of / 2**20:.2f} | {ratio:.3f} | " + " | ".join(f"{100 * part / all_of:.1f}" for part in more) +
                      f" |{' beyond' if bad else ''}", flush=True)
    print("\n".join(f"refused: {row}" for row in refused))
    low, high = sum(ratio < 1 for ratio in ratios), sum(ratio > MOST for ratio in ratios)
    print(f"{len(ratios)} plans, {low} foreseen as less than their arenas, {high} as more than {MOST} times, ratios {min(ratios):.3f} to {max(ratios):.3f}")
    return 1 if low or high else 0


if __name__ == "__main__":
    sys.exit(main())
