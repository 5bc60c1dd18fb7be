"""Looks at what colossal-compile --plan-only --json printed.

    check_json.py priced PLAN PRICED    PRICED is PLAN with another prediction, and remembers PLAN's
    check_json.py two PLAN OTHER        standard input has both, priced
    check_json.py misfit                standard input tells what comes nearest where nothing fits
"""
import json
import sys


def load(path):
    with open(path) as file:
        return json.load(file)


what, paths = sys.argv[1], sys.argv[2:]
if what == "priced":
    plan, priced = map(load, paths)
    assert all(plan.get(key) == priced.get(key) for key in ("mesh", "layouts", "stages", "microbatch"))
    assert set(plan["predicted"]) == set(priced["predicted"]), "the same keys"
    stored = priced["stored_prediction"]
    assert stored and all(plan["predicted"][key] == value for key, value in stored.items())
    assert priced["predicted"]["seconds"] < stored["seconds"], "half the tokens"
elif what == "two":
    first, second = json.load(sys.stdin)["plans"]
    plan, other = map(load, paths)
    assert first["predicted"] == plan["predicted"] and first["mesh"] == plan["mesh"]
    assert second["mesh"]["pipeline"] == other["mesh"]["pipeline"] and second["predicted"]["seconds"] > 0
else:
    told = json.load(sys.stdin)
    assert "mesh" not in told and told["global_batch"] == 64 and told["memory_bytes"] == 16 << 20
    search = told["search"]
    assert search["fits"] is False and search["remedies"]
    assert search["smallest"]["predicted"]["peak_bytes"] > 16 << 20 and search["smallest"]["mesh"]
