#!/usr/bin/env python3
"""Fits a machine file's constants to published iteration times, and tests the fit on rows that it has not seen.

    test/Benchmark/fit_cost.py --table FILE.csv=MACHINE.json [--table ...] --constants NAME,... [--tool ...]
        [--shares COLUMN=VALUE:SHARE,...] [--evaluations N] [--hold-out N] [-o MACHINE.json]

Each table has a column iter_ms. The mean over tables of the mean absolute relative error is minimised by Nelder-Mead in
the logarithms of the constants, from their values in the first machine file. With --hold-out N the rows of each table
are halved at random N times, and the error on the half that was not fitted is printed beside the other's.
--shares says what part of the whole population rows with that value are, where the tables are samples with other parts
(tp=1:8,2:6,4:3,8:1 for all layouts of 2 to 8 devices, of which a sample holds as many of each tp).
"""
import argparse
import csv
import json
import math
import pathlib
import random
import subprocess
import tempfile


def nelder_mead(f, n, evaluations, step=0.2):
    """The best of at most about `evaluations` points, from the origin."""
    points = [[0.0] * n] + [[step if i == j else 0.0 for j in range(n)] for i in range(n)]
    values = [f(p) for p in points]
    count = len(points)
    move = lambda c, p, t: [a + t * (a - b) for a, b in zip(c, p)]
    while count < evaluations:
        order = sorted(range(n + 1), key=values.__getitem__)
        points, values = [points[i] for i in order], [values[i] for i in order]
        centre = [sum(p[j] for p in points[:-1]) / n for j in range(n)]
        reflected = move(centre, points[-1], 1)
        value = f(reflected)
        count += 1
        if value < values[0]:
            expanded = move(centre, points[-1], 2)
            better = f(expanded)
            count += 1
            points[-1], values[-1] = (expanded, better) if better < value else (reflected, value)
        elif value < values[-2]:
            points[-1], values[-1] = reflected, value
        else:
            inner = move(centre, reflected if value < values[-1] else points[-1], -0.5)
            between = f(inner)
            count += 1
            if between < min(value, values[-1]):
                points[-1], values[-1] = inner, between
            else:
                points = [points[0]] + [move(points[0], p, -0.5) for p in points[1:]]
                values = [values[0]] + [f(p) for p in points[1:]]
                count += n
    best = min(range(n + 1), key=values.__getitem__)
    return points[best]


class Fit:
    def __init__(self, tool, tables, constants, folder, shares=None):
        self.tool, self.constants, self.folder = tool, constants, pathlib.Path(folder)
        self.column, self.shares = shares or (None, {})
        self.weights = {}
        self.tables = [(path, json.loads(pathlib.Path(machine).read_text())) for path, machine in tables]
        fitted = self.tables[0][1].get("fitted", {})
        missing = [c for c in constants if c not in fitted or "value" not in fitted[c]]
        if missing:
            raise SystemExit(f"the first machine file states no {', '.join(missing)} to start from")
        self.start = [fitted[c]["value"] for c in constants]

    def values(self, x):
        return {c: v * math.exp(t) for c, v, t in zip(self.constants, self.start, x)}

    def machine(self, description, x):
        out = json.loads(json.dumps(description))
        for name, value in self.values(x).items():
            entry = dict(self.tables[0][1]["fitted"][name], value=value)
            out.setdefault("fitted", {})[name] = entry
        return out

    def errors(self, x):
        """Relative errors, by table and row; None where the tool refuses the constants."""
        found = []
        for path, description in self.tables:
            file, out = self.folder / "machine.json", self.folder / "out.csv"
            file.write_text(json.dumps(self.machine(description, x)))
            run = subprocess.run([self.tool, "predict", "-q", "--table", path, "--machine", file, "-o", out], capture_output=True)
            if run.returncode:
                return None
            rows = list(csv.DictReader(line for line in out.read_text().splitlines() if not line.startswith("#")))
            if path not in self.weights:
                values = [r.get(self.column) for r in rows]
                known = set(self.shares) == set(values)
                self.weights[path] = [self.shares[v] / values.count(v) if known else 1.0 for v in values]
            found.append([abs(float(r["predicted_ms"]) / float(r["iter_ms"]) - 1) for r in rows])
        return found

    def loss(self, x, chosen):
        found = self.errors(x)
        if found is None:
            return 10.0
        weights = [self.weights[path] for path, _ in self.tables]
        means = [sum(e[i] * w[i] for i in rows) / sum(w[i] for i in rows) for e, w, rows in zip(found, weights, chosen)]
        return sum(means) / len(means)

    def run(self, chosen, evaluations):
        return nelder_mead(lambda x: self.loss(x, chosen), len(self.constants), evaluations)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="append", required=True, metavar="FILE.csv=MACHINE.json")
    parser.add_argument("--constants", required=True)
    parser.add_argument("--tool", default="build/bin/colossal-cost")
    parser.add_argument("--shares", metavar="COLUMN=VALUE:SHARE,...")
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--hold-out", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the first machine file with the fitted values")
    options = parser.parse_args()
    shares = None
    if options.shares:
        column, parts = options.shares.split("=", 1)
        shares = column, {value: float(share) for value, share in (part.split(":") for part in parts.split(","))}
    with tempfile.TemporaryDirectory() as folder:
        fit = Fit(options.tool, [t.split("=", 1) for t in options.table], options.constants.split(","), folder, shares)
        counts = [len(e) for e in fit.errors([0.0] * len(fit.constants))]
        everything = [list(range(n)) for n in counts]
        x = fit.run(everything, options.evaluations)
        print("fitted to all rows:", {k: float(f"{v:.4g}") for k, v in fit.values(x).items()}, f"error {100 * fit.loss(x, everything):.2f} %")
        generator = random.Random(options.seed)
        for trial in range(options.hold_out):
            halves = [generator.sample(range(n), n // 2) for n in counts]
            others = [sorted(set(range(n)) - set(h)) for n, h in zip(counts, halves)]
            y = fit.run(halves, options.evaluations)
            print(f"half {trial + 1}: fitted {100 * fit.loss(y, halves):.2f} %, held out {100 * fit.loss(y, others):.2f} %")
        if options.output:
            options.output.write_text(json.dumps(fit.machine(fit.tables[0][1], x), indent=2) + "\n")


if __name__ == "__main__":
    main()
