#!/usr/bin/env python3
"""Exports models for training: batch normalizations take the statistics of the batch, and dropout drops.

    export.py [NAME ...]      writes Models/NAME/model.onnx

Architectures and weights are those of test/Models; needs the packages of tools/requirements-main-job.txt.
"""
import sys
import warnings

import torch

import cases

sys.path.insert(0, str(cases.MODELS))
import export as models  # noqa: E402

warnings.filterwarnings("ignore")


def build(case):
    """The recipe of a case, with the weights that its file has, in training mode."""
    torch.manual_seed(sum(map(ord, case.base)))
    recipe = models.KNOWN["tiny"][case.base](False)
    models.enlarge(recipe.module)
    recipe.module.train()
    if hasattr(recipe.module.model, "set_attn_implementation"):
        recipe.module.model.set_attn_implementation("eager")  # of others the exporter leaves the dropout out
    return recipe


def main():
    for name in sys.argv[1:] or [name for name, case in cases.CASES.items() if case.base]:
        case = cases.CASES[name]
        recipe = build(case)
        case.path().parent.mkdir(parents=True, exist_ok=True)
        torch.onnx.export(recipe.module, recipe.make(*recipe.cases[1]), str(case.path()), dynamo=False, input_names=list(recipe.axes),
                          output_names=recipe.outputs, dynamic_axes=recipe.axes, opset_version=case.opset, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.TRAINING)
        model = models.onnx.load(str(case.path()))
        for item in [*model.graph.node, *model.graph.value_info]:  # source lines of the exporting machine
            item.doc_string = ""
        case.path().write_bytes(model.SerializeToString())
        kinds = [node.op_type for node in model.graph.node]
        print(f"{name}: {len(kinds)} nodes, {kinds.count('BatchNormalization')} batch normalizations, {kinds.count('Dropout')} dropouts")


if __name__ == "__main__":
    main()
