"""A viewer of Tensor Tracer's JSON dialect that reads its updates and keeps none: it costs what a
network card would, not what a page does."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import threading
from pathlib import Path
from typing import Any


class LegacyViewer:
    """Reads in its own thread until it is closed."""

    def __init__(self, run_dir: Path, request: dict[str, Any]) -> None:
        port = json.loads((run_dir / "hub.json").read_text())["port"]
        token = (run_dir / "token").read_text().strip()
        self.updates = 0
        self.bytes_received = 0
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._open(port, token)
        self._send_text(json.dumps(request).encode())
        self._started = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        if not self._started.wait(60):
            raise TimeoutError("no start")

    def close(self) -> None:
        self._socket.close()

    def _open(self, port: int, token: str) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self._take(1)
        if b" 101 " not in answer.split(b"\r\n", 1)[0]:
            raise ConnectionError(answer.decode())

    def _send_text(self, payload: bytes) -> None:
        """One frame of fewer than 126 bytes; the mask is 0."""
        self._socket.sendall(struct.pack(">BBI", 0x81, 0x80 | len(payload), 0) + payload)

    def _take(self, size: int) -> bytes:
        data = self._socket.recv(size, socket.MSG_WAITALL)
        if len(data) < size:
            raise EOFError
        return data

    def _read(self) -> None:
        place = memoryview(bytearray(1 << 20))
        try:
            while True:
                opcode, length = self._take(2)
                if length > 125:
                    length = int.from_bytes(self._take(2 if length == 126 else 8), "big")
                self.bytes_received += length
                first = self._take(min(length, 125))  # all of a ping and of a start
                self._skip(length - len(first), place)
                if opcode & 0x0F == 9:  # a ping
                    self._socket.sendall(bytes([0x8A, 0x80 | len(first), 0, 0, 0, 0]) + first)
                elif b'"start"' in first:
                    self._started.set()
                elif b'"update"' in first:
                    self.updates += 1
        except (OSError, EOFError):
            pass

    def _skip(self, size: int, place: memoryview) -> None:
        while size > 0:
            taken = self._socket.recv_into(place[: min(size, len(place))])
            if taken == 0:
                raise EOFError
            size -= taken
