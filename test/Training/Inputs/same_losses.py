#!/usr/bin/env python3
"""Fails where two logs of `colossal-run train` do not have the same losses: same_losses.py LOG LOG"""
import json
import sys

one, other = ([json.loads(line)["loss"] for line in open(path)] for path in sys.argv[1:])
sys.exit(0 if one == other and len(one) > 1 else f"{one} and {other}")
