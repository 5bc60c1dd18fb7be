"""Runs a command whose standard output is a full device: it must say so and fail.

    full_device.py COMMAND...
"""
import subprocess
import sys

with open("/dev/full", "w") as full:
    done = subprocess.run(sys.argv[1:], stdout=full, stderr=subprocess.PIPE, text=True)
if done.returncode == 0 or "output" not in done.stderr:
    sys.exit(f"{sys.argv[1:]}: exit code {done.returncode}\n{done.stderr}")
