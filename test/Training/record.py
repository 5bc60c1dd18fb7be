#!/usr/bin/env python3
"""Records what PyTorch's losses are in 100 steps of training the test models, in f32 and f64.

    record.py [NAME ...]      writes Recorded/NAME-OPTIMIZER.json

Needs the packages of tools/requirements-main-job.txt. The models are those of test/Models, from the same seed; that the weights
are those of the stored ONNX file is seen by comparing with its recorded outputs. They train in evaluation mode: no dropout,
and normalization over batches as the file has it (part of the convolutions before it). Clipping is off, the order of the samples that of the data.
"""
import json
import sys

import numpy as np
import torch

import cases

sys.path.insert(0, str(cases.MODELS))
import export  # noqa: E402

STEPS = 100


def build(name):
    """The module whose weights the stored ONNX file has."""
    torch.manual_seed(sum(map(ord, name)))
    recipe = export.KNOWN["tiny"][name](False)
    recipe.module.eval()
    export.enlarge(recipe.module)
    case = next(folder for folder in sorted((cases.MODELS / name).iterdir()) if folder.is_dir())
    inputs, outputs = np.load(case / "inputs.npz"), np.load(case / "outputs.npz")
    with torch.no_grad():
        got = recipe.module(*(torch.from_numpy(inputs[i]) for i in recipe.axes))
    got = got if isinstance(got, tuple) else (got,)
    for value, output in zip(got, outputs):
        error = np.abs(value.numpy() - outputs[output]).max() / np.abs(outputs[output]).max()
        if error > 1e-4:
            raise SystemExit(f"{name}: the weights are not those of the stored model ({output} differs by {error:.1e})")
    return recipe


def unpad(module):
    """Lets the row of padding tokens train like the others: an ONNX file does not say that PyTorch leaves it alone."""
    for child in module.modules():
        if isinstance(child, torch.nn.Embedding):
            child.padding_idx = None


def fuse(module):
    """Puts normalization by running statistics into the convolution before it, as the exporter does."""
    for child in module.children():
        fuse(child)
    names = dict(module.named_children())
    previous = None
    for name, child in names.items():
        if isinstance(child, torch.nn.BatchNorm2d) and isinstance(names.get(previous), torch.nn.Conv2d):
            fused = torch.nn.utils.fuse_conv_bn_eval(names[previous], child)
            fused.bias.requires_grad_(True)
            setattr(module, previous, fused)
            setattr(module, name, torch.nn.Identity())
        previous = name


def loss_of(case, outputs, batch):
    if case.loss.startswith("mse"):
        return torch.nn.functional.mse_loss(outputs, batch["target"])
    if "shift=1" in case.loss:
        return torch.nn.functional.cross_entropy(outputs[:, :-1].flatten(0, 1), batch["input_ids"][:, 1:].flatten())
    return torch.nn.functional.cross_entropy(outputs, batch["labels"])


def train(case, optimizer, dtype):
    recipe = build(case.name)
    if case.fused:
        fuse(recipe.module)
    unpad(recipe.module)
    recipe.module.to(dtype)
    data = {name: torch.from_numpy(array) for name, array in cases.make_data(case).items()}
    data = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in data.items()}
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[optimizer]
    stepper, losses = kind(recipe.module.parameters(), **case.options(optimizer)), []
    for step in range(STEPS):
        rows = [(step * cases.BATCH + i) % cases.SAMPLES for i in range(cases.BATCH)]
        batch = {name: tensor[rows] for name, tensor in data.items()}
        outputs = recipe.module(*(batch[name] for name in recipe.axes))
        loss = loss_of(case, outputs[0] if isinstance(outputs, tuple) else outputs, batch)
        stepper.zero_grad()
        loss.backward()
        stepper.step()
        losses.append(float(loss.detach()))
    return losses


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or cases.CASES:
        case = cases.CASES[name]
        for optimizer in cases.OPTIMIZERS:
            single, double = (train(case, optimizer, dtype) for dtype in (torch.float32, torch.float64))
            recorded = {"model": name, "optimizer": optimizer, "loss": case.loss, "options": case.options(optimizer), "torch": torch.__version__,
                        "f32": [float(f"{v:.9g}") for v in single], "f64": [float(f"{v:.12g}") for v in double]}
            (cases.FOLDER / "Recorded" / f"{name}-{optimizer}.json").write_text(json.dumps(recorded) + "\n")
            apart = max(abs(a - b) / abs(b) for a, b in zip(single, double))
            print(f"{name} {optimizer}: {single[0]:.5g} to {single[-1]:.5g}, f32 and f64 apart by {apart:.1e}", flush=True)


if __name__ == "__main__":
    main()
