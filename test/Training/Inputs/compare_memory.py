#!/usr/bin/env python3
"""Prints a limit of memory that the first of some compilations does not keep and the others do, midway between it and the second.

    compare_memory.py RESULT.json...

The files hold what `colossal-compile --json` has printed. Fails where one takes no less than the one before it.
"""
import json
import sys

totals = [json.load(open(name))["memory"]["total"] for name in sys.argv[1:]]
assert all(b < a for a, b in zip(totals, totals[1:])), totals
print((totals[0] + totals[1]) // 2)
