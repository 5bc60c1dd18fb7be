"""ratio.py PATTERN FIRST SECOND LOW HIGH: the number that PATTERN finds in FIRST over that in SECOND must lie between."""
import re
import sys

pattern, first, second, low, high = sys.argv[1:]


def seconds(path):
    value, unit = re.search(pattern, open(path).read()).groups()
    return float(value) * {"us": 1e-6, "ms": 1e-3}[unit]


ratio = seconds(first) / seconds(second)
sys.exit(0 if float(low) <= ratio <= float(high) else f"the ratio is {ratio}")
