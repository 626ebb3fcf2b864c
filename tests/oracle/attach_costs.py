"""Trainings with the tools of scripts/bench.sh attach, for test_attach_costs.py. They run on a forked rank."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from program import REPOSITORY
from torch import Tensor, nn

sys.path.insert(0, str(REPOSITORY / "scripts/bench"))

import attach_numbers
import attach_watchers
import attach_worker
import cpu_clocks

SIZE = {"n_layer": 2, "n_embd": 24, "n_head": 2, "vocab_size": 61, "n_positions": 9, "batch": 2}
STEPS = 3
HOOK, CALL, THREAD, PROCESS, TRAINER = 0.02, 0.03, 0.04, 0.05, 0.06  # CPU seconds of a step; of PROCESS: of a block

Numbers = dict[tuple[str, str], Tensor]  # by path of the module and direction


def watched(attach: dict[str, Any], kind: str) -> tuple[Numbers, list[dict[str, Any]]]:
    """Ours and another tool watch the same steps. Returns the other's numbers of the last step, and the places."""
    import tensor_tracer as tt

    training = attach_worker.Training(SIZE)
    other: Any = attach_watchers.WATCHERS[kind](Path())
    other.start(training.model)
    run = tt.attach(training.model, plan=attach_watchers.plan_of_statistics(every=1), **attach)
    meter = cpu_clocks.Meter()
    for _ in range(STEPS):
        with run.step():
            training.step(other, meter)
    places = run.points()
    run.detach()
    return other.numbers if kind == "hooks" else other.metrics, places


class Odd(nn.Module):
    """Passes on numbers that no training should have."""

    def __init__(self, odd: Tensor) -> None:
        super().__init__()
        self.odd = odd
        self.embedding = nn.Embedding(8, 4)

    def forward(self, ids: Tensor) -> Tensor:
        import tensor_tracer as tt

        tt.point("odd", self.odd)
        return self.embedding(ids)


def odd(attach: dict[str, Any], numbers: Tensor) -> Tensor:
    """The tracer records the statistics of `numbers`. Returns what the hooks make of them."""
    import tensor_tracer as tt

    model = Odd(numbers)
    run = tt.attach(model, plan={"entries": [{"point": "odd", **attach_watchers.STATS}]}, **attach)
    for _ in range(2):
        with run.step():
            model(torch.zeros(numbers.shape[:2], dtype=torch.int64)).sum().backward()
    run.detach()
    return attach_numbers.statistics(numbers)


def burn(seconds: float, used: Callable[[], float] = time.thread_time) -> None:
    end = used() + seconds
    while used() < end:
        pass


class Burner(attach_watchers.Watcher):
    """A tool that uses a known time in each of its parts."""

    def start(self, model: nn.Module) -> None:
        self._handle = model.register_forward_hook(lambda *_: burn(HOOK))
        self._wanted, self._done, self._ends = threading.Event(), threading.Event(), False
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        self._process: subprocess.Popen[bytes] | None = None

    def _work(self) -> None:
        while self._wanted.wait() and not self._ends:
            self._wanted.clear()
            burn(THREAD)
            self._done.set()

    def begin_step(self) -> None:
        burn(CALL)
        self._wanted.set()
        self._done.wait()
        self._done.clear()

    def end_step(self, loss: Tensor) -> None:
        if self._process is None:
            self._process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        begin = cpu_clocks.process_seconds(self._process.pid)
        while cpu_clocks.process_seconds(self._process.pid) < begin + PROCESS:
            time.sleep(0.01)

    def stop(self) -> None:
        self._ends = True
        self._wanted.set()
        self._thread.join()
        self._handle.remove()
        assert self._process is not None
        self._process.kill()
        self._process.wait()


def burnt() -> list[dict[str, Any]]:
    """A block with the Burner and one without a tool, while a hook of the trainer uses time, too."""
    training = attach_worker.Training(SIZE)
    training.model.register_forward_hook(lambda *_: burn(TRAINER))
    training.block(attach_watchers.Watcher(Path()), False, 1)
    blocks = [training.block(kind(Path()), kind is Burner, STEPS) for kind in (Burner, attach_watchers.Watcher)]
    return [dataclasses.asdict(block) for block in blocks]
