from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Running the program and viewing it is done as the oracles do it.
sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))
sys.path.insert(0, str(Path(__file__).parents[2] / "python"))

from hub_harness import Hub, running_hub


PROTOCOL_SUITE = "test_websocket_"
CLONE_NEWNET = 0x40000000  # sched.h
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40  # net/if.h


def pytest_sessionstart(session: pytest.Session) -> None:
    """Tests side by side (`-n`) have a loopback interface each: many want the first free port, or see it closed."""
    if hasattr(session.config, "workerinput"):
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
            raise pytest.UsageError(f"a network namespace: {os.strerror(ctypes.get_errno())}; leave out -n, or be root")
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many cases of RFC 6455 were tried, and how long they took."""
    reports = [r for reports in terminalreporter.stats.values() for r in reports if isinstance(r, pytest.TestReport)]
    suite = [report for report in reports if PROTOCOL_SUITE in report.nodeid]
    if suite:
        cases, seconds = len({report.nodeid for report in suite}), sum(report.duration for report in suite)
        terminalreporter.write_line(f"WebSocket protocol suite: {cases} cases in {seconds:.0f} s")


@pytest.fixture(scope="session", autouse=True)
def working_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A run without `run_dir` makes its folder `runs` where it starts: not in the checkout."""
    os.chdir(tmp_path_factory.mktemp("work"))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub for one test; the test fails if it dies."""
    with running_hub(tmp_path / "run") as running:
        yield running


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One hub for all tests of a file, each on its own connections."""
    with running_hub(tmp_path_factory.mktemp("hub") / "run") as running:
        yield running
