"""Runs a command, which must end with a given exit code and, if that is not 0, say something on standard error.

    exit_code.py CODE COMMAND...
"""
import subprocess
import sys

code, command = int(sys.argv[1]), sys.argv[2:]
done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
if done.returncode != code or (code and not done.stderr.strip()):
    sys.exit(f"{command}: exit code {done.returncode}, expected {code}\n{done.stderr}")
