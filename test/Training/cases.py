"""What the training tests train: a model, a loss, data from a seed, and an optimizer's settings.

The data is that of numpy.random.default_rng(SEED): of each input in the order of the model's, SAMPLES samples. Tokens are integers
below the vocabulary, images and other floats standard normal, attention masks ones but for a few zeros at the end of some rows. Labels
and targets come last.
"""
import dataclasses
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent
MODELS = FOLDER.parent / "Models"
SEED, SAMPLES, BATCH = 17, 40, 8

# Settings as colossal-run train takes them.
OPTIMIZERS = {
    "sgd": {"lr": 0.01, "momentum": 0.9},
    "adamw": {"lr": 1e-3},
    "lamb": {"lr": 2e-3, "weight-decay": 0.01},
    "lars": {"lr": 0.1, "weight-decay": 5e-4, "momentum": 0.9, "trust": 0.02},
}
# Of which nothing is recorded: a device is compared with the CPU by them, too.
UNRECORDED = {
    "adam": {"lr": 1e-3},
    "adafactor": {"lr": 1e-2},
    "lion": {"lr": 1e-4},
}


@dataclasses.dataclass
class Case:
    name: str
    loss: str
    inputs: dict  # name -> ("tokens", vocabulary) | ("mask",) | ("zeros",) | ("normal", shape of a sample)
    seq: int = 0
    labels: int = 0  # classes
    target: tuple = ()  # shape of a sample
    fused: bool = False  # convolutions hold the normalization that followed them
    lr: dict = dataclasses.field(default_factory=dict)  # by optimizer, where not as above
    base: str = ""  # exported for training (export.py): the model of test/Models that it is
    opset: int = 17  # of that export
    takes_statistics: bool = False  # of batches
    optimizers: tuple = ("sgd", "adamw")  # that are recorded of it

    def options(self, optimizer):
        options = dict({**OPTIMIZERS, **UNRECORDED}[optimizer])
        options["lr"] = self.lr.get(optimizer, options["lr"])
        return options

    def path(self):
        return (FOLDER / "Models" if self.base else MODELS) / self.name / "model.onnx"

    def dimensions(self):
        return {"seq": self.seq} if self.seq else {}


EVERY = tuple(OPTIMIZERS)


def language(name, vocabulary, seq=16, mask=True, **more):
    inputs = {"input_ids": ("tokens", vocabulary)}
    if mask:
        inputs["attention_mask"] = ("mask",)
    return Case(name, "cross-entropy,logits=logits,shift=1", inputs, seq, **more)


def classes(name, shape, count, input="pixel_values", output="logits", **more):
    return Case(name, f"cross-entropy,logits={output}", {input: ("normal", shape)}, labels=count, **more)


def hidden(name, vocabulary, width, seq=16, **more):
    inputs = {"input_ids": ("tokens", vocabulary), "attention_mask": ("mask",), "token_type_ids": ("zeros",)}
    return Case(name, "mse,output=last_hidden_state", inputs, seq, target=(seq, width), **more)


CASES = {case.name: case for case in [
    classes("mlp", (72,), 10, "x", "y", optimizers=EVERY, lr={"lamb": 2e-4, "lars": 0.01}),
    language("gpt2", 503, optimizers=EVERY),
    language("gpt2-script", 503),
    language("llama", 521),
    language("plain", 499, mask=False),
    hidden("bert", 509, 64),
    hidden("bert-dynamo", 509, 64),
    classes("vit", (3, 32, 32), 13, optimizers=EVERY, lr={"lars": 0.02}),
    classes("resnet", (3, 64, 64), 13, fused=True, lr={"sgd": 1e-9, "adamw": 1e-5}),
    classes("resnet-train", (3, 64, 64), 13, base="resnet", takes_statistics=True, lr={"sgd": 2e-5, "adamw": 2e-6}),
    language("gpt2-train", 503, base="gpt2"),
    # Of which nothing is recorded: devices are compared with the CPU by them. Their convolutions are depthwise.
    classes("mobilenet", (3, 32, 32), 11, fused=True, optimizers=(), lr={"sgd": 1e-3}),
    classes("convnext", (3, 64, 64), 11, optimizers=()),
]}


def suffix_of(turns, ranks):
    """Of a recording's name where a batch is in parts with statistics of their own: the turns of a loop, or those of ranks, whose first one's running
    statistics count."""
    return (f"-turns{turns}" if turns > 1 else "") + (f"-parts{ranks}" if ranks > 1 else "")


def make_data(case):
    """Arrays by input, `labels` or `target` included."""
    generator, data = np.random.default_rng(SEED), {}
    for name, (kind, *more) in case.inputs.items():
        if kind == "tokens":
            data[name] = generator.integers(0, more[0], (SAMPLES, case.seq), dtype=np.int64)
        elif kind == "normal":
            data[name] = generator.standard_normal((SAMPLES, *more[0]), dtype=np.float32)
        elif kind == "zeros":
            data[name] = np.zeros((SAMPLES, case.seq), np.int64)
        else:
            data[name] = np.ones((SAMPLES, case.seq), np.int64)
            for row in range(0, SAMPLES, 3):
                data[name][row, case.seq - 1 - row % 4:] = 0
    if case.labels:
        data["labels"] = generator.integers(0, case.labels, (SAMPLES,), dtype=np.int64)
    if case.target:
        data["target"] = generator.standard_normal((SAMPLES, *case.target), dtype=np.float32)
    return data
