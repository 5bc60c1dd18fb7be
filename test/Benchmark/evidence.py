#!/usr/bin/env python3
"""Makes the evidence of the machine files: the errors of their predictions on published rows.

    test/Benchmark/evidence.py --reference DIR [--tool build/bin/colossal-cost] [--write | --check] [--machine NAME ...]
    test/Benchmark/evidence.py --reference DIR --leave-one-out [--machine NAME ...] [--evaluations N] [--write]

The error on a table that a machine's constants were fitted to is that of constants fitted to its other tables, which
`--leave-one-out` finds, from the constants' defaults, and prints (with `--write`, into Published/held_out.json). Where
there is no such fit, the error is in-sample and is called so. `--write` puts the errors into lib/Cost/machines, `--check` compares them with what stands there (exit code 1 where they
differ, or where a table is there that a file does not quote).
DIR holds the tables of shared/reference; those of test/Benchmark/Published are found beside this script.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
import tempfile

from cost_reference import number
from fit_cost import nelder_mead
from published import predict

HERE = pathlib.Path(__file__).resolve().parent
HELD_OUT = HERE / "Published" / "held_out.json"
MACHINES = HERE.parent.parent / "lib" / "Cost" / "machines"


def of(column, scale=1.0, predicted="predicted_ms"):
    return lambda rows: [(number(r, column) * scale, number(r, predicted)) for r in rows if number(r, column) and number(r, predicted)]


def tokens(rows):
    """Milliseconds of a step from tokens per second and device."""
    def step(r):
        batch = number(r, "global_batch") or number(r, "local_batch") * number(r, "fsdp")
        return batch * float(r["seq"]) / float(r["gpus"]) / number(r, "tokens_s_per_gpu") * 1e3
    return [(step(r), number(r, "predicted_ms")) for r in rows]


def rate_or_time(rows):
    return of("iter_ms")([r for r in rows if r["iter_ms"]]) + of("tflops_per_gpu", 1, "predicted_tflops_per_gpu")([r for r in rows if not r["iter_ms"]])


def samples(rows):
    return [(number(r, "samples_per_gpu_s"),
             float(r["micro_batch"]) * float(r["num_microbatches"]) / float(r["pp_gpus"]) / number(r, "predicted_ms") * 1e3) for r in rows]


def stage_memory(rows):
    columns = [c for c in rows[0] if c.startswith("act_") or c == "params_and_optimizer"]
    return [(number(r, c), number(r, "predicted_" + c)) for r in rows for c in columns if number(r, c) and number(r, "predicted_" + c)]


class Table:
    """A published table: how its rows are compared, what kinds of rows it has, and their ranges."""

    def __init__(self, question, pairs, measured=True, rows=None, memory=None, kinds=None, **ranges):
        self.question, self.pairs, self.measured, self.memory = question, pairs, measured, memory
        self.select, self.kinds, self.ranges = rows or (lambda r: True), kinds or {}, ranges


def eager(recompute, zero, attention="materialized", schedules=("1f1b",), frameworks=("eager",)):
    return {"network": ["transformer"], "recompute": recompute, "zero": zero, "attention": [attention], "schedule": list(schedules),
            "framework": list(frameworks)}


ALTERNATING = ("1f1b", "interleaved")
TABLES = {
    "vtrain_a100_single": Table("step", of("iter_ms"), measured=False, devices=[1, 8], hidden=[1024, 2048], sequence=[1024, 1024],
                                kinds=eager(["full"], ["0"])),
    "vtrain_a100_multi": Table("step", of("iter_ms"), devices=[64, 512], hidden=[3072, 12288], sequence=[2048, 2048],
                               kinds=eager(["full"], ["0"])),
    "vtrain_measured_allreduce_lut a100": Table("all_reduce", of("oop_time_ns", 1e-6), rows=lambda r: r["gpu"].lower() == "a100",
                                                devices=[2, 8], bytes=[1 << 20, 1 << 30]),
    "vtrain_measured_allreduce_lut v100": Table("all_reduce", of("oop_time_ns", 1e-6), rows=lambda r: r["gpu"].lower() == "v100",
                                                devices=[2, 8], bytes=[1 << 20, 1 << 30]),
    "zero_bubble_throughput": Table("step", samples, devices=[8, 32], hidden=[2304, 6144], sequence=[1024, 1024],
                                    memory=of("peak_mem_GB", 1, "predicted_gib"),
                                    kinds=eager(["none"], ["0", "1"], schedules=("1f1b", "interleaved", "zb-1p", "zb-2p"))),
    "megatron_sc21_table2": Table("step", of("tflops_per_gpu", 1, "predicted_tflops_per_gpu"), devices=[384, 2240], hidden=[12288, 20480],
                                  sequence=[2048, 2048], kinds=eager(["full"], ["0", "3"], schedules=ALTERNATING)),
    "korthikanti2022_layer_times": Table("layer", of("combined_ms"), devices=[8, 8], hidden=[6144, 6144], sequence=[2048, 2048]),
    "korthikanti2022_memory": Table("stage_memory", stage_memory, devices=[8, 512]),
    "torchtitan_llama31_h100": Table("step", tokens, devices=[8, 512], hidden=[4096, 16384], sequence=[8192, 262144],
                                     memory=of("mem_GiB", 1, "predicted_gib"),
                                     kinds=eager(["selective", "full"], ["3"], "fused", ALTERNATING, ("eager", "compiled", "torchtitan"))),
    "alpa_e2e_v100": Table("best_step", of("tflops_per_gpu", 1, "predicted_tflops_per_gpu"), devices=[1, 64]),
    "nemo_h100": Table("step", of("iter_ms"), devices=[8, 2304], hidden=[4096, 18432], sequence=[2048, 8192],
                       kinds=eager(["none"], ["0", "1"], "fused", ALTERNATING, ("megatron",))),
    "mosaic_h100": Table("step", tokens, devices=[8, 64], hidden=[1024, 8192], sequence=[512, 65536],
                         kinds=eager(["none", "full"], ["3"], "flash1", ALTERNATING)),
    "bridge_h100": Table("step", tokens, devices=[8, 1024], hidden=[4096, 18432], sequence=[2048, 8192],
                         kinds=eager(["none"], ["1", "3"], "fused", ALTERNATING, ("megatron",))),
    "papers_h100": Table("step", rate_or_time, devices=[1536, 16384], hidden=[16384, 18432], sequence=[4096, 131072],
                         kinds=eager(["none"], ["0", "1"], "fused", ALTERNATING, ("megatron",))),
}

COMMON = ["gemm_efficiency", "gemm_fill", "streaming_efficiency"]
# Of each machine: its tables, those that its constants were fitted to, and the constants.
QUOTED = {
    "a100-80-4x200": (["vtrain_a100_single", "vtrain_a100_multi", "vtrain_measured_allreduce_lut a100", "zero_bubble_throughput"],
                      ["vtrain_a100_single", "vtrain_a100_multi", "vtrain_measured_allreduce_lut a100"],
                      COMMON + ["host_launch_seconds", "backward_launch", "straggler"]),
    "a100-80-sxm": (["vtrain_a100_single", "vtrain_measured_allreduce_lut a100", "megatron_sc21_table2", "korthikanti2022_layer_times",
                     "korthikanti2022_memory"],
                    ["vtrain_a100_single", "vtrain_measured_allreduce_lut a100", "megatron_sc21_table2", "korthikanti2022_layer_times"],
                    COMMON + ["straggler"]),
    "v100-dgx1": (["vtrain_measured_allreduce_lut v100"], ["vtrain_measured_allreduce_lut v100"], []),
    "v100-p3.16xlarge": (["alpa_e2e_v100"], [], []),
    "h100-96": (["torchtitan_llama31_h100"], ["torchtitan_llama31_h100"], []),
    # Rates of attention are those that its kernels' authors published; no row of a step had a part in them.
    "h100": (["nemo_h100", "mosaic_h100", "papers_h100", "bridge_h100"], ["nemo_h100", "mosaic_h100"], COMMON + ["overlap_contention"]),
}


def find(reference, name):
    stem = name.split(" ")[0]
    for folder in (HERE / "Published", reference):
        for path in sorted(folder.glob(stem + "*.csv")):
            return path
    return None


def errors(tool, path, table, machine, memory=False):
    rows = [r for r in predict(tool, path, machine)[0] if table.select(r)]
    pairs = (table.memory if memory else table.pairs)(rows)
    return [100 * abs(p - m) / m for m, p in pairs]


def rounded(x):
    return float(f"{x:.2g}" if x < 10 else f"{x:.3g}")


def described_with(machine, constants, path):
    """Writes the machine's file with other constants."""
    description = json.loads((MACHINES / (machine + ".json")).read_text())
    for name, value in constants.items():
        description["fitted"][name]["value"] = value
    path.write_text(json.dumps(description))
    return path


def evidence(tool, reference, machine, path_of_machine):
    """The entries for a machine's tables, of those that are there."""
    tables, fitted, _ = QUOTED[machine]
    unseen = json.loads(HELD_OUT.read_text()).get(machine, {})
    entries = []
    for name in tables:
        table, path = TABLES[name], find(reference, name)
        if not path:
            continue
        with tempfile.TemporaryDirectory() as folder:
            judge = path_of_machine
            if name in unseen:
                judge = described_with(machine, unseen[name], pathlib.Path(folder) / "held-out.json")
            found = errors(tool, path, table, judge)
        entry = {"table": name, "question": table.question, "rows": len(found), "measured": table.measured,
                 "in_sample": name in fitted and name not in unseen,
                 "mean_percent": rounded(statistics.mean(found)), "median_percent": rounded(statistics.median(found))}
        if table.memory:
            found = errors(tool, path, table, path_of_machine, memory=True)
            entry.update(memory_mean_percent=rounded(statistics.mean(found)), memory_median_percent=rounded(statistics.median(found)))
        if table.ranges:
            entry["ranges"] = table.ranges
        if table.kinds:
            entry["kinds"] = table.kinds
        entries.append(entry)
    return entries


def write(machine, entries):
    """Replaces the evidence of a machine file, whose other lines stay as they are."""
    path = MACHINES / (machine + ".json")
    text = path.read_text()
    kept = text[:text.index(',\n  "evidence": [')] if '\n  "evidence": [' in text else text.rstrip()[:-1].rstrip()
    lines = ",\n".join("    " + json.dumps(entry) for entry in entries)
    path.write_text(f'{kept},\n  "evidence": [\n{lines}\n  ]\n}}\n')


def leave_one_out(tool, reference, machine, evaluations, write):
    """Finds constants for each fitted table of steps from the others, and prints the error on it."""
    _, fitted, constants = QUOTED[machine]
    names = [n for n in fitted if TABLES[n].question in ("step", "layer") and find(reference, n)]
    if len(names) < 2 or not constants:
        print(f"{machine}: fewer than two fitted tables of steps: nothing to leave out")
        return
    start = {"gemm_efficiency": 0.75, "gemm_fill": 192, "streaming_efficiency": 0.85, "host_launch_seconds": 1e-5, "backward_launch": 0.6,
             "straggler": 0.01, "overlap_contention": 0.15}
    kept = json.loads(HELD_OUT.read_text())
    with tempfile.TemporaryDirectory() as folder:
        trial = pathlib.Path(folder) / "trial.json"

        def values(point):
            found = {name: float(f"{start[name] * math.exp(step):.3g}") for name, step in zip(constants, point)}
            return {n: min(v, 1) if n.endswith("efficiency") or n == "overlap_contention" else v for n, v in found.items()}

        def mean(point, chosen):
            described_with(machine, values(point), trial)
            return statistics.mean(statistics.mean(errors(tool, find(reference, n), TABLES[n], trial)) for n in chosen)

        for left in names:
            others = [n for n in names if n != left]
            point = nelder_mead(lambda p: mean(p, others), len(constants), evaluations)
            kept.setdefault(machine, {})[left] = values(point)
            print(f"{machine}: without {left}: {mean(point, others):.1f} % on the others, {mean(point, [left]):.1f} % on it", flush=True)
    if write:
        HELD_OUT.write_text(json.dumps(kept, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=pathlib.Path, default=pathlib.Path("/nowhere"), help="folder of the published tables")
    parser.add_argument("--tool", default="build/bin/colossal-cost")
    parser.add_argument("--machine", action="append", choices=sorted(QUOTED), help="only these")
    mode = parser.add_mutually_exclusive_group()
    parser.add_argument("--write", action="store_true", help="into the machine files, or the constants into Published/held_out.json")
    mode.add_argument("--check", action="store_true", help="against the machine files")
    mode.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--evaluations", type=int, default=60, help="of the fit to all tables but one")
    options = parser.parse_args()
    bad = 0
    for machine in options.machine or QUOTED:
        if options.leave_one_out:
            leave_one_out(options.tool, options.reference, machine, options.evaluations, options.write)
            continue
        path = MACHINES / (machine + ".json")
        entries = evidence(options.tool, options.reference, machine, path)
        for e in entries:
            print(f"{machine:18} {e['table']:36} {e['rows']:4} rows  mean {e['mean_percent']:6} %  median {e['median_percent']:6} %"
                  f"{'  in-sample' if e['in_sample'] else ''}")
        if options.write and len(entries) == len(QUOTED[machine][0]):
            write(machine, entries)
        elif options.write:
            sys.exit(f"{machine}: not all of its tables are in {options.reference}: its file is left as it is")
        if options.check:
            stated = {e["table"]: e for e in json.loads(path.read_text()).get("evidence", [])}
            for e in entries:
                if stated.get(e["table"]) != e:
                    print(f"{machine}: {e['table']}: the file states {stated.get(e['table'])}")
                    bad = 1
    sys.exit(bad)


if __name__ == "__main__":
    main()
