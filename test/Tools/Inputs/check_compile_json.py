"""Checks what colossal-compile --json has told of the MLP on two ranks with batches of 1 and 4.

    check_compile_json.py JSON PLAN
"""
import json
import os
import sys

told = json.load(open(sys.argv[1]))
assert told["plan"] == sys.argv[2] and told["bytes"] == os.path.getsize(sys.argv[2])
assert told["mesh"] == {"axes": [{"name": "x", "size": 2}], "ranks": 2}
assert [program["inputs"][0]["shape"] for program in told["programs"]] == [[1, 72], [4, 72]]
assert all(program["outputs"] for program in told["programs"])
memory = told["memory"]
assert memory["total"] == sum(memory[kind] for kind in memory if kind not in ("limit", "total")) > 0
assert any(chosen["kind"] == "contract" and "x" in chosen["layout"] for chosen in told["layout"])
assert [phase["name"] for phase in told["phases"]] == ["import", "outline", "step", "search", "partition", "schedule", "plan"]
assert 0 < sum(phase["seconds"] for phase in told["phases"]) <= told["seconds"]
assert told["kernels"] > 0 and told["code_bytes"] > 0
