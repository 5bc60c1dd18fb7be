"""Compares what repeated-row.test has trained: losses, norms of gradients and tokens of the expanded and the folded model, which has
them once for each sample. compare_rows.py FOLDER"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper

folder = pathlib.Path(sys.argv[1])
steps = [[json.loads(line) for line in open(folder / f"{name}.jsonl") if "loss" in line] for name in ("expanded", "folded")]
assert len(steps[0]) == len(steps[1]) == 4
for one, other in zip(*steps):
    for key in ("loss", "grad_norm"):
        assert abs(one[key] - other[key]) <= 1e-5 * abs(one[key]), (key, one, other)
expanded, folded = ({each.name: numpy_helper.to_array(each) for each in onnx.load(folder / f"{name}.trained.onnx").graph.initializer} for name in ("expanded", "folded"))
assert np.allclose(folded["tokens"], expanded["token"], rtol=1e-5, atol=1e-6), (folded["tokens"], expanded["token"])
