"""A WebSocket client that sends exactly the bytes it is told and holds the hub to RFC 6455.

The hub is no echo server, so its own protocol is the oracle: every request gets one answer.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass

from hub_harness import Hub, HttpAnswer

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x37\xfa\x21\x3d"
# The key and the answer of RFC 6455, 1.3.
KEY, ACCEPT = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
UPGRADE = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
}


def masked(payload: bytes, mask: bytes) -> bytes:
    if mask == bytes(4):
        return payload
    repeated = (mask * (len(payload) // 4 + 1))[: len(payload)]
    number = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
    return number.to_bytes(len(payload), "big")


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    rsv: int = 0,
    mask: bytes | None = MASK,
    length_bytes: int | None = None,
    length: int | None = None,
) -> bytes:
    """One frame. `length_bytes` 0, 2 or 8 forces that form; `length` is told instead of the true one."""
    told = len(payload) if length is None else length
    if length_bytes is None:
        length_bytes = 0 if told < 126 else 2 if told < 65536 else 8
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0 if mask is None else 0x80
    if length_bytes == 0:
        head += bytes([bit | told])
    elif length_bytes == 2:
        head += bytes([bit | 126]) + struct.pack(">H", told)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", told)
    return head + (payload if mask is None else mask + masked(payload, mask))


def close_payload(code: int, reason: bytes = b"") -> bytes:
    return struct.pack(">H", code) + reason


def request(number: int, size: int = 0, method: str = "ping") -> bytes:
    """A request as text, filled up with blanks, which JSON ignores, to `size` bytes."""
    return json.dumps({"id": number, "method": method}, ensure_ascii=False).encode().ljust(size)


def fragments(message: bytes, sizes: Iterable[int], opcode: int = TEXT) -> list[bytes]:
    """The message in frames of these sizes; what is left travels in the last one."""
    parts = []
    for size in sizes:
        parts.append(message[:size])
        message = message[size:]
    parts.append(message)
    return [
        frame(CONT if at else opcode, part, fin=at == len(parts) - 1)
        for at, part in enumerate(parts)
    ]


@dataclass(frozen=True)
class Received:
    opcode: int
    payload: bytes

    def close_code(self) -> int | None:
        return struct.unpack(">H", self.payload[:2])[0] if self.payload else None


class RawWebSocket:
    """One connection, from the handshake on; use it in a `with` statement."""

    def __init__(
        self, hub: Hub, path: str = "/ws", hello: bool = True, records: bool = True
    ) -> None:
        """`records` False: binary messages are passed over."""
        self._records = records
        self.socket = socket.create_connection(("127.0.0.1", hub.port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        token = hub.token if path == "/ws" else hub.worker_token
        answer = self.http("GET", path, UPGRADE | {"Authorization": f"Bearer {token}"})
        assert answer.status == 101 and answer.headers["sec-websocket-accept"] == ACCEPT
        self._data = answer.body
        if hello:
            role = "viewer" if path == "/ws" else "worker"
            params = {"versions": [1], "role": role}
            if role == "worker":
                params |= {"rank": 1000, "run": {}}
            greeting = {"id": 1, "method": "hello", "params": params}
            self.send(frame(TEXT, json.dumps(greeting).encode()))
            assert "result" in self.answer(1)

    def __enter__(self) -> RawWebSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def http(self, method: str, path: str, headers: dict[str, str]) -> HttpAnswer:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode())
        return HttpAnswer(self.socket)

    def send(self, *frames: bytes, chop: int | None = None, pause: float = 0) -> None:
        """In one piece, or in pieces of `chop` bytes, each a separate segment."""
        data = b"".join(frames)
        size = chop or max(len(data), 1)
        with contextlib.suppress(ConnectionError):  # what the hub thought is read afterwards
            for at in range(0, len(data), size):
                self.socket.sendall(data[at : at + size])
                if pause:
                    time.sleep(pause)

    def receive(self) -> Received | None:
        """The next frame, which must be as RFC 6455 asks of a server; None: the connection ended."""
        head = self._exactly(2)
        if head is None:
            return None
        opcode, size = head[0] & 0x0F, head[1] & 0x7F
        assert head[0] & 0x70 == 0, "a reserved bit is set"
        assert head[1] & 0x80 == 0, "the hub masked a frame"
        assert opcode in (CONT, TEXT, BINARY, CLOSE, PING, PONG)
        if opcode >= CLOSE:
            assert head[0] & 0x80 and size <= 125, "a control frame is fragmented or too long"
        if size == 126:
            size = struct.unpack(">H", self._exactly(2) or b"")[0]
            assert size >= 126, "not the shortest length"
        elif size == 127:
            size = struct.unpack(">Q", self._exactly(8) or b"")[0]
            assert size >= 65536, "not the shortest length"
        payload = self._exactly(size)
        assert payload is not None, "a frame was cut off"
        if opcode == BINARY and not self._records:
            return self.receive()
        return Received(opcode, payload)

    def answer(self, number: int) -> dict:
        """The next frame, which must be the answer to this request."""
        got = self.receive()
        assert got is not None and got.opcode == TEXT, got
        content = json.loads(got.payload)
        assert content["id"] == number, content
        return content

    def expect_answers(self, *numbers: int) -> None:
        for number in numbers:
            self.answer(number)

    def expect_pong(self, payload: bytes) -> None:
        assert self.receive() == Received(PONG, payload)

    def expect_alive(self, number: int = 900) -> None:
        """Nothing else is on its way, and the connection works."""
        self.send(frame(TEXT, request(number)))
        assert self.answer(number)["result"] == {}

    def expect_close(self, *codes: int | None) -> bytes:
        """The next frame is a close with one of these codes, and then the hub ends the connection.

        None: without a code. The reason.
        """
        got = self.receive()
        assert got is not None, "the connection ended without a close frame"
        assert got.opcode == CLOSE, got
        assert got.close_code() in codes, got
        self.expect_end()
        return got.payload[2:]

    def expect_end(self) -> None:
        self.socket.settimeout(2)
        assert self.receive() is None, "something followed the close frame"

    def is_quiet(self, seconds: float) -> bool:
        readable, _, _ = select.select([self.socket], [], [], seconds)
        return not readable and not self._data

    def _exactly(self, size: int) -> bytes | None:
        while len(self._data) < size:
            try:
                part = self.socket.recv(max(65536, size - len(self._data)))
            except ConnectionResetError:
                return None
            if not part:
                assert not self._data, "a frame was cut off"
                return None
            self._data += part
        taken, self._data = self._data[:size], self._data[size:]
        return taken
