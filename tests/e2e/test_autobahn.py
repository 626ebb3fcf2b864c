"""The Autobahn test suite's own cases, run by kosoku, against the hub's WebSocket sessions.

The cases want a server that says back what it gets: tests/e2e/echo_hub.cpp puts a room that does so
behind the hub's sessions. Those that send more than a viewer may are a worker's. Groups 12 and 13 are
compression, which the hub never accepts; a few of them show that it declines, and
test_websocket_handshake.py has the rest.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hub_harness import binary
from kosoku import FailureError, run_fuzzingclient

pytestmark = pytest.mark.nightly(suite="websocket")

COMPRESSION = ["12.*", "13.*"]
LARGE = ["7.1.6", "9.*"]
CASES = 301  # of the suite, compression left out
INFORMATIONAL = ["7.1.6", "7.13.1", "7.13.2"]  # what a server does is its own affair


@pytest.fixture
def echo() -> Iterator[str]:
    process = subprocess.Popen([binary("echo_hub")], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield f"ws://127.0.0.1:{int(process.stdout.readline())}/"
    finally:
        process.kill()
        process.wait()


def run(url: str, cases: list[str] | None, without: list[str]) -> list[Any]:
    try:
        return asyncio.run(run_fuzzingclient(url, cases, without))
    except FailureError as failure:
        return failure.results


def test_every_case_is_ok_but_those_that_leave_it_open(echo: str) -> None:
    results = run(echo, None, COMPRESSION + LARGE) + run(f"{echo}worker", LARGE, [])
    found = {each.case_id: (each.behavior.value, each.behavior_close.value) for each in results}
    assert len(found) == CASES
    others = {case: said for case, said in found.items() if said != ("OK", "OK")}
    assert sorted(others) == INFORMATIONAL
    assert set(others.values()) == {("INFORMATIONAL", "INFORMATIONAL")}


@pytest.mark.smoke
@pytest.mark.parametrize("case", ["12.1.1", "12.5.1", "13.1.1", "13.7.1"])
def test_compression_is_declined(echo: str, case: str) -> None:
    [result] = run(echo, [case], [])
    assert result.behavior.value == "UNIMPLEMENTED"
