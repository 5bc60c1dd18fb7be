"""Trains a model whose vocabulary does not divide over ranks by each optimizer, on one rank and on others: check_padding.py FOLDER."""
import json
import pathlib
import subprocess
import sys

import numpy

folder = pathlib.Path(sys.argv[1])
numpy.save(folder / "tokens.npy", numpy.random.default_rng(3).integers(0, 503, (36, 32)))
MESHES = [["--mesh", "model=2", "--layout", "1d"], ["--mesh", "model=4", "--microbatches", "2"], ["--mesh", "data=3,model=2", "--zero", "3"], ["--mesh", "stage=2,model=2"]]


def losses(optimizer, *options):
    plan, log = folder / "step.cplan", folder / "log.jsonl"
    subprocess.run(["colossal-compile", folder / "model.onnx", "--training", optimizer, "--loss", "cross-entropy,logits=logits,shift=1", "--global-batch", "12", "--dim", "seq=32",
                    *options, "-q", "-o", plan], check=True)
    subprocess.run(["colossal-run", "train", plan, "--data", f"input_ids={folder / 'tokens.npy'}", "--steps", "4", "--lr", "1e-2", "--log", log], check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line)["loss"] for line in log.read_text().splitlines()]


for optimizer in ("sgd", "adamw", "adafactor", "lamb", "lars", "lion"):
    expected = losses(optimizer, "--mesh", "1")
    assert expected[-1] != expected[0], expected
    for mesh in MESHES:
        got = losses(optimizer, *mesh)
        print(optimizer, mesh, got)
        assert all(abs(a - b) <= 2e-5 * abs(a) for a, b in zip(expected, got)), (optimizer, mesh, expected, got)
