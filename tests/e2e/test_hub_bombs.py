"""What is small to send and meant to be large to receive (SEC-5): a connected worker loses nothing,
the hub's memory stays, and a good client is answered within a second afterwards.

Half-open handshakes are 10,000 in all; as many of them stay open at once as half the limit on
descriptors of this process allows. The hub itself keeps the youngest 64 and ends the others.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import time
import zlib
from collections import deque

import pytest
from hub_harness import Hub, RawSocket, sanitized
from hub_vitals import unharmed
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

KIB, MIB, GIB = 1024, 1024**2, 1024**3
DEEP = {"lists": b"[" * 10**6, "objects": b'{"a":' * 200_000, "closed": b"[" * 500_000 + b"]" * 500_000}  # fmt: skip


@pytest.mark.parametrize("name", DEEP)
def test_deep_json_of_a_worker(shared_hub: Hub, name: str) -> None:
    with unharmed(shared_hub), RawWebSocket(shared_hub, "/worker") as worker:
        worker.receive()  # viewers
        for _ in range(10):
            worker.send(frame(TEXT, DEEP[name]))
            assert worker.answer(0)["error"]["code"] == "too_large"


@pytest.mark.parametrize("name", DEEP)
def test_deep_json_of_a_viewer(shared_hub: Hub, name: str) -> None:
    with unharmed(shared_hub):
        for _ in range(10):
            with RawWebSocket(shared_hub, records=False) as ws:
                ws.send(frame(TEXT, DEEP[name]))
                ws.expect_close(1009)
        with RawSocket(shared_hub.port).socket as connection:
            size = len(DEEP[name])
            head = f"POST /auth HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
            with contextlib.suppress(ConnectionError):
                connection.sendall(head.encode() + DEEP[name])
                assert connection.recv(100).split()[1] in (b"400", b"413")


def test_a_deflated_gibibyte(shared_hub: Hub) -> None:
    """Offered, not negotiated, sent all the same."""
    squeeze = zlib.compressobj(wbits=-15)
    squeeze.compress(bytes(MIB)), squeeze.flush(zlib.Z_FULL_FLUSH)
    block = squeeze.compress(bytes(MIB)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    bomb = block * 1024
    with unharmed(shared_hub):
        for path in ("/ws", "/worker"):
            with RawWebSocket(shared_hub, path, records=False) as ws:
                if path == "/worker":
                    ws.receive()  # viewers
                ws.send(frame(BINARY, bomb, rsv=4))
                ws.expect_close(1002)


@pytest.mark.parametrize("told", [GIB, 2**62])
def test_an_announced_gibibyte(shared_hub: Hub, told: int) -> None:
    with unharmed(shared_hub):
        for _ in range(50):
            with RawWebSocket(shared_hub, records=False) as ws:
                ws.send(frame(TEXT, b"", length=told))
                ws.expect_close(1009)


@pytest.mark.parametrize("size", [0, 4])
def test_16_thousand_fragments(shared_hub: Hub, size: int) -> None:
    message = request(2, 64 * KIB)
    with unharmed(shared_hub), RawWebSocket(shared_hub, records=False) as ws:
        ws.send(*fragments(message, [size] * (16 * KIB - 1)))
        assert ws.answer(2)["result"] == {}
        ws.send(frame(TEXT, b"", fin=False), *[frame(CONT, b"", fin=False)] * 16 * KIB)
        ws.send(frame(CONT, request(3)))
        assert ws.answer(3)["result"] == {}


def test_pings_whose_pongs_nobody_reads(shared_hub: Hub) -> None:
    with unharmed(shared_hub), RawWebSocket(shared_hub, records=False) as ws:
        ws.socket.settimeout(0.5)
        pings = frame(PING, b"x" * 125) * 1000
        with contextlib.suppress(TimeoutError):
            for _ in range(100):
                ws.socket.sendall(pings)


def test_requests_whose_answers_nobody_reads(shared_hub: Hub) -> None:
    with unharmed(shared_hub), RawWebSocket(shared_hub, records=False) as ws:
        ws.socket.settimeout(0.5)
        with contextlib.suppress(TimeoutError, ConnectionError):
            for number in range(2, 50_000, 100):
                requests = [frame(TEXT, request(number + at, method="x" * 64)) for at in range(100)]
                ws.socket.sendall(b"".join(requests))


def test_ten_thousand_half_open_handshakes(shared_hub: Hub) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: deque[socket.socket] = deque(maxlen=min(10_000, soft // 2))
    starts = [b"", b"G", b"GET /ws HTTP/1.1\r\nHost: localhost\r\nSec-WebSoc"]
    with unharmed(shared_hub):
        for number in range(10_000):
            if len(held) == held.maxlen:
                held.popleft().close()
            connection = socket.create_connection(("127.0.0.1", shared_hub.port), timeout=10)
            with contextlib.suppress(ConnectionError):
                connection.sendall(starts[number % len(starts)])
            held.append(connection)
    for connection in held:
        connection.close()


def test_slowloris(shared_hub: Hub) -> None:
    """Slow heads and slow bodies are cut off after 5 s however often a byte comes."""
    heads = [f"{n}: {v}\r\n" for n, v in UPGRADE.items()]
    slow_head = ("GET /ws HTTP/1.1\r\n" + "".join(heads)).encode()
    slow_body = b"POST /auth HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\n" + b" " * 4000
    start = time.monotonic()
    with unharmed(shared_hub):
        slow = [RawSocket(shared_hub.port).socket for _ in range(60)]
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


def test_a_body_without_an_end(shared_hub: Hub) -> None:
    head = b"POST /auth HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with unharmed(shared_hub):
        connection = RawSocket(shared_hub.port).socket
        with pytest.raises(ConnectionError):
            connection.sendall(head)
            for _ in range(1000):
                connection.sendall(b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n")


@pytest.mark.skipif(sanitized(), reason="the sanitizers need descriptors of their own")
def test_out_of_descriptors_beside_a_worker(hub: Hub) -> None:
    with unharmed(hub):
        before = resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE, (24, before[1]))
        idle = [RawSocket(hub.port).socket for _ in range(60)]
        time.sleep(0.5)
        assert "could not be accepted" in hub.log()
        for connection in idle:
            connection.close()
        resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE, before)
