"""What a plan keeps by value is kept, and the rest made again: by_value.py FOLDER MODEL --mesh ... [options of colossal-compile].

For limits between what full recompute needs and what keeping all does, plans are made that keep single values. Each one's program must
take memory between the two, as foreseen, and its steps must give the losses of the step that keeps all.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np

folder, model, options = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
LEAST, MOST = 0.9, 1.12  # of the arenas, what is foreseen: of small models the layers that one segment makes again are a large part
SEQUENCE, BATCH, VOCABULARY = 64, 16, 256
sized = [model, "--training", "adamw", "--dim", f"seq={SEQUENCE}", "--precision", "f32", "--machine", "cpu"]
np.save(folder / "tokens.npy", np.random.default_rng(1).integers(0, VOCABULARY, (BATCH, SEQUENCE)))


def call(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def plan(name, *more):
    call("colossal-compile", *sized, "--global-batch", BATCH, *options, *more, "--plan-only", "-q", "-o", folder / name)
    return json.loads((folder / name).read_text())


def run(name):
    """Arenas, what was foreseen of them, and losses."""
    got = json.loads(call("colossal-compile", *sized, "--loss", "cross-entropy,logits=logits,shift=1", "--plan", folder / name, "--json", "-q", "-o",
                          folder / "step.cplan"))
    arenas = max(sum(rank["memory"][kind] for kind in ("weights", "activations", "io")) for rank in got.get("stages") or [got])
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    call("colossal-run", "train", folder / "step.cplan", "--data", f"input_ids={folder / 'tokens.npy'}", "--steps", 3, "--log", log)
    return arenas, got["training_plan"]["predicted_bytes"], np.array([json.loads(line)["loss"] for line in log.open()])


bounds = {recompute: plan(f"{recompute}.json", "--recompute", recompute)["predicted"]["peak_bytes"] for recompute in ("none", "full")}
none, full = run("none.json"), run("full.json")
seen = {}
for eighth in range(1, 8):
    limit = round(bounds["full"] + (bounds["none"] - bounds["full"]) * eighth / 8)
    found = plan("limited.json", "--memory", f"{limit}")
    if found["recompute"] != "by-value" or json.dumps(found["kept"]) in seen:
        continue
    assert found["predicted"]["peak_bytes"] <= limit, (found["predicted"], limit)
    arenas, predicted, losses = run("limited.json")
    seen[json.dumps(found["kept"])] = arenas
    print(f"{found['kept']}: {predicted / arenas:.3f} of {arenas} (full {full[0]}, none {none[0]}), losses {abs(losses / none[2] - 1).max():.1e} apart")
    assert full[0] < arenas < none[0], (full[0], arenas, none[0])
    assert LEAST * arenas <= predicted <= MOST * arenas, (predicted, arenas)
    assert np.allclose(losses, none[2], rtol=1e-5, atol=0), (losses, none[2])
assert seen, "no limit made the search keep single values"
