"""Asks for a mesh of 4 devices within less and less memory, until nothing fits.

    devices_memory.py FOLDER MODEL OPTIONS...

What is compiled keeps within the limit; the refusal says which mesh needs the least, and the amount that it says is enough is.
"""
import json
import re
import subprocess
import sys

folder, *command = sys.argv[1:]


def compile(*options, devices="4"):
    return subprocess.run(["colossal-compile", *command, "--devices", devices, *options, "--json", "-o", f"{folder}/memory.cplan"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


free = json.loads(compile().stdout)["memory"]["total"]
limit = int(free * 0.9)
tight = compile("--memory", str(limit))
assert tight.returncode == 0, tight.stderr
assert json.loads(tight.stdout)["memory"]["total"] <= limit
refused = compile("--memory", str(int(free * 0.2)))
assert refused.returncode == 1, refused.stderr
assert re.search(r"note: this is on mesh (4|2x2|stage=2,model=2|stage=4)( in [24] microbatches)?, which needs the least of those of 4 devices that were tried; the others are", refused.stderr), refused.stderr
amount = re.search(r"note: --memory (\S+) is enough", refused.stderr)[1]
enough = compile("--memory", amount)
assert enough.returncode == 0, enough.stderr
assert "note: --mesh" not in refused.stderr
if more := re.search(r"note: --devices (\d+) makes it fit", refused.stderr):
    again = compile("--memory", str(int(free * 0.2)), devices=more[1])
    assert again.returncode == 0, again.stderr
