"""Prices PLAN.json with the command that follows, and compares the step's time and the peak with what the plan says."""
import json
import re
import subprocess
import sys

plan, *command = sys.argv[1:]
predicted = json.load(open(plan))["predicted"]
report = subprocess.run([*command, "--plan-only", "--price", plan], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
seconds = float(re.search(r"^step: ([0-9.e+-]+) s", report, re.M)[1])
assert abs(seconds - predicted["seconds"]) <= 6e-4 * seconds, (seconds, predicted["seconds"])
peak = max(float(row.split()[-1]) for row in re.findall(r"^ +\d+ +\d+ .*$", report, re.M))
expected = predicted["peak_bytes"] / {"GiB": 2**30, "MiB": 2**20}[re.search(r"^memory of a rank in ([GM]iB)", report, re.M)[1]]
assert abs(peak - expected) <= 0.006, (peak, expected)
