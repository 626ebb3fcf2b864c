"""What scripts/bench/hub.py measures, as a table, and the goal."""

from __future__ import annotations

import dataclasses
import statistics

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
BATCH = 32  # what a forward pass gives, and the link sends as one message
OURS_BATCH, PYTHON_BATCH = System("ours", BATCH), System("Python", BATCH)

GOAL = 2  # times the records a second of the Python hub
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
    more = [OURS_BATCH, PYTHON_BATCH] if cell.size == KIB else []
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


def goal(results: Results) -> str:
    """The hub's one goal: small messages cost no more than half of the Python hub's time."""
    found = {cell: ratio(rounds, "frames", PYTHON) for cell, rounds in results.items()
             if cell.size == KIB}  # fmt: skip
    if not found:
        return ""
    worst = min(found, key=lambda cell: found[cell])
    verdict = "met" if found[worst] >= GOAL else "missed"
    return (f"1 KiB, one record in a message, at least {GOAL}x the Python hub: worst "
            f"{found[worst]:.2f} ({worst}): {verdict}")  # fmt: skip


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
    return "\n\n".join(part for part in (table(results), goal(results)) if part)
