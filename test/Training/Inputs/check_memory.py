"""Compares the memory that the joint search foresees of a step with the arenas of its program: check_memory.py FOLDER MODELS."""
import json
import pathlib
import subprocess
import sys

folder, models = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
# Times what the arenas take. What a loss keeps of each token, and what is gathered while it is made, the search does not see.
LEAST, MOST = 0.98, 1.05
wrong = []
for stage, turns, recompute in ((0, 1, "none"), (1, 4, "none"), (2, 1, "none"), (2, 4, "none"), (3, 1, "none"), (3, 4, "none")):
    command = ["colossal-compile", models / "gpt2/model.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--machine", "cpu",
               "--dim", "seq=96", "--global-batch", 16, "--devices", 2, "--mesh", "data=2", "--zero", stage, "--microbatches", turns, "--recompute", recompute,
               "--json", "-q", "-o", folder / "step.cplan"]
    got = json.loads(subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE).stdout)
    arenas = sum(got["memory"][kind] for kind in ("weights", "activations", "io"))
    predicted = got["training_plan"]["predicted_bytes"]
    print(f"ZeRO {stage} in {turns} microbatches, recompute {recompute}: predicted {predicted:.0f}, the arenas {arenas}: {predicted / arenas:.3f}")
    if not LEAST * arenas <= predicted <= MOST * arenas:
        wrong.append((stage, turns, recompute))
# Stages, of which the last computes its forward pass with the backward one, and others keep what they save in a copy for each microbatch on its way. Of the
# last stage too much is told where gradients of weights are a pass of their own.
for schedule, most in (("gpipe", MOST), ("1f1b", MOST), ("zb-h1", 1.10)):
    command = ["colossal-compile", models / "gpt2/model.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--machine", "cpu",
               "--dim", "seq=96", "--global-batch", 16, "--devices", 2, "--mesh", "stage=2", "--pipeline-schedule", schedule, "--microbatches", 4,
               "--recompute", "none", "--json", "-q", "-o", folder / "step.cplan"]
    got = json.loads(subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE).stdout)
    arenas = max(sum(stage["memory"][kind] for kind in ("weights", "activations", "io")) for stage in got["stages"])
    predicted = got["training_plan"]["predicted_bytes"]
    print(f"two stages, {schedule}: predicted {predicted:.0f}, the arenas of the larger {arenas}: {predicted / arenas:.3f}")
    if not LEAST * arenas <= predicted <= most * arenas:
        wrong.append(schedule)
assert not wrong, wrong
