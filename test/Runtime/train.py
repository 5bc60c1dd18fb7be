"""colossal-run train and export from outside: logs, checkpoints on other meshes, kills, wrong use.

    train.py BIN_FOLDER SCRATCH_FOLDER [MPIEXEC]

Plans are written by write-plan: a linear model on any mesh, trained by gradient descent with momentum.
"""
import json
import math
import os
import pathlib
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time
import zipfile

BIN, SCRATCH = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
MPIEXEC = sys.argv[3] if len(sys.argv) > 3 else ""
RUN = str(BIN / "colossal-run")
failures = 0


def fail(what, output=""):
    global failures
    failures += 1
    print(f"FAIL: {what}")
    for line in output.splitlines():
        print("  |", line)


def run(*arguments, code=0, says="", prefix=(), env=None):
    done = subprocess.run([*prefix, RUN, *map(str, arguments)], cwd=SCRATCH, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, timeout=120)
    if done.returncode != code or says not in done.stdout:
        fail(f"{' '.join(map(str, arguments))}: exit code {done.returncode}, expected {code}; expected to find: {says}", done.stdout)
    return done.stdout


def npy(path, kind, shape, values):
    head = repr({"descr": kind, "fortran_order": False, "shape": tuple(shape)}).ljust(117) + "\n"
    form = {"<f4": "f", "<f8": "d", "<f2": "e", "<i8": "q", "<i4": "i", "<u2": "H"}[kind]
    (SCRATCH / path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}{form}", *values))


def log(path):
    return [json.loads(line) for line in (SCRATCH / path).read_text().splitlines()]


def losses(path):
    return [line["loss"] for line in log(path)]


def safetensors(path):
    data = (SCRATCH / path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    return {n: data[8 + length + r["data_offsets"][0] : 8 + length + r["data_offsets"][1]] for n, r in header.items() if n != "__metadata__"}


X = [((i * 7) % 11) / 10 - 0.5 for i in range(10 * 6)]
TARGET = [((i * 5) % 7) / 3 - 1 for i in range(10)]


def expected(steps, lr=0.05, momentum=0.9, decay=0.0, order=lambda n: n % 10, clip=math.inf, lr_of=None):
    """Losses by the formulas, in f64."""
    w, m, out = [1.0, 2, 3, 4, 5, 6], [0.0] * 6, []
    for step in range(steps):
        rows = [order(4 * step + i) for i in range(4)]
        errors = [sum(X[6 * r + c] * w[c] for c in range(6)) - TARGET[r] for r in rows]
        out.append(sum(e * e for e in errors) / 4)
        g = [sum(2 * e * X[6 * r + c] / 4 for e, r in zip(errors, rows)) for c in range(6)]
        norm = math.sqrt(sum(v * v for v in g))
        scale = min(1, clip / (norm + 1e-6))
        rate = lr_of(step + 1) if lr_of else lr
        for c in range(6):
            m[c] = momentum * m[c] + scale * g[c] + decay * w[c]
            w[c] -= rate * m[c]
    return out


def close(got, want, what):
    if len(got) != len(want) or any(abs(a - b) > 1e-4 * abs(b) + 1e-7 for a, b in zip(got, want)):
        fail(f"{what}: {got} instead of {want}")


DATA = ["--data", "x=x.npy", "--data", "target=target.npy", "--data", "ids=fill:1"]
SGD = ["--lr", "0.05", "--momentum", "0.9"]


def prepare():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    for a, b in ((1, 1), (2, 2), (1, 4), (4, 1)):
        subprocess.run([BIN / "write-plan", SCRATCH / f"{a}x{b}.cplan", "train", str(a), str(b)], check=True)
    npy("x.npy", "<f4", (10, 6), X)
    npy("target.npy", "<f4", (10,), TARGET)


def test_losses():
    for mesh in ("1x1", "2x2", "1x4", "4x1"):
        run("train", f"{mesh}.cplan", *DATA, "--steps", 12, *SGD, "--log", f"{mesh}.jsonl", says="step 12/12  loss ")
        close(losses(f"{mesh}.jsonl"), expected(12), f"losses on {mesh}")
    last = log("1x1.jsonl")[-1]
    if set(last) != {"step", "loss", "grad_norm", "lr", "loss_scale", "seconds", "samples", "tokens_per_second"} or last["samples"] != 48 or last["step"] != 12:
        fail(f"keys of the log: {last}")
    run("train", "1x1.cplan", *DATA, "--steps", 9, *SGD, "--weight-decay", 0.1, "--clip", 0.5, "--log", "decay.jsonl")
    close(losses("decay.jsonl"), expected(9, decay=0.1, clip=0.5), "losses with decay and clipping")
    rate = lambda t: 0.05 * t / 3 if t <= 3 else 0.05 * (1 + math.cos(math.pi * (t - 1 - 3) / 9)) / 2
    run("train", "2x2.cplan", *DATA, "--steps", 12, *SGD, "--lr-schedule", "cosine", "--warmup", 3, "--log", "cosine.jsonl")
    close(losses("cosine.jsonl"), expected(12, lr_of=rate), "losses with a schedule")
    close([line["lr"] for line in log("cosine.jsonl")], [rate(t) for t in range(1, 13)], "rates")
    # Defaults are PyTorch's.
    run("train", "1x1.cplan", *DATA, "--steps", 4, "--log", "default.jsonl")
    close(losses("default.jsonl"), expected(4, lr=1e-3, momentum=0), "losses with the defaults")


def test_data():
    # A stream of tokens, other types, an archive; a permutation for each epoch, the same on any mesh.
    (SCRATCH / "x.bin").write_bytes(struct.pack("<60f", *X) + struct.pack("<5f", *range(5)))
    run("train", "1x1.cplan", "--data", "x=x.bin:f32", "target=target.npy", "ids=fill:-100", "--steps", 5, *SGD, "--log", "stream.jsonl")
    close(losses("stream.jsonl"), expected(5), "losses from a stream")
    # Halves, whose values are those of f32 that they stand for.
    halves = struct.unpack("<10e", struct.pack("<10e", *TARGET))
    for kind in ("<f2", "<f4"):
        npy("goals.npy", kind, (10,), halves)
        run("train", "1x1.cplan", *DATA[:2], "--data", "target=goals.npy", *DATA[4:], "--steps", 5, *SGD, "--log", f"goals{kind[1:]}.jsonl")
    if losses("goalsf2.jsonl") != losses("goalsf4.jsonl"):
        fail("data in f16 has other losses than the same numbers in f32")
    # Archives, mapped where they are stored, and read where they are deflated.
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(SCRATCH / "all.npz", "w", method) as archive:
            for name in ("x", "target"):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    entry.write((SCRATCH / f"{name}.npy").read_bytes())
        run("train", "2x2.cplan", "--data", "all.npz", "ids=fill:1", "--steps", 5, *SGD, "--log", "archive.jsonl")
        close(losses("archive.jsonl"), expected(5), "losses from an archive")
        run("train", "2x2.cplan", "--data", "x=all.npz", "target=target.npy", "ids=all.npz", "--steps", 5, code=2, says="none has the name 'ids'")
    (SCRATCH / "cut.npz").write_bytes((SCRATCH / "all.npz").read_bytes()[:-30])
    run("train", "2x2.cplan", "--data", "cut.npz", "ids=fill:1", "--steps", 5, code=2, says="cut.npz is not a readable .npz file")
    npy("ids.npy", "<i4", (10,), [0, 9, -100, 1, 2, 3, 4, 5, 6, 7])
    for mesh in ("1x1", "2x2"):
        run("train", f"{mesh}.cplan", *DATA[:4], "--data", "ids=ids.npy", "--steps", 5, "--shuffle", 7, *SGD, "--log", f"shuffled{mesh}.jsonl")
    if losses("shuffled1x1.jsonl") == losses("stream.jsonl"):
        fail("--shuffle changes nothing")
    close(losses("shuffled2x2.jsonl"), losses("shuffled1x1.jsonl"), "shuffled on another mesh")
    close(losses("shuffled1x1.jsonl"), expected(5, order=lambda n: permute(n % 10, 10, 7, n // 10)), "the documented permutation")


def permute(index, count, seed, epoch):
    """As docs/Training.md has it."""
    mask64 = (1 << 64) - 1

    def mix(x):
        x = (x + 0x9E3779B97F4A7C15) & mask64
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask64
        return x ^ (x >> 31)

    bits = 0
    while 4**bits < count:
        bits += 1
    base = mix((mix(seed) + epoch) & mask64)
    while True:
        left, right = index >> bits, index & ((1 << bits) - 1)
        for r in range(8):
            left, right = right, left ^ (mix((right + mix((base + r) & mask64)) & mask64) & ((1 << bits) - 1))
        index = left << bits | right
        if index < count:
            return index


def test_wrong_use():
    npy("short.npy", "<f4", (3, 6), X[:18])
    npy("wide.npy", "<f4", (10, 5), X[:50])
    npy("doubles.npy", "<f8", (10, 6), X)
    npy("large.npy", "<i8", (10,), [0, 1, 2, 3, 4, 12, 5, 6, 7, 8])
    npy("nan.npy", "<f4", (10,), TARGET[:5] + [math.nan] + TARGET[6:])
    steps = ["--steps", 3]
    run("train", "1x1.cplan", *DATA[:4], *steps, code=2, says="input 'ids' (i64[samples]) has no data")
    if "colossal.step_values" in run("train", "1x1.cplan", *DATA[:4], *steps, code=2, says="Program 'step' takes\n  "):
        fail("step values are listed among what a user gives")
    run("train", "1x1.cplan", *DATA, *steps, "--evaluate-data", "x=wide.npy", "target=target.npy", code=2, says="colossal-run: --evaluate-data: input 'x' must have shape")
    run("train", "1x1.cplan", *DATA, *steps, "--evaluate-data", "x=absent.npy", code=3, says="colossal-run: --evaluate-data x=absent.npy: ")
    run("train", "1x1.cplan", *DATA, "--data", "y=x.npy", *steps, code=2, says="there is no input 'y'")
    run("train", "1x1.cplan", "--data", "x=short.npy", *DATA[2:], *steps, code=2, says="short.npy has 3 samples, fewer than the 4 of a step")
    run("train", "1x1.cplan", "--data", "x=wide.npy", *DATA[2:], *steps, code=2, says="input 'x' must have shape [samples,6], and wide.npy has [10,5]")
    run("train", "1x1.cplan", "--data", "x=doubles.npy", *DATA[2:], *steps, code=2, says="input 'x' must have type f32, and doubles.npy has f64")
    run("train", "2x2.cplan", *DATA[:4], "--data", "ids=large.npy", *steps, code=2, says="step 2: input 'ids', sample 5 of large.npy: '/lookup' takes indices from 0 to 9, and one is 12")
    run("train", "1x1.cplan", *DATA[:2], "--data", "target=nan.npy", *DATA[4:], *steps, code=0, says="warning: the loss is not a number (NaN) in step 2")
    run("train", "1x1.cplan", *DATA[:2], "--data", "target=nan.npy", *DATA[4:], *steps, "--stop-on-nan", "--log", "nan.jsonl", code=8, says="the loss is not a number (NaN) in step 2")
    if len(log("nan.jsonl")) != 2:
        fail("--stop-on-nan does not end at the step")
    run("train", "1x1.cplan", *DATA, code=2, says="--steps is required")
    run("train", code=2, says="PLAN is required")
    run("train", "1x1.cplan", *DATA, *steps, "--every", 2, code=2, says="need --checkpoint")
    run("train", "1x1.cplan", *DATA, *steps, "--resume", "absent", code=3, says="absent")
    run("train", "1x1.cplan", *DATA, *steps, "--log", "x.npy", code=2, says="cannot write x.npy")
    run("train", "1x1.cplan", *DATA, *steps, "--log", "/dev/full", code=3, says="step 1: cannot write /dev/full: No space left")
    run("train", "1x1.cplan", *DATA, *steps, "--trust", "1", says="warning: --trust has no effect: neither 'sgd'")
    run("train", "1x1.cplan", *DATA, *steps, "--power", "2", "--lr-schedule", "linear", says="warning: --power has no effect")
    run("train", "1x1.cplan", *DATA, *steps, "--lr", "-1", code=2, says="--lr is -1")
    for option, value in ("--shuffle", "-1"), ("--seed", "99999999999999999999"), ("--warmup", "1.5"), ("--milestones", "2,-3"), ("--random-weights", "-1"):
        run("train", "1x1.cplan", *DATA, *steps, option, value, code=2, says=f"'{value.split(',')[-1]}' is not a whole number from 0 to 2^64 - 1")
    run("train", "1x1.cplan", *DATA, *steps, "--seed", str(2**64 - 1), "--shuffle", str(2**64 - 1))
    run("train", "1x1.cplan", *DATA, *steps, "--lr-schedule", "square", code=2, says="--lr-schedule")
    subprocess.run([BIN / "write-plan", SCRATCH / "plain.cplan", "plain"], check=True)
    run("train", "plain.cplan", *DATA, *steps, code=2, says="was compiled without --training")
    run("1x1.cplan", "--print-inputs", says="program 'evaluate' takes")
    run("train", "--help", says="--lr-schedule")
    run("--help", says="train")


def test_resume():
    # In one go, and in two: the same bits on the same plan, and the same numbers on another mesh.
    run("train", "2x2.cplan", *DATA, "--steps", 8, "--shuffle", 3, *SGD, "--lr-schedule", "linear", "--log", "whole.jsonl", "--checkpoint", "whole")
    run("train", "2x2.cplan", *DATA, "--steps", 5, "--schedule-steps", 8, "--shuffle", 3, *SGD, "--lr-schedule", "linear", "--log", "parts.jsonl", "--checkpoint", "parts")
    shutil.copytree(SCRATCH / "parts", SCRATCH / "parts5")
    shutil.copy(SCRATCH / "parts.jsonl", SCRATCH / "other.jsonl")
    run("train", "2x2.cplan", *DATA, "--steps", 8, "--log", "parts.jsonl", "--resume", "parts", "--checkpoint", "parts", says="going on after step 5")
    if losses("parts.jsonl") != losses("whole.jsonl") or [l["samples"] for l in log("parts.jsonl")] != [4 * s for s in range(1, 9)]:
        fail(f"a resumed run differs: {losses('parts.jsonl')} and {losses('whole.jsonl')}")
    for folder in ("whole", "parts"):
        run("export", folder, "--safetensors", f"{folder}.safetensors", says="1 tensors of step 8")
    if safetensors("whole.safetensors") != safetensors("parts.safetensors"):
        fail("the parameters of a resumed run differ")
    for mesh in ("1x1", "1x4", "4x1"):
        # What is loaded and saved again on any mesh is the same, bit for bit.
        run("train", f"{mesh}.cplan", *DATA, "--steps", 6, "--lr", 0, "--momentum", 1, "--resume", "parts5", "--checkpoint", f"copy{mesh}")
        run("export", "parts5", "--safetensors", "before.safetensors")
        shutil.copy(SCRATCH / "other.jsonl", SCRATCH / f"other{mesh}.jsonl")
        run("train", f"{mesh}.cplan", *DATA, "--steps", 8, "--log", f"other{mesh}.jsonl", "--resume", "parts5", says="going on after step 5")
        close(losses(f"other{mesh}.jsonl"), losses("whole.jsonl"), f"resumed on {mesh}")
        run("export", f"copy{mesh}", "--safetensors", "after.safetensors")
        if safetensors("before.safetensors") != safetensors("after.safetensors"):
            fail(f"loading on {mesh} changes parameters")
    run("train", "2x2.cplan", *DATA, "--steps", 8, "--resume", "parts", code=2, says="nothing to do up to --steps 8")
    # Without --checkpoint nothing is saved, but where --every asks for it.
    shutil.copytree(SCRATCH / "parts5", SCRATCH / "onward")
    run("train", "2x2.cplan", *DATA, "--steps", 6, "--resume", "onward")
    run("train", "2x2.cplan", *DATA, "--steps", 8, "--resume", "onward/step-00000005/", "--every", 2, says="saved in onward")
    if sorted(os.listdir(SCRATCH / "onward")) != ["step-00000005", "step-00000006", "step-00000008"]:
        fail(f"--resume with --every leaves {sorted(os.listdir(SCRATCH / 'onward'))}")
    run("train", "2x2.cplan", *DATA, "--steps", 8, "--every", 2, code=2, says="need --checkpoint")
    # --keep
    run("train", "4x1.cplan", *DATA, "--steps", 7, "--checkpoint", "kept", "--every", 2, "--keep", 2)
    if sorted(os.listdir(SCRATCH / "kept")) != ["step-00000006", "step-00000007"]:
        fail(f"--keep leaves {sorted(os.listdir(SCRATCH / 'kept'))}")
    check_new_run_in_old_folder()
    # Damage, and another model.
    shutil.copytree(SCRATCH / "kept", SCRATCH / "damaged")
    part = next((SCRATCH / "damaged/step-00000007").glob("rank-*"))
    data = bytearray(part.read_bytes())
    data[-1] ^= 1
    part.write_bytes(data)
    before = "damaged/step-00000006, before it, is whole: --resume damaged/step-00000006 goes on from there"
    run("train", "1x1.cplan", *DATA, "--steps", 9, "--resume", "damaged", code=3, says=before)
    part.write_bytes(data[:50])
    run("train", "1x1.cplan", *DATA, "--steps", 9, "--resume", "damaged", code=3, says=f"{part.name} is damaged, or not there")
    part.unlink()
    run("train", "1x1.cplan", *DATA, "--steps", 9, "--resume", "damaged/step-00000007/", code=3, says=before)
    manifest = SCRATCH / "damaged/step-00000007/manifest.json"
    whole = manifest.read_text()
    for text, says in (whole[:90], "manifest.json is damaged: it is no JSON"), (whole.replace('"step":', '"stop":'), "manifest.json is damaged: key 'step' not found"):
        manifest.write_text(text)
        if "exception" in run("train", "1x1.cplan", *DATA, "--steps", 9, "--resume", "damaged", code=3, says=says):
            fail("a library's words in a message")
    shutil.rmtree(SCRATCH / "damaged/step-00000007")
    shutil.copytree(SCRATCH / "kept/step-00000007", SCRATCH / "damaged/step-00000007")
    part.write_bytes(data)
    run("train", "1x1.cplan", *DATA, "--steps", 9, "--resume", "damaged", code=3, says="is damaged")
    run("train", "1x1.cplan", *DATA, "--steps", 9, "--resume", "damaged/step-00000006", says="going on after step 6")
    manifest = SCRATCH / "kept/step-00000007/manifest.json"
    manifest.write_text(manifest.read_text().replace('"w"', '"v"').replace('"sgd"', '"adamw"').replace("tensor\": \"v", "tensor\": \"w"))
    run("train", "1x1.cplan", *DATA, "--steps", 9, "--resume", "kept", code=2, says="is of another model or optimizer than the plan: it is of training by adamw, and the plan trains by sgd; it lacks 'w'; it has 'v'")


def check_new_run_in_old_folder():
    """Its checkpoints become the newest, and none is lost before it has one."""
    run("train", "1x1.cplan", *DATA, "--steps", 6, "--checkpoint", "again", "--every", 2)
    run("train", "1x1.cplan", *DATA[:4], "--data", "ids=large.npy", "--steps", 3, "--checkpoint", "again", code=2, says="warning: again holds step 6 of an earlier run, and this run begins with step 1")
    if sorted(os.listdir(SCRATCH / "again")) != ["step-00000002", "step-00000004", "step-00000006"]:
        fail(f"a run that saved nothing leaves {sorted(os.listdir(SCRATCH / 'again'))}")
    run("train", "1x1.cplan", *DATA, "--steps", 5, "--checkpoint", "again", "--resume", "again/step-00000004", "--keep", 2, says="warning: again holds step 6")
    run("train", "1x1.cplan", *DATA, "--steps", 3, "--checkpoint", "again", "--keep", 1, says="warning: again holds step 5")
    if os.listdir(SCRATCH / "again") != ["step-00000003"]:
        fail(f"a new run with --keep 1 leaves {os.listdir(SCRATCH / 'again')}")
    if "warning" in run("train", "1x1.cplan", *DATA, "--steps", 4, "--checkpoint", "again", "--resume", "again", says="going on after step 3"):
        fail("a warning of what is gone on from")


def test_evaluation():
    run("train", "2x2.cplan", *DATA, "--steps", 5, *SGD, "--evaluate-every", 2, "--evaluate-data", "x=x.npy", "target=target.npy", "--log", "evaluated.jsonl", says="evaluation loss")
    lines = log("evaluated.jsonl")
    if [("evaluation_loss" in line) for line in lines] != [False, True, False, True, True]:
        fail(f"evaluated at {lines}")
    close(losses("evaluated.jsonl"), expected(5), "losses beside evaluation")
    # What is evaluated after a step is what the next one begins with.
    npy("four.npy", "<f4", (4, 6), X[:24])
    npy("goals.npy", "<f4", (4,), TARGET[:4])
    run("train", "2x2.cplan", "--data", "x=four.npy", "target=goals.npy", "ids=fill:0", "--steps", 3, *SGD, "--evaluate-every", 1, "--evaluate-data", "x=four.npy", "target=goals.npy", "--log", "same.jsonl")
    close([line["evaluation_loss"] for line in log("same.jsonl")][:2], losses("same.jsonl")[1:], "evaluation and the step after it")


def records(path):
    data, out = path.read_bytes(), []
    while data:
        length = struct.unpack("<Q", data[:8])[0]
        out.append(data[12 : 12 + length])
        data = data[16 + length :]
    return out


def test_reports():
    run("train", "2x2.cplan", *DATA, "--steps", 3, *SGD, "--tensorboard", "events", "--trace", "trace.json", "--memory", says="3 steps, median")
    files = list((SCRATCH / "events").iterdir())
    found = records(files[0])
    if len(files) != 1 or len(found) != 4 or b"brain.Event:2" not in found[0] or b"grad_norm" not in found[1]:
        fail(f"events: {files} {found}")
    if "/train" not in (SCRATCH / "trace.json").read_text():
        fail("--trace names no step")


def test_full_log():
    """The run ends, and what it did is saved where there is room."""
    full = ["--log", "/dev/full"]
    output = run("train", "2x2.cplan", *DATA, "--steps", 5, *SGD, *full, "--checkpoint", "unlogged", code=3, says="ended after step 1, as its log cannot be written; saved. Go on with")
    if shlex.split(output.split("Go on with\n")[-1])[-2:] != ["--resume", "unlogged"]:
        fail("how to go on after a full log", output)
    run("train", "2x2.cplan", *DATA, "--steps", 5, "--resume", "unlogged", *full, code=3, says="ended after step 2, as its log cannot be written; saved.")
    run("train", "2x2.cplan", *DATA, "--steps", 3, "--resume", "unlogged", *full, code=3, says="ended after step 3, as its log cannot be written, the last; saved")
    run("train", "2x2.cplan", *DATA, "--steps", 5, *full, code=3, says="nothing is saved, as there was no --checkpoint")


def test_weights():
    run("export", "whole", "--safetensors", "whole.safetensors")
    run("train", "1x1.cplan", *DATA, "--steps", 1, "--weights", "whole.safetensors", "--log", "weights.jsonl")
    run("train", "1x1.cplan", *DATA, "--steps", 9, "--resume", "whole", "--log", "after.jsonl")
    if abs(losses("weights.jsonl")[0] - expected(1)[0]) < 1e-6:
        fail("--weights FILE.safetensors is not read")
    for option in ("--weights", "whole.safetensors"), ("--random-weights", 1):
        run("train", "1x1.cplan", *DATA, "--steps", 9, "--resume", "whole", *option, says=f"warning: {option[0]} has no effect on what is trained")
    (SCRATCH / "bad.safetensors").write_bytes(b"\xff" * 16)
    run("train", "1x1.cplan", *DATA, "--steps", 1, "--weights", "bad.safetensors", code=2, says="not a readable .safetensors file")
    run("export", "absent", "--safetensors", "new.safetensors", code=3, says="absent")
    run("export", "whole", code=2, says="export needs --onnx FILE or --safetensors FILE")
    run("export", "whole", "--onnx", "new.onnx", code=3, says="--model says where it is")


def varint(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number, value):
    """A field of a Protocol Buffer: bytes, text or a number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    """All (number, value) of a message."""
    at, out = 0, []

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = number()
        value = number()
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        out.append((tag >> 3, value))
    return out


def tensor(name, shape, *data, type=1):
    """An onnx.TensorProto."""
    return b"".join(field(1, extent) for extent in shape) + field(2, type) + field(8, name) + b"".join(data)


def outside(location, offset, length):
    pairs = {"location": location, "offset": str(offset), "length": str(length)}
    return b"".join(field(13, field(1, key) + field(2, value)) for key, value in pairs.items()) + field(14, 1)


def test_onnx():
    run("export", "whole", "--safetensors", "whole.safetensors")
    want = safetensors("whole.safetensors")["w"]
    doubles = struct.pack("<6d", *struct.unpack("<6f", want))
    ones, graph = struct.pack("<6f", *[1] * 6), {}
    (SCRATCH / "models").mkdir(exist_ok=True)
    (SCRATCH / "models/weights").write_bytes(b"#" * 10 + b"0123456789" + ones)
    graph["inline"] = field(5, tensor("other", [2], field(9, b"abcdefgh"))) + field(5, tensor("w", [6], field(9, ones)))
    graph["floats"] = field(5, tensor("w", [6], field(4, ones)))
    graph["doubles"] = field(5, tensor("w", [6], field(9, bytes(48)), type=11))
    constant = field(2, "w") + field(4, "Constant") + field(5, field(1, "value") + field(5, tensor("", [6], field(9, ones))))
    graph["constant"] = field(1, constant)
    subgraph = field(1, field(4, "If") + field(5, field(6, field(5, tensor("w", [6], field(9, ones))))))
    graph["outside"] = field(5, tensor("e", [10], outside("weights", 10, 10), type=2)) + field(5, tensor("w", [6], outside("weights", 20, 24))) + subgraph
    for name, text in graph.items():
        (SCRATCH / f"models/{name}.onnx").write_bytes(field(1, 9) + field(2, "someone") + field(7, text + field(2, "graph")) + field(99, "kept"))
        run("export", "whole", "--model", f"models/{name}.onnx", "--onnx", f"{name}.onnx")
        top = fields((SCRATCH / f"{name}.onnx").read_bytes())
        if top[:2] != [(1, 9), (2, b"someone")] or top[3:] != [(99, b"kept")]:
            fail(f"{name}: the rest of the model is changed: {top}")
        inner = fields(top[2][1])
        tensors = {dict(fields(value))[8].decode(): fields(value) for number, value in inner if number == 5}
        if name == "constant":
            found = [value for number, value in fields(fields(inner[0][1])[2][1]) if number == 5]
            tensors["w"] = fields(found[0])
        data = dict(tensors["w"])
        if name == "outside":
            entries = {key: {dict(fields(v))[1]: dict(fields(v))[2] for n, v in value if n == 13} for key, value in tensors.items()}
            file = (SCRATCH / "outside.onnx.data").read_bytes()
            parts = {key: file[int(e[b"offset"]) : int(e[b"offset"]) + int(e[b"length"])] for key, e in entries.items()}
            if parts != {"e": b"0123456789", "w": want} or any(e[b"location"] != b"outside.onnx.data" for e in entries.values()) or 9 in data:
                fail(f"external data is {entries} {parts}")
            if field(9, ones) not in inner[2][1]:
                fail("a tensor of a subgraph has changed")
        elif data.get(9) != (doubles if name == "doubles" else want) or 4 in data:
            fail(f"{name}: w is {data}")
    (SCRATCH / "models/else.onnx").write_bytes(field(7, field(5, tensor("v", [6], field(9, ones)))))
    run("export", "whole", "--model", "models/else.onnx", "--onnx", "new.onnx", code=3, says="has no tensor 'w': it is another model")
    (SCRATCH / "models/shape.onnx").write_bytes(field(7, field(5, tensor("w", [3], field(9, ones)))))
    run("export", "whole", "--model", "models/shape.onnx", "--onnx", "new.onnx", code=2, says="tensor 'w' is f32[3] there, and f32[6] in the checkpoint")
    (SCRATCH / "models/cut.onnx").write_bytes((SCRATCH / "models/inline.onnx").read_bytes()[:-20])
    run("export", "whole", "--model", "models/cut.onnx", "--onnx", "new.onnx", code=2, says="no ONNX model, or damaged")
    check_export_keeps_inputs(field(5, tensor("w", [6], outside("new.onnx.data", 20, 24))))


def check_export_keeps_inputs(graph):
    """Nothing that is read is written over, by whatever name, and no output by another."""
    (SCRATCH / "models/whole.onnx").write_bytes(field(7, graph))
    shutil.copy(SCRATCH / "models/weights", SCRATCH / "models/new.onnx.data")
    (SCRATCH / "models/link.onnx").symlink_to("whole.onnx")
    model, step = ["--model", "models/whole.onnx"], "whole/step-00000008"
    before = {path: path.read_bytes() for folder in ("models", step) for path in (SCRATCH / folder).iterdir()}
    for arguments, lost in (
        (["--onnx", "models/whole.onnx"], "models/whole.onnx: it is read here"),
        (["--onnx", "models/new.onnx"], "models/new.onnx.data: it is read here"),
        (["--safetensors", "models/whole.onnx"], "models/whole.onnx: it is read here"),
        (["--safetensors", "models/link.onnx"], "models/link.onnx: it is the file models/whole.onnx"),
        (["--safetensors", "models/new.onnx.data"], "models/new.onnx.data: it is read here"),
        (["--safetensors", f"{step}/rank-00000.safetensors"], "rank-00000.safetensors: it is read here"),
        (["--onnx", f"{step}/manifest.json"], "manifest.json: it is read here"),
        (["--safetensors", "one.out", "--onnx", "./one.out"], "cannot write both one.out and ./one.out, which are one file"),
        (["--safetensors", "one.out.data", "--onnx", "one.out"], "cannot write both one.out.data and one.out.data, which are one file"),
    ):
        run("export", "whole", *model, *arguments, code=2, says=lost)
    if any(path.read_bytes() != bytes for path, bytes in before.items()) or list(SCRATCH.glob("one.out*")):
        fail("a refused export has written")


def test_signals():
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        folder = f"signal's {code}"  # which a shell reads back only in quotes
        process = subprocess.Popen([RUN, "train", "2x2.cplan", *DATA, "--steps", "100000000", *SGD, "--checkpoint", folder], cwd=SCRATCH, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        process.stdout.readline()
        process.send_signal(number)
        output = process.communicate(timeout=60)[0]
        if process.returncode != code or shlex.split(output.split("Go on with\n")[-1])[-2:] != ["--resume", folder]:
            fail(f"{number}: exit code {process.returncode}", output[-2000:])
        step = max(int(name[5:]) for name in os.listdir(SCRATCH / folder))
        run("train", "2x2.cplan", *DATA, "--steps", step + 1, "--resume", folder, says=f"step {step + 1}/")
        # A run that was resumed saves what it has done, also without --checkpoint.
        first = f"{folder}/step-{step:08}"
        process = subprocess.Popen([RUN, "train", "2x2.cplan", *DATA, "--steps", "100000000", *SGD, f"--resume={first}"], cwd=SCRATCH, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        process.stdout.readline()
        process.stdout.readline()
        process.send_signal(number)
        output = process.communicate(timeout=60)[0]
        last = max(int(name[5:]) for name in os.listdir(SCRATCH / folder))
        if process.returncode != code or last <= step or shlex.split(output.split("Go on with\n")[-1])[-1] != f"--resume={folder}":
            fail(f"{number} after --resume: exit code {process.returncode}, step {last}", output[-2000:])
    check_unasked_save(folder, last)
    check_cut_data()


def check_cut_data():
    """A file that becomes shorter while it is read."""
    npy("cut.npy", "<f4", (4096, 6), [0.5] * 6 * 4096)
    npy("goals.npy", "<f4", (4096,), [1.0] * 4096)
    process = subprocess.Popen([RUN, "train", "1x1.cplan", "--data", "x=cut.npy", "target=goals.npy", "ids=fill:1", "--steps", "100000000"], cwd=SCRATCH, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    os.truncate(SCRATCH / "cut.npy", 200)
    output = process.communicate(timeout=60)[1]
    if process.returncode != -signal.SIGBUS or "crashed: a file that it reads, of data" not in output:
        fail(f"data that is cut: exit code {process.returncode}", output[-2000:])


def check_unasked_save(folder, step):
    """A run that is not told to save leaves later checkpoints of another, and names its own."""
    os.rename(SCRATCH / f"{folder}/step-{step:08}", SCRATCH / f"{folder}/step-99999999")
    process = subprocess.Popen([RUN, "train", "2x2.cplan", *DATA, "--steps", "100000000", *SGD, "--resume", f"{folder}/step-99999999"], cwd=SCRATCH, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    process.stdout.readline()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    saved = shlex.split(output.split("Go on with\n")[-1])[-1]
    if not os.path.isdir(SCRATCH / f"{folder}/step-99999999") or saved.endswith("step-99999999") or not os.path.isdir(SCRATCH / saved):
        fail(f"saved unasked in {saved} of {os.listdir(SCRATCH / folder)}", output[-2000:])


def test_kills():
    """At any system call: what is called step-N is whole, and the run goes on from there to the same end."""
    run("train", "2x2.cplan", *DATA, "--steps", 6, *SGD, "--log", "uncut.jsonl")
    want = losses("uncut.jsonl")
    at, kept = 1, 0
    while True:
        shutil.rmtree(SCRATCH / "killed", ignore_errors=True)
        (SCRATCH / "killed.jsonl").unlink(missing_ok=True)
        arguments = ["train", "2x2.cplan", *DATA, "--steps", "6", *SGD, "--checkpoint", "killed", "--every", "2", "--keep", "1", "--log", "killed.jsonl"]
        done = subprocess.run([BIN / "kill-at-call", str(at), RUN, *arguments], cwd=SCRATCH, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120)
        if done.returncode == 98:
            print("system calls cannot be traced here; left out")
            return
        if done.returncode == 0:
            break
        if done.returncode != 99:
            fail(f"killed at call {at}: exit code {done.returncode}", done.stderr)
            break
        whole = [name for name in os.listdir(SCRATCH / "killed") if name.startswith("step-")] if (SCRATCH / "killed").exists() else []
        if whole:
            kept += 1
            run("train", "2x2.cplan", *DATA, "--steps", 7, "--resume", "killed", "--checkpoint", "killed", "--log", "killed.jsonl", says="going on after step")
            if losses("killed.jsonl")[:6] != want:
                fail(f"killed at call {at}: losses {losses('killed.jsonl')} instead of {want}")
            left = [name for name in os.listdir(SCRATCH / "killed") if name.startswith(".")]
            if left:
                fail(f"killed at call {at}: {left} are left behind")
        elif any(line for line in (log("killed.jsonl") if (SCRATCH / "killed.jsonl").exists() else []) if line["step"] > 4):
            fail(f"killed at call {at}: no checkpoint after step 4")
        at += 1
    print(f"killed at each of {at - 1} calls; a checkpoint was there after {kept}")
    if kept < 20:
        fail("too few kills came after a checkpoint")


def test_full_disk():
    """From any call on: the run says so, and what was saved before is whole."""
    at, failed = 1, 0
    while True:
        shutil.rmtree(SCRATCH / "full", ignore_errors=True)
        done = subprocess.run([BIN / "kill-at-call", f"full:{at}", RUN, "train", "1x1.cplan", *DATA, "--steps", "4", "--checkpoint", "full", "--every", "2", "--keep", "1", "--log", "full.jsonl"],
                              cwd=SCRATCH, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        if done.returncode == 98:
            print("system calls cannot be traced here; left out")
            return
        whole = [name for name in os.listdir(SCRATCH / "full") if name.startswith("step-")] if (SCRATCH / "full").exists() else []
        if done.returncode == 0:
            break
        failed += "the checkpoint of step" in done.stdout
        if done.returncode not in (3, 6) or "No space left on device" not in done.stdout:
            fail(f"a disk that is full from call {at} on: exit code {done.returncode}", done.stdout)
        if "step 3/4" in done.stdout and "the checkpoint of step 4" in done.stdout and not whole:
            fail(f"a disk that is full from call {at} on leaves nothing", done.stdout)
        if whole:
            run("train", "1x1.cplan", *DATA, "--steps", 5, "--resume", "full", says="going on after step")
        at += 1
    print(f"full at each of {at - 1} calls; {failed} checkpoints failed")
    if failed < 5 or whole != ["step-00000004"]:
        fail(f"a disk that is full late leaves {whole}")


def test_mpi():
    if not MPIEXEC:
        return
    prefix = [MPIEXEC, "--oversubscribe", "-n", "4"]
    env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    run("train", "2x2.cplan", *DATA, "--steps", 8, "--shuffle", 3, *SGD, "--lr-schedule", "linear", "--comm", "mpi", "--log", "mpi.jsonl", "--checkpoint", "mpi", "--every", 3, prefix=prefix, env=env)
    close(losses("mpi.jsonl"), losses("whole.jsonl"), "losses over MPI")
    if sorted(os.listdir(SCRATCH / "mpi")) != ["step-00000003", "step-00000006", "step-00000008"]:
        fail(f"checkpoints over MPI: {sorted(os.listdir(SCRATCH / 'mpi'))}")
    if any(name.name.endswith(".json") and name.name != "manifest.json" for name in (SCRATCH / "mpi/step-00000008").iterdir()):
        fail("what processes told each other is left behind")
    run("train", "1x1.cplan", *DATA, "--steps", 8, "--resume", "mpi/step-00000006", "--log", "from-mpi.jsonl")
    close(losses("from-mpi.jsonl"), losses("whole.jsonl")[6:], "resumed from a checkpoint of MPI")
    run("train", "2x2.cplan", *DATA, "--steps", 8, "--resume", "mpi/step-00000003", "--comm", "mpi", prefix=prefix, env=env, says="going on after step 3")
    run("train", "2x2.cplan", *DATA[:4], "--data", "ids=large.npy", "--steps", 8, "--comm", "mpi", prefix=prefix, env=env, code=2, says="sample 5 of large.npy")
    # What was finished before a step that fails is saved, whichever process it fails in.
    npy("late.npy", "<i8", (10,), [1] * 9 + [12])
    npy("soon.npy", "<i8", (10,), [1] * 8 + [12, 1])
    for labels in ("late", "soon"):
        run("train", "2x2.cplan", *DATA[:4], "--data", f"ids={labels}.npy", "--steps", 8, "--comm", "mpi", "--checkpoint", labels, "--every", 1, prefix=prefix, env=env, code=2, says="step 3: ")
        if sorted(os.listdir(SCRATCH / labels)) != ["step-00000001", "step-00000002"]:
            fail(f"a failed step over MPI leaves {sorted(os.listdir(SCRATCH / labels))}")
    run("train", "2x2.cplan", *DATA, "--steps", 8, "--comm", "mpi", "--log", "/dev/full", "--checkpoint", "unlogged-mpi", prefix=prefix, env=env, code=3, says="ended after step 2, as its log cannot be written; saved.")
    # A process that dies ends all, and the checkpoint is whole.
    process = subprocess.Popen([*prefix, RUN, "train", "2x2.cplan", *DATA, "--steps", "100000000", "--comm", "mpi", "--checkpoint", "dying", "--every", "5", "--keep", "2", "--timeout", "5"],
                               cwd=SCRATCH, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, env={**os.environ, **env})
    deadline = time.time() + 60
    while time.time() < deadline and not any(name.startswith("step-") for name in (os.listdir(SCRATCH / "dying") if (SCRATCH / "dying").exists() else [])):
        time.sleep(0.1)
    ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    os.kill(int(ranks[-1]), signal.SIGKILL)
    process.wait(timeout=60)
    if process.returncode == 0:
        fail("a killed process does not end the run")
    last = max(int(name[5:]) for name in os.listdir(SCRATCH / "dying") if name.startswith("step-"))
    run("train", "4x1.cplan", *DATA, "--steps", last + 1, "--resume", "dying", says=f"going on after step {last}")


def main():
    prepare()
    for test in (test_losses, test_data, test_wrong_use, test_resume, test_evaluation, test_reports, test_full_log, test_weights, test_onnx, test_signals, test_full_disk, test_kills, test_mpi):
        begin = time.time()
        try:
            test()
        except Exception as error:  # the others are worth their answers
            fail(f"{test.__name__}: {error!r}")
        print(f"{test.__name__}: {time.time() - begin:.1f} s", flush=True)
    print("all as expected" if failures == 0 else f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
