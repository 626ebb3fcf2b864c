"""The sinks of an attached run: one process of `python -m tensor_tracer follow` for each."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tensor_tracer.sinks.follow import CONNECTED
from tensor_tracer.sinks.settings import Settings, settings_of

_START_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_FINISH_SECONDS = 60.0  # for what is left to send at the run's end
_KILL_SECONDS = 10.0
_PACKAGE = Path(__file__).parents[2]  # the folder to import tensor_tracer from


@dataclass
class _Follower:
    name: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    errors: IO[bytes]

    @property
    def is_starting(self) -> bool:
        return self.process.poll() is None and CONNECTED not in _text(self.output)


class Followers:
    """Sends the numbers of the run in `run_dir` to tools, until the run ends. `tell`: takes the message of a tool that
    failed; the run goes on. The thread that trains calls the methods."""

    def __init__(self, sinks: Sequence[str | Settings], run_dir: str, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._followers = [_start(settings_of(sink, run_dir), run_dir) for sink in sinks]

    def check(self) -> None:
        """Tells of the tools that have failed since the last call. Waits for nothing."""
        for one in self._followers:
            if one.process.poll() is not None:
                self._tell(f"the sink {one.name} has ended: {_reason(one)}")
        self._followers = [one for one in self._followers if one.process.returncode is None]

    def wait_until_connected(self) -> None:
        """Waits for tools that are still starting, for at most 30 s, so that a short run reaches them too."""
        end = time.monotonic() + _START_SECONDS
        while any(one.is_starting for one in self._followers) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)

    def finish(self) -> None:
        """Waits until the tools have taken everything, for at most 70 s. Call it after the run's end."""
        end = time.monotonic() + _FINISH_SECONDS
        for one in self._followers:
            try:
                code = one.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._tell(f"the sink {one.name} did not take everything in {_FINISH_SECONDS:.0f} s and is stopped")
                _stop(one.process)
                continue
            if code != 0:
                self._tell(f"the sink {one.name} did not take everything: {_reason(one)}")
        self._followers = []


def _start(settings: Settings, run_dir: str) -> _Follower:
    words = settings.words()
    command = [sys.executable, "-m", "tensor_tracer", "follow", run_dir, *words]
    paths = [str(_PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]
    output, errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    process = subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, stdin=subprocess.DEVNULL,
        stdout=output, stderr=errors, start_new_session=True,  # Ctrl-C is the trainer's
    )  # fmt: skip
    return _Follower(words[1], process, output, errors)


def _reason(one: _Follower) -> str:
    """The last line that the process has written to standard error."""
    lines = [line.strip() for line in _text(one.errors).split("\n") if line.strip()]
    return lines[-1].removeprefix("follow: ") if lines else f"exit code {one.process.returncode}"


def _text(file: IO[bytes]) -> str:
    """What a process has written. Its own position in the file stays."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_KILL_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
