"""Compiles a model, then again with the layout that --explain --as-pins prints, and compares the plans.

    round_trip.py MODEL SCRATCH [OPTIONS OF colossal-compile ...]
"""
import pathlib
import subprocess
import sys


def compile(*arguments):
    return subprocess.run(["colossal-compile", *arguments, "-q"], check=True, stdout=subprocess.PIPE, text=True).stdout


model, scratch, options = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
scratch.mkdir(exist_ok=True)
plans = scratch / "searched.cplan", scratch / "pinned.cplan"
pins = compile(model, *options, "--explain", "--as-pins").splitlines()
assert pins, "no pins were printed"
again = compile(model, *options, "--explain", "--as-pins", "-o", str(plans[0])).splitlines()
assert again == pins, "with a plan to write, other pins are printed"
compile(model, *options, "-o", str(plans[1]), *(item for pin in pins for item in ("--pin", pin)))
dumps = [subprocess.run(["colossal-run", str(plan), "--dump-plan"], check=True, stdout=subprocess.PIPE, text=True).stdout
         for plan in plans]
assert "program 'main" in dumps[0]
sys.exit(0 if dumps[0] == dumps[1] and plans[0].read_bytes() == plans[1].read_bytes() else "the plans differ")
