"""Runs whose lines, memory and CPU time are followed, for scripts/bench.sh models."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from candidates import tensor_tracer

ROOT_MAY_RUN = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SAMPLE = 0.005  # seconds between two looks at the memory
SEARCH = 0.05  # seconds between two searches for processes
TICKS = os.sysconf("SC_CLK_TCK")
LAUNCHERS = ("mpirun", "orterun", "prterun", "tensor-tracer-hub")


@dataclasses.dataclass(frozen=True)
class Line:
    """A line that a run printed. `seconds`: time.monotonic() of its arrival."""

    seconds: float
    text: str
    cpu: dict[int, float]  # seconds of CPU time by process, at the arrival


@dataclasses.dataclass
class Seen:
    """A run that has ended."""

    begin: float
    lines: list[Line] = dataclasses.field(default_factory=list)
    memory: dict[int, list[tuple[float, int]]] = dataclasses.field(default_factory=dict)  # RssAnon, by process
    peak_rss: int = 0  # bytes; of the largest process, by the kernel's account

    def at(self, start: str) -> float:
        """When the first line that begins so came."""
        return next(line.seconds for line in self.lines if line.text.startswith(start))

    def steps(self) -> list[tuple[Line, dict[str, Any]]]:
        objects = [(line, json.loads(line.text)) for line in self.lines if line.text.startswith("{")]
        return [(line, one) for line, one in objects if "step_ms" in one]

    def ranks(self, count: int) -> list[int]:
        """The processes with the most memory: the start of a process may look like one more."""
        peaks = {pid: max(size for _, size in samples) for pid, samples in self.memory.items()}
        return sorted(peaks, key=peaks.__getitem__, reverse=True)[:count]

    def peak_anonymous(self, pid: int, before: float) -> int:
        """The largest sample of RssAnon until this time, in bytes."""
        return max(size for seconds, size in self.memory[pid] if seconds <= before)

    def anonymous_at(self, pid: int, seconds: float) -> int:
        """The last sample of RssAnon before this time; 0: there was none."""
        return next((size for at, size in reversed(self.memory[pid]) if at <= seconds), 0)


class Sampler:
    """Looks at the memory of all processes of a run, which have `mark` in their arguments."""

    def __init__(self, mark: str, seen: Seen) -> None:
        self._mark, self._seen = mark.encode(), seen
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._ends.set()
        self._thread.join()

    def cpu(self) -> dict[int, float]:
        found = {}
        for pid in list(self._seen.memory):
            try:
                numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found[pid] = (int(numbers[11]) + int(numbers[12])) / TICKS
        return found

    def _run(self) -> None:
        searched = 0.0
        pids: list[int] = []
        while not self._ends.wait(SAMPLE):
            if time.monotonic() - searched > SEARCH:
                pids, searched = self._search(), time.monotonic()
            for pid in pids:
                size = anonymous(pid)
                if size is not None:
                    self._seen.memory.setdefault(pid, []).append((time.monotonic(), size))

    def _search(self) -> list[int]:
        found = []
        for folder in Path("/proc").iterdir():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
            except OSError:
                continue
            is_of_run = any(self._mark in word for word in words)
            if is_of_run and Path(words[0].decode(errors="replace")).name not in LAUNCHERS:
                found.append(int(folder.name))
        return found


def anonymous(pid: int) -> int | None:
    """RssAnon in bytes; None: the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = [line for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(found[0].split()[1]) * 1024 if found else None


def follow(line: list[str], mark: str, environment: dict[str, str]) -> Seen:
    """Runs to the end. A run that fails ends the benchmark."""
    seen = Seen(time.monotonic())
    process = subprocess.Popen(line, env=os.environ | ROOT_MAY_RUN | environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    sampler = Sampler(mark, seen)
    assert process.stdout is not None
    for text in process.stdout:
        seen.lines.append(Line(time.monotonic(), text.rstrip("\n"), sampler.cpu()))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    sampler.end()
    if process.returncode != 0:
        tail = "\n".join(one.text for one in seen.lines[-40:])
        sys.exit(f"exit code {process.returncode} of {' '.join(line)}\n{tail}")
    seen.peak_rss = usage.ru_maxrss * 1024
    return seen


def train_line(flags: dict[str, Any], ranks: int = 1) -> list[str]:
    """The command of `tensor-tracer train` with one thread in each rank."""
    line = [str(tensor_tracer()), "train"]
    for flag, value in ({"threads": 1, "eval-interval": 0, "log-format": "json"} | flags).items():
        line += [f"--{flag}", str(value)]
    if ranks == 1:
        return line
    return [shutil.which("mpirun") or "mpirun", "-np", str(ranks), *line]


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
