#!/usr/bin/env python3
"""Records what PyTorch's losses are in 100 steps of training the test models, in f32 and f64.

    record.py [NAME ...] [--optimizers sgd lamb ...]      writes Recorded/NAME-OPTIMIZER.json, and -parts2.json of models with batch statistics

Needs the packages of tools/requirements-main-job.txt. The models are those of test/Models, from the same seed; that the weights
are those of the stored ONNX file is seen by comparing with its recorded outputs. They train in evaluation mode: no dropout,
and normalization over batches as the file has it (part of the convolutions before it). Clipping is off, the order of the samples that of the data.

Models that export.py exports for training train in that mode. Dropout keeps what docs/Training.md says, with the seed 0; `parts2` has the
statistics of each half of a batch by itself, as two ranks of DistributedDataParallel have them, whose buffers are those of the first. Of
these models the running statistics in the end are recorded, too (sum and sum of squares of each), and the loss of an evaluation.
"""
import argparse
import contextlib
import importlib.util
import json
import sys

import numpy as np
import torch

import cases

sys.path.insert(0, str(cases.MODELS))
import export  # noqa: E402

STEPS = 100
LOW = np.uint64(0xffffffff)


def philox(key, elements, step):
    """The first word of Philox4x32-10 for the counters (element, step), of 64 bits each."""
    half = np.uint64(32)
    words = [elements & LOW, elements >> half, np.full_like(elements, step & 0xffffffff), np.full_like(elements, step >> 32)]
    first, second = key & 0xffffffff, key >> 32
    for _ in range(10):
        a, b = words[0] * np.uint64(0xd2511f53), words[2] * np.uint64(0xcd9e8d57)
        words = [(b >> half) ^ words[1] ^ np.uint64(first), b & LOW, (a >> half) ^ words[3] ^ np.uint64(second), a & LOW]
        first, second = first + 0x9e3779b9 & 0xffffffff, second + 0xbb67ae85 & 0xffffffff
    return words[0]


def number_of(node):
    """The number of a node's random values: a hash of the names of its outputs."""
    number = 14695981039346656037
    for byte in ",".join(node.output).encode():
        number = (number ^ byte) * 1099511628211 & 0xffffffffffffffff
    return number


class Dropouts:
    """Stands for torch.nn.functional.dropout: the calls of a pass are the Dropout nodes of the file, in order."""

    def __init__(self, path):
        self.keys = [number_of(node) for node in export.onnx.load(str(path)).graph.node if node.op_type == "Dropout"]
        self.step = self.calls = 0

    def __call__(self, x, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return x
        word = philox(self.keys[self.calls], np.arange(x.numel(), dtype=np.uint64), self.step)
        self.calls += 1
        kept = torch.from_numpy((word < np.uint64(round((1 - p) * 2**32))).reshape(x.shape))
        return torch.where(kept, x * (1 / (1 - p)), torch.zeros((), dtype=x.dtype))

    @contextlib.contextmanager
    def drop(self, step):
        self.step, self.calls, own = step, 0, torch.nn.functional.dropout
        torch.nn.functional.dropout = self
        yield
        torch.nn.functional.dropout = own
        assert self.calls in (0, len(self.keys)), f"{self.calls} calls, and {len(self.keys)} nodes"


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


def build_for_training(case):
    """The module that was exported for training."""
    spec = importlib.util.spec_from_file_location("export_training", cases.FOLDER / "export.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    recipe = module.build(case)
    stored = {tensor.name: export.onnx.numpy_helper.to_array(tensor) for tensor in export.onnx.load(str(case.path())).graph.initializer}
    for name, parameter in recipe.module.named_parameters():
        if name in stored and stored[name].shape == tuple(parameter.shape) and np.abs(stored[name] - parameter.detach().numpy()).max() > 0:
            raise SystemExit(f"{case.name}: the weights are not those of the stored model ({name})")
    return recipe


def losses_of(case, recipe, batch, parts, are_turns=False):
    """The parts' mean losses. The buffers are those that the first part leaves, as where parts are of ranks, of which the first one's count; or,
    where parts are the turns of a loop over microbatches, each goes on with what the one before has left."""
    first = None
    for part in range(parts):
        size = cases.BATCH // parts
        cut = {name: tensor[part * size:(part + 1) * size] for name, tensor in batch.items()}
        outputs = recipe.module(*(cut[name] for name in recipe.axes))
        yield loss_of(case, outputs[0] if isinstance(outputs, tuple) else outputs, cut) / parts
        first = first or {name: buffer.clone() for name, buffer in recipe.module.named_buffers()}
    if not are_turns:
        for name, buffer in recipe.module.named_buffers():
            buffer.copy_(first[name])


class Layerwise(torch.optim.Optimizer):
    """What LAMB and LARS share: a step for each tensor, whose size follows from the tensor's norm."""

    def __init__(self, parameters, **settings):
        super().__init__(parameters, {name.replace("-", "_"): value for name, value in settings.items()})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.change(p, p.grad, self.state[p], **{name: value for name, value in group.items() if name != "params"})


class Lamb(Layerwise):
    """You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes (2020), algorithm 2, phi the identity."""

    def change(self, x, g, state, lr, weight_decay, beta1=0.9, beta2=0.999, eps=1e-6):
        if not state:
            state.update(t=0, m=torch.zeros_like(x), v=torch.zeros_like(x))
        state["t"] += 1
        state["m"] = beta1 * state["m"] + (1 - beta1) * g
        state["v"] = beta2 * state["v"] + (1 - beta2) * g * g
        m, v = state["m"] / (1 - beta1 ** state["t"]), state["v"] / (1 - beta2 ** state["t"])
        r = m / (v.sqrt() + eps) + weight_decay * x
        own, other = x.norm(), r.norm()
        x -= lr * (own / other if own > 0 and other > 0 else 1.0) * r


class Lars(Layerwise):
    """You, Gitman, Ginsburg, Large Batch Training of Convolutional Networks (2017), algorithm 1."""

    def change(self, w, g, state, lr, weight_decay, momentum, trust):
        if not state:
            state["v"] = torch.zeros_like(w)
        own, other = w.norm(), g.norm()
        local = trust * own / (other + weight_decay * own) if own > 0 and other > 0 else 1.0
        state["v"] = momentum * state["v"] + lr * local * (g + weight_decay * w)
        w -= state["v"]


def train(case, optimizer, dtype, parts=1, are_turns=False):
    recipe = build_for_training(case) if case.base else build(case.name)
    if case.fused:
        fuse(recipe.module)
    unpad(recipe.module)
    recipe.module.to(dtype)
    data = {name: torch.from_numpy(array) for name, array in cases.make_data(case).items()}
    data = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in data.items()}
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW, "lamb": Lamb, "lars": Lars}[optimizer]
    stepper, losses = kind(recipe.module.parameters(), **case.options(optimizer)), []
    dropouts = Dropouts(case.path())
    batches = [{name: tensor[[(step * cases.BATCH + i) % cases.SAMPLES for i in range(cases.BATCH)]] for name, tensor in data.items()}
               for step in range(STEPS)]
    for step, batch in enumerate(batches):
        stepper.zero_grad()
        with dropouts.drop(step + 1):
            total = 0.0
            for loss in losses_of(case, recipe, batch, parts, are_turns):
                loss.backward()
                total += float(loss.detach())
        stepper.step()
        losses.append(total)
    after = {}
    if case.base:
        after["running"] = {name: [float(buffer.double().sum()), float(buffer.double().square().sum())]
                            for name, buffer in recipe.module.named_buffers() if name.endswith(("running_mean", "running_var"))}
        recipe.module.eval()
        with torch.no_grad():
            after["evaluation"] = sum(float(loss) for batch in batches[:cases.SAMPLES // cases.BATCH]
                                      for loss in losses_of(case, recipe, batch, 1)) * cases.BATCH / cases.SAMPLES
    return losses, after


def record(case, optimizer, parts, are_turns=False):
    (single, after), (double, _) = (train(case, optimizer, dtype, parts, are_turns) for dtype in (torch.float32, torch.float64))
    recorded = {"model": case.name, "optimizer": optimizer, "loss": case.loss, "options": case.options(optimizer), "torch": torch.__version__,
                "f32": [float(f"{v:.9g}") for v in single], "f64": [float(f"{v:.12g}") for v in double], **after}
    suffix = cases.suffix_of(parts if are_turns else 1, 1 if are_turns else parts)
    (cases.FOLDER / "Recorded" / f"{case.name}-{optimizer}{suffix}.json").write_text(json.dumps(recorded) + "\n")
    apart = max(abs(a - b) / abs(b) for a, b in zip(single, double))
    print(f"{case.name} {optimizer}{suffix}: {single[0]:.5g} to {single[-1]:.5g}, f32 and f64 apart by {apart:.1e}", flush=True)


def main():
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--optimizers", nargs="*")
    arguments = parser.parse_args()
    for name in arguments.names or cases.CASES:
        for optimizer in arguments.optimizers or cases.CASES[name].optimizers:
            record(cases.CASES[name], optimizer, 1)
            if cases.CASES[name].takes_statistics:
                record(cases.CASES[name], optimizer, 2)
                record(cases.CASES[name], optimizer, 2, are_turns=True)


if __name__ == "__main__":
    main()
