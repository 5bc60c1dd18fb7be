#!/usr/bin/env python3
"""Exports the test and benchmark models, and records what ONNX Runtime computes with them.

    export.py tiny OUT [NAME ...]     small configurations: OUT/NAME/model.onnx, about.json, CASE/{inputs,outputs}.npz
    export.py real OUT [NAME ...]     the published sizes, weights in model.onnx.data, inputs only
    export.py variants OUT [NAME ...] more architectures, exporters and opsets, small as well (variants.py)

Needs the packages of tools/requirements-main-job.txt (PyTorch, Transformers). Weights are random, from a seed of the
name's, except those of minilm. Outputs are ONNX Runtime's and must agree with PyTorch's within 1e-4 of the largest, or
5e-3 where the parameters are f16.
"""
import argparse
import json
import logging
import pathlib
import warnings

import numpy as np
import onnx
import onnxruntime
import torch

import architectures
import variants

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


STORED = {name: lambda real, name=name: variants.VARIANTS[name]() for name in variants.STORED}
KNOWN = {"tiny": {**architectures.TINY, **STORED}, "real": architectures.REAL, "variants": variants.VARIANTS}


def enlarge(module):
    """Scales random weights so that activations are large enough for a wrong answer to show."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2.0)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))


def write_model(recipe, path, external):
    """Writes the recipe's module as an ONNX file at `path`, its dimensions symbolic as the recipe says."""
    example = recipe.make(*recipe.cases[min(1, len(recipe.cases) - 1)])
    options = dict(input_names=list(recipe.axes), output_names=recipe.outputs, opset_version=recipe.opset)
    with torch.no_grad():
        if recipe.exporter == "script":
            torch.onnx.export(recipe.module, example, str(path), dynamo=False, dynamic_axes=recipe.axes, **options)
        else:
            shapes = tuple(recipe.axes.values())  # symbolic dimensions by name
            variadic = isinstance(recipe.module, (architectures.Fields, architectures.DecodeStep))
            torch.onnx.export(recipe.module, example, str(path), dynamo=True, dynamic_shapes=(shapes,) if variadic else shapes,
                              external_data=external, verbose=False, **options)
    model = onnx.load(str(path), load_external_data=False)
    for graph in [model.graph, *model.functions]:  # source lines of the exporting machine
        for item in [*graph.node, *getattr(graph, "value_info", [])]:
            item.doc_string = ""
            del item.metadata_props[:]
    path.write_bytes(model.SerializeToString())
    onnx.checker.check_model(str(path))
    return model


def record(recipe, folder, with_outputs):
    """Writes each case's inputs, and ONNX Runtime's outputs if asked; returns its worst relative difference to PyTorch."""
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    worst = 0.0
    for batch, seq in recipe.cases:
        torch.manual_seed(1000 * batch + (seq or 0))
        tensors = recipe.make(batch, seq)
        with torch.no_grad():
            expected = recipe.module(*tensors)
        expected = expected if isinstance(expected, tuple) else (expected,)
        feed = {value.name: tensor.numpy() for value, tensor in zip(session.get_inputs(), tensors)}
        outputs = session.run(None, feed)
        for output, tensor in zip(outputs, expected):
            worst = max(worst, float(np.abs(output - tensor.numpy()).max() / (np.abs(tensor.numpy()).max() + 1e-9)))
        case = folder / (f"batch{batch}-seq{seq}" if seq else f"batch{batch}")
        case.mkdir(exist_ok=True)
        np.savez(case / "inputs.npz", **feed)
        if with_outputs:
            np.savez(case / "outputs.npz", **{value.name: output for value, output in zip(session.get_outputs(), outputs)})
    return worst


def export(name, size, folder):
    torch.manual_seed(sum(map(ord, name)))
    real = size == "real"
    recipe = variants.VARIANTS[name]() if size == "variants" else KNOWN[size][name](real)
    recipe.module.eval()
    if not real:
        enlarge(recipe.module)
    folder.mkdir(parents=True, exist_ok=True)
    model = write_model(recipe, folder / "model.onnx", external=real)
    worst = record(recipe, folder, with_outputs=not real or name in architectures.TRAINED)
    if worst > (5e-3 if next(recipe.module.parameters()).dtype == torch.float16 else 1e-4):
        raise SystemExit(f"{name}: ONNX Runtime and PyTorch differ by {worst:.1e}; the recorded outputs cannot be trusted")
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    about = dict(name=name, exporter=recipe.exporter, opset=recipe.opset, ir=model.ir_version, nodes=len(model.graph.node),
                 functions=len(model.functions), parameters=sum(p.numel() for p in recipe.module.parameters()),
                 inputs={name: {str(axis): symbol for axis, symbol in axes.items()} for name, axes in recipe.axes.items()},
                 outputs=recipe.outputs, ort_vs_torch=worst, ops=sorted({node.op_type for node in nodes}))
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    print(f"{name}: {recipe.exporter} opset {recipe.opset}, {about['nodes']} nodes, {about['parameters']} parameters, "
          f"ONNX Runtime against PyTorch {worst:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=list(KNOWN))
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    known = KNOWN[arguments.size]
    for name in arguments.names or known:
        if name not in known:
            raise SystemExit(f"no model named {name}; there are {', '.join(known)}")
        export(name, arguments.size, arguments.out / name)


if __name__ == "__main__":
    main()
