"""Large messages, Autobahn's groups 9 and 10, and the limits of docs/protocol.md.

Only workers may send much. What a worker sends in one frame, in fragments or in small segments
reaches a viewer unchanged.
"""

from __future__ import annotations

import os
import time

import pytest
from hub_harness import Hub, big_record
from raw_websocket import (
    BINARY,
    CONT,
    PING,
    PONG,
    TEXT,
    RawWebSocket,
    Received,
    fragments,
    frame,
    request,
)

pytestmark = pytest.mark.nightly(suite="websocket")

KIB, MIB = 1024, 1024 * 1024


def record_of(size: int) -> bytes:
    """A record of noise; its payload's CRC is the reader's to check, not the hub's."""
    return big_record(size, sequence=1)[:-size] + os.urandom(size)


def relay(hub: Hub, message: bytes, frames: list[bytes], chop: int | None = None) -> None:
    with RawWebSocket(hub) as viewer, RawWebSocket(hub, "/worker") as worker:
        worker.send(*frames, chop=chop)
        got = viewer.receive()
        assert got is not None and got.opcode == BINARY and got.payload == message


# A new hub for each: it keeps the latest record for the next viewer.


@pytest.mark.parametrize("size", [64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB])
def test_binary_in_one_frame(hub: Hub, size: int) -> None:
    message = record_of(size)
    relay(hub, message, [frame(BINARY, message)])


@pytest.mark.smoke
def test_a_ping_is_answered_between_two_large_frames(hub: Hub) -> None:
    records = [record_of(4 * MIB), record_of(4 * MIB)]
    with RawWebSocket(hub) as viewer, RawWebSocket(hub, "/worker") as worker:
        worker.send(*(frame(BINARY, record) for record in records))
        assert not viewer.is_quiet(5), "the hub writes, and cannot end"
        viewer.send(frame(PING, b"now"))
        time.sleep(0.2)  # the hub has read it
        got: list[Received] = []
        while len(got) < 3:
            if (message := viewer.receive()).opcode != TEXT:  # news of the recording may come between
                got.append(message)
    assert got == [
        Received(BINARY, records[0]), Received(PONG, b"now"), Received(BINARY, records[1])
    ]


@pytest.mark.parametrize("piece", [64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB])
def test_binary_in_fragments(hub: Hub, piece: int) -> None:
    message = record_of(512 * KIB)
    sizes = [piece] * (len(message) // piece)
    relay(hub, message, fragments(message, sizes, BINARY))


@pytest.mark.parametrize("chop", [256, 1300, 2048, 64 * KIB])
def test_binary_in_small_segments(hub: Hub, chop: int) -> None:
    message = record_of(512 * KIB)
    relay(hub, message, [frame(BINARY, message)], chop)


@pytest.mark.parametrize("size", [64 * KIB, 256 * KIB, MIB])
@pytest.mark.parametrize("piece", [None, 1300])
def test_text_of_a_worker(shared_hub: Hub, size: int, piece: int | None) -> None:
    sizes = [piece] * (size // piece) if piece else []
    with RawWebSocket(shared_hub, "/worker") as worker:
        worker.receive()  # viewers
        worker.send(*fragments(request(2, size), sizes))
        assert worker.answer(2)["result"] == {}


@pytest.mark.parametrize("length_bytes", [2, 8])
def test_text_of_64_kib_and_one_byte_more_of_a_viewer(shared_hub: Hub, length_bytes: int) -> None:
    size = 64 * KIB - (1 if length_bytes == 2 else 0)
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, request(2, size), length_bytes=length_bytes))
        assert ws.answer(2)["result"] == {}
        ws.send(frame(TEXT, request(3, 64 * KIB + 1)))
        ws.expect_close(1009)


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
@pytest.mark.parametrize("told", [64 * KIB + 1, MIB, 2**31, 2**32, 2**62])
def test_an_announced_length_is_enough_to_be_refused(
    shared_hub: Hub, opcode: int, told: int
) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(opcode, b"", length=told))
        ws.expect_close(1009)


def test_a_length_with_the_highest_bit_is_refused(shared_hub: Hub) -> None:
    """RFC 6455, 5.2: the highest bit is 0. INFORMATIONAL: Beast 1.81 takes it as a length (1009)."""
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(BINARY, b"", length=2**63))
        ws.expect_close(1002, 1009)


@pytest.mark.parametrize("piece", [KIB, 4 * KIB, 64 * KIB])
def test_fragments_that_sum_up_to_too_much_are_refused(shared_hub: Hub, piece: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, b" " * piece, fin=False))
        for _ in range(64 * KIB // piece):
            ws.send(frame(CONT, b" " * piece, fin=False))
        ws.expect_close(1009)


def test_a_worker_may_not_send_more_than_256_mib(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub, "/worker") as worker:
        worker.receive()  # viewers
        worker.send(frame(BINARY, b"", length=256 * MIB + 1))
        worker.expect_close(1009)


def test_a_text_of_a_worker_of_more_than_4_mib_is_answered(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub, "/worker") as worker:
        worker.receive()  # viewers
        worker.send(frame(TEXT, request(2, 4 * MIB + 1)))
        assert worker.answer(0)["error"]["code"] == "too_large"
        worker.expect_alive()
