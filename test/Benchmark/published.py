#!/usr/bin/env python3
"""Reads published tables as their authors laid them out, and writes rows that colossal-cost predict takes.

    test/Benchmark/published.py TABLE.csv [--layout NAME] [-o ROWS.csv]

Each adapter below knows one source: it says in the cost model's columns what the source's own columns, and its text, say of a
run. A table's layout is that whose name its file's begins with; a table of no known source is passed on as it is. Other scripts
import `predict`, which joins what is predicted to the rows as they were published.
"""
import argparse
import csv
import io
import pathlib
import subprocess
import sys
import tempfile


def kept(row, *columns):
    return {c: row[c] for c in columns if row.get(c)}


MODEL = ("model", "params_B", "size", "layers", "hidden", "heads", "kv_heads", "ffn", "seq", "vocab", "experts", "expert_group")


def torchtitan(row):
    """FSDP with all state in f32 shards; a pipeline cuts a step's sequences into as many microbatches as it has stages."""
    technique = row["technique"].lower()
    stages = int(row["pp"] or 1)
    return {**kept(row, *MODEL, "gpus", "tp", "pp", "cp", "schedule", "global_batch", "local_batch"), "dp": row["fsdp"], "zero": "3",
            "state": "f32", "sequence_parallel": "1", "bucketed": "1", "recompute": row["act_ckpt"] or "none",
            "micro_batch": str(max(1, int(row["local_batch"]) // stages)), "interleave": "2" if "inter" in row["schedule"].lower() else "1",
            "precision": "fp8" if "fp8" in technique else "bf16", "framework": "compiled" if "compile" in technique else "eager",
            "async_tensor": "1" if "asynctp" in technique else "0"}


def zero_bubble(row):
    """Qi et al., 2023: stages alone, no recompute, embedding and head as a layer each, one layer a chunk where interleaved."""
    stages = row.get("pp_gpus") or row["pp"]
    cells = {**kept(row, *MODEL, "micro_batch", "num_microbatches", "schedule"), "pp": stages, "recompute": "none", "balance": "ends"}
    if row["schedule"].upper() == "1F1B-I":
        layers = {"1.5B": 22, "6.2B": 30, "14.6B": 46, "28.3B": 62}[row["model"]]
        cells["interleave"] = str(max(2, (layers + 2) // int(stages)))
    return cells


def sc21(row):
    """Narayanan et al., 2021, table 2. One published row names more devices than whole pipelines of its size take."""
    cells = {**kept(row, "params_B", "global_batch", "micro_batch", "gpus"), "recompute": "full"}
    devices, parallel = int(row["gpus"]), int(row["model_parallel_size"])
    if "zero" in row["scheme"].lower():
        return {**cells, "zero": "3", "tp": "1", "pp": "1"}
    tensor = min(parallel, 8)
    stages = parallel // tensor
    while devices % (tensor * stages):
        stages += 1
    return {**cells, "tp": str(tensor), "pp": str(stages)}


def layer_times(row):
    """Korthikanti et al., 2022, table 4: one layer of the model with 22 billion parameters on 8 devices, microbatch 4."""
    setting = row["setting"].lower()
    recompute = "none" if "no recompute" in setting else next((r for r in ("full", "selective") if r in setting), "none")
    return {"question": "layer", "model": "gpt 22b", "seq": "2048", "tp": "8", "micro_batch": "4", "recompute": recompute,
            "sequence_parallel": "1" if "sequence" in setting else "0"}


def stage_memory(row):
    return {**kept(row, *MODEL, "tp", "pp", "interleave", "micro_batch"), "question": "stage_memory", "seq": "2048",
            "unit": "percent" if "pct" in row["kind"] else "GiB"}


def planners(row):
    """Zheng et al., 2022: who planned, or the stages of the plan that Alpa found."""
    return {**kept(row, *MODEL, "gpus", "method", "stages", "global_batch", "num_microbatches", "precision"), "question": "best_step"}


def all_reduce(row):
    return {**kept(row, "gpu", "n_gpus", "size_B"), "question": "all_reduce"}


LAYOUTS = {"torchtitan": torchtitan, "zero_bubble": zero_bubble, "megatron_sc21": sc21, "korthikanti2022_layer": layer_times,
           "korthikanti2022_memory": stage_memory, "alpa_e2e": planners, "alpa_found": planners,
           "vtrain_measured_allreduce": all_reduce}


def read(path):
    """The comments and the rows of a table."""
    lines = pathlib.Path(path).read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    return comments, list(csv.DictReader(line for line in lines if not line.startswith("#")))


def adapted(path, layout=None):
    """The table as the cost model takes it: text, with a row for each row."""
    name = layout or next((n for n in LAYOUTS if pathlib.Path(path).name.startswith(n)), None)
    if not name:
        return pathlib.Path(path).read_text()
    comments, rows = read(path)
    cells = [LAYOUTS[name](row) for row in rows]
    columns = list(dict.fromkeys(column for row in cells for column in row))
    out = io.StringIO()
    out.writelines(line + "\n" for line in comments)
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells)
    return out.getvalue()


def predict(tool, path, machine):
    """The table's rows as published, predictions added, and what the tool printed."""
    with tempfile.TemporaryDirectory() as folder:
        rows, out = pathlib.Path(folder) / pathlib.Path(path).name, pathlib.Path(folder) / "out.csv"
        rows.write_text(adapted(path))
        published = read(path)[1]
        memory = ["--memory"] if published and ("mem_GiB" in published[0] or "peak_mem_GB" in published[0]) else []
        run = subprocess.run([tool, "predict", "--table", rows, "--machine", machine, *memory, "-o", out], capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"{path}: {run.stderr.strip()}")
        predicted = read(out)[1]
        return [{**row, **{c: v for c, v in found.items() if c.startswith("predicted")}}
                for row, found in zip(published, predicted, strict=True)], run.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--layout", choices=sorted(LAYOUTS), help="whose columns they are, where the file's name does not say")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the rows; left out, standard output")
    options = parser.parse_args()
    text = adapted(options.table, options.layout)
    if options.output:
        options.output.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
