"""The table of scripts/bench.sh attach."""

from __future__ import annotations

import datetime
import statistics
from typing import Any

from builds import interval

TITLES = {
    "idle": "tensor_tracer, nothing traced",
    "statistics": "tensor_tracer, statistics",
    "sparse": "tensor_tracer, statistics every 50th step",
    "hooks": "plain PyTorch hooks, the same numbers",
    "megatron": "Megatron-LM's metrics, written out",
    "inspect": "nvdlfw-inspect",
    "wandb": "`wandb.watch`, offline",
}
HEAD = (
    "tool", "hooks %", "calls %", "threads %", "counted %", "ms of a step", "processes %", "with / without (95 %)",
    "by the count",
)  # fmt: skip
MOST = 0.2  # % of counted time, with nothing traced and every 50th step
MAX_LOAD = 0.5  # of the last minute, before a row

Block = dict[str, Any]


class Figures:
    """Of one row. `ranks`: the blocks of each rank, in the same order."""

    def __init__(self, ranks: list[list[Block]]) -> None:
        together = list(zip(*ranks))
        self._pairs = [self._ratio(*pair) for pair in zip(together[::2], together[1::2])]
        self._on = [block for blocks in ranks for block in blocks if block["is_on"]]
        self._ranks = sum(block["ranks"] for block in self._on)
        self._rank_steps = sum(block["steps"] for block in self._on)
        self._steps = self._rank_steps / len(ranks)

    @staticmethod
    def _ratio(*pair: tuple[Block, ...]) -> float:
        """CPU time of a step with the tool over that without. Each half: a block of all ranks."""
        used = {half[0]["is_on"]: sum(block["ranks"] for block in half) / half[0]["steps"] for half in pair}
        return used[True] / used[False]

    def share(self, *names: str) -> float:
        """Of the ranks' CPU time with the tool, in per cent."""
        return 100 * sum(_seconds(block[name]) for block in self._on for name in names) / self._ranks

    @property
    def counted(self) -> float:
        """In the processes of the ranks, in per cent."""
        return self.share("hooks", "gradients", "calls", "threads")

    @property
    def wall(self) -> float:
        """Seconds of a step with the tool."""
        return sum(block["wall"] for block in self._on) / self._rank_steps

    @property
    def ratio(self) -> str:
        """The median over the pairs, with its interval if there are several."""
        text = f"{statistics.median(self._pairs):.3f}"
        if len(self._pairs) == 1:
            return f"{text} (one pair)"
        low, high = interval(self._pairs)
        return f"{text} ({low:.3f} to {high:.3f})"

    @property
    def cells(self) -> list[str]:
        """Of the table, without the title."""
        shares = [self.share("hooks", "gradients"), self.share("calls"), self.share("threads"), self.counted]
        of_step = 10 * self.counted * self._ranks / self._steps
        expected = 1 / (1 - self.counted / 100)
        numbers = [f"{share:.3f}" for share in shares]
        return [*numbers, f"{of_step:.1f}", f"{self.share('processes'):.3f}", self.ratio, f"{expected:.3f}"]


def _seconds(found: float | dict[str, float]) -> float:
    return sum(found.values()) if isinstance(found, dict) else found


def table(figures: dict[str, Figures]) -> str:
    """A row for each tool."""
    lines = [f"| {' | '.join(HEAD)} |", f"|---{'|---:' * (len(HEAD) - 1)}|"]
    lines += [f"| {' | '.join([TITLES[name], *one.cells])} |" for name, one in figures.items()]
    return "\n".join(lines)


def goals(figures: dict[str, Figures]) -> str:
    """A line for each goal whose rows were measured."""
    shares = {name: one.counted for name, one in figures.items()}
    lines = []
    for name in ("idle", "sparse"):
        if name in shares:
            verdict = "met" if shares[name] < MOST else "missed"
            lines.append(f"* {TITLES[name]}, below {MOST} %: {shares[name]:.3f} %: {verdict}")
    if "statistics" in shares and "hooks" in shares:
        ours, others = shares["statistics"], shares["hooks"]
        verdict = "met" if ours < others else "missed"
        lines.append(f"* statistics, below plain hooks: {ours:.3f} %, {others:.3f} %: {verdict}")
    return "\n".join(lines)


def report(results: dict[str, Any], machine: str) -> str:
    """`results`: of attach.results(), with at least one row."""
    figures = {name: Figures(one["ranks"]) for name, one in results.items()}
    loads = [one["load"][0] for one in results.values()]
    size = ", ".join(f"{name} {number}" for name, number in next(iter(results.values()))["options"]["size"].items())
    busy = " **The machine was busy: do not trust the ratios.**" if max(loads) > MAX_LOAD else ""
    walls = [one.wall for one in figures.values()]
    return (
        f"### Attach, {datetime.date.today().isoformat()}\n\n{machine}; load before the rows {min(loads):.1f} to "
        f"{max(loads):.1f}.{busy} {size}; a step takes {min(walls):.2f} to {max(walls):.2f} s.\n\n"
        f"{table(figures)}\n\n{goals(figures)}\n"
    )
