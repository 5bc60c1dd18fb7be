#!/usr/bin/env python3
"""Plans for GPUs in several processes over NCCL, all of them stand-ins: that they run, what is said where they cannot, and that all
processes end when one is killed, stopped or late, or when any function of NCCL fails in one.

    nccl_faults.py --build BUILD SCRATCH
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Whose failure changes nothing that is computed: what is given back at the end, and words.
CLEANING = {"ncclCommDestroy", "ncclCommFinalize", "ncclCommAbort", "ncclGetErrorString", "ncclGetLastError"}
# Of which these plans have none.
UNUSED = {"ncclReduceScatter", "ncclBroadcast"}
SYSTEM_ERROR = 2
bad = []


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Ranks:
    """Processes that are told their places as torchrun does; all are ended with it."""

    def __init__(self, arguments, count, command, late=None, **more):
        port = str(free_port())
        self.processes = []
        for rank in range(count):
            own = dict(os.environ, LD_LIBRARY_PATH=str(arguments.libraries), RANK=str(rank), WORLD_SIZE=str(count), LOCAL_RANK=str(rank),
                       LOCAL_WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=port, COLOSSAL_EMULATED_GPU_SEED=str(rank))
            for name, value in more.items():
                own[name] = value(rank) if callable(value) else value
            if rank == late:
                time.sleep(2)
            given = [str(part(rank)) if callable(part) else str(part) for part in command]
            self.processes.append(subprocess.Popen([str(arguments.build / "bin" / "colossal-run"), *given], env=own, text=True,
                                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()

    def wait_until_running(self):
        """Until each is connected with rank 0 and, by NCCL, with others, and a little longer."""
        def sockets(process):
            folder = pathlib.Path(f"/proc/{process.pid}/fd")
            try:
                return sum(os.readlink(file).startswith("socket:") for file in folder.iterdir())
            except OSError:
                return 0
        limit = time.monotonic() + 60
        while time.monotonic() < limit and any(sockets(process) < 3 for process in self.processes):
            time.sleep(0.05)
        time.sleep(1)

    def end(self, seconds, without=()):
        """(exit code, what was printed) of each; the code is None where one did not end in time."""
        results, limit = [], time.monotonic() + seconds
        for rank, process in enumerate(self.processes):
            if rank in without:
                results.append((None, ""))
                continue
            try:
                out, err = process.communicate(timeout=max(0.1, limit - time.monotonic()))
                results.append((process.returncode, out + err))
            except subprocess.TimeoutExpired:
                results.append((None, ""))
        return results


def expect(what, results, codes, text="", without=()):
    for rank, (code, said) in enumerate(results):
        if rank in without:
            continue
        if code is None:
            bad.append(f"{what}: rank {rank} does not end")
        elif code not in codes:
            bad.append(f"{what}: rank {rank}: exit {code}, expected one of {sorted(codes)}: {said[-400:]}")
    if text and not any(re.search(text, said) for _, said in results):
        bad.append(f"{what}: nobody says '{text}': {[said[-200:] for _, said in results]}")


def write_plan(arguments, name, *what):
    path = arguments.scratch / f"{name}.cplan"
    subprocess.run([str(arguments.build / "bin" / "write-plan"), str(path), *what], check=True,
                   env=dict(os.environ, COLOSSAL_TEST_DEVICE="cuda"))
    return path


def check_runs(arguments, ranks, plans):
    for plan in plans:
        outputs, alone = arguments.scratch / "outputs.npz", arguments.scratch / "alone.npz"
        for ordered in ([], ["--ordered"]):
            with Ranks(arguments, 4, [plan, "--random-inputs", "1", "--output", outputs, *ordered]) as run:
                expect(f"{plan.name} {ordered}", run.end(60), {0})
            subprocess.run([str(arguments.build / "bin" / "colossal-run"), str(plan), "--comm", "local", "--random-inputs", "1", "--output", str(alone)],
                           env=dict(os.environ, LD_LIBRARY_PATH=str(arguments.libraries)), check=True, stdout=subprocess.DEVNULL)
            if outputs.read_bytes() != alone.read_bytes():
                bad.append(f"{plan.name} {ordered}: other outputs than with --comm local")
            outputs.unlink()
    with Ranks(arguments, 4, [ranks, "--random-inputs", "1"], late=3) as run:
        expect("a late rank", run.end(60), {0})


def check_refusals(arguments, ranks, plain):
    with Ranks(arguments, 3, [ranks, "--random-inputs", "1"]) as run:
        expect("too few processes", run.end(60), {2}, "the plan is for 4 ranks, and torchrun .* started 3")
    with Ranks(arguments, 4, [lambda rank: plain if rank == 2 else ranks, "--comm", "nccl", "--random-inputs", "1"]) as run:
        expect("another plan of fewer ranks", run.end(60, without=(0, 1, 3)), {2}, "the plan is for 1 rank", without=(0, 1, 3))
    changed = arguments.scratch / "changed.cplan"
    subprocess.run([str(arguments.build / "bin" / "write-plan"), str(changed), "crash"], check=True,
                   env=dict(os.environ, COLOSSAL_TEST_DEVICE="cuda"), stderr=subprocess.DEVNULL)
    with Ranks(arguments, 4, [lambda rank: changed if rank == 2 else ranks, "--random-inputs", "1"]) as run:
        # Those who hear of rank 0's end before they have said it themselves say that.
        expect("different plans", run.end(60), {2, 6}, "different plans: not that of rank 0 is that of 2")
    with Ranks(arguments, 4, [ranks, "--random-inputs", "1"], COLOSSAL_TOKEN=lambda rank: "ward" if rank == 1 else "word") as run:
        expect("another token", run.end(60, without=(0, 2, 3)), {2}, "different tokens", without=(0, 2, 3))
    with Ranks(arguments, 2, [ranks, "--random-inputs", "1"], OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="4") as run:
        expect("launchers that contradict", run.end(60), {2}, "launchers contradict each other: torchrun .*, and Open MPI")
    # Where the driver is and NCCL is not.
    folder = arguments.scratch / "driver"
    folder.mkdir()
    (folder / "libcuda.so.1").symlink_to(arguments.libraries / "libcuda.so.1")
    with Ranks(arguments, 4, [ranks, "--random-inputs", "1"], LD_LIBRARY_PATH=str(folder)) as run:
        expect("without NCCL", run.end(60), {5}, "NCCL cannot be opened: libnccl.so.2")


def check_faults(arguments, plans):
    endless = [plans[0], "--random-inputs", "1", "--benchmark", "100000000", "--timeout", "4"]
    # In collectives, and where two ranks wait for messages of the others.
    for plan, victim in ((plan, victim) for plan in plans for victim in (0, 2)):
        for number, code, text in ((signal.SIGKILL, -signal.SIGKILL, f"rank {victim} is gone|NCCL failed"), (signal.SIGINT, 130, "interrupted")):
            with Ranks(arguments, 4, [plan, *endless[1:]]) as run:
                run.wait_until_running()
                run.processes[victim].send_signal(number)
                expect(f"rank {victim} of {plan.name} gets {number.name}", run.end(20), {6, code}, text)
                if run.processes[victim].returncode != code:
                    bad.append(f"rank {victim} of {plan.name} gets {number.name}: exit {run.processes[victim].returncode}, expected {code}")
    with Ranks(arguments, 4, endless) as run:
        run.wait_until_running()
        run.processes[1].send_signal(signal.SIGSTOP)
        expect("rank 1 stopped", run.end(30, without=(1,)), {6, 7}, "rank 1 does not answer", without=(1,))


def check_deadlines(arguments, ranks):
    """Deadlines from what the plan predicts: 10 us for the program, 1 us for the kernel that hangs; five times as long in a first run."""
    hanging = write_plan(arguments, "hang", "hang")
    begin = time.monotonic()
    with Ranks(arguments, 4, [hanging, "--random-inputs", "1", "--timeout", "3e5x,0.1"]) as run:
        # Rank 3 after 1.5 s; the others, which wait for it in a collective, would have taken 15.
        expect("a kernel that does not end", run.end(60), {6, 7}, r"rank 3.*no progress for 1 s \(1e-06 s are predicted.*/faulty/Op|"
                                                                  r"/faulty/Op.*no progress for 1 s \(1e-06 s are predicted")
        if run.processes[3].returncode != 7:
            bad.append(f"a kernel that does not end: exit {run.processes[3].returncode} of rank 3, which hangs")
    if time.monotonic() - begin > 14:
        bad.append("a kernel that does not end: found by the deadline of those that wait for it only")
    endless = [ranks, "--random-inputs", "1", "--benchmark", "100000000", "--timeout", "4e5x,0.1"]
    with Ranks(arguments, 4, endless) as run:
        run.wait_until_running()
        run.processes[1].send_signal(signal.SIGSTOP)
        # Where it was stopped between two runs, the others wait for it there, and no prediction is spoken of.
        expect("rank 1 stopped, predicted", run.end(30, without=(1,)), {6, 7}, r"no progress for 4 s.*rank 1 does not answer", without=(1,))
    # One that comes within what a first run is allowed, five times two seconds, is waited for.
    with Ranks(arguments, 4, [ranks, "--random-inputs", "1", "--timeout", "2e5x,0.1"], late=3) as run:
        expect("a late rank, predicted", run.end(60), {0})
    with Ranks(arguments, 4, [ranks, "--random-inputs", "1", "--timeout", "soon"]) as run:
        expect("a deadline that is none", run.end(60), {2}, "'soon' is no deadline")


def check_calls(arguments, plans):
    header = (ROOT / "runtime" / "comm" / "nccl" / "Abi.h").read_text()
    symbols = re.findall(r"^  X\([^,]*, (nccl\w+),", header, re.M)
    assert len(symbols) > 15, symbols
    for symbol in symbols:
        named = False
        for plan, options in plans:
            fails = lambda rank: f"{symbol}@1={SYSTEM_ERROR}" if rank == 1 or symbol == "ncclGetUniqueId" else ""
            with Ranks(arguments, 4, [plan, "--random-inputs", "1", "--timeout", "20", *options], COLOSSAL_EMULATED_NCCL_FAIL=fails) as run:
                results = run.end(60)
            named = named or any(code in (5, 6) and symbol in said for code, said in results)
            failed = any(code != 0 for code, _ in results)
            expect(f"{symbol} fails, {plan.name}", results, {5, 6} if failed else {0})
        if not named and symbol not in CLEANING | UNUSED:
            bad.append(f"{symbol}: no plan needs it")
    return len(symbols)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("scratch", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    arguments.libraries = arguments.build / "lib" / "emulated"
    shutil.rmtree(arguments.scratch, ignore_errors=True)
    arguments.scratch.mkdir(parents=True)
    ranks, stages, plain = write_plan(arguments, "ranks"), write_plan(arguments, "stages", "stages"), write_plan(arguments, "plain", "plain")
    check_runs(arguments, ranks, [ranks, stages])
    check_refusals(arguments, ranks, plain)
    check_faults(arguments, (ranks, stages))
    check_deadlines(arguments, ranks)
    calls = check_calls(arguments, ((ranks, []), (ranks, ["--ordered"]), (stages, [])))
    print("\n".join(bad) if bad else f"{calls} functions")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
