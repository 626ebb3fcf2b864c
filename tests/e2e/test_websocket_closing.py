"""The closing handshake of RFC 6455, 5.5.1 and 7: group 7 of the Autobahn test suite.

INFORMATIONAL, as Autobahn calls what the RFC leaves open, of Boost.Beast 1.81 and so of the hub:
* 7.5.1, a reason that is not UTF-8: closed with 1002; others say 1007. The RFC names no code.
* 7.13, codes from 5000 on, which the RFC does not define: taken as valid and sent back.
* 1014 (bad gateway), registered after Beast's list was made: refused with 1002.
"""

from __future__ import annotations

import pytest
from hub_harness import Hub
from raw_websocket import (
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    RawWebSocket,
    close_payload,
    frame,
    request,
)

pytestmark = pytest.mark.nightly(suite="websocket")

NORMAL = frame(CLOSE, close_payload(1000))


@pytest.mark.smoke
def test_a_close_after_a_message(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, request(2)))
        ws.expect_answers(2)
        ws.send(NORMAL)
        ws.expect_close(1000)


@pytest.mark.parametrize("chop", [None, 1])
@pytest.mark.parametrize(
    "behind",
    [NORMAL, frame(PING, b"late"), frame(PONG), frame(TEXT, request(2)), frame(CONT, b"x"),
     frame(TEXT, b"\xff"), frame(3), frame(CLOSE, close_payload(1001))],
    ids=["close", "ping", "pong", "text", "continuation", "not UTF-8", "reserved", "other close"],
)  # fmt: skip
def test_nothing_behind_a_close_counts(shared_hub: Hub, behind: bytes, chop: int | None) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(NORMAL, behind, chop=chop)
        ws.expect_close(1000)


@pytest.mark.parametrize("finished", [True, False])
def test_a_close_within_a_fragmented_message(shared_hub: Hub, finished: bool) -> None:
    text = request(2)
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, text[:8], fin=False), NORMAL)
        if finished:
            ws.send(frame(CONT, text[8:]))
        ws.expect_close(1000)


def test_a_close_behind_64_kib(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, request(2, 65536)), NORMAL)
        got = ws.receive()
        assert got is not None and got.opcode in (TEXT, CLOSE)
        if got.opcode == TEXT:  # an answer may still pass, if it is quick enough
            ws.expect_close(1000)


@pytest.mark.parametrize("chop", [None, 1])
def test_a_close_without_a_code(shared_hub: Hub, chop: int | None) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(CLOSE), chop=chop)
        ws.expect_close(1000, None)


def test_a_close_of_one_byte_is_refused(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(CLOSE, b"\x03"))
        ws.expect_close(1002)


@pytest.mark.parametrize(
    "reason", [b"", b"x", b"Hello World!", "κόσμε 🐈".encode(), b"*" * 122, b"*" * 123]
)
def test_reasons(shared_hub: Hub, reason: bytes) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(CLOSE, close_payload(1000, reason)))
        assert ws.expect_close(1000) in (b"", reason)


@pytest.mark.parametrize("size", [124, 125, 1000, 65536])
def test_reasons_that_are_too_long_are_refused(shared_hub: Hub, size: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(CLOSE, close_payload(1000, b"*" * size)))
        ws.expect_close(1002)


@pytest.mark.parametrize(
    "reason",
    [b"\xff", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited", b"\xc0\x80",
     b"\xf4\x90\x80\x80", b"ends within a character\xe2\x82"],
    ids=bytes.hex,
)  # fmt: skip
def test_reasons_that_are_not_utf_8_are_refused(shared_hub: Hub, reason: bytes) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(CLOSE, close_payload(1000, reason)))
        ws.expect_close(1002, 1007)


@pytest.mark.parametrize(
    "code",
    [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 3000, 3001, 3999, 4000,
     4001, 4500, 4999],
)  # fmt: skip
def test_codes_that_are_valid(shared_hub: Hub, code: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(CLOSE, close_payload(code, b"why")))
        ws.expect_close(code, 1000)


@pytest.mark.parametrize(
    "code",
    [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 1999, 2000, 2500, 2999],
)
@pytest.mark.parametrize("reason", [b"", b"why"])
def test_codes_that_must_not_be_sent(shared_hub: Hub, code: int, reason: bytes) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(CLOSE, close_payload(code, reason)))
        ws.expect_close(1002)


@pytest.mark.parametrize("code", [1014, 5000, 65535])
def test_codes_that_the_rfc_leaves_open(shared_hub: Hub, code: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(CLOSE, close_payload(code)))
        ws.expect_close(code, 1000, 1002)


def test_an_end_without_a_close_frame(shared_hub: Hub) -> None:
    """The client stops sending; the hub ends its side, too."""
    with RawWebSocket(shared_hub) as ws:
        ws.socket.shutdown(1)
        ws.expect_end()


def test_a_close_before_hello(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub, hello=False) as ws:
        ws.send(NORMAL)
        ws.expect_close(1000)


def test_a_worker_closes_as_a_viewer_does(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub, "/worker") as ws:
        ws.receive()  # viewers
        ws.send(frame(CLOSE, close_payload(3000)))
        ws.expect_close(3000)


def test_the_code_of_the_first_fault_counts(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, b"\xff"), frame(3), NORMAL)
        ws.expect_close(1007)
