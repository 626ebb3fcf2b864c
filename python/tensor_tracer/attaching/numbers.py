"""The numbers of a step that the script logs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tensor_tracer.attaching.groups import Groups
from tensor_tracer.errors import TensorTracerError


def number_of(name: str, value: float | Tensor) -> float:
    """Raises TensorTracerError."""
    try:
        return float(value.detach() if isinstance(value, Tensor) else value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        remedy = "give a number, or a tensor of one element"
        raise TensorTracerError("invalid_argument", f"{value!r} is no number", f"log({name}=...)", remedy) from error


def json_of(numbers: Mapping[str, float]) -> str:
    """For the library, which reads null as NaN. JSON has no other form of it."""
    return json.dumps({name: value if math.isfinite(value) else None for name, value in numbers.items()})


_kPatience = timedelta(seconds=5)  # at the end of the process, where another rank may be gone
_kNames = ("loss", "lr", "grad_norm", "valid_loss", "tokens_per_second")


class StageNumbers:
    """Brings what the last pipeline stage logs, such as the loss, to global rank 0. Global rank 0 gets the numbers of a
    step when the step after it has ended, so that it waits for no rank. `last`: the global rank that has the last stage
    of this rank's pipeline. `take`: takes the numbers on global rank 0. Thread: the thread that runs the step."""

    def __init__(self, groups: Groups, last: int, take: Callable[[dict[str, float]], None]) -> None:
        self._group, self._last, self._take = groups.pipeline, last, take
        is_needed = 0 in groups.pipeline_ranks and last != 0
        self.is_source, self._is_target = is_needed and groups.rank == last, is_needed and groups.rank == 0
        self._numbers: dict[str, float] = {}
        self._buffer: Tensor | None = None
        self._pending: Any = None  # a message under way

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """On the source: numbers for the next exchange()."""
        self._numbers |= {"step": step, **numbers}

    def exchange(self) -> None:
        """Between steps, on every rank."""
        self.wait()
        self._begin()

    def _begin(self) -> None:
        if self.is_source:
            names = ("step", *_kNames)
            numbers = [[self._numbers.get(name, 0.0) for name in names], [float(name in self._numbers) for name in names]]
            self._numbers = {}
            self._buffer = torch.tensor(numbers, dtype=torch.float64)
            self._pending = dist.isend(self._buffer, 0, group=self._group)
        elif self._is_target:
            self._buffer = torch.empty(2, 1 + len(_kNames), dtype=torch.float64)
            self._pending = dist.irecv(self._buffer, self._last, group=self._group)

    def wait(self, patience: timedelta | None = None) -> None:
        """Completes the message of the exchange before. `patience`: RuntimeError if it takes longer."""
        if self._pending is None:
            return
        self._pending.wait() if patience is None else self._pending.wait(patience)
        self._pending = None
        if self._is_target and self._buffer is not None:
            numbers, are_there = self._buffer.tolist()
            found = {name: one for name, one, is_there in zip(("step", *_kNames), numbers, are_there, strict=True) if is_there}
            if "step" in found:
                self._take(found | {"step": int(found["step"])})

    def finish(self) -> None:
        """The last two exchanges, at the end of a process that does not detach. Raises RuntimeError if another rank or
        the group is gone."""
        self.wait(_kPatience)
        self._begin()
        self.wait(_kPatience)

    def close(self) -> None:
        """Leaves the group. A message under way is dropped."""
        self._group = self._pending = None
        self.is_source = self._is_target = False
