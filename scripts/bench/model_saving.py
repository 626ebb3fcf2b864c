"""How long training waits for a checkpoint: beside a plain copy of the saved tensors, and a save that is waited for."""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import re
import statistics
import sys
import tempfile
from pathlib import Path

from builds import interval
from candidates import HERE
from model_runs import Seen, follow, progress, train_line

GOAL = 1.3  # the wait over the copy
STALL_GOAL = 0.05  # the wait over a save that is waited for
SAVED = re.compile(r"^saved  step (\d+) in (.*), .* in (\d+\.\d) s$")
# The allocator's settings of tensor-tracer: a copy then gets the memory of the copy before.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}
SHAPE = {"num-attention-heads": 12, "vocab-size": 8192, "seq-length": 64, "micro-batch-size": 1,
         "normalization": "RMSNorm", "position-embedding-type": "rope"}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Save:
    """One save. `wait`: seconds by which it delays the next step."""

    wait: float
    steps: int  # that ended while the thread wrote
    seconds: float  # until its end


@dataclasses.dataclass(frozen=True)
class Round:
    """A run, and copies of what it has saved, in seconds."""

    saves: list[Save]
    waited_for: float  # the time of the last save, which the run waits for
    copies: list[float]
    tensors: int
    size: int  # bytes


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hidden-size", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--saves", type=int, default=6, help="of a run, besides the last one")
    parser.add_argument("--interval", type=int, default=15, help="steps between two saves")
    parser.add_argument("--rounds", type=int, default=4)


def gaps(seen: Seen) -> dict[int, float]:
    """The seconds from the line of each step to the begin of the next one."""
    steps = seen.steps()
    return {one["step"]: after.seconds - next_one["step_ms"] / 1e3 - line.seconds
            for (line, one), (after, next_one) in zip(steps, steps[1:])}  # fmt: skip


def saves_of(seen: Seen, every: int) -> tuple[list[Save], float]:
    """All saves but the last one, and the seconds of that one. A save that had to wait for the one before ends the
    benchmark."""
    ended = {int(match[1]): (line.seconds, float(match[3])) for line in seen.lines if (match := SAVED.match(line.text))}
    times = {one["step"]: line.seconds for line, one in seen.steps()}
    between = gaps(seen)
    usual = statistics.median(gap for step, gap in between.items() if step % every != 0)
    saves = []
    for step in [step for step in between if step % every == 0]:
        wait = between[step] - usual
        if step + every in times and ended[step][0] > times[step + every]:
            sys.exit(f"the save of step {step} had not ended at the next one: give a larger --interval")
        end = times[step] + wait + ended[step][1]
        saves.append(Save(wait, sum(times[step] < at <= end for at in times.values()), ended[step][1]))
    last = max(times)
    return saves, ended[last][0] - times[last]


def measure(chosen: argparse.Namespace, folder: Path) -> Round:
    run_dir, saved = folder / "run", folder / "saved"
    flags = SHAPE | {
        "num-layers": chosen.layers, "hidden-size": chosen.hidden_size, "data-path": folder / "text.txt",
        "train-iters": chosen.saves * chosen.interval + chosen.interval // 2, "save": saved,
        "save-interval": chosen.interval, "keep-last": 1, "run-dir": run_dir,
    }  # fmt: skip
    line = train_line(flags) + ["--swiglu", "--disable-bias-linear"]
    seen = follow(line, str(run_dir), {"OMP_NUM_THREADS": "1"})
    saves, waited_for = saves_of(seen, chosen.interval)
    [checkpoint] = saved.glob("step_*")
    size = sum(path.stat().st_size for path in checkpoint.glob("*.safetensors"))
    script = [sys.executable, str(HERE / "model_copies.py"), str(checkpoint), str(len(saves))]
    copies = json.loads(follow(script, str(checkpoint), ALLOCATOR | {"OMP_NUM_THREADS": "1"}).lines[-1].text)
    return Round(saves, waited_for, copies["seconds"], copies["tensors"], size)


def row(name: str, milliseconds: list[float]) -> str:
    low, high = interval(milliseconds)
    return f"| {name} | {statistics.median(milliseconds):.1f} ({low:.1f} to {high:.1f}) |"


def ratio(name: str, values: list[float], goal: float) -> str:
    low, high = interval(values)
    middle = statistics.median(values)
    verdict = "met" if middle <= goal else "missed"
    return f"* {name}: {middle:.3f} ({low:.3f} to {high:.3f}); goal at most {goal}: {verdict}"


def report(rounds: list[Round]) -> str:
    """The first save of a run gets new memory from the system, and so does the first copy."""
    later = [(statistics.median(save.wait for save in one.saves[1:]), statistics.median(one.copies[1:]))
             for one in rounds]  # fmt: skip
    all_saves = [save for one in rounds for save in one.saves]
    steps, seconds = (statistics.median(getattr(save, name) for save in all_saves) for name in ("steps", "seconds"))
    lines = [
        f"One rank, {rounds[0].tensors} tensors of {rounds[0].size / 2**20:,.0f} MiB; {len(rounds)} runs of "
        f"{len(rounds[0].saves)} saves and one at the end. The first save of a run and the first copy get new memory.",
        "", "| | ms, median (95 %) |", "|---|---|",
        row("the loop waits: first save", [one.saves[0].wait * 1e3 for one in rounds]),
        row("`clone()` of the same tensors: first", [one.copies[0] * 1e3 for one in rounds]),
        row("the loop waits: later saves", [wait * 1e3 for wait, _ in later]),
        row("`clone()` of the same tensors: later", [copy * 1e3 for _, copy in later]),
        row("a save that is waited for", [one.waited_for * 1e3 for one in rounds]),
        "", f"During a save, which takes {seconds:.1f} s beside training, {steps:.0f} steps end (medians).", "",
        ratio("first save over first copy", [one.saves[0].wait / one.copies[0] for one in rounds], GOAL),
        ratio("later saves over later copies", [wait / copy for wait, copy in later], GOAL),
        ratio("later saves over a save that is waited for (TR-4)",
              [wait / one.waited_for for (wait, _), one in zip(later, rounds, strict=True)], STALL_GOAL),
    ]  # fmt: skip
    return "\n".join(lines)


def main(chosen: argparse.Namespace) -> str:
    rounds = []
    for turn in range(chosen.rounds):
        with tempfile.TemporaryDirectory(prefix="tt-bench-") as name:
            (Path(name) / "text.txt").write_bytes(random.Random(1).randbytes(1 << 20))
            rounds.append(measure(chosen, Path(name)))
        waits = ", ".join(f"{save.wait * 1e3:.0f}" for save in rounds[-1].saves)
        progress(f"round {turn + 1}/{chosen.rounds}: waits of {waits} ms")
    return report(rounds)
