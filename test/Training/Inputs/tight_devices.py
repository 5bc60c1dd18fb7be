"""Tightens --memory below what the program of the best plan takes, and above what was foreseen of it: tight_devices.py FOLDER COLOSSAL-COMPILE ARGUMENTS.

The plan is then another one, which fits, and the first one is told of with what its program needs.
"""
import json
import pathlib
import subprocess
import sys

folder, command = pathlib.Path(sys.argv[1]), sys.argv[2:]


def compile_within(*memory):
    done = subprocess.run([*command, *memory, "--json", "-q", "-o", folder / "tight.cplan"], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


free = compile_within()
total = free["memory"]["total"]
limit = total - total // 50
assert free["training_plan"]["predicted_bytes"] < limit, "the program takes no more than was foreseen of it: this test sees nothing"
tight = compile_within("--memory", str(limit))
assert tight["memory"]["total"] <= limit, (tight["memory"], limit)
skipped = tight["training_plan"]["not_taken"]
assert skipped and skipped[0]["needed_bytes"] > limit, tight["training_plan"]
