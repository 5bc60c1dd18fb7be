"""memory_limit.py FOLDER MODEL OPTIONS...: a plan compiled with --memory keeps within it, or is refused with the numbers.

Compiles without a limit, takes from `colossal-run --json` what the plan holds per rank, and then asks for less and less.
Each answer must be a plan whose arenas keep within the limit, or a refusal that says what was given, by how much the
best plan is too large, and an amount that is enough; and both must occur, a plan also below what it holds where nothing limits
it. A remedy that is named works: so much memory, another mesh, or a smaller batch.
"""
import json
import re
import subprocess
import sys

folder, model, *options = sys.argv[1:]
plan = f"{folder}/limited.cplan"


def compile_within(*limit):
    return subprocess.run(["colossal-compile", model, *options, *limit, "-q", "-o", plan], stderr=subprocess.PIPE, text=True)


def arena_bytes():
    done = subprocess.run(["colossal-run", plan, "--random-inputs", "1", "--json"], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)["arena_bytes"]


def check_remedies(limit, text):
    enough = re.search(r"note: --memory (\S+) is enough", text)
    assert enough, text
    again = compile_within("--memory", enough[1])
    assert again.returncode == 0, again.stderr
    mesh = re.search(r"note: --mesh (\S+) makes it fit", text)
    assert mesh or re.search(r"note: no mesh of up to \d+ devices makes it fit", text), text
    if mesh:
        other = [*options]
        other[other.index("--mesh") + 1] = mesh[1]
        done = subprocess.run(["colossal-compile", model, *other, "--memory", str(limit), "-q", "-o", plan], stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stderr
    print(f"  enough: {enough[1]}, mesh: {mesh and mesh[1]}")


assert compile_within().returncode == 0
free = arena_bytes()
kept = refused = 0
for percent in (120, 90, 70, 50, 30, 20, 10, 5):
    limit = free * percent // 100
    done = compile_within("--memory", str(limit))
    if done.returncode == 0:
        held = arena_bytes()
        assert held <= limit, f"the plan holds {held} bytes, {limit} were given"
        kept += 1
        print(f"{limit} bytes given, {held} held")
    else:
        assert done.returncode == 1, f"exit code {done.returncode}: {done.stderr}"
        assert re.search(r"does not fit: .*[0-9].* (too much|more: )", done.stderr), done.stderr
        refused += 1
        print(f"{limit} bytes given, refused")
        if refused == 1 or percent == 5:
            check_remedies(limit, done.stderr)
assert kept >= 2 and refused, f"{kept} kept, {refused} refused"
