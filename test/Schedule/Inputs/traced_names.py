#!/usr/bin/env python3
"""Fails unless the operators of each of LAYERS layers are in a trace, as often as those of the others: traced_names.py TRACE LAYERS.

The first and the last layers may share kernels with what is before and behind them.
"""
import collections
import json
import re
import sys


def main():
    counts = collections.Counter()
    for event in json.load(open(sys.argv[1]))["traceEvents"]:
        for name in event.get("args", {}).get("operators", []) if event["ph"] == "X" else []:
            if match := re.fullmatch(r"/layers\.(\d+)/(\w+)", name):
                counts[match[2], int(match[1])] += 1
            elif "{" in name:
                sys.exit(f"a name with a gap: {name}")
    kinds = {kind for kind, _ in counts}
    if not {"up", "down", "add", "norm"} <= kinds:
        sys.exit(f"operators are missing: {sorted(kinds)}")
    for kind in kinds:
        found = [counts[kind, layer] for layer in range(int(sys.argv[2]))]
        if 0 in found or len(set(found[1:-2])) != 1:
            sys.exit(f"'{kind}' is not there as often in each layer: {found}")


if __name__ == "__main__":
    main()
