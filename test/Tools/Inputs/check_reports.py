"""Checks what colossal-run --json and --trace wrote for a plan of two ranks.

    check_reports.py REPORT TRACE
"""
import json
import sys

text = open(sys.argv[1]).read()
assert text.count("\n") == 1, "not one line"
report = json.loads(text)
assert report["ranks"] == 2 and report["runs"] == 3
assert 0 < report["min_s"] <= report["median_s"] < 60
assert report["arena_bytes"] > 0 and report["collective_bytes"] == report["planned_collective_bytes"]
for rank in report["memory"]["ranks"]:
    assert sum(kind["planned"] for kind in rank["kinds"]) > 0

# The form that Perfetto opens: complete events with a name, a thread, a start and a length in microseconds.
events = json.load(open(sys.argv[2]))["traceEvents"]
complete = [event for event in events if event["ph"] == "X"]
assert complete, "no events"
assert all(event["dur"] >= 0 and event["ts"] >= 0 and event["name"] for event in complete)
assert len({(event["pid"], event["tid"]) for event in complete}) >= 2, "events of both ranks"
assert any("Gemm" in event["name"] or "Gemm" in json.dumps(event.get("args", {})) for event in complete), "no ONNX names"
assert any("Gemm" in event["name"] for event in complete), "slices without the names of operators"
assert min(event["ts"] for event in complete) == 0, "time does not start from zero"
starts, ends = ([event["id"] for event in events if event["ph"] == phase] for phase in "sf")
assert sorted(starts) == sorted(ends), "arrows without both ends"

# What ranks counted is what the formulas say; their sum over rank 0's collectives is the older figure.
assert all(row["sent_bytes"] == row["planned_bytes"] for row in report["traffic"])
assert sum(row["sent_bytes"] for row in report["traffic"] if row["rank"] == 0 and row["kind"] != "send") == report["collective_bytes"]
if "operators" in report:
    assert 0 < len(report["operators"]) <= 10
    times = [row["measured_s"] for row in report["operators"]]
    assert times == sorted(times, reverse=True) and times[0] > 0
    assert any(row["predicted_s"] > 0 for row in report["operators"]), "no predictions of operators"
    percentiles = report["percentiles_s"]
    assert report["min_s"] <= percentiles["50"] <= percentiles["90"] <= percentiles["99"]
    assert report["runs_per_s"] > 0 and report["load_s"] > 0
