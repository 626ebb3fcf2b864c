"""The opening handshake of RFC 6455, 4, and what is offered and refused in it.

Compression, groups 12 and 13 of the Autobahn test suite, is never negotiated and never accepted.

INFORMATIONAL, of Boost.Beast 1.81 and so of the hub: a key that is not 16 bytes in base64 is taken,
and `Upgrade: foo/2, websocket`, a list with a version in it, counts as no upgrade (426).
"""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import zlib

import pytest
from hub_harness import Hub, HttpAnswer
from raw_websocket import (
    ACCEPT,
    BINARY,
    CONT,
    KEY,
    PING,
    TEXT,
    UPGRADE,
    RawWebSocket,
    frame,
    request,
)

pytestmark = pytest.mark.nightly(suite="websocket")

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
DEFLATE = "permessage-deflate; client_max_window_bits"


def shake(
    hub: Hub,
    changes: dict[str, str | None] | None = None,
    line: str = "GET /ws HTTP/1.1",
    extra: bytes = b"",
    more: str = "",
) -> HttpAnswer:
    """A good request but for the changes; None leaves a header out."""
    headers = UPGRADE | {"Authorization": f"Bearer {hub.token}"} | (changes or {})
    text = "".join(f"{n}: {v}\r\n" for n, v in headers.items() if v is not None)
    with socket.create_connection(("127.0.0.1", hub.port), timeout=5) as connection:
        connection.sendall(f"{line}\r\n{text}{more}\r\n".encode("latin-1") + extra)
        return HttpAnswer(connection)


@pytest.mark.smoke
def test_the_answer(shared_hub: Hub) -> None:
    answer = shake(shared_hub)
    assert answer.status == 101 and answer.text.startswith("HTTP/1.1 101 ")
    assert answer.headers["upgrade"].lower() == "websocket"
    assert answer.headers["connection"].lower() == "upgrade"
    assert answer.headers["sec-websocket-accept"] == ACCEPT
    assert not {"sec-websocket-extensions", "sec-websocket-protocol"} & answer.headers.keys()


@pytest.mark.parametrize("seed", range(4))
def test_the_accept_value_belongs_to_the_key(shared_hub: Hub, seed: int) -> None:
    key = base64.b64encode(os.urandom(16)).decode()
    digest = hashlib.sha1((key + GUID).encode()).digest()
    answer = shake(shared_hub, {"Sec-WebSocket-Key": key})
    assert answer.headers["sec-websocket-accept"] == base64.b64encode(digest).decode()


@pytest.mark.parametrize(
    "changes",
    [
        {"Connection": "upgrade"},
        {"Connection": "keep-alive, Upgrade"},
        {"Connection": "Upgrade, keep-alive"},
        {"Connection": "foo,UPGRADE ,bar"},
        {"Upgrade": "WebSocket"},
        {"Upgrade": "WEBSOCKET"},
        {"Upgrade": "foo, websocket"},
        {"Sec-WebSocket-Version": " 13 "},
        {"Sec-WebSocket-Protocol": "chat"},
        {"Sec-WebSocket-Protocol": "chat, superchat"},
        {"Sec-WebSocket-Extensions": DEFLATE},
        {"Sec-WebSocket-Extensions": "permessage-deflate; server_max_window_bits=8"},
        {"Sec-WebSocket-Extensions": "x-webkit-deflate-frame"},
        {"Sec-WebSocket-Extensions": "permessage-bzip2, foo; bar=\"1\", permessage-deflate"},
        {"Sec-WebSocket-Extensions": "bbf-usp-protocol"},
        {"Content-Length": "0"},
        {"User-Agent": "x" * 4000},
        {"X-Unknown": "y"},
    ],
    ids=lambda changes: str(changes)[:60],
)  # fmt: skip
def test_variants_that_are_accepted_and_negotiate_nothing(
    shared_hub: Hub, changes: dict[str, str]
) -> None:
    answer = shake(shared_hub, changes)
    assert answer.status == 101, answer.text
    assert not {"sec-websocket-extensions", "sec-websocket-protocol"} & answer.headers.keys()


@pytest.mark.parametrize(
    "changes",
    [{"Sec-WebSocket-Key": ""}, {"Sec-WebSocket-Key": "short"}, {"Upgrade": "foo/2, websocket"}],
    ids=str,
)
def test_variants_that_beast_leaves_open(shared_hub: Hub, changes: dict[str, str | None]) -> None:
    assert shake(shared_hub, changes).status in (101, 400, 426)


def test_names_of_headers_in_any_case(shared_hub: Hub) -> None:
    changes: dict[str, str | None] = {name: None for name in UPGRADE}
    for change in (str.upper, str.lower, str.swapcase):
        renamed = {change(name): value for name, value in UPGRADE.items()}
        assert shake(shared_hub, changes | renamed).status == 101


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Sec-WebSocket-Key": None}, 400),
        ({"Sec-WebSocket-Key": "x" * 200}, 400),
        ({"Sec-WebSocket-Version": None}, 400),
        ({"Sec-WebSocket-Version": ""}, 426),
        ({"Sec-WebSocket-Version": "12"}, 426),
        ({"Sec-WebSocket-Version": "14"}, 426),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Version": "13, 8"}, 426),
        ({"Sec-WebSocket-Version": "thirteen"}, 426),
        ({"Upgrade": None}, 426),
        ({"Upgrade": "h2c"}, 426),
        ({"Upgrade": "websockets"}, 426),
        ({"Connection": None}, 426),
        ({"Connection": "close"}, 426),
        ({"Connection": "Upgraded"}, 426),
        ({"Host": None}, 403),
        ({"Authorization": None}, 401),
    ],
    ids=str,
)
def test_what_is_missing_or_wrong_is_refused(
    shared_hub: Hub, changes: dict[str, str | None], status: int
) -> None:
    answer = shake(shared_hub, changes)
    assert answer.status == status, answer.text
    assert "sec-websocket-accept" not in answer.headers
    if status == 426:
        assert answer.headers["upgrade"].lower() == "websocket"


@pytest.mark.parametrize("version", ["0", "7", "8", "12", "14", "255"])
def test_the_known_version_is_told(shared_hub: Hub, version: str) -> None:
    answer = shake(shared_hub, {"Sec-WebSocket-Version": version})
    assert answer.status == 426 and answer.headers["sec-websocket-version"] == "13"


@pytest.mark.parametrize(
    ("line", "statuses"),
    [
        ("GET /ws HTTP/1.0", {426}),
        ("POST /ws HTTP/1.1", {426}),
        ("PUT /ws HTTP/1.1", {426}),
        ("HEAD /ws HTTP/1.1", {426}),
        ("OPTIONS /ws HTTP/1.1", {426}),
        ("CONNECT /ws HTTP/1.1", {426}),
        ("get /ws HTTP/1.1", {400, 426}),
        ("GET /ws HTTP/2.0", {400, 426}),
        ("GET /ws HTTP/1.2", {400, 426}),
        ("GET /ws HTTP/0.9", {400, 426}),
        ("GET /ws", {400}),
        ("GET  /ws HTTP/1.1", {400}),
        ("/ws HTTP/1.1", {400}),
        ("GET /elsewhere HTTP/1.1", {404}),
        ("GET /ws/ HTTP/1.1", {404}),
        ("GET /WS HTTP/1.1", {404}),
    ],
)
def test_request_lines_that_are_refused(
    shared_hub: Hub, line: str, statuses: set[int]
) -> None:
    answer = shake(shared_hub, line=line)
    assert answer.status in statuses, answer.text


@pytest.mark.parametrize(
    "more",
    ["no colon\r\n", ": nameless\r\n", "Na me: x\r\n", "X\0: y\r\n", "X: y\0\r\n", "X: " + "y" * 9000 + "\r\n"],
    ids=["no colon", "nameless", "blank in name", "NUL in name", "NUL in value", "too long"],
)  # fmt: skip
def test_headers_that_are_refused(shared_hub: Hub, more: str) -> None:
    assert shake(shared_hub, more=more).status == 400


@pytest.mark.parametrize("behind", [frame(PING), frame(TEXT, request(2)), b"\x81", b"GET"])
def test_bytes_before_the_answer_are_refused(shared_hub: Hub, behind: bytes) -> None:
    """RFC 6455, 4.1: a client waits for the answer. Read as frames or lost, they would do harm."""
    assert shake(shared_hub, extra=behind).status == 400


@pytest.mark.parametrize("count", [1, 2, 50])
def test_frames_right_behind_the_answer(shared_hub: Hub, count: int) -> None:
    with RawWebSocket(shared_hub, hello=False) as ws:
        hello = b'{"id":1,"method":"hello","params":{"versions":[1],"role":"viewer"}}'
        rest = [frame(TEXT, request(number)) for number in range(2, count + 2)]
        ws.send(frame(TEXT, hello), *rest)
        ws.expect_answers(*range(1, count + 2))


@pytest.mark.parametrize("chop", [1, 3, 50])
def test_a_handshake_in_small_segments(shared_hub: Hub, chop: int) -> None:
    headers = UPGRADE | {"Authorization": f"Bearer {shared_hub.token}"}
    text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request_bytes = f"GET /ws HTTP/1.1\r\n{text}\r\n".encode()
    with socket.create_connection(("127.0.0.1", shared_hub.port), timeout=5) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(request_bytes), chop):
            connection.sendall(request_bytes[at : at + chop])
        assert HttpAnswer(connection).status == 101


def test_a_handshake_behind_other_requests_of_its_connection(shared_hub: Hub) -> None:
    headers = UPGRADE | {"Authorization": f"Bearer {shared_hub.token}"}
    text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", shared_hub.port), timeout=5) as connection:
        for _ in range(3):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert HttpAnswer(connection).status == 200
        connection.sendall(f"GET /ws HTTP/1.1\r\n{text}\r\n".encode())
        assert HttpAnswer(connection).headers["sec-websocket-accept"] == ACCEPT
    assert KEY == UPGRADE["Sec-WebSocket-Key"]


# Groups 12 and 13: compression.


def deflated(text: bytes) -> bytes:
    squeeze = zlib.compressobj(wbits=-15)
    return (squeeze.compress(text) + squeeze.flush(zlib.Z_SYNC_FLUSH))[:-4]


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
@pytest.mark.parametrize("size", [24, 1000, 65536, 1 << 24])
def test_compressed_messages_are_refused(shared_hub: Hub, size: int, opcode: int) -> None:
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(opcode, deflated(request(2, size)), rsv=4))
        ws.expect_close(1002)


def test_compressed_fragments_are_refused(shared_hub: Hub) -> None:
    squeezed = deflated(request(2, 1000))
    with RawWebSocket(shared_hub) as ws:
        ws.send(frame(TEXT, squeezed[:5], rsv=4, fin=False), frame(CONT, squeezed[5:]))
        ws.expect_close(1002)
