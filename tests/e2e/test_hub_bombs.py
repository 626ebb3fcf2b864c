"""What is small to send and meant to be large to receive (SEC-5): a connected worker loses nothing,
the hub's memory stays, and a good client is answered within a second afterwards; a real run that is
watched and recorded meanwhile loses no step and no record.

Half-open handshakes are 10,000 in all; as many of them stay open at once as half the limit on
descriptors of this process allows. The hub itself keeps the youngest 64 and ends the others.
"""

from __future__ import annotations

import contextlib
import functools
import json
import resource
import socket
import sqlite3
import statistics
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_crowd import open_viewer
from hub_harness import Hub, Peer, RawSocket, claim, in_background, sanitized, wait_until
from hub_vitals import assert_good_client_is_served, resident_bytes, unharmed
from program import step_log
from raw_websocket import (
    BINARY,
    CONT,
    PING,
    TEXT,
    UPGRADE,
    RawWebSocket,
    fragments,
    frame,
    request,
)
from run_harness import started, two_ranks

pytestmark = pytest.mark.nightly(suite="attacks")

KIB, MIB, GIB = 1024, 1024**2, 1024**3
DEEP = {"lists": b"[" * 10**6, "objects": b'{"a":' * 200_000, "closed": b"[" * 500_000 + b"]" * 500_000}  # fmt: skip


def deep_json_of_a_worker(name: str, hub: Hub) -> None:
    with RawWebSocket(hub, "/worker") as worker:
        for _ in range(10):
            worker.send(frame(TEXT, DEEP[name]))
            assert answer(worker, 0)["error"]["code"] == "too_large"


def deep_json_of_a_viewer(name: str, hub: Hub) -> None:
    for _ in range(10):
        with RawWebSocket(hub, records=False) as ws:
            ws.send(frame(TEXT, DEEP[name]))
            expect_close(ws, 1009)
    with RawSocket(hub.port).socket as connection:
        size = len(DEEP[name])
        head = f"POST /auth HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
        with contextlib.suppress(ConnectionError):
            connection.sendall(head.encode() + DEEP[name])
            assert connection.recv(100).split()[1] in (b"400", b"413")


def expect_close(ws: RawWebSocket, code: int) -> None:
    """A close with this code, after what everybody is told meanwhile."""
    while (got := ws.receive()) is not None and got.opcode == TEXT:
        pass
    assert got is not None and got.close_code() == code, got
    ws.expect_end()


def answer(ws: RawWebSocket, number: int) -> dict[str, Any]:
    """The answer to this request, after what everybody is told meanwhile."""
    while True:
        got = ws.receive()
        assert got is not None and got.opcode == TEXT, got
        if (content := json.loads(got.payload)).get("id") == number:
            return content


def a_deflated_gibibyte(hub: Hub) -> None:
    """Offered, not negotiated, sent all the same."""
    squeeze = zlib.compressobj(wbits=-15)
    squeeze.compress(bytes(MIB)), squeeze.flush(zlib.Z_FULL_FLUSH)
    block = squeeze.compress(bytes(MIB)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    bomb = block * 1024
    for path in ("/ws", "/worker"):
        with RawWebSocket(hub, path, records=False) as ws:
            ws.send(frame(BINARY, bomb, rsv=4))
            expect_close(ws, 1002)


def an_announced_gibibyte(told: int, hub: Hub) -> None:
    for _ in range(50):
        with RawWebSocket(hub, records=False) as ws:
            ws.send(frame(TEXT, b"", length=told))
            expect_close(ws, 1009)


def sixteen_thousand_fragments(size: int, hub: Hub) -> None:
    message = request(2, 64 * KIB)
    with RawWebSocket(hub, records=False) as ws:
        ws.send(*fragments(message, [size] * (16 * KIB - 1)))
        assert answer(ws, 2)["result"] == {}
        ws.send(frame(TEXT, b"", fin=False), *[frame(CONT, b"", fin=False)] * 16 * KIB)
        ws.send(frame(CONT, request(3)))
        assert answer(ws, 3)["result"] == {}


def pings_whose_pongs_nobody_reads(hub: Hub) -> None:
    with RawWebSocket(hub, records=False) as ws:
        ws.socket.settimeout(0.5)
        pings = frame(PING, b"x" * 125) * 1000
        with contextlib.suppress(TimeoutError):
            for _ in range(100):
                ws.socket.sendall(pings)


def requests_whose_answers_nobody_reads(hub: Hub) -> None:
    with RawWebSocket(hub, records=False) as ws:
        ws.socket.settimeout(0.5)
        with contextlib.suppress(TimeoutError, ConnectionError):
            for number in range(2, 50_000, 100):
                requests = [frame(TEXT, request(number + at, method="x" * 64)) for at in range(100)]
                ws.socket.sendall(b"".join(requests))


def ten_thousand_half_open_handshakes(hub: Hub) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: deque[socket.socket] = deque(maxlen=min(10_000, soft // 2))
    starts = [b"", b"G", b"GET /ws HTTP/1.1\r\nHost: localhost\r\nSec-WebSoc"]
    for number in range(10_000):
        if len(held) == held.maxlen:
            held.popleft().close()
        connection = socket.create_connection(("127.0.0.1", hub.port), timeout=10)
        with contextlib.suppress(ConnectionError):
            connection.sendall(starts[number % len(starts)])
        held.append(connection)
    for connection in held:
        connection.close()


def slowloris(hub: Hub) -> None:
    """Slow heads and slow bodies are cut off after 5 s however often a byte comes."""
    heads = [f"{n}: {v}\r\n" for n, v in UPGRADE.items()]
    slow_head = ("GET /ws HTTP/1.1\r\n" + "".join(heads)).encode()
    slow_body = b"POST /auth HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\n" + b" " * 4000
    start = time.monotonic()
    slow = [RawSocket(hub.port).socket for _ in range(60)]
    at, ended = 0, 0
    while slow and time.monotonic() - start < (15 if sanitized() else 8):
        at += 1
        for number, connection in enumerate(list(slow)):
            text = slow_head if number % 2 else slow_body
            try:
                connection.sendall(text[at : at + 1] if at > 1 else text[:80])
            except ConnectionError:
                slow.remove(connection)
                ended += 1
        time.sleep(0.2)
    assert ended == 60 and time.monotonic() - start > 4.5


def a_body_without_an_end(hub: Hub) -> None:
    head = b"POST /auth HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection = RawSocket(hub.port).socket
    with pytest.raises(ConnectionError):
        connection.sendall(head)
        for _ in range(1000):
            connection.sendall(b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n")


Attack = Callable[[Hub], None]
ATTACKS: dict[str, Attack] = {
    **{f"deep json of a worker: {name}": functools.partial(deep_json_of_a_worker, name) for name in DEEP},
    **{f"deep json of a viewer: {name}": functools.partial(deep_json_of_a_viewer, name) for name in DEEP},
    "a deflated gibibyte": a_deflated_gibibyte,
    "an announced gibibyte": functools.partial(an_announced_gibibyte, GIB),
    "the largest length": functools.partial(an_announced_gibibyte, 2**62),
    "16 thousand empty fragments": functools.partial(sixteen_thousand_fragments, 0),
    "16 thousand fragments": functools.partial(sixteen_thousand_fragments, 4),
    "pings whose pongs nobody reads": pings_whose_pongs_nobody_reads,
    "requests whose answers nobody reads": requests_whose_answers_nobody_reads,
    "ten thousand half-open handshakes": ten_thousand_half_open_handshakes,
    "slowloris": slowloris,
    "a body without an end": a_body_without_an_end,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_beside_a_worker(shared_hub: Hub, name: str) -> None:
    with unharmed(shared_hub):
        ATTACKS[name](shared_hub)


def out_of_descriptors(hub: Hub) -> None:
    before = resource.prlimit(hub.pid(), resource.RLIMIT_NOFILE)
    resource.prlimit(hub.pid(), resource.RLIMIT_NOFILE, (24, before[1]))
    idle = [RawSocket(hub.port).socket for _ in range(60)]
    wait_until(lambda: "could not be accepted" in hub.log(), "a refusal of the system's")
    for connection in idle:
        connection.close()
    resource.prlimit(hub.pid(), resource.RLIMIT_NOFILE, before)


@pytest.mark.smoke
@pytest.mark.skipif(sanitized(), reason="the sanitizers need more descriptors")
def test_out_of_descriptors_beside_a_worker(hub: Hub) -> None:
    with unharmed(hub):
        out_of_descriptors(hub)


@contextlib.contextmanager
def listening(viewer: Peer) -> Iterator[None]:
    """In a separate thread."""
    def listen(over: threading.Event) -> None:
        while not over.is_set():
            viewer.drain(0.05)

    with in_background(listen):
        yield


def attacked(hub: Hub, viewer: Peer) -> dict[str, float]:
    """Milliseconds of a step, median, calm and under every attack, each with a viewer that reads nothing."""
    took = {}
    for name, attack in {"calm": lambda _: time.sleep(2), **ATTACKS, "out of descriptors": out_of_descriptors}.items():
        begin = len(viewer.named("step"))
        stalled = open_viewer(hub, receive_buffer=4 * KIB)
        attack(hub)
        stalled.socket.close()
        assert_good_client_is_served(hub)
        steps = viewer.named("step")[begin:]
        took[name] = statistics.median(step["step_ms"] for step in steps) if steps else float("nan")
    return took


@pytest.mark.skipif(sanitized(), reason="the program has no build with a sanitizer")
def test_beside_a_run_of_two_ranks(tmp_path: Path) -> None:
    recorded = two_ranks(tmp_path) | {"record": str(tmp_path)}
    with started(recorded, tmp_path) as (run, hub, viewer):
        before = resident_bytes(hub)
        with listening(viewer):
            took = attacked(hub, viewer)
        grown = resident_bytes(hub) - before
        assert "result" in claim(viewer)
        last = viewer.request("control.stop")["result"]["step"]
        viewer.receive_until(lambda: viewer.named("step")[-1]["step"] == last, "the last step")
        run.wait()
    print(f"{last} steps; {grown / MIB:.1f} MiB more; ms a step: {took}")
    every = list(range(1, last + 1))
    assert [step["step"] for step in viewer.named("step")] == every
    assert [step["step"] for step in step_log((tmp_path / "output.txt").read_text())] == every
    assert not [told for told in viewer.named("dropped") if told["where"] == "trainer"]
    assert grown < 64 * MIB
    database = sqlite3.connect(tmp_path / "run.ttrec")
    kept = [number for (number,) in database.execute("SELECT sequence FROM frames ORDER BY sequence")]
    assert kept == list(range(1, len(kept) + 1)) and len(kept) >= last
    assert [n for (n,) in database.execute("SELECT step FROM scalars WHERE name = 'loss' ORDER BY step")] == every
