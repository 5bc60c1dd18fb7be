"""Compares the bytes that steps move with closed formulas, with what the joint search foresees, and with what communicators count while they run:
check_bytes.py FOLDER MODELS.

Of P trained elements of f32, and B samples of h activations of f32 that go from one layer to the next:
- over D data ranks at ZeRO 0 a rank sends 8 P (D - 1) / D bytes in all-reduces, at 1 4 P (D - 1) / D bytes in reduce-scatters, and as many in all-gathers, whatever the microbatches;
  at 2 and 3 it reduce-scatters in each microbatch, and at 3 it gathers in each: P for the forward pass, and for the backward pass the weights of all layers but the first;
- each of two stages sends 4 B h / D bytes to the other, forward activations and backward their gradients, whatever the microbatches; with chunks each chunk does;
- what a plan says of its tensor axes is what the program sends over them.
Beside that go single numbers: a sum of the loss, of what counts, and of gradients' squares. A dimension that ranks do not divide is padded.
"""
import json
import pathlib
import subprocess
import sys

folder, models = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
BATCH, HIDDEN = 1024, 288
SHAPES = [(288, 72), (288,), (288, 288), (288,), (10, 288), (10,)]  # of the mlp
READ_AGAIN = [(288, 288), (10, 288)]  # by the backward pass
MOST_SCALARS = 64
step = ["colossal-compile", models / "mlp/model.onnx", "--training", "adamw", "--loss", "mse", "--machine", "cpu", "--json", "-q"]


def output(*command):
    return json.loads(subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE).stdout)


def compile_step(*options, batch=BATCH):
    return output(*step, "--global-batch", batch, *options, "-o", folder / "step.cplan")


def sums(rows, bytes_key, rank=0):
    """Bytes by kind, without the kinds that single numbers have to themselves."""
    found = {}
    for row in rows:
        if row["rank"] == rank:
            found[row["kind"]] = found.get(row["kind"], 0) + row[bytes_key]
    return {kind: size for kind, size in found.items() if size > MOST_SCALARS}


def padded(ranks, split):
    """Elements of the parameters whose dimension `split(shape)` is rounded up to a multiple of the ranks."""
    total = 0
    for shape in SHAPES:
        size = 1
        for place, extent in enumerate(shape):
            size *= -(-extent // ranks) * ranks if place == split(shape) else extent
        total += size
    return total


def by_hand():
    for ranks in (2, 4):
        for stage in (0, 1, 2, 3):
            for turns in (1, 4):
                got = sums(compile_step("--mesh", f"data={ranks}", "--zero", stage, "--microbatches", turns)["programs"][0]["traffic"], "bytes")
                least, most = (4 * elements * (ranks - 1) // ranks for elements in (sum(map(size_of, SHAPES)), padded(ranks, lambda shape: 0)))
                again = 4 * sum(map(size_of, READ_AGAIN)) * (ranks - 1) // ranks  # all of these are divided evenly
                times = {"all_reduce": 2} if stage == 0 else {"reduce_scatter": turns if stage >= 2 else 1, "all_gather": turns if stage == 3 else 1}
                assert set(got) == set(times), got
                for kind, factor in times.items():
                    more = turns * again if (kind, stage) == ("all_gather", 3) else 0
                    low, high = factor * least + more, factor * most + more
                    print(f"ZeRO {stage} on {ranks} ranks in {turns} microbatches: {kind} {got[kind]}, by the formula {low} to {high} with padding")
                    assert low <= got[kind] <= high + MOST_SCALARS * turns, (kind, got)
    for mesh, ranks in (("stage=2", 1), ("stage=2,data=2", 2)):
        for turns in (1, 4):
            program = compile_step("--mesh", mesh, "--microbatches", turns)["programs"][0]
            for rank in (0, ranks):
                got = sums(program["traffic"], "bytes", rank)["send"]
                want = 4 * BATCH * HIDDEN // ranks
                print(f"rank {rank} of {mesh} in {turns} microbatches sends {got}, by the formula {want}")
                assert want <= got <= want + MOST_SCALARS, (mesh, rank, got)


def size_of(shape):
    size = 1
    for extent in shape:
        size *= extent
    return size


def by_kind(got):
    """Planned bytes, whatever the axes: what a program adds up or brings together over several of them at once is of several in a plan."""
    planned = {}
    for name, size in got["training_plan"]["collective_bytes"].items():
        kind = name.split(" (")[0].replace("-", "_")
        planned[kind] = planned.get(kind, 0) + size
    return planned


def as_planned():
    for mesh in ("model=4", "data=2,model=2"):
        got = compile_step("--devices", 4, "--mesh", mesh, "--zero", 1)
        sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
        print(f"{mesh}: planned {planned}, the program's {sent}")
        for kind in {*sent, *planned}:
            assert abs(planned.get(kind, 0) - sent.get(kind, 0)) <= MOST_SCALARS, (mesh, kind, planned, sent)


def of_a_transformer():
    """A batch stays on its ranks. Positions behind a sequence's end have no gradient that would be moved, and are gathered only where they are updated."""
    gpt2 = ["colossal-compile", models / "gpt2/model.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--machine", "cpu",
            "--global-batch", 8, "--json", "-q", "-o", folder / "step.cplan"]
    # In 16 bits ranks bring together narrow copies of what products read; what is made again reads what its backward pass does.
    for length, stage, turns, *options in ((96, 0, 1), (96, 0, 2), (96, 1, 2), (96, 2, 1), (96, 3, 2), (16, 0, 1), (16, 1, 2), (16, 3, 1), (96, 3, 2, "--precision", "bf16"),
                                           (96, 3, 1, "--recompute", "full"), (96, 3, 2, "--recompute", "selective", "--precision", "bf16")):
        options += [] if "--recompute" in options else ["--recompute", "none"]
        got = output(*gpt2, "--dim", f"seq={length}", "--devices", 2, "--mesh", "data=2", "--zero", stage, "--microbatches", turns, *options)
        sent = sums(got["programs"][0]["traffic"], "bytes")
        planned = {name.removesuffix(" (data)").replace("-", "_"): size for name, size in got["training_plan"]["collective_bytes"].items()}
        print(f"GPT-2, {length} tokens, ZeRO {stage} in {turns} microbatches {' '.join(options)}: planned {planned}, the program's {sent}")
        assert set(sent) == set(planned) and all(abs(sent[kind] - planned[kind]) <= MOST_SCALARS for kind in sent), (sent, planned)


def of_tensor_axes():
    """What layers exchange, and a tied table, which lies the same way for the lookup and for the head. Gradients are summed over context and data ranks at
    once; positions are added to each rank's own tokens."""
    for model in ("gpt", "llama"):
        for mesh, devices, turns in (("model=2", 2, 1), ("model=2", 2, 4), ("data=2,model=2", 4, 4), ("context=2", 2, 1), ("data=2,context=2", 4, 2)):
            got = output("colossal-compile", folder / f"{model}.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--machine", "cpu",
                         "--global-batch", 16, "--dim", "seq=64", "--devices", devices, "--mesh", mesh, "--microbatches", turns, "--zero", 0, "--recompute", "none",
                         "--json", "-q", "-o", folder / "step.cplan")
            sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
            print(f"{model}, {mesh} in {turns} microbatches: planned {planned}, the program's {sent}")
            for kind in {*sent, *planned}:
                assert abs(sent.get(kind, 0) - planned.get(kind, 0)) <= 0.01 * sum(sent.values()), (model, mesh, kind)
    # What is looked up is exchanged as narrow as it is read.
    got = output("colossal-compile", folder / "llama.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--machine", "cpu", "--global-batch", 16,
                 "--dim", "seq=64", "--devices", 2, "--mesh", "model=2", "--microbatches", 1, "--zero", 0, "--recompute", "none", "--precision", "bf16", "--json", "-q",
                 "-o", folder / "step.cplan")
    sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
    print(f"llama in bf16, model=2: planned {planned}, the program's {sent}")
    assert abs(sent["all_to_all"] - planned["all_to_all"]) <= 0.1 * sent["all_to_all"], (sent, planned)  # and indices


def of_normalized_convolutions():
    """Scales and shifts of frozen batch normalizations are made on each rank, and nothing is brought together for them, whatever the precision and the stages;
    stages bring their weights together once, for both passes."""
    for mesh, devices, turns, *options in (("data=2", 2, 1, "--zero", 0), ("data=2", 2, 4, "--zero", 0, "--precision", "bf16"), ("stage=2,data=2", 4, 4, "--zero", 0),
                                           ("stage=2,data=2", 4, 4, "--zero", 3)):
        got = output("colossal-compile", folder / "normalized.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits", "--machine", "cpu", "--global-batch", 16,
                     "--devices", devices, "--mesh", mesh, "--microbatches", turns, "--recompute", "none", *options, "--json", "-q", "-o", folder / "step.cplan")
        sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
        print(f"normalized, {mesh} in {turns} microbatches {' '.join(map(str, options))}: planned {planned}, the program's {sent}")
        for kind in {*sent, *planned}:
            assert abs(sent.get(kind, 0) - planned.get(kind, 0)) <= 0.01 * sum(sent.values()), (mesh, kind)


def of_convolutions():
    """Channels stay split from block to block, however many there are, and gradients lie as their convolutions do. Passes back do not read biases, nor the weights of the
    first convolution, whose input has no gradient."""
    for model, turns, mesh, zero in ((folder / "widths.onnx", 1, "model=2", 0), (folder / "widths.onnx", 2, "model=2", 0), (models / "resnet/model.onnx", 1, "model=2", 0),
                                     (models / "resnet/model.onnx", 1, "data=4", 3)):
        got = output("colossal-compile", model, "--training", "adamw", "--loss", "cross-entropy,logits=logits", "--machine", "cpu", "--global-batch", 16,
                     "--devices", mesh[-1], "--mesh", mesh, "--microbatches", turns, "--zero", zero, "--recompute", "none", "--json", "-q", "-o", folder / "step.cplan")
        sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
        print(f"{model.parent.name}/{model.name}, {mesh} in {turns} microbatches: planned {planned}, the program's {sent}")
        for kind in {*sent, *planned}:
            assert abs(sent.get(kind, 0) - planned.get(kind, 0)) <= 0.01 * sum(sent.values()), (model, mesh, turns, kind)


def of_what_is_made_again():
    """What ranks exchange is exchanged again where it is made again: what the unit before has made, too, and what is kept but transposed."""
    for path, options in ((folder / "normalized.onnx", ()), (models / "vit/model.onnx", ()), (models / "gpt2/model.onnx", ("--dim", "seq=64"))):
        for recompute in ("selective", "full"):
            loss = "cross-entropy,logits=logits" + (",shift=1" if options else "")
            got = output("colossal-compile", path, "--training", "adamw", "--loss", loss, "--machine", "cpu", "--global-batch", 16, *options,
                         "--devices", 2, "--mesh", "model=2", "--microbatches", 1, "--zero", 0, "--recompute", recompute, "--json", "-q", "-o", folder / "step.cplan")
            sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
            print(f"{path.parent.name}/{path.name}, {recompute}: planned {planned}, the program's {sent}")
            for kind in {*sent, *planned} - ({"all_to_all"} if path.parent.name == "vit" else set()):
                assert abs(sent.get(kind, 0) - planned.get(kind, 0)) <= 0.01 * sum(sent.values()), (path, recompute, kind)


def of_sums_and_lookups():
    """Ranks along a context axis look up their own positions, so that gradients of all tables are sums over them, of which ZeRO brings each rank its part at once, and which
    stages bring to the one that updates them in parts. What a vocabulary's ranks look up is summed up again where it is made again, and its gradient is wide before it is
    brought together. Summands have the gradient of their sum, which is brought to where products read it once; positions that are written out for each sequence are
    rows of their table that are added to each. What a branch looks up in a product is no loss, and its weights are gathered for both passes; those that several layers have,
    once for all of them. A row that a node takes by its number loses a dimension, by which samples lie on ranks as before."""
    rows = [("parallel", "model=2", 2, 1), ("parallel", "model=2", 2, 1, "--precision", "bf16"), ("parallel", "data=2", 2, 1),
            ("shuffled", "data=2", 2, 1, "--zero", 3), ("shared", "data=2", 2, 1, "--zero", 3), ("wide", "context=2", 2, 1), ("wide", "stage=2,context=2", 4, 4), ("wide-llama", "context=2", 2, 4),
            ("wide-llama", "context=2", 2, 4, "--zero", 3), ("gpt", "data=2,context=2", 4, 1, "--zero", 3), ("tied", "model=2", 2, 1, "--recompute", "selective"),
            ("tied", "model=2", 2, 1, "--precision", "bf16"), ("unbound", "data=2", 2, 1), ("unbound", "data=2", 2, 2, "--zero", 3)]
    for model, mesh, devices, turns, *options in rows:
        loss = ("mse,output=y",) if model in ("parallel", "shuffled", "unbound") else ("cross-entropy,logits=logits,shift=1",) if model == "shared" else ("cross-entropy,logits=logits,shift=1", "--dim", "seq=64")
        options += [] if "--zero" in options else ["--zero", 0]
        options += [] if "--recompute" in options else ["--recompute", "none"]
        got = output("colossal-compile", folder / f"{model}.onnx", "--training", "adamw", "--loss", *loss, "--machine", "cpu", "--global-batch", 8, "--devices", devices,
                     "--mesh", mesh, "--microbatches", turns, *options, "--json", "-q", "-o", folder / "step.cplan")
        traffic = got["programs"][0]["traffic"]
        sent, planned = sums(traffic, "bytes"), by_kind(got)
        print(f"{model}, {mesh} in {turns} microbatches {' '.join(map(str, options))}: planned {planned}, the program's {sent}")
        for kind in {*sent, *planned}:
            assert abs(sent.get(kind, 0) - planned.get(kind, 0)) <= 0.01 * sum(sent.values()), (model, mesh, kind)
        if mesh == "data=2,context=2":
            scattered = [row["bytes"] for row in traffic if (row["rank"], row["kind"], row["axes"]) == (0, "reduce_scatter", "data,context")]
            assert sum(scattered) > 0.99 * sent["reduce_scatter"], traffic


def of_mixed_meshes():
    """Ranks that split what goes from layer to layer have whole weights and parts of their gradients: each updates its part, and products read what is brought together in 16
    bits, for the lookup and the product of a tied table apart where passes are done once. Along a context axis sums are of these parts; ranks that keep pieces alone bring them
    together in each turn. Of a tied table a stage sends its part of the gradient to the one that updates it. A table of 96 positions cuts sequences of 64 in all stages. A loss is of
    parts of the classes where the plan has it so. What no loss depends on (BERT's pooler) is not brought together.
    Gradients of a table's biases for scores are added up as those of the table, not for each score."""
    rows = [("gpt2", "model=2", 2, 4, "bf16", 0), ("gpt2", "model=2", 2, 1, "bf16", 0), ("gpt2", "stage=2,model=2", 4, 4, "f32", 0), ("gpt2", "data=2,model=2", 4, 4, "f32", 3),
            ("gpt2", "context=2,model=2", 4, 1, "f32", 0), ("llama", "context=2,model=2", 4, 4, "f32", 0), ("llama", "model=4", 4, 1, "f32", 0), ("bert", "model=2", 2, 1, "bf16", 0),
            ("bert", "stage=2,model=2", 4, 4, "f32", 0), ("llama", "data=2,model=2", 4, 4, "bf16", 0), ("bert", "data=4", 4, 1, "f32", 3), ("t5-encoder", "data=2", 2, 1, "bf16", 1)]
    for model, mesh, devices, turns, precision, zero in rows:
        loss = "mse,output=last_hidden_state" if model in ("bert", "t5-encoder") else "cross-entropy,logits=logits,shift=1"
        got = output("colossal-compile", models / model / "model.onnx", "--training", "adamw", "--loss", loss, "--dim", "seq=64", "--machine", "cpu", "--global-batch", 16,
                     "--devices", devices, "--mesh", mesh, "--microbatches", turns, "--precision", precision, "--zero", zero, "--recompute", "none", "--memory", "1TiB",
                     "--json", "-q", "-o", folder / "step.cplan")
        sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
        print(f"{model}, {mesh} in {turns} microbatches of {precision}, ZeRO {zero}: planned {planned}, the program's {sent}")
        for kind in {*sent, *planned}:
            assert abs(sent.get(kind, 0) - planned.get(kind, 0)) <= 0.01 * sum(sent.values()), (model, mesh, turns, precision, kind)


def of_stages():
    """A chunk sends on and back to its neighbours. Of a table that another stage updates, a stage scatters the gradient and sends the parts."""
    gpt2 = ["colossal-compile", models / "gpt2/model.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--machine", "cpu",
            "--global-batch", 16, "--dim", "seq=96", "--microbatches", 4, "--recompute", "none", "--json", "-q", "-o", folder / "step.cplan"]
    of_f32 = [(mesh, ranks, schedule, "f32") for mesh, ranks, schedule in
              (("stage=2", 2, "1f1b"), ("stage=2", 2, "interleaved"), ("stage=2", 2, "zb-v"), ("stage=2,data=2", 4, "1f1b"))]
    # Of what all layers share, each stage sends the sum of its layers' gradients; and biases that are looked up once, forward.
    for path, loss in ((folder / "shared.onnx", ("cross-entropy,logits=logits,shift=1",)), (models / "t5-encoder/model.onnx", ("mse,output=last_hidden_state", "--dim", "seq=64"))):
        got = output("colossal-compile", path, "--training", "adamw", "--loss", *loss, "--machine", "cpu", "--global-batch", 16, "--devices", 2, "--mesh", "stage=2",
                     "--microbatches", 4, "--zero", 0, "--recompute", "none", "--pipeline-schedule", "1f1b", "--json", "-q", "-o", folder / "step.cplan")
        sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
        print(f"{path.parent.name}/{path.name}, stage=2: planned {planned}, the program's {sent}")
        assert abs(sent["send"] - planned["send"]) <= 0.01 * sent["send"], (path, sent, planned)
    # In 16 bits what goes from chunk to chunk is narrow both ways.
    for mesh, ranks, schedule, precision in of_f32 + [("stage=2", 2, "1f1b", "bf16"), ("stage=2", 2, "zb-v", "f16")]:
        got = output(*gpt2, "--devices", ranks, "--mesh", mesh, "--zero", 0, "--pipeline-schedule", schedule, "--precision", precision)
        sent = sums(got["programs"][0]["traffic"], "bytes")
        planned = {name.split(" (")[0].replace("-", "_"): size for name, size in got["training_plan"]["collective_bytes"].items()}
        print(f"GPT-2, {mesh}, {schedule}, {precision}: planned {planned}, the program's {sent}")
        assert set(sent) == set(planned) and all(abs(sent[kind] - planned[kind]) <= MOST_SCALARS for kind in sent), (sent, planned)


def of_two_tensor_axes():
    """Of memory that leaves only two axes of tensor ranks: the loss and the gradients of normalizations lie as the plan says, and logits move before they are widened. Which plan is found depends
    on the processor."""
    for memory, *options in ((1040000, "--precision", "f32"), (1040000, "--precision", "bf16", "--target", "cpu:znver4")):
        got = output("colossal-compile", models / "gpt2/model.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--machine", "cpu",
                     "--global-batch", 8, "--dim", "seq=32", "--devices", 4, "--memory", memory, *options, "--json", "-q", "-o", folder / "step.cplan")
        sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
        print(f"GPT-2 {' '.join(options)}, {got['training_plan']['mesh']}: planned {planned}, the program's {sent}")
        assert got["training_plan"]["mesh"] == "model=2,model2=2", got["training_plan"]["mesh"]
        for kind in {*sent, *planned}:
            assert abs(sent.get(kind, 0) - planned.get(kind, 0)) <= 0.01 * sum(sent.values()), (options, kind)


def of_stages_with_tensor_axes():
    """What stages hand each other lies on both sides as the residual stream does, and a stage brings together what it needs more of."""
    shifted, classes, hidden = "cross-entropy,logits=logits,shift=1", "cross-entropy,logits=logits", "mse,output=last_hidden_state"
    for model, loss, mesh, *options in (("gpt2", shifted, "stage=2,model=2"), ("llama", shifted, "stage=2,model=2", "--precision", "bf16"), ("bert", hidden, "data=2,model=2,stage=2"),
                                        ("vit", classes, "data=2,model=2,stage=2", "--recompute", "full")):
        got = output("colossal-compile", models / model / "model.onnx", "--training", "adamw", "--loss", loss, "--machine", "cpu", "--global-batch", 8,
                     *(() if model == "vit" else ("--dim", "seq=32")), "--mesh", mesh, *options, "--json", "-q", "-o", folder / "step.cplan")
        sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
        print(f"{model}, {mesh} {' '.join(options)}: planned {planned}, the program's {sent}")
        for kind in {*sent, *planned}:
            assert abs(sent.get(kind, 0) - planned.get(kind, 0)) <= 0.01 * sum(sent.values()), (model, mesh, kind)


def beside_the_stream():
    """A bias of scores that is computed once goes from layer to layer as attention reads it, by heads, and so does its gradient; and a table that a later stage
    updates comes back to the first one in parts, as it lies there."""
    for mesh, *options in (("model=2",), ("model=4",), ("model=2", "--precision", "bf16"), ("stage=2,model=2",), ("context=2",)):
        got = output("colossal-compile", folder / "biased.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits", "--machine", "cpu", "--global-batch", 16,
                     "--mesh", mesh, "--microbatches", 1, "--recompute", "none", *options, "--json", "-q", "-o", folder / "step.cplan")
        sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
        print(f"biased, {mesh} {' '.join(options)}: planned {planned}, the program's {sent}")
        for kind in {*sent, *planned}:
            assert abs(sent.get(kind, 0) - planned.get(kind, 0)) <= 0.02 * sum(sent.values()), (mesh, kind)
    got = output("colossal-compile", folder / "large.onnx", "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--machine", "cpu", "--global-batch", 16,
                 "--dim", "seq=64", "--mesh", "stage=2,model=2", "--microbatches", 4, "--recompute", "none", "--json", "-q", "-o", folder / "step.cplan")
    planned = by_kind(got)["send"]
    sent = [sums(got["programs"][0]["traffic"], "bytes", rank)["send"] for rank in (0, 2)]
    print(f"large, stage=2,model=2: planned {planned}, the stages' {sent}")
    assert max(sent) <= 1.05 * planned, (sent, planned)


def of_own_losses():
    """Data ranks have the loss of their own samples, and tensor ranks that of their own classes, as if it were no loss of the model's. What stages hand each other is told from a
    table that they share by its shape: of that each rank sends its part."""
    for mesh, *options in (("data=2",), ("model=2",), ("model=2", "--precision", "bf16"), ("stage=2,data=2",), ("stage=2,model=2",), ("stage=2,model=2", "--microbatches", "4")):
        got = output("colossal-compile", folder / "own.onnx", "--training", "adamw", "--loss", "output=loss", "--machine", "cpu", "--global-batch", 16, "--dim", "seq=16",
                     "--mesh", mesh, *options, "--json", "-q", "-o", folder / "step.cplan")
        sent, planned = sums(got["programs"][0]["traffic"], "bytes"), by_kind(got)
        print(f"own loss, {mesh} {' '.join(options)}: planned {planned}, the program's {sent}")
        for kind in {*sent, *planned}:
            assert abs(sent.get(kind, 0) - planned.get(kind, 0)) <= 0.01 * sum(sent.values()), (mesh, kind)


def as_run():
    data = models / "mlp/batch32/inputs.npz"
    for options in (["--mesh", "data=2,model=2", "--zero", "1"], ["--mesh", "stage=2,data=2", "--microbatches", "4", "--zero", "3"], ["--devices", "4"]):
        plan = compile_step(*options, batch=32)
        run = output("colossal-run", "train", folder / "step.cplan", "--data", data, "--data", "target=fill:1", "--steps", 2, "--json")
        assert run["last_step"] == 2 and run["predicted_s"] > 0
        for row in run["traffic"]:
            assert row["sent_bytes"] == row["planned_bytes"], row
        for row in plan["programs"][0]["traffic"]:
            same = [r["sent_bytes"] for r in run["traffic"] if (r["rank"], r["axes"], r["kind"]) == (row["rank"], row["axes"], row["kind"])]
            assert same == [row["bytes"]], (row, same)
        print(f"{' '.join(options)}: {len(run['traffic'])} rows are sent as planned")


by_hand()
as_planned()
of_a_transformer()
of_tensor_axes()
of_convolutions()
of_normalized_convolutions()
of_what_is_made_again()
of_sums_and_lookups()
of_mixed_meshes()
of_two_tensor_axes()
of_stages_with_tensor_axes()
of_stages()
beside_the_stream()
of_own_losses()
as_run()
