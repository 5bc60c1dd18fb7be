"""Compares the memory that the joint search foresees of a step with the arenas of its program: check_memory.py FOLDER MODELS."""
import json
import pathlib
import subprocess
import sys

folder, models = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
# Times what the arenas take. What a loss keeps of each token, and what is gathered while it is made, the search does not see.
LEAST, MOST = 0.97, 1.05
wrong = []


def check(model, mesh, turns, *options, most=MOST):
    command = ["colossal-compile", models / model / "model.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--machine", "cpu",
               "--dim", "seq=96", "--global-batch", 16, "--devices", 2, "--mesh", mesh, "--microbatches", turns, "--recompute", "none", *options,
               "--json", "-q", "-o", folder / "step.cplan"]
    got = json.loads(subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE).stdout)
    ranks = got.get("stages") or [got]
    arenas = [sum(rank["memory"][kind] for kind in ("weights", "activations", "io")) for rank in ranks]
    # What an evaluation gives lies where a step has its activations: beside them is what goes in.
    given = sum(rank["memory"]["io"] for rank in ranks)
    assert given < 1 << 16, f"{model}, {mesh}: {given} bytes of inputs and outputs"
    predicted = got["training_plan"]["predicted_bytes"]
    what = f"{model}, {mesh}, {turns} microbatches {' '.join(str(option) for option in options)}"
    print(f"{what}: predicted {predicted:.0f}, the arenas {arenas}: {predicted / max(arenas):.3f}")
    if not LEAST * max(arenas) <= predicted <= most * max(arenas):
        wrong.append(what)
    return arenas


for stage, turns in ((0, 1), (1, 4), (2, 1), (2, 4), (3, 1), (3, 4)):
    check("gpt2", "data=2", turns, "--zero", stage)
# A head of its own, whose gradient comes when activations are at their most; and the optimizer's slots, which tensor axes share.
check("llama", "data=2", 1)
check("llama", "model=2", 4)
check("gpt2", "context=2", 4)
# Stages, of which the last computes its forward pass with the backward one, and others keep what they save in a copy for each microbatch on its way.
last = [check("gpt2", "stage=2", 4, "--pipeline-schedule", schedule)[1] for schedule in ("gpipe", "1f1b")]
assert last[0] == last[1], f"the last stage of gpipe keeps more than one microbatch: {last}"
# Where gradients of weights are a pass of their own, too much is told of the last stage.
check("gpt2", "stage=2", 4, "--pipeline-schedule", "zb-h1", most=1.07)
check("gpt2", "stage=2", 4, "--pipeline-schedule", "zb-2p")
assert not wrong, wrong
