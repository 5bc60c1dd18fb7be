"""Compares the memory that the joint search foresees of a step with the arenas of its program: check_memory.py FOLDER MODELS.

Models are those of MODELS, or files in FOLDER. Plans are made for one processor, whatever the host's is: which algorithm a convolution has, and with
it the memory beside it, depends on that.
"""
import json
import pathlib
import subprocess
import sys

folder, models = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
LEAST, MOST = 1.0, 1.05  # times what the arenas take
wrong = []


def check(model, mesh, turns, *options, least=LEAST, most=MOST, devices=2, seq=96, loss="cross-entropy,logits=logits,shift=1"):
    path = folder / f"{model}.onnx"
    command = ["colossal-compile", path if path.exists() else models / model / "model.onnx", "--training", "adamw", "--loss", loss, "--machine", "cpu", "--target", "cpu:znver4",
               *(["--dim", f"seq={seq}"] if seq else []), "--global-batch", 16, "--devices", devices, "--mesh", mesh, "--microbatches", turns, *([] if "--recompute" in options else ["--recompute", "none"]), *options,
               "--json", "-q", "-o", folder / "step.cplan"]
    got = json.loads(subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE).stdout)
    ranks = got.get("stages") or [got]
    arenas = [sum(rank["memory"][kind] for kind in ("weights", "activations", "io")) for rank in ranks]
    # What an evaluation gives lies where a step has its activations: beside them is what goes in.
    given = sum(rank["memory"]["io"] for rank in ranks)
    assert given < 1 << 16 or "shift" not in loss, f"{model}, {mesh}: {given} bytes of inputs and outputs"
    predicted = got["training_plan"]["predicted_bytes"]
    what = f"{model}, {mesh}, {turns} microbatches {' '.join(str(option) for option in options)}"
    print(f"{what}: predicted {predicted:.0f}, the arenas {arenas}: {predicted / max(arenas):.3f}")
    if not least * max(arenas) <= predicted <= most * max(arenas):
        wrong.append(what)
    return got


for stage, turns in ((0, 1), (1, 1), (1, 4), (2, 1), (2, 4), (3, 1)):
    check("gpt2", "data=2", turns, "--zero", stage)
check("gpt2", "data=2", 4, "--zero", 3, least=0.99)
# A head of its own, whose gradient comes when activations are at their most; and the optimizer's slots, which tensor axes share.
check("llama", "data=2", 1)
check("llama", "model=2", 4)
check("gpt2", "context=2", 4)
# Over context ranks, too, a tied table's gradient is whole in each turn until its rows are added.
check("gpt2", "context=2", 4, "--zero", 2, least=0.99)
check("gpt2", "context=2", 4, "--zero", 3, least=0.99)
# And in one turn, where it is not held a second time by its exchange.
check("tied", "data=2,context=2", 1, "--zero", 1, devices=4, seq=16)
# Under ZeRO 3 a table that is looked up in is not gathered for the backward pass, and where it is looked up in again, gone with that.
for recompute in ("none", "full"):
    check("tall", "data=4", 1, "--zero", 3, "--recompute", recompute, devices=4, seq=16)
check("tied", "data=4", 1, "--zero", 3, "--recompute", "full", devices=4, seq=16, least=0.99)
# Narrow weights of the loss's product are read when their gradients are made; a tied table's gradient is whole, beside a rank's part of it,
# once its rows are added.
for seq in (8, 16):
    check("tied", "data=2", 1, "--zero", 1, "--precision", "bf16", seq=seq)
# Ranks with little of a batch: gradients that they exchange stay whole until four more are on their way, also those of the layer behind, and of a head;
# where weights are narrow, copies that products have read are gone meanwhile. Convolutions' are turned as they are scattered, and do not stay.
for model, recompute, least in (("bert", "none", LEAST), ("gpt2", "full", LEAST), ("llama", "full", 0.99)):
    check(model, "data=8", 1, "--zero", 1, "--recompute", recompute, devices=8, seq=16, least=least,
          loss="mse,output=last_hidden_state" if model == "bert" else "cross-entropy,logits=logits,shift=1")
check("llama", "data=4", 1, "--zero", 1, "--precision", "bf16", devices=4, seq=16)
for model, least in (("vit", LEAST), ("mobilenet", 0.99)):
    check(model, "data=8", 1, "--zero", 1, devices=8, seq=None, least=least, loss="cross-entropy,logits=logits")
# A large table is looked up in alone, and its narrow copy gone with that; the gradient of a large product is scattered once nothing reads
# that of its result.
check("tall", "data=2", 1, "--zero", 1, seq=64)
check("tall", "data=2", 1, "--zero", 3, "--precision", "bf16", seq=64)
# Where parameters outweigh activations: the gradient of a tied table is there once, and rows that are looked up are added to it; ranks get their
# part of a gradient while it is whole, in each turn, or behind them all.
check("tied", "data=2", 1, "--zero", 0, seq=8)
check("tied", "data=2,model=2", 1, "--zero", 0, devices=4, seq=8)
for model, mesh, stage in (("tied", "data=2", 2), ("tied", "data=2", 3), ("tied", "context=2", 3), ("tall", "data=2", 1), ("tall", "data=2", 2)):
    check(model, mesh, 4, "--zero", stage, seq=8, least=0.999)
# Narrow types, whose attention has scores in both; and a head with a bias, whose gradient is a sum over what the logits' is made of.
check("llama", "data=1", 4, "--precision", "bf16", devices=1)
check("gpt2", "data=1", 4, "--precision", "bf16", devices=1, least=0.99)
# A loss in f32 over classes that ranks share; and what weights' gradients read, which is narrow.
check("llama", "model=2", 1, "--precision", "bf16", seq=64)
# Of logits whose classes ranks share nothing is stored beside their gradient, with a bias or without; an evaluation gives those that have
# padding as their readers mask them.
for turns in (1, 4):
    check("distilbert", "model=2", turns, seq=64, loss="cross-entropy,logits=logits")
check("distilbert", "data=2,model=2", 1, "--zero", 3, devices=4, seq=64, loss="cross-entropy,logits=logits")
check("tall", "model=2", 1, "--precision", "bf16", seq=64)
check("tall", "data=2,model=2", 4, "--precision", "bf16", devices=4, seq=64)
check("bert", "stage=2", 4, "--precision", "bf16", "--pipeline-schedule", "zb-h2", seq=64, loss="mse,output=last_hidden_state", least=0.97)
check("gptj", "data=1", 1, devices=1, seq=64)
# Masks that are computed of inputs, and of tables that are trained, whose gradient is all scores'; a loss of elements, whose
# targets go in; results that the loss does not read.
check("bloom", "data=1", 1, devices=1, seq=64)
check("t5-encoder", "data=1", 1, devices=1, seq=64, loss="mse,output=last_hidden_state")
check("bert", "data=1", 1, devices=1, seq=64, loss="mse,output=last_hidden_state")
check("bert", "model=2", 1, seq=64, loss="mse,output=last_hidden_state")
# Masks that no precision narrows, as they are of positions and of slopes that are not trained; masters of weights of which ranks
# bring together narrow copies.
check("bloom", "data=1", 1, "--precision", "bf16", devices=1, seq=64)
check("llama", "model=2", 4, "--precision", "bf16", seq=64)
# What is made again for a kernel that makes it as it goes takes no memory, and what is kept for that alone is gone with it.
for model, options in (("bert", {"seq": 64, "loss": "mse,output=last_hidden_state", "least": 0.985}), ("resnet", {"seq": None, "loss": "cross-entropy,logits=logits"}),
                       ("vit", {"seq": None, "loss": "cross-entropy,logits=logits"})):
    for turns in (1, 4):
        check(model, "data=1", turns, "--recompute", "selective", devices=1, **options)
# A bias of scores that all layers keep lies there once.
for mesh in ("data=2", "model=2"):
    check("biased", mesh, 1, "--zero", 0, seq=None, loss="cross-entropy,logits=logits")
# Images: masks that are tables, in each microbatch's size; convolutions, of which a kernel sums up the gradient of a bias as well, and
# the memory's peak at the model's beginning.
for model in ("vit", "swin", "resnet", "../Training/Models/resnet-train"):
    check(model, "data=1", 1, devices=1, seq=None, loss="cross-entropy,logits=logits")
# What a frozen batch normalization scales is kept beside what it gives, whatever tensors of the file are its scales and statistics.
check("normalized", "data=1", 1, devices=1, seq=None, loss="cross-entropy,logits=logits")
check("normalized", "data=2", 4, "--precision", "bf16", seq=None, loss="cross-entropy,logits=logits")
# Stages that begin in what repeats nothing; the gradients of shifts behind frozen statistics wait for the weights' pass, too.
for model, schedule, least in (("residual", "1f1b", 0.998), ("residual", "zb-h1", LEAST), ("normalized", "zb-h1", 0.97), ("normalized", "1f1b", 0.997)):
    check(model, "stage=2", 4, "--pipeline-schedule", schedule, seq=None, loss="cross-entropy,logits=logits", least=least)
# Biases of windows, which are computed of a table once for all microbatches; and a convolution's weights, of which its gradient reads
# parts that are taken once, and that ranks do not share. In models this small the passes are foreseen as more.
check("swin", "data=2", 4, "--zero", 0, seq=None, loss="cross-entropy,logits=logits", least=0.98)
check("swin", "data=1", 4, seq=None, loss="cross-entropy,logits=logits", devices=1)
check("../Training/Models/resnet-train", "data=2", 4, "--zero", 2, seq=None, loss="cross-entropy,logits=logits", least=0.98)
# Convolutions of many channels, whose windows, images and products are transformed, and that read zeros around their images.
check("convolutions", "data=1", 1, devices=1, seq=None, loss="cross-entropy,logits=logits")
check("convolutions", "data=1", 4, devices=1, seq=None, loss="cross-entropy,logits=logits")
check("convolutions", "data=2", 1, seq=None, loss="cross-entropy,logits=logits")
# Convolutions whose result is added to what they took, and in steps. Weights in parts are turned when ranks have brought them together, and the
# gradients of convolutions are scattered as their kernels make them.
check("residual", "data=1", 1, devices=1, seq=None, loss="cross-entropy,logits=logits")
check("residual", "data=1", 4, devices=1, seq=None, loss="cross-entropy,logits=logits")
check("residual", "data=2", 4, "--zero", 2, seq=None, loss="cross-entropy,logits=logits", most=1.08)
check("residual", "data=2", 4, "--zero", 3, seq=None, loss="cross-entropy,logits=logits")
# Channels that stay split over a tensor axis, in blocks that are alike and in two widths.
for mesh, turns, devices in (("model=2", 2, 2), ("data=2,model=2", 1, 4)):
    check("widths", mesh, turns, "--zero", 0, devices=devices, seq=None, loss="cross-entropy,logits=logits", least=0.99)
# Small models whose tensor ranks have some weights whole: of what is scattered they share the gradients as the optimizer's slots. What is kept for what the
# next layer makes again alone is gone with that.
check("gpt2", "data=2,model=2", 4, "--zero", 2, devices=4, seq=64)
# An evaluation gives logits where the head makes them, and what blocks had is gone then.
check("shared", "data=1", 4, devices=1, seq=None, loss="cross-entropy,logits=logits,shift=1", least=0.985)
# A stage scatters the gradient of a table that another one updates beside the whole.
check("tied", "stage=2,context=2", 4, "--zero", 0, "--recompute", "full", devices=4, seq=64, least=0.99)
for model, mesh, devices in (("gpt2", "data=1", 1), ("gpt2", "model=2", 2), ("llama", "data=2,model=2", 4)):
    check(model, mesh, 1, "--zero", 0, "--recompute", "full", devices=devices, seq=64)
# How far a result is from its target decides where the forward pass is cut; and a bias that the first layer computes before what it multiplies.
check("bert", "data=1", 1, "--recompute", "full", devices=1, seq=64, loss="mse,output=last_hidden_state")
check("t5-encoder", "data=1", 1, "--recompute", "selective", devices=1, seq=64, loss="mse,output=last_hidden_state")
# Biases that are computed of parameters are computed again with what reads them; and what ranks bring together for an operation is there while it runs.
check("swin", "data=1", 1, "--recompute", "selective", devices=1, seq=None, loss="cross-entropy,logits=logits")
check("bloom", "model=2", 1, "--recompute", "selective", seq=64)
check("bert", "model=2", 1, "--recompute", "selective", seq=64, loss="mse,output=last_hidden_state")
# Where whole segments are made again, so is what ranks bring together, and stays until it is read, as do gradients that ranks exchange
# meanwhile; tables count as what a rank reads of them, and are gone before other segments have their most.
check("bert", "model=2", 1, "--recompute", "full", seq=64, loss="mse,output=last_hidden_state")
for mesh, turns, devices in (("data=1", 1, 1), ("model=2", 1, 2), ("model=2", 4, 2)):
    check("swin", mesh, turns, "--recompute", "full", devices=devices, seq=None, loss="cross-entropy,logits=logits", most=1.07)
# In 16 bits the gradient of a trained mask lies beside its scores, which are wide.
check("t5-encoder", "data=1", 4, "--precision", "bf16", devices=1, seq=64, loss="mse,output=last_hidden_state", least=0.98)
# Images come into the first stage alone.
check("vit", "stage=2", 4, "--pipeline-schedule", "zb-h1", seq=None, loss="cross-entropy,logits=logits")
check("bert", "stage=2", 4, "--pipeline-schedule", "1f1b", "--recompute", "selective", seq=64, loss="mse,output=last_hidden_state")
# Where the gradients of weights are a pass of their own, what they read and the gradients that they are made of lie where they wait for it.
for model, schedule in (("bert", "zb-h1"), ("bert", "zb-h2"), ("llama", "zb-v")):
    check(model, "stage=2", 4, "--pipeline-schedule", schedule, seq=64, **({"loss": "mse,output=last_hidden_state"} if model == "bert" else {}))
# What is frozen has no gradient and no slots, is stored once, and with ZeRO 3 in parts; below the last that is trained nothing is kept.
for mesh, turns, zero in (("data=1", 1, 0), ("data=1", 4, 0), ("data=2", 1, 1), ("data=2", 1, 3), ("model=2", 1, 0), ("stage=2", 4, 0)):
    for frozen in (".*(self_attn|mlp).*", ".*layers\\.[12]\\..*"):
        check("wide", mesh, turns, "--zero", zero, "--freeze", frozen, devices=1 if mesh == "data=1" else 2, seq=64, least=0.995)
# A loss in parts, as of vocabularies of real models: what its gradient goes to is done for a part at a time, earlier parts have made the
# gradient of the head's weights, and the weights are gathered all the time. In one microbatch, too, all can be made again.
for mesh, turns, options in (("data=1", 1, ()), ("data=1", 4, ()), ("data=1", 1, ("--recompute", "full")), ("data=2", 1, ("--zero", 1)), ("data=2", 1, ("--zero", 3)),
                             ("data=2", 4, ("--zero", 3)), ("model=2", 1, ()), ("model=2", 4, ())):
    check("tall", mesh, turns, *options, seq=256, devices=1 if mesh == "data=1" else 2)
# Of classes over more ranks all at once: one more tensor of them at a time.
check("tall", "model=4", 1, devices=4)
check("wide", "model=2", 1, "--recompute", "full", seq=128, least=0.99)
# What ranks have exchanged for an operation is kept beside what lies as it was made, and so is what they have gathered.
check("gpt2", "model=2", 1, seq=64)
check("deep", "model=2", 1)
# A table that stages share: the last one keeps what the optimizer has of it. Chunks, each with messages of its own.
check("gpt2", "stage=2", 4, "--pipeline-schedule", "interleaved")
# The last stage's two chunks follow one another, and are done as one. The search does not see the gaps between what passes hand on.
check("gpt2", "stage=2", 4, "--pipeline-schedule", "zb-v", least=0.99)
check("llama", "stage=2", 4, "--pipeline-schedule", "zb-v")
check("llama", "stage=2", 4, "--pipeline-schedule", "zb-h2", seq=64)
# What ranks share of gradients is scattered once a step in stages, and whole meanwhile.
check("gpt2", "stage=2,data=2", 4, "--zero", 2, devices=4)
# Stages, of which the last computes its forward pass with the backward one, and others keep what they save in a copy for each microbatch on its way.
both = [check("gpt2", "stage=2", 4, "--pipeline-schedule", schedule)["stages"][1] for schedule in ("gpipe", "1f1b")]
last = [sum(stage["memory"][kind] for kind in ("weights", "activations", "io")) for stage in both]
assert last[0] == last[1], f"the last stage of gpipe keeps more than one microbatch: {last}"
# Where gradients of weights are a pass of their own, logits are kept as their gradient, which is written over them.
check("gpt2", "stage=2", 4, "--pipeline-schedule", "zb-h1")
check("gpt2", "stage=2", 4, "--pipeline-schedule", "zb-2p")
# What is made again, in segments that are no units; the last keeps all. In models this small what is predicted of a segment is some
# per cent off: hence the wider bounds.
for recompute in ("selective", "full"):
    for turns, most in ((1, 1.06), (4, MOST)):
        check("gpt2", "data=1", turns, "--recompute", recompute, devices=1, most=1.11 if recompute == "full" else most)
        check("llama", "data=2", turns, "--recompute", recompute, least=0.975, most=most)
# No kernel of the forward pass makes what the backward pass is to make again; attention makes its scores of all queries there.
for mesh, turns in (("data=1", 1), ("data=1", 4), ("data=2", 1), ("model=2", 1)):
    check("deep", mesh, turns, "--recompute", "full", devices=1 if mesh == "data=1" else 2)
# Narrow copies come and go with what is made again.
check("llama", "data=2", 1, "--recompute", "full", "--precision", "bf16", "--zero", 1)
# In 16 bits, attention's weights are gone with the gradient of its values before its slopes are rounded, a trained mask's as well.
check("opt", "data=1", 1, "--precision", "bf16", devices=1, seq=128)
check("t5-encoder", "data=1", 1, "--precision", "bf16", devices=1, seq=128, loss="mse,output=last_hidden_state")
# In 16 bits, what is kept is as narrow as what is read of it.
check("gpt2", "data=1", 1, "--recompute", "selective", "--precision", "bf16", devices=1, seq=64)
# Beside tensor axes, too, a turn scatters gradients to their pieces, and keeps few of a turn's.
check("wide", "data=2,model=2", 4, "--zero", 2, devices=4, seq=64, least=0.98)
check("wide", "data=2,model=2", 4, "--zero", 2, "--precision", "bf16", devices=4, seq=64, least=0.98)
check("wide", "data=2", 4, "--zero", 2, "--recompute", "selective", "--precision", "bf16", seq=64, least=0.98)
check("wide", "data=2,model=2", 4, "--zero", 3, "--precision", "bf16", devices=4, seq=64, least=0.975)
check("gpt2", "stage=2", 4, "--pipeline-schedule", "1f1b", "--recompute", "full", least=0.99)
check("gpt2", "stage=2", 4, "--pipeline-schedule", "1f1b", "--recompute", "selective", most=1.13)
# Where gradients of weights are a pass of their own, what these read is made again for the backward pass, not before.
for schedule in ("zb-h1", "zb-h2"):
    keeps, again = [check("gpt2", "stage=2", 4, "--pipeline-schedule", schedule, "--recompute", recompute)["stages"][0]["memory"]["activations"]
                    for recompute in ("none", "full")]
    assert again < 0.85 * keeps, f"{schedule}: {keeps} bytes of activations, {again} with recompute"
check("gpt2", "stage=2", 4, "--pipeline-schedule", "zb-h1", "--recompute", "selective")
# Of many layers the last stage, too, keeps less where it makes some again; but not for gradients of weights that are apart.
for schedule, isLess in (("1f1b", True), ("zb-h1", False)):
    keeps, again = [check("deep", "stage=2", 4, "--pipeline-schedule", schedule, "--recompute", recompute, least=0.97)["stages"][1]["memory"]["activations"]
                    for recompute in ("none", "full")]
    assert again < 0.8 * keeps if isLess else again == keeps, f"{schedule}: {keeps} bytes of activations, {again} with recompute"
# Where times decide about the order of passes, it is the plan's.
check("deep", "stage=2", 4, "--pipeline-schedule", "zb-2p", least=0.98)
check("deep", "stage=2", 8, "--pipeline-schedule", "zb-2p", least=0.98)
# The tied table's gradient and new value, which stages send once a step, wait in no slot: those have room for what passes hand on.
for stage in check("gpt2", "stage=2", 16, "--pipeline-schedule", "1f1b")["stages"]:
    handed = 24 * 1024  # of a microbatch: a sequence of 96 tokens, 64 wide
    assert stage["memory"]["messages"] == 2 * handed, stage["memory"]
assert not wrong, wrong
