"""Checks what a run did whose first steps overflowed: check_overflow.py FOLDER, with the logs whole.jsonl and parts.jsonl of runs that should be
alike, and the checkpoints of every step in whole/."""
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
logs = [[json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()] for name in ("whole", "parts")]


def states(step):
    return {path.name: path.read_bytes() for path in sorted((folder / f"whole/step-{step:08}").glob("*.safetensors"))}


for log in logs:
    scale, skipped = 65536.0, 0
    for line in log:
        assert line["loss_scale"] == scale, line
        if line["grad_norm"] is None:
            scale, skipped = scale / 2, skipped + 1
        assert line["skipped"] == skipped, line
    first = next(i for i, line in enumerate(log) if line["grad_norm"] is not None)
    assert 0 < first < len(log) - 1 == 11, f"the first {first} of {len(log)} steps overflow"
    assert all(line["loss"] == log[0]["loss"] for line in log[:first + 1]), "a step that is skipped changes the loss"
    assert log[-1]["loss"] < log[0]["loss"], "nothing is learned after the scale has fallen"
for whole, parts in zip(*logs):
    assert whole["loss_scale"] == parts["loss_scale"] and whole["skipped"] == parts["skipped"], (whole, parts)
    assert abs(whole["loss"] - parts["loss"]) <= 1e-3 * abs(whole["loss"]), (whole, parts)
before = states(1)
assert before and before == states(first), "a step that is skipped changes states"
assert before != states(first + 1), "a step that is not skipped changes nothing"
