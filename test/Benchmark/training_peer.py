"""PyTorch's side of training.py: trains a model of test/Models in a process of its own, as many steps as it is told, or runs it.

Each line on standard input is a number of steps; the answer is one JSON line with the seconds of each, and its loss, or the mean of its output's
absolute values. The first answer, before any
input, says that all is imported and nothing built. The weights are those of the exported file, from the same seed.
"""
import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import sys
import time

import numpy as np
import torch

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "Models"))
import export  # noqa: E402


def recorder():
    """The module of test/Training/record.py, which knows how a file's model is trained."""
    sys.path.insert(0, str(FOLDER.parent / "Training"))
    spec = importlib.util.spec_from_file_location("record_training", FOLDER.parent / "Training/record.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(rank, **fields):
    if rank == 0:
        print(json.dumps(fields), flush=True)


def split_tensors(model, mesh):
    """Llama's columns and rows, as PyTorch's tutorial of tensor parallelism has them; embedding and head by the vocabulary."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    column, row = ColwiseParallel, RowwiseParallel
    parallelize_module(model, mesh, {"model.embed_tokens": row(input_layouts=Replicate()), "lm_head": column(output_layouts=Replicate())})
    for layer in model.model.layers:
        parallelize_module(layer, mesh, {"self_attn.q_proj": column(), "self_attn.k_proj": column(), "self_attn.v_proj": column(),
                                         "self_attn.o_proj": row(), "mlp.gate_proj": column(), "mlp.up_proj": column(), "mlp.down_proj": row()})


class Trainer:
    def __init__(self, options, rank, world):
        torch.manual_seed(sum(map(ord, options.model)))
        recipe = export.KNOWN["real"][options.model](True)
        recipe.module.eval()
        record = recorder()
        record.fuse(recipe.module)
        record.unpad(recipe.module)
        data = {name: torch.from_numpy(array) for name, array in np.load(options.data).items()}
        self.options, self.step_number = options, 0
        self.inputs, self.model = list(recipe.axes), recipe.module.model
        if hasattr(self.model, "set_attn_implementation"):
            with contextlib.suppress(ValueError):  # where a model has one attention only
                self.model.set_attn_implementation("sdpa")
        if options.parallel == "data":
            data = {name: tensor.chunk(world)[rank] for name, tensor in data.items()}
        self.data, self.constants, self.output = data, recipe.module.constants, recipe.outputs[0]
        if options.parallel == "tensor":
            from torch.distributed.device_mesh import init_device_mesh
            split_tensors(self.model, init_device_mesh("cpu", (world,)))
        module = self.model
        if options.parallel == "data":
            module = torch.nn.parallel.DistributedDataParallel(module)
        self.forward = module if options.eager else torch.compile(module)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=options.parallel != "tensor")

    def loss(self):
        output = self.forward(**{name: self.data[name] for name in self.inputs}, **self.constants)[self.output]
        if self.options.loss == "shift":
            return torch.nn.functional.cross_entropy(output[:, :-1].flatten(0, 1), self.data["input_ids"][:, 1:].flatten())
        if self.options.loss == "mse":
            return torch.nn.functional.mse_loss(output.float(), self.data["target"])
        return torch.nn.functional.cross_entropy(output, self.data["labels"])

    def step(self):
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.options.precision == "bf16"):
            loss = self.loss()
        loss.backward()
        if self.options.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        self.optimizer.step()
        return time.perf_counter() - begin, float(loss.detach())


class Runner(Trainer):
    """Inference of the whole model in the precision."""

    def __init__(self, options, rank, world):
        super().__init__(options, rank, world)
        if options.precision == "bf16":
            self.model.to(torch.bfloat16)

    def step(self):
        begin = time.perf_counter()
        with torch.inference_mode():
            output = self.forward(**{name: self.data[name] for name in self.inputs}, **self.constants)[self.output]
        return time.perf_counter() - begin, float(output.float().abs().mean())


def serve(options, rank=0, world=1):
    torch.set_num_threads(options.threads)
    if world > 1:
        import torch.distributed as distributed
        distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{options.port}", rank=rank, world_size=world)
    answer(rank, torch=torch.__version__, pid=os.getpid())
    trainer = None
    while True:
        steps = [int(sys.stdin.readline() or 0)] if rank == 0 else [0]
        if world > 1:
            distributed.broadcast_object_list(steps, 0)
        if not steps[0]:
            break
        trainer = trainer or (Runner if options.inference else Trainer)(options, rank, world)
        seconds, losses = zip(*(trainer.step() for _ in range(steps[0])))
        answer(rank, seconds=seconds, losses=losses)
    if world > 1:
        distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data", help="an .npz of one batch")
    parser.add_argument("--loss", choices=["shift", "labels", "mse"], required=True)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--threads", type=int, default=2, help="of each process")
    parser.add_argument("--parallel", choices=["no", "data", "tensor"], default="no")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--clip", type=float, default=0)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--inference", action="store_true", help="run the model, and train nothing")
    options = parser.parse_args()
    serve(options, options.rank, options.world)


if __name__ == "__main__":
    main()
