"""What the hub delivers to many viewers, beside a Python hub and a bare send() loop, in one run.

Every round measures every cell (frame size x viewers) with our hub, the Python hub and the loop, one
after the other on fresh processes, in an order that turns from round to round. The viewers and the
worker are the same cheap C++ program for all. The worker first sends as fast as the hub takes it
(delivered frames, CPU, memory), then at a fixed rate (latency).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from candidates import HERE, REPOSITORY, tensor_tracer
from hub_report import CELLS, Cell, Measured, Rounds, System, report, systems_of
from train import MAX_LOAD

WARM_UP = 0.4  # seconds
MAX_RATE = 500  # records a second
RATE_BYTES = 100e6  # a second, delivered to all viewers: the fixed rate is no more than that
LEAST_RECORDS = 12  # at the fixed rate: of fewer a percentile says little
MAX_SECONDS = 10  # of a measurement: viewers answer no ping


@dataclasses.dataclass(frozen=True)
class Server:
    """A hub or a bare loop that runs."""

    process: subprocess.Popen[str]
    port: int
    path: str  # "-": no WebSocket server
    token: str = "-"
    worker_token: str = "-"
    sends_itself: bool = False  # it needs no worker

    def rss_mib(self) -> float:
        """The most so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) / 1024


def program(name: str) -> str:
    return str(tensor_tracer().with_name(name))


def spawn(line: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Of all threads, by the scheduler's account in nanoseconds."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) * 1e-9


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline().strip()
    if not line:
        sys.exit(f"{process.args} ended without a word")
    return line


@contextlib.contextmanager
def running(line: list[str], goodbye: signal.Signals = signal.SIGKILL) -> Iterator[subprocess.Popen[str]]:
    """A process for as long as the block lasts."""
    process = spawn(line)
    try:
        yield process
    finally:
        process.send_signal(goodbye)
        process.wait(10)


@contextlib.contextmanager
def our_hub(*flags: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="tt-bench-") as folder:
        line = [program("tensor-tracer-hub"), "serve", "--run-dir", folder, "--port", "0", *flags]
        with running(line, signal.SIGTERM) as process:
            first_line(process)
            port = json.loads((Path(folder) / "hub.json").read_text())["port"]
            tokens = [(Path(folder) / f).read_text().strip() for f in ("token", "worker_token")]
            yield Server(process, port, "/ws", *tokens)


@contextlib.contextmanager
def server_of(system: str, cell: Cell) -> Iterator[Server]:
    if system == "ours":
        with our_hub("--history", "off") as server:  # the Python hub keeps none either
            yield server
        return
    if system == "Python":
        line = [sys.executable, str(HERE / "python_hub.py")]
    else:
        line = [program("hub_load"), "send_loop", str(cell.size), str(cell.viewers)]
    with running(line, signal.SIGTERM) as process:
        path = "/ws" if system == "Python" else "-"
        yield Server(process, int(first_line(process)), path, sends_itself=system == "send()")


@contextlib.contextmanager
def viewers_of(server: Server, count: int) -> Iterator[subprocess.Popen[str]]:
    line = [program("hub_load"), "viewers", str(server.port), server.path, server.token, str(count)]
    with running(line) as process:
        assert first_line(process) == "ready"
        yield process


@contextlib.contextmanager
def worker_of(server: Server, size: int, batch: int, rate: float) -> Iterator[None]:
    """Sends messages of `batch` records until the block ends; rate 0: as fast as they are taken."""
    path = "-" if server.path == "-" else "/worker"
    line = [program("hub_load"), "worker", str(server.port), path, server.worker_token]
    with running([*line, str(size), str(batch), str(rate)]) as process:
        yield
        if process.poll() is not None:
            sys.exit("the worker ended early")


def tell(process: subprocess.Popen[str], command: str) -> None:
    assert process.stdin
    process.stdin.write(f"{command}\n")
    process.stdin.flush()


def window(
    server: Server, cell: Cell, seconds: float, batch: int = 1, rate: float = 0
) -> dict[str, Any]:
    """The viewers' figures of this time after the warm-up, and the server's CPU time and memory."""
    with viewers_of(server, cell.viewers) as viewers:
        with contextlib.ExitStack() as stack:
            if not server.sends_itself:
                stack.enter_context(worker_of(server, cell.size, batch, rate))
            time.sleep(WARM_UP)
            tell(viewers, "begin")
            begin = cpu_seconds(server.process)
            time.sleep(seconds)
            used = {
                "cpu_seconds": cpu_seconds(server.process) - begin,
                "rss_mib": server.rss_mib(),
            }
            tell(viewers, "end")  # and send() ends with them
        return json.loads(first_line(viewers)) | used


def measure(system: System, cell: Cell, seconds: float) -> Measured:
    with server_of(system.server, cell) as server:
        got = window(server, cell, seconds, system.batch)
        flood = Measured(
            frames=got["records"] / got["seconds"],
            megabytes=got["bytes"] / got["seconds"] * 1e-6,
            cpu_ms_per_mb=got["cpu_seconds"] * 1e3 / (got["bytes"] * 1e-6),
            dropped=max(0.0, 1 - got["records"] / max(1, got["offered"])),
            rss_mib=got["rss_mib"],
        )
    if system.server == "send()" or system.batch > 1:
        return flood
    rate = min(MAX_RATE, RATE_BYTES / (cell.size * cell.viewers))
    with server_of(system.server, cell) as server:
        lasting = min(MAX_SECONDS, max(seconds, LEAST_RECORDS / rate))
        got = window(server, cell, lasting, rate=rate)
    return dataclasses.replace(flood, rate=rate, p50_ms=got["p50_ms"], p99_ms=got["p99_ms"])


def cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name"))


def heading(chosen: argparse.Namespace, load: float) -> str:
    """The machine, the date and the versions, as Markdown."""
    busy = " **The machine was busy: do not trust the times.**" if load > MAX_LOAD else ""
    return (
        f"### The hub, {datetime.date.today().isoformat()}\n\n{cpu_name()}, {os.cpu_count()} CPUs; "
        f"Python {sys.version.split()[0]}, websockets {version('websockets')}; medians of "
        f"{chosen.rounds} rounds of {chosen.seconds} s each; load of the last minute before: "
        f"{load:.1f}.{busy}"
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh hub",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5,
                        help="of each measurement (at the fixed rate as long as "
                        f"{LEAST_RECORDS} records take), at most {MAX_SECONDS}")
    parser.add_argument("--viewers", type=int, action="append", help="default: 1, 8, 32, 64")
    parser.add_argument("--size", type=int, action="append", help="default: 1024, 65536, 1048576")
    parser.add_argument("--append", type=Path, help="also append the result to this file")
    parsed = parser.parse_args()
    if not 0 < parsed.seconds <= MAX_SECONDS:
        parser.error(f"--seconds must be between 0 and {MAX_SECONDS}")
    return parsed


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends with it
    chosen = options()
    cells = [
        cell for cell in CELLS
        if cell.viewers in (chosen.viewers or [cell.viewers])
        and cell.size in (chosen.size or [cell.size])
    ]
    head = heading(chosen, os.getloadavg()[0])
    results: dict[Cell, Rounds] = {
        cell: {system: [] for system in systems_of(cell)} for cell in cells
    }
    for turn in range(chosen.rounds):
        for cell in cells:
            systems = systems_of(cell)
            first = turn % len(systems)
            for system in systems[first:] + systems[:first]:
                found = measure(system, cell, chosen.seconds)
                results[cell][system].append(found)
                print(f"round {turn + 1}, {cell}, {system}: {found.line()}", file=sys.stderr)
    text = f"{head}\n\n{report(results)}"
    print(text)
    if chosen.append:
        with open(REPOSITORY / chosen.append, "a") as file:
            file.write(f"\n{text}\n")


if __name__ == "__main__":
    main()
