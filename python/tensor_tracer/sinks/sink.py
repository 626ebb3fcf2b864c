"""A sink: another tool that takes the numbers of a live run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tensor_tracer.readings import Bins, Reading


class Origin(NamedTuple):
    """The place of a record's readings. `tag`: its unique name, such as "HiddenStates/layer_3/stats"."""

    tag: str
    point: str
    layer: int  # 0: a point without layers
    direction: str
    phase: str
    prompts: str  # "" for the run's own data
    compressor: str
    mean_over: str = ""  # of the plan's entry
    scale: str = ""  # of means of projections: normalized, raw or cosine
    layout: str = ""  # "rank-local": the values of tensor rank 0 only


class Alarm(NamedTuple):
    """An alarm of the run has fired, or its condition has ended (`is_firing` is False)."""

    name: str
    step: int
    is_firing: bool
    message: str
    value: float | None


class Sink(Protocol):
    """One thread calls it. Times are nanoseconds since 1970."""

    def scalars(self, step: int, time_ns: int, values: Mapping[str, float]) -> None: ...

    def readings(self, step: int, time_ns: int, origin: Origin, readings: Sequence[Reading | Bins]) -> None: ...

    def alarm(self, time_ns: int, alarm: Alarm) -> None: ...

    def flush(self) -> None:
        """Called about once a second."""
        ...

    def close(self) -> None:
        """Everything is sent or written after this. Raises TensorTracerError if it could not be."""
        ...
