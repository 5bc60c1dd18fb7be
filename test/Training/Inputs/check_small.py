"""Trains the models of small_models.py and compares with NumPy, and with one rank: check_small.py FOLDER."""
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from safetensors.numpy import load_file

folder = pathlib.Path(sys.argv[1])
data, LR = folder / "data.npz", 0.1
MESHES = ([], ["--mesh", "data=2"], ["--mesh", "model=2"], ["--microbatches", 2], ["--recompute", "full"], ["--mesh", "stage=2", "--microbatches", 2])


def call(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def train(model, loss, *options, given=("x", "labels"), labels=None, batch=8, steps=3, checkpoint=None, x=None):
    """(loss, norm) of each step."""
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    call("colossal-compile", folder / model, "--training", "sgd", "--loss", loss, "--global-batch", batch, *options, "-q", "-o", folder / "step.cplan")
    for path in (folder / "checkpoint").glob("*/*"):
        path.unlink()
    of = {name: data for name in given}
    of.update({name: path for name, path in (("labels", labels), ("x", x)) if path})
    call("colossal-run", "train", folder / "step.cplan", *[part for name, path in of.items() for part in ("--data", f"{name}={path}")], "--steps", steps, "--lr", LR,
         "--momentum", 0, "--log", log, *(["--checkpoint", folder / "checkpoint"] if checkpoint else []), stderr=subprocess.DEVNULL)
    lines = [json.loads(line.replace("NaN", "null")) for line in log.read_text().splitlines()]
    return [(np.nan if line["loss"] is None else line["loss"], line["grad_norm"]) for line in lines]


def weights(model):
    return {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in onnx.load(folder / model).graph.initializer}


def expect(model, x, *means, steps=3, batch=8):
    """What NumPy has for a model of two layers. `means`: the labels, or labels, weights of classes and what the mean is multiplied by."""
    w, lines = weights(model), []
    means = [mean if isinstance(mean, tuple) else (mean, np.ones(5), 1) for mean in means]
    for step in range(steps):
        rows = x[step * batch:][:batch].astype(np.float64)
        hidden = rows @ w["a"] + w["a.bias"]
        logits = np.maximum(hidden, 0) @ w["head"] + w["head.bias"]
        logits -= logits.max(-1, keepdims=True)
        shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        loss, to_logits = 0, 0
        for labels, importance, factor in means:
            classes = labels[step * batch:][:batch]
            counts = (classes != -100) * importance[np.where(classes != -100, classes, 0)]
            own = np.eye(logits.shape[1])[np.where(counts, classes, 0)]
            with np.errstate(invalid="ignore"):
                loss += factor * (-np.log((shares * own).sum(-1)) * counts).sum() / np.float64(counts.sum())
            to_logits += factor * (shares - own) * counts[:, None] / (counts.sum() if counts.any() else 1)
        to_hidden = (to_logits @ w["head"].T) * (hidden > 0)
        gradients = {"head": np.maximum(hidden, 0).T @ to_logits, "head.bias": to_logits.sum(0), "a": rows.T @ to_hidden, "a.bias": to_hidden.sum(0)}
        lines.append((loss, np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))))
        for name, gradient in gradients.items():
            w[name] = w[name] - LR * gradient
    return lines


def compare(what, found, wanted, tolerance=2e-5):
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * 1e-2, err_msg=what)
    print(what, [float(round(loss, 5)) for loss, _ in found])


with np.load(data) as arrays:
    x, labels = arrays["x"], arrays["labels"]
ignored = np.load(folder / "ignored.npy")

# Layers that add to what they read: no kernel makes what one of its own products waits for.
first = train("residual.onnx", "cross-entropy")
for mesh in MESHES[1:]:
    compare(f"residual {mesh}", train("residual.onnx", "cross-entropy", *mesh), first)
# A node that is several operations, which stages share: as each numbers its own, a plan's pins of them may match none.
first = train("products.onnx", "cross-entropy")
for mesh in (*MESHES[1:], ["--devices", 2, "--mesh", "stage=2", "--microbatches", 2]):
    compare(f"products {mesh}", train("products.onnx", "cross-entropy", *mesh), first)
# A batch so small that any stage counts its elements.
compare("plain, batches of 4", train("plain.onnx", "cross-entropy", "--mesh", "stage=2", "--microbatches", 2, batch=4), expect("plain.onnx", x, labels, batch=4))
# A batch in which nothing counts has no mean, and changes nothing.
for mesh in MESHES:
    compare(f"ignored {mesh}", train("plain.onnx", "cross-entropy", *mesh, labels=folder / "ignored.npy"), expect("plain.onnx", x, ignored))
evaluated = call("colossal-run", "train", folder / "step.cplan", "--data", f"x={data}", "--data", f"labels={data}", "--steps", 1, "--lr", 0, "--evaluate-every", 1,
                 "--evaluate-data", f"x={data}", "--evaluate-data", f"labels={folder / 'ignored.npy'}")
assert "evaluation loss nan" not in evaluated and "evaluation loss" in evaluated and "% of peak" in evaluated, evaluated
# The same loss as the model's own, also in parts of a batch.
for mesh in MESHES:
    compare(f"masked {mesh}", train("masked.onnx", "output=loss", *mesh, labels=folder / "ignored.npy"), expect("plain.onnx", x, ignored))
wrong = subprocess.run(["colossal-run", "train", folder / "step.cplan", "--data", f"x={data}", "--data", "labels=fill:7", "--steps", "1", "--lr", "0"], stderr=subprocess.PIPE, text=True)
assert wrong.returncode and "'loss' takes indices from 0 to 4" in wrong.stderr, wrong.stderr
# A loss of two means: by what each is divided is known before the first part of a batch. No derivative goes to the weights of classes.
with np.load(data) as arrays:
    means = [(labels, weights("means.onnx")["importance"], 1), (arrays["second"], np.ones(5), 0.5)]
for mesh in (*MESHES, ["--mesh", "data=2", "--zero", 3, "--microbatches", 2], ["--mesh", "stage=2,data=2", "--microbatches", 4], ["--devices", 2, "--microbatches", 4]):
    compare(f"means {mesh}", train("means.onnx", "output=loss", *mesh, given=("x", "labels", "second")), expect("means.onnx", x, *means))
refused = subprocess.run(["colossal-run", "train", folder / "step.cplan", "--data", f"x={data}", "--data", "labels#ahead=fill:1", "--steps", "1", "--lr", "0"], stderr=subprocess.PIPE, text=True)
assert refused.returncode and "there is no input 'labels#ahead'" in refused.stderr and "second: i64[8]" in refused.stderr, refused.stderr
# Ranks that have samples of their own have those of the loss: none sends another its logits.
for model in ("masked.onnx", "means.onnx"):
    made = json.loads(call("colossal-compile", folder / model, "--training", "sgd", "--loss", "output=loss", "--global-batch", 16, "--mesh", "data=2", "--json", "-q", "-o", folder / "step.cplan"))
    assert not [row for program in made["programs"] for row in program["traffic"] if row["kind"] == "all_to_all"], model
# Parameters of f16 have masters of f32.
for options in (["--precision", "f32"], ["--precision", "f32", "--mesh", "data=2", "--zero", 3], ["--precision", "f32", "--mesh", "stage=2", "--microbatches", 2]):
    compare(f"half {options}", train("half.onnx", "cross-entropy", *options, x=folder / "half.npy", checkpoint=True), expect("half.onnx", x, labels))
compare("half", train("half.onnx", "cross-entropy", x=folder / "half.npy", checkpoint=True), expect("half.onnx", x, labels), 2e-3)
call("colossal-run", "export", folder / "checkpoint", "--onnx", folder / "trained.onnx")
assert {tensor.data_type for tensor in onnx.load(folder / "trained.onnx").graph.initializer} == {onnx.TensorProto.FLOAT16}
# What goes through a sine first is no frequency for that.
listed = call("colossal-compile", folder / "sines.onnx", "--training", "sgd", "--loss", "cross-entropy", "--print-parameters")
assert "trained  first [1, 16] f32" in listed, listed

# A table and its transpose: one parameter, which is both in the model that is exported; or, on demand, two.
for untied in (False, True):
    train("tied.onnx", "cross-entropy", *(["--untie", "table"] if untied else []), given=("tokens", "labels"), checkpoint=True)
    call("colossal-run", "export", folder / "checkpoint", "--onnx", folder / "trained.onnx", "--safetensors", folder / "trained.safetensors")
    for now in (weights("trained.onnx"), load_file(folder / "trained.safetensors")):
        assert now["turned"].shape == (16, 50) and not np.array_equal(now["turned"], weights("tied.onnx")["turned"]), untied
        assert np.array_equal(now["turned"], now["table"].T) != untied
