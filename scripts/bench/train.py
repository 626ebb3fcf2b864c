"""Training speed of tensor-tracer and of equivalent PyTorch scripts, interleaved in one run.

Every round runs one block of steps of every candidate, in an order that turns from round to round,
so that a slow minute of the machine hits all alike. A block is its own process; its first
steps warm up and do not count. Peak memory is that of the largest rank, by the kernel's account.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from candidates import BASELINE, CANDIDATES, GOALS, HERE, REPOSITORY, Candidate
from shapes import ALL_SHAPES, SHAPES, Shape


MAX_LOAD = 0.5  # of the last minute, before the first block


@dataclasses.dataclass
class Measured:
    """What the blocks of one candidate gave."""

    step_ms: list[float] = dataclasses.field(default_factory=list)
    peak_rss_mib: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.step_ms)


@dataclasses.dataclass(frozen=True)
class Block:
    """How one block is run."""

    shape: str
    steps: int
    warm_up: int
    data: Path
    folder: Path


def run_block(candidate: Candidate, block: Block, into: Measured) -> None:
    """Runs one block and adds its steps; a candidate that fails ends the benchmark."""
    line = candidate.command(block.shape, block.steps, block.data, block.folder / "run")
    with open(block.folder / "errors.txt", "w+") as errors:
        process = subprocess.Popen(
            line, env=candidate.environment(), stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert process.stdout is not None
        lines = [json.loads(text) for text in process.stdout if text.startswith("{")]
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(f"{candidate.name}: exit code {process.returncode}\n{errors.read()[-4000:]}")
    times = [line["step_ms"] for line in lines if "step_ms" in line]
    if len(times) != block.steps:
        sys.exit(f"{candidate.name}: {len(times)} steps of {block.steps} were reported")
    into.step_ms += times[block.warm_up :]
    into.peak_rss_mib = max(into.peak_rss_mib, usage.ru_maxrss / 1024)


def measure(candidates: list[Candidate], block: Block, rounds: int) -> dict[str, Measured]:
    """All rounds; the n-th round begins with the n-th candidate."""
    results = {candidate.name: Measured() for candidate in candidates}
    for turn in range(rounds):
        first = turn % len(candidates)
        for candidate in candidates[first:] + candidates[:first]:
            run_block(candidate, block, results[candidate.name])
            median = results[candidate.name].median
            progress = f"{block.shape}, round {turn + 1}/{rounds}: {candidate.name}"
            print(f"{progress}: {median:.0f} ms/step so far", file=sys.stderr, flush=True)
    return results


def table(shape: Shape, results: dict[str, Measured]) -> str:
    """A markdown table; "speed" is relative to the baseline where that was measured."""
    head = ["candidate", "median ms", "min ms", "tokens/s", "GFLOP/s", "RSS MiB per rank", "speed"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    baseline = results.get(BASELINE)
    for name, result in results.items():
        cells = [
            name,
            f"{result.median:.1f}",
            f"{min(result.step_ms):.1f}",
            f"{shape.tokens / result.median * 1e3:,.0f}",
            f"{shape.gflop / result.median * 1e3:,.0f}",
            f"{result.peak_rss_mib:,.0f}",
            f"{baseline.median / result.median:.2f}×" if baseline else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def describe(name: str) -> str:
    """The shape's name and numbers."""
    numbers = ", ".join(f"{k} {v}" for k, v in dataclasses.asdict(ALL_SHAPES[name]).items())
    return f"**{name}** ({numbers}; {ALL_SHAPES[name].gflop:.0f} GFLOP a step):"


def goals(results: dict[str, Measured]) -> str:
    """One line per goal whose two sides were measured."""
    lines = []
    for goal in GOALS:
        if goal.candidate in results and goal.other in results:
            ours, other = results[goal.candidate], results[goal.other]
            speed, memory = other.median / ours.median, ours.peak_rss_mib / other.peak_rss_mib
            verdict = "met" if speed >= goal.factor and memory <= 1 else "missed"
            lines.append(
                f"* {goal.candidate} against {goal.other}: {speed:.2f}× the speed (goal "
                f"{goal.factor:.1f}×), {memory:.2f}× the memory (goal 1×): {verdict}"
            )
    return "\n".join(lines)


def machine() -> str:
    """Processor, CPUs and the version of PyTorch."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{model}, {os.cpu_count()} CPUs; PyTorch {version('torch')}"


def heading(chosen: argparse.Namespace) -> str:
    """The machine, the date and the versions, as Markdown."""
    counted = f"{chosen.rounds} rounds of {chosen.steps - chosen.warm_up} steps each"
    load = os.getloadavg()[0]
    busy = f" **The machine was busy (load {load:.1f}): do not trust the times.**"
    return (
        f"### Training, {datetime.date.today().isoformat()}\n\n{machine()}; {counted}, after "
        f"{chosen.warm_up} to warm up.{busy if load > MAX_LOAD else ''}"
    )


def peaks() -> str:
    """The machine's best matrix products with one and two threads."""
    parts = []
    for threads in (1, 2):
        line = [sys.executable, str(HERE / "peak.py"), "--threads", str(threads)]
        found = json.loads(subprocess.check_output(line, text=True))
        rates = ", ".join(f"{kind} {rate:,.0f}" for kind, rate in found.items())
        parts.append(f"{threads} thread{'s' * (threads > 1)} {rates}")
    return f"Best matrix product in PyTorch, GFLOP/s: {'; '.join(parts)}."


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--shape", choices=SHAPES, action="append", help="default: all of them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="per block, warm-up included")
    parser.add_argument("--warm-up", type=int, default=3, help="steps at a block's start left out")
    parser.add_argument("--only", default="", help="candidates whose name holds this text")
    parser.add_argument("--without", help="leaves them out, such as bf16 on a CPU that lacks its instructions")
    parser.add_argument("--append", type=Path, help="also append the result to this file")
    parsed = parser.parse_args()
    if parsed.steps <= parsed.warm_up:
        parser.error("--steps must exceed --warm-up")
    return parsed


def main() -> None:
    chosen = options()
    candidates = [c for c in CANDIDATES if chosen.only.lower() in c.name.lower()]
    if chosen.without:
        candidates = [c for c in candidates if chosen.without.lower() not in c.name.lower()]
    if not candidates:
        sys.exit(f"no candidate's name holds {chosen.only!r}")
    with tempfile.TemporaryDirectory(prefix="tt-bench-") as name:
        folder = Path(name)
        data = folder / "random.txt"
        data.write_bytes(random.Random(1).randbytes(1 << 22))
        report = f"{heading(chosen)}\n\n{peaks()}"
        for shape in chosen.shape or SHAPES:
            block = Block(shape, chosen.steps, chosen.warm_up, data, folder)
            results = measure(candidates, block, chosen.rounds)
            report += f"\n\n{describe(shape)}\n\n{table(SHAPES[shape], results)}\n"
            if reached := goals(results):
                report += f"\n{reached}\n"
    print(report)
    if chosen.append:
        with open(REPOSITORY / chosen.append, "a") as file:
            file.write(f"\n{report}")


if __name__ == "__main__":
    main()
