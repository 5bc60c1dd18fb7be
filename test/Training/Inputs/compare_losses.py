#!/usr/bin/env python3
"""Compares the losses of a log of `colossal-run train` with those that PyTorch has had.

    compare_losses.py LOG LOSS...

Fails where one is further off than 1e-4 of it, or there are more or fewer steps.
"""
import json
import sys

losses = [entry["loss"] for entry in map(json.loads, open(sys.argv[1])) if "grad_norm" in entry]
wanted = [float(text) for text in sys.argv[2:]]
assert len(losses) == len(wanted), f"{len(losses)} steps, expected {len(wanted)}"
for step, (loss, want) in enumerate(zip(losses, wanted), 1):
    assert loss is not None and abs(loss - want) <= 1e-4 * abs(want), f"step {step}: loss {loss}, expected {want}"
