#!/usr/bin/env python3
"""Runs colossal-solve on instances of the intra-operator parallelism benchmark and compares with published results.

    test/Benchmark/iopddl.py --instances DIR --results CSV [--solver build/bin/colossal-solve] [--scale 1.0] [NAME...]

DIR holds NAME.json.gz; CSV has one row per instance with its limit (timeout_s), best_contest_score, xla_score and
best_known_lower_bound. Each instance runs at its own limit times --scale. The answer is checked here, from the file,
by code of its own. The last line is the geometric mean of our score over the best of the contest.
"""
import argparse
import csv
import gzip
import json
import math
import pathlib
import subprocess
import tempfile


def check(problem, chosen):
    """The score of an answer, or a string that says why it is none."""
    nodes, edges = problem["nodes"], problem["edges"]
    if len(chosen) != len(nodes["costs"]):
        return "wrong length"
    total = 0
    for costs, k in zip(nodes["costs"], chosen):
        if not 0 <= k < len(costs):
            return "candidate out of range"
        total += costs[k]
    for tied, costs in zip(edges["nodes"], edges["costs"]):
        entry = 0
        for i in tied:
            entry = entry * len(nodes["costs"][i]) + chosen[i]
        total += costs[entry]
    if problem.get("usage_limit") is not None:
        changes = {}
        for (begin, end), usage, k in zip(nodes["intervals"], nodes["usages"], chosen):
            if begin < end:
                changes[begin] = changes.get(begin, 0) + usage[k]
                changes[end] = changes.get(end, 0) - usage[k]
        held = 0
        for step in sorted(changes):
            held += changes[step]
            if held > problem["usage_limit"]:
                return f"{held} bytes at step {step}, the limit is {problem['usage_limit']}"
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", required=True, type=pathlib.Path)
    parser.add_argument("--results", required=True, type=pathlib.Path)
    parser.add_argument("--solver", default="build/bin/colossal-solve")
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of each instance's limit to use")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()

    with open(arguments.results) as file:
        published = {row["instance"]: row for row in csv.DictReader(line for line in file if not line.startswith("#"))}
    print(f"{'':4}{'limit':>6}{'seconds':>9}{'score':>16}{'contest':>16}{'ratio':>9}{'XLA':>16}"
          f"{'bound':>16}{'/known':>8}{'gap':>8}")
    ratios = []
    for path in sorted(arguments.instances.glob("*.json.gz")):
        name = path.name.split(".")[0]
        if name not in published or (arguments.names and name not in arguments.names):
            continue
        row = published[name]
        limit = float(row["timeout_s"]) * arguments.scale
        with tempfile.TemporaryDirectory() as folder:
            answer = pathlib.Path(folder) / "answer.json"
            done = subprocess.run([arguments.solver, str(path), "--time-limit", str(limit), "--quiet", "--threads",
                                   str(arguments.threads), "--seed", str(arguments.seed), "-o", str(answer)],
                                  capture_output=True, text=True)
            if done.returncode not in (0, 1):
                print(f"{name:4}failed: {done.stderr.strip()}")
                ratios.append(math.inf)
                continue
            result = json.loads(done.stdout.splitlines()[-1])
            with gzip.open(path) as file:
                score = check(json.load(file)["problem"], json.loads(answer.read_text()))
        if score != result["score"]:
            print(f"{name:4}the answer scores {score}, the solver says {result['score']}")
            ratios.append(math.inf)
            continue
        best, known = float(row["best_contest_score"]), float(row["best_known_lower_bound"])
        bound = result["bound"]
        ratios.append(score / best)
        print(f"{name:4}{limit:6.0f}{result['seconds']:9.2f}{score:16d}{best:16.0f}{score / best:9.5f}"
              f"{row['xla_score'] or '-':>16}{bound if bound is not None else '-':>16}"
              f"{bound / known if bound else math.nan:8.4f}{result['gap'] if bound else math.nan:8.4f}",
              flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if max(ratios) < math.inf else math.inf
        print(f"geometric mean of score / best contest score over {len(ratios)}: {mean:.5f}, worst {max(ratios):.5f}")


if __name__ == "__main__":
    main()
