"""Compiles for a number of devices and on each of some meshes of so many ranks.

    best_mesh.py FOLDER DEVICES MESH... -- MODEL OPTIONS...

What is predicted of the mesh that is chosen is what is predicted where that mesh is named, and no mesh is predicted to be faster.
"""
import json
import subprocess
import sys

at = sys.argv.index("--")
folder, devices, *meshes = sys.argv[1:at]
command = sys.argv[at + 1:]


def compile(*options):
    done = subprocess.run(["colossal-compile", *command, *options, "--json", "-q", "-o", f"{folder}/mesh.cplan"],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def seconds(plan):
    return sum(program["predicted_s"] for program in plan["programs"])


found = compile("--devices", devices)
assert found["mesh"]["ranks"] == int(devices), found["mesh"]
chosen, *others = found["meshes"]
axes = [axis for axis in found["mesh"]["axes"] if axis["name"] != "microbatch"]
assert chosen["mesh"] in ("x".join(str(axis["size"]) for axis in axes), ",".join(f"{axis['name']}={axis['size']}" for axis in axes)), found["mesh"]
assert found["microbatches"] == chosen["microbatches"], found["microbatches"]
assert chosen["fits"] and abs(chosen["predicted_s"] / seconds(found) - 1) < 1e-9, chosen
assert all(other["predicted_s"] >= chosen["predicted_s"] for other in others), found["meshes"]
for tried in found["meshes"]:
    overlaps = tried["predicted_runs_per_s"] * tried["predicted_s"]
    assert overlaps > 1 - 1e-9 if "stage" in tried["mesh"] else abs(overlaps - 1) < 1e-9, tried
assert found["objective"] == "latency" and any(phase["name"] == "mesh" for phase in found["phases"])
for mesh in meshes:
    named = compile("--mesh", mesh)
    assert named["meshes"] == []
    assert seconds(named) >= seconds(found) * (1 - 1e-9), (mesh, seconds(named), chosen)
    for tried in found["meshes"]:
        assert tried["mesh"] != mesh or abs(tried["predicted_s"] / seconds(named) - 1) < 1e-9, tried
pipelines = [tried for tried in found["meshes"] if "stage" in tried["mesh"]]
assert pipelines, found["meshes"]
for tried in pipelines[:2]:
    named = compile("--mesh", tried["mesh"], "--microbatches", str(tried["microbatches"]))
    assert abs(tried["predicted_s"] / seconds(named) - 1) < 1e-9, (tried, seconds(named))
