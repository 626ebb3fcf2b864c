"""What an intervention costs over a bare forward: ours, raw PyTorch hooks, nnsight and TransformerLens
on the same weights, one thread, float32, in one run.

Every library is a process that does cycles of four forwards, one of each kind, when it is told to;
rounds go through the libraries in an order that turns. An overhead is the median over all cycles of
this kind's forward less the bare one of the same cycle. Times are CPU time of the process, which
other work on the machine disturbs little; --clock wall takes the wall's clock.

nnsight and TransformerLens live in build/bench-venv, which --install makes.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy
from candidates import HERE, REPOSITORY, tensor_tracer
from intervention_report import report
from intervention_worker import KINDS, LIBRARIES, MISSING
from shapes import Shape

VENV = REPOSITORY / "build" / "bench-venv"
PACKAGES = ("nnsight==0.8.1", "transformer-lens==4.3.0")
TOLERANCE = 1e-3  # of logits, over their largest; TransformerLens computes attention otherwise


@dataclasses.dataclass(frozen=True)
class Setting:
    """A shape with what a round does."""

    shape: Shape
    rounds: int
    cycles: int  # of a round
    warm_up: int  # cycles at a round's start left out


NARROW = Shape(vocab=512, layers=12, hidden=64, heads=4, sequence=32, batch=1)
SMALL = Shape(vocab=50257, layers=12, hidden=768, heads=12, sequence=32, batch=1)
SETTINGS = {
    "narrow": Setting(NARROW, rounds=20, cycles=32, warm_up=2),
    "gpt2-small-1x32": Setting(SMALL, rounds=8, cycles=5, warm_up=1),
    "gpt2-small-8x128": Setting(
        dataclasses.replace(SMALL, batch=8, sequence=128), rounds=4, cycles=2, warm_up=0
    ),
}


class Worker:
    """A process that times forwards."""

    def __init__(self, name: str, line: list[str]) -> None:
        self.name = name
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            line, env=os.environ | threads, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, line: str) -> str | None:
        """The answer; None if the library is missing. Everything else that fails ends the run."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            print(line, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline()
        if answer:
            return answer
        if self.process.wait() == MISSING:
            return None
        sys.exit(f"{self.name} ended with exit code {self.process.returncode} at {line!r}")

    def times(self, cycles: int) -> Iterator[dict[str, dict[str, float]]]:
        """Of each cycle the microseconds by clock and kind."""
        numbers = [float(word) for word in (self.ask(f"time {cycles}") or "").split()]
        count = len(KINDS)
        for at in range(0, len(numbers), 2 * count):
            wall, cpu = numbers[at : at + count], numbers[at + count : at + 2 * count]
            yield {"wall": dict(zip(KINDS, wall)), "cpu": dict(zip(KINDS, cpu))}

    def end(self) -> None:
        """Closes its input and waits."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def start_all(shape: Shape, folder: Path, only: list[str]) -> tuple[list[Worker], list[str]]:
    """Workers whose every kind gave the logits of raw hooks, and the names of missing libraries."""
    numbers = (shape.layers, shape.hidden, shape.heads, shape.vocab, shape.batch, shape.sequence)
    words = [str(number) for number in numbers]
    program = tensor_tracer().with_name("intervention_cost")
    ours = Worker("tensor-tracer", [str(program), *words])
    ours.ask(f"weights {folder / 'weights'}")
    python = VENV / "bin" / "python"
    script = [str(python if python.exists() else sys.executable), str(HERE / "intervention_worker.py")]
    workers, missing, expected = [], [], {}
    for name in LIBRARIES:
        if only and name not in only and name != "hooks":
            continue
        worker = Worker(name, [*script, name, str(folder / "weights"), *words])
        if worker.ask("time 1") is None:
            missing.append(name)
            continue
        workers.append(worker)
    for worker in [*workers, ours]:
        for kind in KINDS:
            worker.ask(f"logits {kind} {folder / 'logits'}")
            logits = numpy.fromfile(folder / "logits", numpy.float32)
            check(worker.name, kind, logits, expected.setdefault(kind, logits))
    changed = [float(abs(expected[kind] - expected["bare"]).max()) for kind in ("steer", "patch")]
    assert min(changed) > 0, "an intervention changed nothing"
    return [ours, *workers], missing


def check(name: str, kind: str, logits: numpy.ndarray, expected: numpy.ndarray) -> None:
    """All libraries do the same."""
    worst = float(abs(logits - expected).max() / abs(expected).max())
    if worst > TOLERANCE:
        sys.exit(f"{name}, {kind}: its logits are off by {worst:.2g}")


def measure(workers: list[Worker], setting: Setting) -> dict[str, list[dict[str, dict[str, float]]]]:
    """The counted cycles of every library."""
    cycles: dict[str, list[dict[str, dict[str, float]]]] = {w.name: [] for w in workers}
    for turn in range(setting.rounds):
        at = turn % len(workers)
        for worker in workers[at:] + workers[:at]:
            cycles[worker.name] += list(worker.times(setting.cycles))[setting.warm_up :]
        print(f"round {turn + 1}/{setting.rounds}", file=sys.stderr, flush=True)
    return cycles


def run_setting(name: str, chosen: argparse.Namespace) -> dict[str, object]:
    """What one shape gave, with the machine's load before and after."""
    setting = SETTINGS[name]
    if chosen.rounds:
        setting = dataclasses.replace(setting, rounds=chosen.rounds)
    with tempfile.TemporaryDirectory(prefix="tt-bench-") as folder:
        before = os.getloadavg()[0]
        workers, missing = start_all(setting.shape, Path(folder), chosen.only)
        cycles = measure(workers, setting)
        for worker in workers:
            worker.end()
    return {
        "setting": name,
        "shape": dataclasses.asdict(setting.shape),
        "rounds": setting.rounds,
        "cycles": setting.cycles - setting.warm_up,
        "load": [before, os.getloadavg()[0]],
        "missing": missing,
        "measured": cycles,
    }


def install() -> None:
    """nnsight and TransformerLens with the libtorch that the program runs on."""
    if not (VENV / "bin" / "python").exists():
        subprocess.check_call([sys.executable, "-m", "venv", str(VENV)])
    wanted = [f"torch=={version('torch')}", *PACKAGES]
    subprocess.check_call([str(VENV / "bin" / "python"), "-m", "pip", "install", *wanted])


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh interventions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--install", action="store_true", help="make build/bench-venv first")
    parser.add_argument("--shape", choices=SETTINGS, action="append", help="default: all of them")
    parser.add_argument("--rounds", type=int, default=0, help="default: as the shape says")
    parser.add_argument("--only", action="append", default=[], help="libraries beside raw hooks")
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu")
    parser.add_argument("--json", type=Path, help="also write what was measured to this file")
    parser.add_argument("--append", type=Path, help="also append the table to this file")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    if chosen.install:
        install()
    results = [run_setting(name, chosen) for name in chosen.shape or SETTINGS]
    today = datetime.date.today().isoformat()
    text = report(results, chosen.clock, today, version("torch"))
    print(text)
    if chosen.json:
        chosen.json.write_text(json.dumps({"date": today, "results": results}))
    if chosen.append:
        with open(REPOSITORY / chosen.append, "a") as file:
            file.write(f"\n{text}")


if __name__ == "__main__":
    main()
