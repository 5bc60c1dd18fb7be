#!/usr/bin/env python3
"""Runs colossal-cost predict over published tables and prints the errors.

    test/Benchmark/cost_reference.py --reference DIR [--tool build/bin/colossal-cost] [--machine TABLE=FILE ...] [--rows]

DIR holds the tables, or some of them, under the names below; published.py reads each as it is. A table's goal is printed beside
its error. `--rows` prints each row's measured and predicted value.
"""
import argparse
import pathlib
import re
import statistics
import sys

from published import predict

MACHINES = {
    "vtrain_a100": "a100-80-4x200",
    "zero_bubble": "a100-80-4x200",
    "torchtitan": "h100-96",
    "alpa": "v100-p3.16xlarge",
}


def number(row, column):
    return float(row[column]) if row.get(column, "").strip() else None


def errors(pairs):
    """Absolute percentage errors of (measured, predicted)."""
    return [100 * abs(p - m) / m for m, p in pairs]


def ordering(groups, margin):
    """Of the pairs within a group whose measured values differ by more than `margin`: how many are ordered alike."""
    right = total = 0
    for values in groups.values():
        for i, (m, p) in enumerate(values):
            for n, q in values[:i]:
                if max(m, n) > (1 + margin) * min(m, n):
                    total += 1
                    right += (m > n) == (p > q)
    return right, total


class Report:
    def __init__(self, rows):
        self.show_rows = rows

    def show(self, name, pairs, goal, labels=None):
        found = errors(pairs)
        if not found:
            return
        worst = max(range(len(found)), key=found.__getitem__)
        print(f"  {name:34} {len(found):5} rows  mean {statistics.mean(found):6.2f} %  median {statistics.median(found):6.2f} %  "
              f"worst {found[worst]:6.1f} %   goal {goal}")
        if self.show_rows and labels:
            for label, (m, p), e in zip(labels, pairs, found):
                print(f"      {e:6.1f} %  {'+' if p > m else '-'}  {m:12.5g} {p:12.5g}   {label}")

    def order(self, name, right, total, goal):
        if total:
            print(f"  {name:34} {right:5} of {total} pairs in the right order ({100 * right / total:.1f} %)   goal {goal}")


def label(row, *columns):
    return " ".join(f"{c}={row[c]}" for c in columns if row.get(c))


DIMENSIONS = ("gpus", "global_batch", "micro_batch", "hidden", "layers", "tp", "dp", "pp")


def iterations(report, rows, goal):
    """Iteration times, and their order among layouts of the same model, batch and devices."""
    pairs = [(number(r, "iter_ms"), number(r, "predicted_ms")) for r in rows]
    report.show("iteration time", pairs, goal, [label(r, *DIMENSIONS) for r in rows])
    groups = {}
    for row, pair in zip(rows, pairs):
        groups.setdefault(tuple(row[c] for c in ("gpus", "global_batch", "hidden", "layers")), []).append(pair)
    report.order("layouts of one model", *ordering(groups, 0.1), "-")


def single(report, rows):
    iterations(report, rows, "mean <= 5 %")
    # A sample may hold some kinds of layout more often than the whole grid of layouts does.
    grid = {"1": 8, "2": 6, "4": 3, "8": 1}
    by_tensor = {}
    for row in rows:
        by_tensor.setdefault(row["tp"], []).append(100 * abs(number(row, "predicted_ms") / number(row, "iter_ms") - 1))
    if set(by_tensor) == set(grid):
        mean = sum(grid[t] * statistics.mean(e) for t, e in by_tensor.items()) / sum(grid.values())
        print(f"  {'weighted as the whole grid':34}             mean {mean:6.2f} %   " +
              " ".join(f"tp{t} {statistics.mean(e):.1f} %" for t, e in by_tensor.items()))


def multi(report, rows):
    iterations(report, rows, "mean <= 7 %, median <= 3.5 %")


def all_reduce(report, rows):
    for gpu in sorted({r["gpu"] for r in rows}):
        mine = [r for r in rows if r["gpu"] == gpu]
        pairs = [(number(r, "oop_time_ns") * 1e-6, number(r, "predicted_ms")) for r in mine]
        report.show(f"all-reduce, {gpu}", pairs, "mean <= 5 %", [label(r, "n_gpus", "size_B") for r in mine])


def zero_bubble(report, rows):
    def key(r):
        return r["model"], r["pp_gpus"], r["num_microbatches"]
    base = {key(r): r for r in rows if r["schedule"] == "1F1B"}
    speed = lambda r: 1 / number(r, "predicted_ms")
    for schedule in dict.fromkeys(r["schedule"] for r in rows):
        mine = [r for r in rows if r["schedule"] == schedule and key(r) in base]
        if schedule != "1F1B":
            pairs = [(number(r, "samples_per_gpu_s") / number(base[key(r)], "samples_per_gpu_s"), speed(r) / speed(base[key(r)])) for r in mine]
            report.show(f"{schedule} relative to 1F1B", pairs, "mean <= 5 %", [label(r, "model", "num_microbatches") for r in mine])
    samples = lambda r: float(r["micro_batch"]) * float(r["num_microbatches"]) / float(r["pp_gpus"]) / number(r, "predicted_ms") * 1e3
    report.show("throughput itself", [(number(r, "samples_per_gpu_s"), samples(r)) for r in rows], "-",
                [label(r, "schedule", "model", "num_microbatches") for r in rows])
    groups = {}
    for r in rows:
        if r["schedule"] in ("1F1B-I", "ZB-1p"):
            groups.setdefault(key(r), []).append((number(r, "samples_per_gpu_s"), speed(r)))
    report.order("1F1B-I against ZB-1p", *ordering(groups, 0.02), "all")
    report.show("peak memory", [(number(r, "peak_mem_GB"), number(r, "predicted_gib")) for r in rows], "mean <= 10 %",
                [label(r, "schedule", "model", "num_microbatches") for r in rows])


def bubbles(report, rows):
    for schedule in dict.fromkeys(r["schedule"] for r in rows):
        mine = [r for r in rows if r["schedule"] == schedule]
        pairs = [(1 / (1 - number(r, "bubble_rate")), 1 / (1 - number(r, "predicted_bubble"))) for r in mine]
        report.show(f"{schedule}: time over busy time", pairs, "-", [label(r, "model", "num_microbatches") for r in mine])


def layer_times(report, rows):
    for column, predicted in (("fwd_ms", "predicted_fwd_ms"), ("bwd_ms", "predicted_bwd_ms"), ("combined_ms", "predicted_ms")):
        report.show(column, [(number(r, column), number(r, predicted)) for r in rows], "-", [r["setting"] for r in rows])


def stage_memory(report, rows):
    columns = [c for c in rows[0] if c.startswith("act_") or c == "params_and_optimizer"]
    for kind in sorted({r["kind"] for r in rows}):
        pairs = [(number(r, c), number(r, "predicted_" + c), f"{r['model']} {c}") for r in rows if r["kind"] == kind for c in columns
                 if number(r, c) and number(r, "predicted_" + c)]
        report.show(kind, [p[:2] for p in pairs], "<= 5 %", [p[2] for p in pairs])


def sc21(report, rows):
    pairs, labels = [], []
    for r in rows:
        # TFLOP/s as that paper counts them: with the recomputed forward pass.
        pairs.append((number(r, "tflops_per_gpu"), number(r, "predicted_tflops_per_gpu")))
        labels.append(label(r, "scheme", "params_B", "gpus"))
    report.show("TFLOP/s a device", pairs, "each <= 15 %", labels)
    groups = {}
    for r, pair in zip(rows, pairs):
        groups.setdefault((r["params_B"], r["global_batch"]), []).append(pair)
    report.order("schemes and sizes", *ordering(groups, 0.1), "all")


def torchtitan(report, rows):
    def tokens(r):
        devices = float(r["gpus"])
        batch = number(r, "global_batch") or number(r, "local_batch") * number(r, "fsdp")
        return batch * float(r["seq"]) / devices / number(r, "predicted_ms") * 1e3
    names = [label(r, "model", "gpus", "seq", "schedule", "technique") for r in rows]
    report.show("tokens/s a device", [(number(r, "tokens_s_per_gpu"), tokens(r)) for r in rows], "<= 15 %", names)
    report.show("memory", [(number(r, "mem_GiB"), number(r, "predicted_gib")) for r in rows], "-", names)
    print(f"  {'fit':34} {sum(r['predicted_fit'] == 'yes' for r in rows):5} of {len(rows)} rows, all of which ran   goal all")


def alpa(report, rows):
    rows = [r for r in rows if number(r, "predicted_ms")]
    groups = {}
    pairs, labels = [], []
    for r in rows:
        if number(r, "tflops_per_gpu"):
            pairs.append((number(r, "tflops_per_gpu"), number(r, "predicted_tflops_per_gpu")))
            labels.append(label(r, "model", "gpus", "method", "predicted_plan"))
            groups.setdefault((r["model"], r["gpus"]), []).append(pairs[-1])
    report.show("TFLOP/s a device", pairs, "-", labels)
    for model in sorted({m for m, _ in groups}):
        report.order(f"plans, {model}", *ordering({k: v for k, v in groups.items() if k[0] == model}, 0.1), ">= 80 %")
    report.order("plans", *ordering(groups, 0.1), ">= 80 %")


TABLES = [
    ("vtrain_a100_multi", multi), ("vtrain_a100_single", single), ("vtrain_measured_allreduce_lut", all_reduce),
    ("zero_bubble_throughput", zero_bubble), ("zero_bubble_bubble_rates", bubbles), ("megatron_sc21_table2", sc21),
    ("korthikanti2022_memory", stage_memory), ("korthikanti2022_layer_times", layer_times), ("torchtitan", torchtitan),
    ("alpa_e2e", alpa),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=pathlib.Path, required=True, help="folder of the published tables")
    parser.add_argument("--tool", default="build/bin/colossal-cost")
    parser.add_argument("--machine", action="append", default=[], metavar="TABLE=NAME", help="machine for tables whose name begins so")
    parser.add_argument("--only", default="", help="tables whose name begins so")
    parser.add_argument("--rows", action="store_true", help="print every row")
    options = parser.parse_args()
    machines = dict(MACHINES)
    machines.update(entry.split("=", 1) for entry in options.machine)
    report = Report(options.rows)
    done = 0
    for name, judge in TABLES:
        for path in sorted(options.reference.glob(name + "*.csv")):
            if not path.name.startswith(options.only):
                continue
            machine = next((m for prefix, m in machines.items() if path.name.startswith(prefix)), "a100-80-sxm")
            rows, printed = predict(options.tool, path, machine)
            simulated = re.search(r"(OUTPUT|output) of .*simulator|their simulator", path.read_text().splitlines()[0], re.I)
            print(f"{path.stem}: {len(rows)} rows, {'output of a simulator' if simulated else 'measured'}, machine {machine}")
            judge(report, rows)
            done += 1
    if not done:
        sys.exit(f"{options.reference}: none of the tables is there")


if __name__ == "__main__":
    main()
