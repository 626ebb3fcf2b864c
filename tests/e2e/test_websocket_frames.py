"""RFC 6455 frame by frame: lengths, masks, control frames, reserved bits, opcodes, fragments.

The groups are those of the Autobahn test suite: 1 framing, 2 pings and pongs, 3 reserved bits,
4 opcodes, 5 fragmentation.
"""

from __future__ import annotations

import os
import time

import pytest
from hub_harness import Hub
from raw_websocket import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    RawWebSocket,
    close_payload,
    fragments,
    frame,
    request,
)

pytestmark = pytest.mark.nightly(suite="websocket")

SIZES = [24, 125, 126, 127, 128, 1000, 65535, 65536]
MASKS = {
    "zero": bytes(4),
    "ones": b"\xff" * 4,
    "first byte": b"\x80\0\0\0",
    "last byte": b"\0\0\0\x01",
    "random": os.urandom(4),
}


# Group 1: framing.


@pytest.mark.parametrize("chop", [None, 997, 1])
@pytest.mark.parametrize("size", SIZES)
def test_text_of_every_length_form(shared_hub: Hub, size: int, chop: int | None) -> None:
    if chop == 1 and size > 1000:
        chop = 97  # tens of thousands of system calls would test the kernel
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, request(2, size)), chop=chop)
        assert ws.answer(2)["result"] == {}
        ws.expect_alive()


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 65535, 65536])
def test_binary_of_every_length_form(shared_hub: Hub, size: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(BINARY, b"\xfe" * size))
        assert ws.answer(0)["error"]["code"] == "invalid_request"
        ws.expect_alive()


def test_empty_text(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT))
        assert ws.answer(0)["error"]["code"] == "invalid_request"
        ws.expect_alive()


@pytest.mark.parametrize("size", [24, 126, 65536])
@pytest.mark.parametrize("mask", MASKS)
def test_masks(shared_hub: Hub, mask: str, size: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, request(2, size), mask=MASKS[mask]))
        assert ws.answer(2)["result"] == {}


def test_every_frame_may_have_a_mask_of_its_own(shared_hub: Hub) -> None:
    text = request(2)
    with RawWebSocket(shared_hub) as ws:
        for at, byte in enumerate(text):
            opcode, last = TEXT if at == 0 else CONT, at == len(text) - 1
            ws.send(frame(opcode, bytes([byte]), fin=last, mask=os.urandom(4)))
        assert ws.answer(2)["result"] == {}


@pytest.mark.parametrize("opcode", [TEXT, BINARY, CONT, PING, PONG, CLOSE])
@pytest.mark.parametrize("payload", [b"", b"{}", b"x" * 125])
def test_unmasked_frames_are_refused(shared_hub: Hub, opcode: int, payload: bytes) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(opcode, payload, mask=None))
        ws.expect_close(1002)


@pytest.mark.parametrize(("size", "length_bytes"), [(0, 2), (125, 2), (0, 8), (125, 8), (126, 8), (65535, 8)])  # fmt: skip
def test_lengths_in_a_longer_form_than_needed_are_refused(
    shared_hub: Hub, size: int, length_bytes: int
) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, b" " * size, length_bytes=length_bytes))
        ws.expect_close(1002)


@pytest.mark.parametrize("count", [2, 16, 100])
def test_messages_of_one_segment(shared_hub: Hub, count: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(*[frame(TEXT, request(number)) for number in range(2, count + 2)])
        ws.expect_answers(*range(2, count + 2))


# Group 2: pings and pongs.


@pytest.mark.parametrize("chop", [None, 1])
@pytest.mark.parametrize(
    "payload", [b"", b"Hello", b"\0\xff\xfe\xfd\xfc\xfb\0\xff", b"\xfe" * 124, b"\xfe" * 125]
)
def test_pings_are_answered(shared_hub: Hub, payload: bytes, chop: int | None) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(PING, payload), chop=chop)
        ws.expect_pong(payload)
        ws.expect_alive()


@pytest.mark.parametrize("opcode", [PING, PONG, CLOSE])
@pytest.mark.parametrize("size", [126, 127, 65536])
def test_long_control_frames_are_refused(shared_hub: Hub, opcode: int, size: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(opcode, close_payload(1000).ljust(size, b"x")))
        ws.expect_close(1002)


@pytest.mark.parametrize("payload", [b"", b"unsolicited", b"\xfe" * 125])
def test_unsolicited_pongs_are_ignored(shared_hub: Hub, payload: bytes) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(PONG, payload), frame(PONG, payload))
        ws.expect_alive()
        ws.send(frame(PONG, payload), frame(PING, b"mine"))
        ws.expect_pong(b"mine")


@pytest.mark.parametrize("chop", [None, 1])
def test_ten_pings(shared_hub: Hub, chop: int | None) -> None:
    """Each answered in order, or, as RFC 6455, 5.5.3 allows, only the latest of those that wait."""
    with RawWebSocket(shared_hub) as ws:
        ws.send(*[frame(PING, b"ping %d" % number) for number in range(10)], chop=chop)
        numbers = []
        while not numbers or numbers[-1] != 9:
            got = ws.receive()
            assert got is not None and got.opcode == PONG and got.payload[:5] == b"ping "
            numbers.append(int(got.payload[5:]))
        assert numbers == sorted(set(numbers))
        ws.expect_alive()


@pytest.mark.smoke
def test_pings_between_requests(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub) as ws:
        for number in range(2, 12):
            ws.send(frame(PING, b"%d" % number), frame(TEXT, request(number)))
            ws.expect_pong(b"%d" % number)
            ws.expect_answers(number)


# Group 3: reserved bits.


@pytest.mark.parametrize("rsv", range(1, 8))
@pytest.mark.parametrize("opcode", [TEXT, BINARY, PING, PONG, CLOSE])
def test_reserved_bits_are_refused(shared_hub: Hub, opcode: int, rsv: int) -> None:
    payload = close_payload(1000) if opcode == CLOSE else b"{}"
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(opcode, payload, rsv=rsv))
        ws.expect_close(1002)


@pytest.mark.parametrize("rsv", [1, 2, 4])
@pytest.mark.parametrize("chop", [None, 1])
def test_reserved_bits_behind_good_frames(shared_hub: Hub, rsv: int, chop: int | None) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, request(2)), chop=chop)
        ws.expect_answers(2)
        ws.send(frame(TEXT, b"{", fin=False), frame(CONT, b"}", rsv=rsv), chop=chop)
        ws.expect_close(1002)


# Group 4: opcodes.


@pytest.mark.parametrize("payload", [b"", b"reserved"])
@pytest.mark.parametrize("opcode", [3, 4, 5, 6, 7, 11, 12, 13, 14, 15])
def test_reserved_opcodes_are_refused(shared_hub: Hub, opcode: int, payload: bytes) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(opcode, payload))
        ws.expect_close(1002)


@pytest.mark.parametrize("opcode", [3, 7, 11, 15])
def test_reserved_opcodes_behind_a_message(shared_hub: Hub, opcode: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, request(2)))
        ws.expect_answers(2)
        ws.send(frame(opcode, b"x"), frame(PING))
        ws.expect_close(1002)


# Group 5: fragments.

LENGTH = len(request(2))


@pytest.mark.parametrize("at", range(LENGTH + 1))
def test_two_fragments_split_anywhere(shared_hub: Hub, at: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(*fragments(request(2), [at]))
        assert ws.answer(2)["result"] == {}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 23])
@pytest.mark.parametrize("chop", [None, 1])
def test_many_fragments(shared_hub: Hub, size: int, chop: int | None) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(*fragments(request(2), [size] * (LENGTH // size)), chop=chop)
        assert ws.answer(2)["result"] == {}


@pytest.mark.parametrize("size", [64, 256, 1300, 4096, 16384, 65535])
def test_64_kib_in_fragments(shared_hub: Hub, size: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(*fragments(request(2, 65536), [size] * (65535 // size)))
        assert ws.answer(2)["result"] == {}


@pytest.mark.parametrize("count", [1, 3, 200])
def test_empty_fragments_everywhere(shared_hub: Hub, count: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        sizes = [0] * count + [LENGTH // 2] + [0] * count + [LENGTH - LENGTH // 2] + [0] * count
        ws.send(*fragments(request(2), sizes))
        assert ws.answer(2)["result"] == {}


@pytest.mark.parametrize("chop", [None, 1])
@pytest.mark.parametrize("between", [PING, PONG])
def test_control_frames_between_fragments(shared_hub: Hub, between: int, chop: int | None) -> None:
    with RawWebSocket(shared_hub) as ws:
        for at, part in enumerate(fragments(request(2), [5] * 4)):
            ws.send(frame(between, b"%d" % at), part, chop=chop)
            if between == PING:
                ws.expect_pong(b"%d" % at)
        assert ws.answer(2)["result"] == {}


def test_fragments_may_take_their_time(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub) as ws:
        for part in fragments(request(2), [8, 8]):
            ws.send(part)
            assert ws.is_quiet(0.05) or part[0] & 0x80
        assert ws.answer(2)["result"] == {}


@pytest.mark.parametrize("opcode", [PING, PONG, CLOSE])
@pytest.mark.parametrize("payload", [b"", close_payload(1000)])
def test_fragmented_control_frames_are_refused(
    shared_hub: Hub, opcode: int, payload: bytes
) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(opcode, payload, fin=False), frame(CONT))
        ws.expect_close(1002)


@pytest.mark.parametrize("fin", [True, False])
@pytest.mark.parametrize("payload", [b"", b"{}"])
@pytest.mark.parametrize("before", ["nothing", "a message", "a fragmented message", "a ping"])
def test_a_continuation_of_nothing_is_refused(
    shared_hub: Hub, before: str, payload: bytes, fin: bool
) -> None:
    with RawWebSocket(shared_hub) as ws:
        if before == "a message":
            ws.send(frame(TEXT, request(2)))
            ws.expect_answers(2)
        elif before == "a fragmented message":
            ws.send(*fragments(request(2), [3]))
            ws.expect_answers(2)
        elif before == "a ping":
            ws.send(frame(PING))
            ws.expect_pong(b"")
        ws.send(frame(CONT, payload, fin=fin))
        ws.expect_close(1002)


@pytest.mark.parametrize("first", [TEXT, BINARY])
@pytest.mark.parametrize("second", [TEXT, BINARY])
@pytest.mark.parametrize("fin", [True, False])
def test_a_message_inside_another_is_refused(
    shared_hub: Hub, first: int, second: int, fin: bool
) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(first, b"{", fin=False), frame(second, b"}", fin=fin))
        ws.expect_close(1002)


def test_an_unfinished_message_ends_with_its_connection_only(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub) as ws, RawWebSocket(shared_hub) as other:
        ws.send(frame(TEXT, b'{"id":', fin=False))
        ws.send(frame(PING, b"cut")[:3])
        ws.socket.close()
        time.sleep(0.05)
        other.expect_alive()
