"""Many viewers that one thread reads, quick enough to time what each of them gets."""

from __future__ import annotations

import json
import select
import socket
import struct
import time

from hub_harness import Hub, Peer, RawSocket, big_record
from raw_websocket import BINARY, CLOSE, PING, PONG, frame

HELLO = {"id": 1, "method": "hello", "params": {"versions": [1], "role": "viewer"}}


def open_viewer(hub: Hub, receive_buffer: int | None = None) -> RawSocket:
    """Has said hello and reads nothing."""
    raw = RawSocket(hub.port, receive_buffer)
    raw.upgrade("/ws", hub.token)
    raw.send_frame(1, json.dumps(HELLO).encode())
    return raw


class Crowd:
    """`count` viewers that read all they get and answer pings, while somebody calls `poll`."""

    def __init__(self, hub: Hub, count: int) -> None:
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._data: dict[int, bytearray] = {}
        self.sent: dict[int, float] = {}
        self.delays: list[float] = []
        self.told_dropped = 0
        for _ in range(count):
            viewer = open_viewer(hub).socket
            viewer.setblocking(False)
            self._sockets[viewer.fileno()] = viewer
            self._data[viewer.fileno()] = bytearray()
            self._poll.register(viewer.fileno(), select.EPOLLIN)

    def send(self, worker: Peer, sequence: int, size: int, layer: int) -> None:
        """A record whose delay is taken, at every viewer, when it arrives."""
        message = big_record(size, sequence, step=sequence, layer=layer)
        self.sent[sequence] = time.monotonic()
        worker.connection.send(message)

    def poll(self, seconds: float) -> None:
        """Reads for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for number, _ in self._poll.poll(left):
                self._read(number)

    def poll_until(self, delays: int) -> None:
        """Reads until so many delays were taken."""
        end = time.monotonic() + 10
        while len(self.delays) < delays:
            assert time.monotonic() < end, "a healthy viewer missed a record"
            self.poll(0.002)

    def take_delays(self) -> list[float]:
        taken, self.delays = self.delays, []
        return taken

    def close(self) -> None:
        for viewer in self._sockets.values():
            viewer.close()

    def _read(self, number: int) -> None:
        data = self._data[number]
        part = self._sockets[number].recv(1 << 18)
        assert part, "the hub cut a healthy viewer off"
        data += part
        while (size := frame_bytes(data)) is not None and len(data) >= size[0] + size[1]:
            head, length = size
            self._take(number, data[0] & 0x0F, bytes(data[head : head + length]))
            del data[: head + length]

    def _take(self, number: int, opcode: int, payload: bytes) -> None:
        if opcode == BINARY:
            now = time.monotonic()
            while payload:
                sequence = struct.unpack_from("<Q", payload, 16)[0]
                self.delays.append(now - self.sent[sequence])
                size = struct.unpack_from("<Q", payload, 88)[0]
                payload = payload[128 + (size + 7) // 8 * 8 :]
        elif opcode == PING:
            self._sockets[number].send(frame(PONG, payload))
        else:
            assert opcode != CLOSE, payload
            self.told_dropped += b'"dropped"' in payload


def frame_bytes(data: bytearray) -> tuple[int, int] | None:
    """Bytes of the first frame's head and payload; None: not known yet."""
    if len(data) < 10:
        return (2, data[1] & 0x7F) if len(data) >= 2 and data[1] & 0x7F < 126 else None
    length = data[1] & 0x7F
    if length < 126:
        return 2, length
    if length == 126:
        return 4, struct.unpack_from(">H", data, 2)[0]
    return 10, struct.unpack_from(">Q", data, 2)[0]
