"""What scripts/bench/hub.py measures, as a table, and the goals."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable

KIB = 1024


@dataclasses.dataclass(frozen=True)
class Cell:
    """One size of records and one number of viewers."""

    size: int  # bytes of payload; the header adds 128
    viewers: int

    def __str__(self) -> str:
        size = f"{self.size // KIB} KiB" if self.size < KIB * KIB else f"{self.size // KIB**2} MiB"
        return f"{size}, {self.viewers} viewer{'s' * (self.viewers > 1)}"


@dataclasses.dataclass(frozen=True)
class System:
    """A server, and how many records the worker's messages hold in the flood."""

    server: str
    batch: int = 1

    def __str__(self) -> str:
        return self.server if self.batch == 1 else f"{self.server}, {self.batch} a message"


OURS, PYTHON, BARE = System("ours"), System("Python"), System("send()")
RELAY = System("relay")  # recv() and send(): what is left of a hub without its work
BATCH = 32  # what a forward pass gives, and the link sends as one message
OURS_BATCH, PYTHON_BATCH = System("ours", BATCH), System("Python", BATCH)

CELLS = [Cell(size, viewers) for size in (KIB, 64 * KIB, KIB * KIB) for viewers in (1, 8, 32, 64)]


@dataclasses.dataclass(frozen=True)
class Measured:
    """One round of one system in one cell; frames and bytes are of all viewers together."""

    frames: float  # a second
    megabytes: float  # a second
    cpu_ms_per_mb: float  # of the server
    dropped: float  # share of what was offered
    rss_mib: float
    rate: float = 0  # records a second, for the latency
    p50_ms: float = 0
    p99_ms: float = 0

    def line(self) -> str:
        return (
            f"{self.frames:,.0f} frames/s, {self.megabytes:,.0f} MB/s, {self.cpu_ms_per_mb:.3f} "
            f"ms/MB, {100 * self.dropped:.0f} % dropped, p99 {self.p99_ms:.2f} ms, "
            f"{self.rss_mib:.0f} MiB"
        )


Rounds = dict[System, list[Measured]]
Results = dict[Cell, Rounds]


def systems_of(cell: Cell) -> list[System]:
    more = [OURS_BATCH, PYTHON_BATCH] if cell.size == KIB else [RELAY]
    return [OURS, PYTHON, BARE, *more]


def median(rounds: list[Measured]) -> Measured:
    """Field by field."""
    return Measured(
        **{
            field.name: statistics.median(getattr(one, field.name) for one in rounds)
            for field in dataclasses.fields(Measured)
        }
    )


def ratio(rounds: Rounds, field: str, other: System, ours: System = OURS) -> float:
    """Ours over the other's, round by round; the median."""
    pairs = zip(rounds[ours], rounds[other])
    return statistics.median(getattr(a, field) / getattr(b, field) for a, b in pairs)


@dataclasses.dataclass(frozen=True)
class Goal:
    """`value` of every cell that `where` takes shall be at least, or at most, `limit`."""

    text: str
    value: Callable[[Rounds], float]
    limit: float
    where: Callable[[Cell], bool] = lambda _: True
    at_most: bool = False

    def line(self, results: Results) -> str:
        found = {cell: self.value(rounds) for cell, rounds in results.items() if self.where(cell)}
        if not found:
            return ""
        worst = (max if self.at_most else min)(found, key=lambda cell: found[cell])
        missed = [
            f"{cell}: {value:.2f}"
            for cell, value in found.items()
            if (value > self.limit if self.at_most else value < self.limit)
        ]
        verdict = f"missed ({'; '.join(missed)})" if missed else "met"
        return f"* {self.text}: worst {found[worst]:.2f} ({worst}): {verdict}"


def frames(rounds: Rounds) -> float:
    return ratio(rounds, "frames", PYTHON)


def gigabytes(rounds: Rounds) -> float:
    return median(rounds[OURS]).megabytes / 1000


GOALS = [
    Goal(f"1 KiB, {BATCH} records in a message of our worker, one in the Python hub's, at least 2x",
         lambda rounds: ratio(rounds, "frames", PYTHON, OURS_BATCH), 2, lambda c: c.size == KIB),
    Goal("1 KiB, one record in a message, at least 2x the Python hub", frames, 2,
         lambda c: c.size == KIB),
    Goal("64 KiB to one viewer, at least 2x the Python hub", frames, 2,
         lambda c: c.size == 64 * KIB and c.viewers == 1),
    Goal("64 KiB to 8-64 viewers, at least 1.2x the Python hub", frames, 1.2,
         lambda c: c.size == 64 * KIB and c.viewers > 1),
    Goal("1 MiB, never slower than the Python hub", frames, 1, lambda c: c.size == KIB * KIB),
    Goal("CPU per MB of 64 KiB and 1 MiB, at most 1.25x bare send()",
         lambda rounds: ratio(rounds, "cpu_ms_per_mb", BARE), 1.25,
         lambda c: c.size > KIB, at_most=True),
    Goal("p99 at a fixed rate, below the Python hub's",
         lambda rounds: ratio(rounds, "p99_ms", PYTHON), 1, at_most=True),
    Goal("WS-5: 1 MiB to one viewer, at least 1.5 GB/s", gigabytes, 1.5,
         lambda c: c.size == KIB * KIB and c.viewers == 1),
    Goal("WS-5: 1 MiB to more viewers, at least 1 GB/s", gigabytes, 1,
         lambda c: c.size == KIB * KIB and c.viewers > 1),
    Goal("WS-5: 1 MiB, at most 0.6 ms of CPU per MB",
         lambda rounds: median(rounds[OURS]).cpu_ms_per_mb, 0.6,
         lambda c: c.size == KIB * KIB, at_most=True),
    Goal("WS-5 (1 and 16 viewers): 1 MiB to at most 32, p99 at 100 MB/s at most 20 ms",
         lambda rounds: median(rounds[OURS]).p99_ms, 20,
         lambda c: c.size == KIB * KIB and c.viewers <= 32, at_most=True),
]


def bounds(results: Results) -> list[str]:
    """What stands beside the goals: both hubs with the same long messages, and how far the relay comes,
    which shows what the goals of bulk data ask of anything that reads what it sends."""
    lines = []
    for cell, rounds in results.items():
        if OURS_BATCH in rounds:
            both = ratio(rounds, "frames", PYTHON_BATCH, OURS_BATCH)
            lines.append(f"* {cell}, {BATCH} records in a message of either: {both:.2f}x the Python hub")
        if RELAY in rounds:
            lines.append(
                f"* {cell}: the relay is {ratio(rounds, 'frames', PYTHON, RELAY):.2f}x the Python hub "
                f"and takes {ratio(rounds, 'cpu_ms_per_mb', BARE, RELAY):.2f}x the CPU of send(); the "
                f"hub delivers {ratio(rounds, 'frames', RELAY):.2f}x what the relay does, for "
                f"{ratio(rounds, 'cpu_ms_per_mb', RELAY):.2f}x its CPU"
            )
    return lines


def table(results: Results) -> str:
    """One line for each cell and system."""
    head = ["frame", "server", "frames/s", "MB/s", "CPU ms/MB", "dropped %", "RSS MiB",
            "latency at records/s", "p50 ms", "p99 ms", "frames vs Python", "CPU/MB vs send()"]
    lines = ["| " + " | ".join(head) + " |", "|---|---" + "|---:" * (len(head) - 2) + "|"]
    for cell, rounds in results.items():
        for system, measured in rounds.items():
            m = median(measured)
            python = PYTHON if system.batch == 1 else PYTHON_BATCH
            latency = [f"{m.rate:,.0f}", f"{m.p50_ms:.2f}", f"{m.p99_ms:.2f}"]
            cells = [
                str(cell),
                str(system),
                f"{m.frames:,.0f}",
                f"{m.megabytes:,.0f}",
                f"{m.cpu_ms_per_mb:.3f}",
                "" if system == BARE else f"{100 * m.dropped:.0f}",
                f"{m.rss_mib:,.0f}",
                *(latency if m.rate else ["", "", ""]),
                "" if system == python else f"{ratio(rounds, 'frames', python, system):.2f}×",
                "" if system == BARE else f"{ratio(rounds, 'cpu_ms_per_mb', BARE, system):.2f}×",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def report(results: Results) -> str:
    lines = [line for goal in GOALS if (line := goal.line(results))]
    return "\n\n".join(
        part for part in (table(results), "\n".join(lines), "\n".join(bounds(results))) if part
    )
