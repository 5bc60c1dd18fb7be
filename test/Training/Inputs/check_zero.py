"""Compares the bytes that each rank keeps from step to step with the formulas of ZeRO: check_zero.py FOLDER MAKE_TRANSFORMER.

In 8 microbatches of few activations, stages 2 and 3 save what they do not keep of gradients, but for those that are whole while ranks exchange them, two at a time, which
stage 1 has nothing like: it adds each up where it is made. Stage 2 gathers updated parameters where they lie, and may keep pieces of them through all turns; stage 3 gathers
no more than one at once.

Of P trained elements in f32 with Adam's two moments, over D data ranks, a rank keeps 4 P + 8 P bytes at stage 0, 4 P + 8 P / D at 1 and 2, and
12 P / D at 3. What a dimension does not divide by D is padded, so the model has sizes that do; each state begins at a multiple of 64 bytes.
"""
import json
import math
import pathlib
import subprocess
import sys

folder, make = pathlib.Path(sys.argv[1]), sys.argv[2]
model = folder / "model.onnx"
subprocess.run([make, model, "--family", "gpt", "--layers", "8", "--hidden", "64", "--heads", "4", "--vocabulary", "512", "--positions", "32", "--weights", "1"],
               check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
step = ["colossal-compile", model, "--training", "adamw", "--loss", "cross-entropy,logits=logits,shift=1", "--dim", "seq=16", "--global-batch", "32"]


def output(*arguments):
    return json.loads(subprocess.run([*step, *arguments, "--json", "-q"], check=True, stdout=subprocess.PIPE).stdout)


parameters = output("--print-parameters")["parameters"]
elements, states = 0, 0
for parameter in parameters:
    if parameter["trained"]:
        size = 1
        for extent in parameter["shape"]:
            size *= extent
        elements, states = elements + size, states + 3
for ranks in (2, 4):
    for stage in range(4):
        kept = output("--mesh", f"data={ranks}", "--zero", str(stage), "-o", folder / "step.cplan")["memory"]["weights"]
        want = 4 * elements / (ranks if stage == 3 else 1) + 8 * elements / (ranks if stage > 0 else 1)
        print(f"stage {stage} on {ranks} ranks: {kept} bytes, by the formula {want:.0f}")
        assert want <= kept <= want + 64 * states + 8192, (stage, ranks, kept, want)

largest = 4 * max(math.prod(parameter["shape"]) for parameter in parameters if parameter["trained"])
for ranks in (2, 4):
    activations = [output("--mesh", f"data={ranks}", "--zero", str(stage), "--microbatches", "8", "-o", folder / "step.cplan")["memory"]["activations"]
                   for stage in range(4)]
    print(f"activations on {ranks} ranks by stage: {activations}, of gradients 4 P is {4 * elements}, of the largest {largest}")
    saved = 4 * elements * (1 - 1 / ranks)
    for stage, most in ((2, 2.25), (3, 2)):
        assert activations[1] - activations[stage] >= saved - most * largest, (ranks, stage, activations)
