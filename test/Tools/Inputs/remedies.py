"""Asks for a plan within too little memory, and follows what the refusal says.

    remedies.py FOLDER LIMIT MODEL OPTIONS...

The amount that is said to be enough is enough, and not much more than the plan then takes; a mesh that is said to make it fit does;
the same question has the same answer; what is tried is told, and is not without end.
"""
import json
import re
import subprocess
import sys

folder, limit, *command = sys.argv[1:]


def compile(*options):
    given = list(command)
    if "--mesh" in options:
        at = given.index("--mesh")
        del given[at:at + 2]
    return subprocess.run(["colossal-compile", *given, *options, "-o", f"{folder}/remedy.cplan"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def notes(done):
    return [line for line in done.stderr.splitlines() if "note: " in line]


refused = compile("--memory", limit)
assert refused.returncode == 1, refused.stderr
tried = re.findall(r"would it fit with (.*)\?", refused.stderr)
assert tried[0].startswith("--memory ") and len(tried) <= 100, tried
assert notes(compile("--memory", limit)) == notes(refused), "the same answer"
amount = re.search(r"note: --memory (\S+) is enough", refused.stderr)[1]
enough = compile("--memory", amount, "--json")
assert enough.returncode == 0, enough.stderr
memory = json.loads(enough.stdout)["memory"]
assert memory["limit"] / 1.25 <= memory["total"] <= memory["limit"], memory
if mesh := re.search(r"note: --mesh (\S+) makes it fit", refused.stderr):
    assert compile("--memory", limit, "--mesh", mesh[1]).returncode == 0, mesh[0]
