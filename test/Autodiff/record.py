#!/usr/bin/env python3
"""Records what PyTorch says the gradients of the test models are, for GradientModelTests, which need no PyTorch.

    record.py [NAME ...]      writes Recorded/NAME.json for models of test/Models (all, without a name)

Needs the packages of tools/requirements-main-job.txt. Modules are made again as test/Models/export.py makes them, and must give the
outputs that are recorded there. The loss is the sum of the elements of all outputs of floats, each times a number that follows
from its index (weigh). Of the gradient of each initializer of the file, recognised by its values (exporters rename and
transpose), three numbers are kept: its norm, and its products with two vectors of signs that follow from the index.
"""
import argparse
import json
import logging
import pathlib
import sys
import warnings

import numpy as np
import onnx
import onnx.numpy_helper
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "Models"))
import export  # noqa: E402

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


def spread(count, salt):
    """For each index a number of [0, 2^32) by a multiplicative hash (Knuth, The Art of Computer Programming, 6.4)."""
    with np.errstate(over="ignore"):
        x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(salt)
        x ^= x >> np.uint32(15)
        x *= np.uint32(2246822519)
        x ^= x >> np.uint32(13)
    return x


def weigh(count, salt):
    return (spread(count, salt).astype(np.float64) / 2**32 - 0.5).astype(np.float32)


def signs(count, salt):
    return np.where(spread(count, salt) & 1, 1.0, -1.0)


def fingerprint(gradient):
    flat = np.asarray(gradient, np.float64).reshape(-1)
    return [float(np.linalg.norm(flat)), float(flat @ signs(flat.size, 1)), float(flat @ signs(flat.size, 2))]


def match(initializers, module):
    """Which parameter each initializer is, and whether it is transposed; those that are none are left out."""
    found, taken = {}, set()
    parameters = {name: (p, p.detach().numpy()) for name, p in module.named_parameters()}
    for name, value in initializers.items():
        for own, (parameter, array) in parameters.items():
            for transposed in (False, True):
                seen = array.T if transposed and array.ndim == 2 else array
                if seen.size == value.size and seen.size > 1 and np.array_equal(seen.reshape(-1), value.reshape(-1)) and (seen.shape == value.shape or 1 in value.shape):
                    found.setdefault(name, []).append((own, transposed))
                    taken.add(own)
                    break
    return found


def record(name):
    folder = HERE.parent / "Models" / name
    torch.manual_seed(sum(map(ord, name)))
    recipe = export.KNOWN["tiny"][name](False)
    recipe.module.eval()
    export.enlarge(recipe.module)
    batch, seq = recipe.cases[0]
    case = f"batch{batch}-seq{seq}" if seq else f"batch{batch}"
    torch.manual_seed(1000 * batch + (seq or 0))
    tensors = recipe.make(batch, seq)
    outputs = recipe.module(*tensors)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    expected = np.load(folder / case / "outputs.npz")
    model = onnx.load(str(folder / "model.onnx"))
    names = [value.name for value in model.graph.output]
    loss = 0
    for number, (output, own) in enumerate(zip(outputs, names)):
        worst = np.abs(expected[own] - output.detach().numpy()).max() / (np.abs(expected[own]).max() + 1e-9)
        if worst > 1e-4:
            raise SystemExit(f"{name}: the module is not the one that was exported: output {own} differs by {worst:.1e}")
        if output.is_floating_point():
            loss = loss + (output * torch.from_numpy(weigh(output.numel(), number)).reshape(output.shape)).sum()
    loss.backward()
    initializers = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    initializers = {each: value for each, value in initializers.items() if value.dtype == np.float32}
    gradients = {}
    own = dict(recipe.module.named_parameters())
    matches = match(initializers, recipe.module)
    claimed = {}
    for each, candidates in matches.items():
        for parameter, _ in candidates:
            claimed.setdefault(parameter, []).append(each)
    for each, candidates in matches.items():
        # Where exporters merged parameters, or stored one several times, no gradient of PyTorch is that of the initializer.
        if len(candidates) != 1 or len(claimed[candidates[0][0]]) != 1:
            continue
        parameter, transposed = candidates[0]
        gradient = own[parameter].grad
        if gradient is None:
            gradient = torch.zeros_like(own[parameter])
        gradients[each] = fingerprint(gradient.numpy().T if transposed else gradient.numpy())
    text = {"case": case, "loss": float(loss), "gradients": gradients}
    path = HERE / "Recorded" / f"{name}.json"
    path.write_text(json.dumps(text, indent=1) + "\n")
    trained = sum(p.numel() for p in recipe.module.parameters())
    seen = sum(initializers[each].size for each in gradients)
    print(f"{name}: {case}, loss {float(loss):.6g}, {len(gradients)} of {len(own)} parameters ({100 * seen / trained:.1f} % of the elements)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    stored = sorted(path.parent.name for path in (HERE.parent / "Models").glob("*/model.onnx"))
    # Of a step that decodes one token with a cache nothing is trained.
    for name in arguments.names or [each for each in stored if each in export.KNOWN["tiny"] and not each.endswith("-decode")]:
        record(name)


if __name__ == "__main__":
    main()
