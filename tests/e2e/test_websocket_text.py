"""RFC 6455, 8.1: valid UTF-8 of every class comes back unchanged, everything else ends with 1007.

The classes are those of group 6 of the Autobahn test suite and of Markus Kuhn's list that it follows.
The text is the name of a method; the hub does not know it and says so, naming it.

INFORMATIONAL: Boost.Beast 1.81 does not look at the end of a text whose last frame is empty. Such a
message reaches the hub, whose JSON reader refuses it: an error answer instead of 1007.
"""

from __future__ import annotations

import json

import pytest
from hub_harness import Hub
from raw_websocket import BINARY, CONT, PING, TEXT, RawWebSocket, fragments, frame

pytestmark = pytest.mark.nightly(suite="websocket")

VALID = {
    "ASCII": "Hello, world",
    "Latin and umlauts": "Hello-µ@ßöäüàá-UTF-8!!",
    "Greek": "κόσμε",
    "Cyrillic and CJK": "Привет 世界 한국",
    "emoji": "🐈🧵👩‍💻",
    "combining": "e\u0301\u0323",
    "replacement character": "\ufffd",
    "byte order mark": "\ufeffx",
    "delete": "\x7f",
} | {
    f"U+{point:04X}": chr(point)
    for point in [
        0x20, 0x7E, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xCFFF, 0xD000, 0xD7FF, 0xE000, 0xFDD0,
        0xFFFE, 0xFFFF, 0x10000, 0x1FFFE, 0x1FFFF, 0x2FFFE, 0x3FFFF, 0x40000, 0x4FFFE, 0x8FFFF,
        0xBFFFE, 0xEFFFF, 0xFFFFE, 0xFFFFF, 0x100000, 0x10FFFE, 0x10FFFF,
    ]
}  # fmt: skip


def around(text: bytes) -> bytes:
    return b'{"id":2,"method":"' + text + b'"}'


def echoed(ws: RawWebSocket) -> str:
    error = ws.answer(2)["error"]
    assert error["code"] == "unknown_method"
    return error["where"]


@pytest.mark.parametrize("name", VALID)
def test_valid_text_comes_back(shared_hub: Hub, name: str) -> None:
    text = "x" + VALID[name]
    message = around(text.encode())
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, message))
        assert echoed(ws) == text
        ws.send(frame(TEXT, message), chop=1)
        assert echoed(ws) == text
        for at in range(19, len(message) - 1):
            ws.send(*fragments(message, [at]))
            assert echoed(ws) == text
        ws.send(*fragments(message, [1] * len(message)))
        assert echoed(ws) == text


def continuation_bytes(first: int, last: int) -> bytes:
    return bytes(range(first, last + 1))


def lonely_starts(first: int, last: int) -> bytes:
    return b" ".join(bytes([byte]) for byte in range(first, last + 1)) + b" "


INCOMPLETE = [b"\xc2", b"\xe0\xa0", b"\xf0\x90\x80", b"\xdf", b"\xef\xbf", b"\xf4\x8f\xbf"]
INVALID = {
    # 6.9 to 6.13: continuations without a start, starts without a continuation.
    "first continuation byte": b"\x80",
    "last continuation byte": b"\xbf",
    **{f"{n} continuation bytes": b"\x80\xbf\x80\xbf\x80\xbf\x80"[:n] for n in range(2, 8)},
    "all continuation bytes": continuation_bytes(0x80, 0xBF),
    "starts of 2 bytes": lonely_starts(0xC2, 0xDF),
    "starts of 3 bytes": lonely_starts(0xE0, 0xEF),
    "starts of 4 bytes": lonely_starts(0xF0, 0xF4),
    "starts of 5 bytes": lonely_starts(0xF8, 0xFB),
    "starts of 6 bytes": lonely_starts(0xFC, 0xFD),
    # 6.14, 6.15: sequences with the last byte missing, alone and in a row.
    **{f"incomplete {text.hex()}": text for text in INCOMPLETE},
    "incomplete ones in a row": b"".join(INCOMPLETE),
    # 6.16: bytes that never occur.
    "FE": b"\xfe",
    "FF": b"\xff",
    "FE FE FF FF": b"\xfe\xfe\xff\xff",
    "C0": b"\xc0",
    "C1": b"\xc1",
    "F5": b"\xf5\x80\x80\x80",
    # 6.17 to 6.19: overlong forms, of a slash, at their upper end, of NUL.
    **{
        f"overlong {text.hex()}": text
        for text in [
            b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"\xf8\x80\x80\x80\xaf",
            b"\xfc\x80\x80\x80\x80\xaf", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf",
            b"\xf8\x87\xbf\xbf\xbf", b"\xfc\x83\xbf\xbf\xbf\xbf", b"\xc0\x80", b"\xe0\x80\x80",
            b"\xf0\x80\x80\x80", b"\xf8\x80\x80\x80\x80", b"\xfc\x80\x80\x80\x80\x80",
        ]
    },
    # 6.20, 6.21: halves of surrogate pairs, alone and in pairs.
    **{
        f"surrogate {text.hex()}": text
        for text in [
            b"\xed\xa0\x80", b"\xed\xad\xbf", b"\xed\xae\x80", b"\xed\xaf\xbf", b"\xed\xb0\x80",
            b"\xed\xbe\x80", b"\xed\xbf\xbf", b"\xed\xa0\x80\xed\xb0\x80",
            b"\xed\xa0\x80\xed\xbf\xbf", b"\xed\xad\xbf\xed\xb0\x80", b"\xed\xad\xbf\xed\xbf\xbf",
            b"\xed\xae\x80\xed\xb0\x80", b"\xed\xaf\xbf\xed\xbf\xbf",
        ]
    },
    # 6.5 to 6.8: beyond U+10FFFF, sequences of 5 and 6 bytes.
    "U+110000": b"\xf4\x90\x80\x80",
    "U+1FFFFF": b"\xf7\xbf\xbf\xbf",
    "U+200000": b"\xf8\x88\x80\x80\x80",
    "U+3FFFFFF": b"\xfb\xbf\xbf\xbf\xbf",
    "U+4000000": b"\xfc\x84\x80\x80\x80\x80",
    "U+7FFFFFFF": b"\xfd\xbf\xbf\xbf\xbf\xbf",
    # 6.3: between valid text.
    "in the middle of Greek": "κόσμε".encode() + b"\xed\xa0\x80" + b"edited",
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid_text_in_one_frame(shared_hub: Hub, name: str) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, around(INVALID[name])))
        ws.expect_close(1007)


@pytest.mark.parametrize("name", INVALID)
def test_invalid_text_byte_by_byte(shared_hub: Hub, name: str) -> None:
    message = around(INVALID[name])
    with RawWebSocket(shared_hub) as ws:
        ws.send(*fragments(message, [1] * len(message)), chop=1)
        ws.expect_close(1007)


@pytest.mark.parametrize("name", INVALID)
def test_invalid_text_is_refused_before_its_message_ends(shared_hub: Hub, name: str) -> None:
    """6.4, fail-fast: the last frame is never sent."""
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, around(INVALID[name]), fin=False))
        ws.expect_close(1007)


@pytest.mark.parametrize("name", INVALID)
def test_invalid_text_is_refused_before_its_frame_ends(shared_hub: Hub, name: str) -> None:
    """6.4, fail-fast: the frame announces more than ever comes."""
    text = around(INVALID[name])
    whole = frame(TEXT, text.ljust(len(text) + 1000))
    with RawWebSocket(shared_hub) as ws:
        ws.send(whole[: len(whole) - 1000])
        ws.expect_close(1007)


@pytest.mark.parametrize("text", INCOMPLETE, ids=bytes.hex)
def test_text_that_ends_within_a_character(shared_hub: Hub, text: bytes) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, text))
        ws.expect_close(1007)


@pytest.mark.parametrize("text", INCOMPLETE, ids=bytes.hex)
def test_a_message_that_ends_within_a_character(shared_hub: Hub, text: bytes) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, b'"', fin=False), frame(CONT, text[:1], fin=False), frame(PING, b"p"))
        ws.expect_pong(b"p")
        ws.send(frame(CONT, text[1:] + b'"'))
        ws.expect_close(1007)


@pytest.mark.parametrize("text", INCOMPLETE, ids=bytes.hex)
def test_an_empty_last_frame_does_not_hide_it(shared_hub: Hub, text: bytes) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, b'"' + text, fin=False), frame(CONT))
        got = ws.receive()
        assert got is not None
        if got.opcode == TEXT:
            assert json.loads(got.payload)["error"]["code"] == "invalid_request"
        else:
            assert got.close_code() == 1007


def test_a_character_may_be_split_by_a_ping_with_other_bytes(shared_hub: Hub) -> None:
    message = around("κ".encode())
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, message[:19], fin=False), frame(PING, b"\xff\xfe"))
        ws.expect_pong(b"\xff\xfe")
        ws.send(frame(CONT, message[19:]))
        assert echoed(ws) == "κ"


@pytest.mark.smoke
def test_a_new_message_starts_with_a_clean_decoder(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(BINARY, b"\xce"), frame(TEXT, around("κ".encode())))
        assert ws.answer(0)["error"]["code"] == "invalid_request"
        assert echoed(ws) == "κ"


def test_binary_messages_may_hold_anything(shared_hub: Hub) -> None:
    with RawWebSocket(shared_hub) as ws:
        for text in INVALID.values():
            ws.send(frame(BINARY, text))
            assert ws.answer(0)["error"]["code"] == "invalid_request"
        ws.expect_alive()


def test_a_name_cut_by_the_hub_stays_valid_text(shared_hub: Hub) -> None:
    """The hub repeats 64 bytes at most of an unknown name, wherever its characters end."""
    with RawWebSocket(shared_hub) as ws:
        for lead in range(4):
            name = "x" * lead + "🐈" * 40
            ws.send(frame(TEXT, json.dumps({"id": 2, "method": name}, ensure_ascii=False).encode()))
            assert echoed(ws).rstrip("\ufffd") == name[: lead + (64 - lead) // 4]
