"""The tables of interventions.py."""

from __future__ import annotations

import math
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

KINDS = ("steer", "patch", "save")
OURS, HOOKS = "tensor-tracer", "hooks"
TITLES = {OURS: "tensor-tracer", HOOKS: "PyTorch, raw hooks"}
HEAD = ("library", "bare ms", "steer ms", "patch ms", "save 12 ms")


class Figures:
    """What the cycles of one shape say, in milliseconds."""

    def __init__(self, measured: dict[str, list[Any]], clock: str) -> None:
        self.by = {name: [cycle[clock] for cycle in cycles] for name, cycles in measured.items()}

    def bare(self, library: str) -> float:
        """The median bare forward."""
        return self.median(library, "bare")

    def _times(self, library: str, kind: str) -> list[float]:
        less = 0 if kind == "bare" else 1
        return sorted((cycle[kind] - less * cycle["bare"]) / 1e3 for cycle in self.by[library])

    def median(self, library: str, kind: str) -> float:
        """Of the bare forward's time, or of what this kind took longer."""
        return statistics.median(self._times(library, kind))

    def noise(self, library: str, kind: str) -> float:
        """Half of the 95 % interval of that median, from the ranks of the times."""
        found = self._times(library, kind)
        reach = 0.98 * len(found) ** 0.5
        low = max(0, math.floor((len(found) - 1) / 2 - reach))
        high = min(len(found) - 1, math.ceil((len(found) - 1) / 2 + reach))
        return (found[high] - found[low]) / 2


def table(figures: Figures, missing: Sequence[str]) -> str:
    """Overheads with their noise and their share of the same library's bare forward."""
    lines = ["| " + " | ".join(HEAD) + " |", "|---" + "|---:" * (len(HEAD) - 1) + "|"]
    for library in figures.by:
        bare = figures.bare(library)
        cells = [TITLES.get(library, library), f"{bare:.3f}"]
        for kind in KINDS:
            over = figures.median(library, kind)
            noise = figures.noise(library, kind)
            cells.append(f"{over:+.3f} ± {noise:.3f} ({over / bare * 100:+.1f} %)")
        lines.append("| " + " | ".join(cells) + " |")
    lines += [f"| {name} | missing | | | |" for name in missing]
    return "\n".join(lines)


def goals(figures: Figures) -> str:
    """One line for each goal: not above raw hooks."""
    lines = []
    for kind in ("bare", *KINDS):
        ours, other = (figures.median(library, kind) for library in (OURS, HOOKS))
        noise = math.hypot(figures.noise(OURS, kind), figures.noise(HOOKS, kind))
        verdict = "met" if ours <= other else "missed"
        if abs(ours - other) < noise:
            verdict = "equal within the noise"
        lines.append(f"* {kind}: {ours:.3f} ms, raw hooks {other:.3f} ms: {verdict}")
    return "\n".join(lines)


def heading(results: Sequence[dict[str, Any]], clock: str, date: str, torch: str) -> str:
    """The machine, the date and the versions, as Markdown."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    loads = [load for result in results for load in result["load"]]
    times = "CPU time" if clock == "cpu" else "time by the wall's clock"
    return (
        f"### Interventions, {date}\n\n{model}, {os.cpu_count()} CPUs; PyTorch {torch}, one thread, "
        f"float32; {times}; load of the last minute {min(loads):.1f} to {max(loads):.1f}."
    )


def report(results: Sequence[dict[str, Any]], clock: str, date: str, torch: str) -> str:
    """All shapes."""
    text = heading(results, clock, date, torch)
    for result in results:
        shape = result["shape"]
        figures = Figures(result["measured"], clock)
        counted = f"{result['rounds']} rounds of {result['cycles']} cycles each"
        numbers = ", ".join(f"{name} {number}" for name, number in shape.items())
        text += f"\n\n**{result['setting']}** ({numbers}; {counted}):\n\n"
        text += f"{table(figures, result['missing'])}\n\n{goals(figures)}\n"
    return text
