"""How fast a recording is written and read.

Writing: every round writes the same bytes to the same disk, through the recorder and by write() with an
fsync() after each record and twice a second, in an order that turns. The goal's share is that of the first:
what it was drawn from (docs/benchmarks.md) depends on the size of the records as that does. Reading: a large recording is made, opened, and single
records of (step, layer, point) are read at random.
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from candidates import REPOSITORY, tensor_tracer

SIZES = {"64 KiB": (64 << 10, 0.60), "1 MiB": (1 << 20, 0.45)}  # bytes and goal: share of the raw rate
MAX_OPEN, MAX_SEEK = 200.0, 20.0  # milliseconds
SEEKS = 500


def ask(*words: str | int | Path) -> list[float]:
    """What tests/bench/record_load.cpp answers."""
    line = [str(tensor_tracer().with_name("record_load")), *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"


def writing(folder: Path, rounds: int, mib: int) -> list[str]:
    """A row for each size of records."""
    lines = ["| records | write, fsync | write, fsync twice a second | recorder | of the first | of the second "
             "| cores | goal | |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---|"]  # fmt: skip
    ways = ["record", "raw", "late"]
    for name, (size, goal) in SIZES.items():
        found: dict[str, list[list[float]]] = {way: [] for way in ways}
        for turn in range(rounds):
            for way in ways[turn % len(ways):] + ways[: turn % len(ways)]:
                found[way].append(ask(way, folder, size, (mib << 20) // size))
        rates = {way: [mib / seconds for seconds, _ in found[way]] for way in ways}
        share, of_late = (
            statistics.median(ours / raw for raw, ours in zip(rates[way], rates["record"], strict=True))
            for way in ("raw", "late")
        )
        cores = statistics.median(cpu / seconds for seconds, cpu in found["record"])
        raw, late, ours = (f"{statistics.median(rates[way]):.0f} MiB/s" for way in ("raw", "late", "record"))
        lines.append(f"| {name} | {raw} | {late} | {ours} | {share:.0%} | {of_late:.0%} | {cores:.2f} "
                     f"| {goal:.0%}, 1 core | {verdict(share >= goal and cores <= 1)} |")  # fmt: skip
    return lines


def reading(folder: Path, gib: float) -> list[str]:
    """Of one large recording, warm: its pages were just written."""
    path = folder / "large.ttrec"
    size = SIZES["64 KiB"][0]
    ask("fill", path, size, int(gib * (1 << 30)) // size)
    opening, first, *seeks = ask("seek", path, SEEKS)
    seeks.sort()
    median, most = statistics.median(seeks), seeks[int(0.99 * len(seeks))]
    return [
        f"{path.stat().st_size / (1 << 30):.1f} GiB of 64 KiB records: "
        f"opened in {opening:.1f} ms (goal {MAX_OPEN:.0f}: {verdict(opening <= MAX_OPEN)}), first read "
        f"{first:.1f} ms, {SEEKS} reads at random {median:.2f} ms in the median, p99 {most:.2f} ms "
        f"(goal {MAX_SEEK:.0f}: {verdict(most <= MAX_SEEK)}).",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh record", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build", help="on the disk to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=1024, help="written in each round")
    parser.add_argument("--gib", type=float, default=10.0, help="of the recording that is read; 0: none")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tt-bench-", dir=chosen.folder) as folder:
        load = os.getloadavg()[0]
        lines = [f"### Recordings, {datetime.date.today().isoformat()}", "",
                 f"{os.cpu_count()} CPUs, load {load:.1f} before; {chosen.rounds} rounds of "
                 f"{chosen.mib} MiB each.", ""]  # fmt: skip
        lines += writing(Path(folder), chosen.rounds, chosen.mib)
        if chosen.gib > 0:
            lines += ["", *reading(Path(folder), chosen.gib)]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
