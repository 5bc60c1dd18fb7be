#!/usr/bin/env python3
"""Records PyTorch's losses of GPT-2 (tiny) in 300 steps under bf16 autocast, over five orders of the data.

    record_bf16.py            writes Recorded/gpt2-bf16.json

Parameters and AdamW's moments are in f32, as they are here. The data is that of bf16.make_data, one epoch of it; the orders are those of
`colossal-run train --shuffle 0` to `4`. Of each order there is the mean loss of each 20 steps. Needs the packages of
tools/requirements-main-job.txt.
"""
import json

import numpy as np
import torch

import bf16
import cases
import record


def train(order):
    recipe = record.build("gpt2")
    record.unpad(recipe.module)
    stepper = torch.optim.AdamW(recipe.module.parameters(), lr=bf16.RATE)
    tokens = torch.from_numpy(bf16.make_data()["input_ids"].astype(np.int64))
    mask, losses = torch.ones(cases.BATCH, bf16.LENGTH, dtype=torch.int64), []
    for step in range(bf16.STEPS):
        batch = tokens[[bf16.permute(step * cases.BATCH + i, len(tokens), order, 0) for i in range(cases.BATCH)]]
        stepper.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = recipe.module(batch, mask)
            logits = outputs[0] if isinstance(outputs, tuple) else outputs
            loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        stepper.step()
        losses.append(float(loss.detach()))
    return bf16.windows(losses)


def main():
    torch.set_num_threads(1)
    orders = []
    for order in range(bf16.ORDERS):
        orders.append([float(f"{mean:.7g}") for mean in train(order)])
        print(f"order {order}: {orders[-1][0]:.5g} to {orders[-1][-1]:.5g}", flush=True)
    (cases.FOLDER / "Recorded/gpt2-bf16.json").write_text(json.dumps({"torch": torch.__version__, "orders": orders}) + "\n")


if __name__ == "__main__":
    main()
