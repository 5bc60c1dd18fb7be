"""Compares the memory that the joint search foresees of a step with the arenas of its program: check_memory.py FOLDER MODELS."""
import json
import pathlib
import subprocess
import sys

folder, models = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
MOST = 1.05  # times what the arenas take
wrong = []
for stage, turns, recompute in ((0, 1, "none"), (1, 4, "none"), (2, 1, "none"), (2, 4, "none"), (3, 1, "none"), (3, 4, "none")):
    command = ["colossal-compile", models / "gpt2/model.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--machine", "cpu",
               "--dim", "seq=96", "--global-batch", 16, "--devices", 2, "--mesh", "data=2", "--zero", stage, "--microbatches", turns, "--recompute", recompute,
               "--json", "-q", "-o", folder / "step.cplan"]
    got = json.loads(subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE).stdout)
    arenas = sum(got["memory"][kind] for kind in ("weights", "activations", "io"))
    predicted = got["training_plan"]["predicted_bytes"]
    print(f"ZeRO {stage} in {turns} microbatches, recompute {recompute}: predicted {predicted:.0f}, the arenas {arenas}: {predicted / arenas:.3f}")
    if not arenas <= predicted <= MOST * arenas:
        wrong.append((stage, turns, recompute))
assert not wrong, wrong
