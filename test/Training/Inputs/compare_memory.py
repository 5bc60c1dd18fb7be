#!/usr/bin/env python3
"""Prints a limit of memory that only the last of some compilations keeps.

    compare_memory.py RESULT.json...

The files hold what `colossal-compile --json` has printed. Fails where one takes no less than the one before it.
"""
import json
import sys

totals = [json.load(open(name))["memory"]["total"] for name in sys.argv[1:]]
assert all(b < a for a, b in zip(totals, totals[1:])), totals
print((totals[-1] + totals[-2]) // 2)
