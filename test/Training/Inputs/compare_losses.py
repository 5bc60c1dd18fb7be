#!/usr/bin/env python3
"""Compares the losses of a log of `colossal-run train` with those that PyTorch has had.

    compare_losses.py [--tolerance T] LOG LOSS...

Fails where one is further off than T (1e-4) of it, or there are more or fewer steps.
"""
import argparse
import json

parser = argparse.ArgumentParser()
parser.add_argument("--tolerance", type=float, default=1e-4)
parser.add_argument("log")
parser.add_argument("wanted", type=float, nargs="+")
arguments = parser.parse_args()
wanted = arguments.wanted
losses = [entry["loss"] for entry in map(json.loads, open(arguments.log)) if "grad_norm" in entry]
assert len(losses) == len(wanted), f"{len(losses)} steps, expected {len(wanted)}"
for step, (loss, want) in enumerate(zip(losses, wanted), 1):
    assert loss is not None and abs(loss - want) <= arguments.tolerance * abs(want), f"step {step}: loss {loss}, expected {want}"
