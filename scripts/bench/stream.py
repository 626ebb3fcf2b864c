"""From the trace point to the viewer's decoded array: how many updates a second, and at what cost.

A trainer that does nothing but pass its trace points (QKV, MLP1 and MLP2 of 12 layers in a step, one
rank, one thread), its link, a hub that keeps the history as it does by default, and a viewer that makes
arrays of what arrives, compares checksums and looks at the numbers. CPU time is that of all threads.

Beside it stand Tensor Tracer's figures, which were measured in another run: 943 updates a second of 64
values, 25 MB/s of JSON, 154 ms of CPU for an update of 3.7 MB.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import functools
import json
import os
import random
import statistics
import struct
import time

from hub import (
    WARM_UP,
    cpu_name,
    cpu_seconds,
    first_line,
    our_hub,
    program,
    running,
    tell,
)

GOAL = 20  # times Tensor Tracer's figures
THEIR_UPDATES = 943.0  # a second, of 64 values
THEIR_BYTES = 25e6  # a second, of JSON
THEIR_UPDATE_BYTES = 3.7e6  # of JSON, in the update that was measured for its CPU time
THEIR_CPU_MS = 154.0  # of it
JSON_SAMPLE = 10_000  # numbers


@functools.cache
def json_bytes_per_number() -> float:
    """Of normal numbers in bfloat16, as Python's json writes them; those of a float32 model take 1.7
    times as many."""
    draw = random.Random(1)
    halves = (struct.pack("<f", draw.gauss(0, 1))[2:] for _ in range(JSON_SAMPLE))
    numbers = [struct.unpack("<f", b"\0\0" + half)[0] for half in halves]
    return len(json.dumps(numbers)) / JSON_SAMPLE


@dataclasses.dataclass(frozen=True)
class Update:
    """What one trace point gives: batch x sequence x tiles numbers."""

    batch: int
    sequence: int
    hidden: int
    tiles: int
    dtype: str

    @property
    def numbers(self) -> int:
        return self.batch * self.sequence * self.tiles

    @property
    def json_bytes(self) -> float:
        return self.numbers * json_bytes_per_number()

    def __str__(self) -> str:
        return f"{self.numbers:,} ({self.batch} x {self.sequence} x {self.tiles}), {self.dtype}"


SMALL = Update(1, 64, 64, 1, "f32")
LARGE = [Update(8, 256, 256, 96, dtype) for dtype in ("f32", "bf16")]


@dataclasses.dataclass(frozen=True)
class Measured:
    """One round; CPU in milliseconds for each update that was decoded."""

    updates: float  # a second
    megabytes: float  # a second
    dropped: float  # share
    trainer_ms: float
    hub_ms: float
    viewer_ms: float

    @property
    def cpu_ms(self) -> float:
        """Theirs is the trainer's and the hub's too: one process."""
        return self.trainer_ms + self.hub_ms


def measure(update: Update, seconds: float) -> Measured:
    with our_hub() as server:
        port = str(server.port)
        shape = map(str, dataclasses.astuple(update))
        trainer_line = [program("trace_load"), "trainer", port, server.worker_token, *shape]
        viewer_line = [program("trace_load"), "viewer", port, server.token]
        with running(viewer_line) as viewer, running(trainer_line) as trainer:
            assert first_line(viewer) == "ready"
            time.sleep(5 * WARM_UP)
            processes = (trainer, server.process, viewer)
            tell(viewer, "begin")
            before = [cpu_seconds(process) for process in processes]
            time.sleep(seconds)
            used = [cpu_seconds(process) for process in processes]
            tell(viewer, "end")
            got = json.loads(first_line(viewer))
    assert got["numbers"] == got["records"] * update.numbers
    return Measured(
        got["records"] / got["seconds"],
        got["bytes"] / got["seconds"] * 1e-6,
        max(0.0, 1 - got["records"] / got["offered"]),
        *(1e3 * (after - start) / got["records"] for after, start in zip(used, before, strict=True)),
    )


def median(rounds: list[Measured]) -> Measured:
    """Field by field."""
    return Measured(*map(statistics.median, zip(*map(dataclasses.astuple, rounds), strict=True)))


def verdict(what: str, ratio: float) -> str:
    return f"* {what}: {ratio:.0f}x (goal {GOAL}x): {'met' if ratio >= GOAL else 'missed'}"


def report(results: dict[Update, Measured]) -> str:
    lines = [
        "| numbers of an update | updates/s | MB/s | dropped % | trainer and link, CPU µs | hub, CPU µs "
        "| viewer, CPU µs |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for update, found in results.items():
        lines.append(
            f"| {update} | {found.updates:,.0f} | {found.megabytes:,.0f} | {100 * found.dropped:.0f} "
            f"| {1e3 * found.trainer_ms:,.1f} | {1e3 * found.hub_ms:,.1f} | {1e3 * found.viewer_ms:,.1f} |"
        )
    lines += ["", verdict("updates of 64 values a second", results[SMALL].updates / THEIR_UPDATES)]
    for update in LARGE:
        found = results[update]
        as_json = found.updates * update.json_bytes / THEIR_BYTES
        cpu = THEIR_CPU_MS * update.json_bytes / THEIR_UPDATE_BYTES / found.cpu_ms
        lines.append(verdict(f"numbers a second, {update}", as_json))
        lines.append(verdict(f"CPU time of trainer and hub, {update}", cpu))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh stream",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    updates = [SMALL, *LARGE]
    found = {
        update: median([measure(update, chosen.seconds) for _ in range(chosen.rounds)])
        for update in updates
    }
    print(
        f"### From the trace point to the viewer's array, {datetime.date.today().isoformat()}\n\n"
        f"{cpu_name()}, {os.cpu_count()} CPUs; medians of {chosen.rounds} rounds of {chosen.seconds} s "
        f"each; load of the last minute before: {load:.1f}.\n\n{report(found)}"
    )


if __name__ == "__main__":
    main()
