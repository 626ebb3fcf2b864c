"""A thousand clients that come and go in every way: the hub's descriptors and memory stay as they are,
and a worker beside them loses no record.

TT_CHURN_CLIENTS says how many (default 1,000).
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct

import pytest

from hub_harness import Hub, sanitized, wait_until
from hub_vitals import MIB, descriptors, resident_bytes, unharmed
from raw_websocket import CLOSE, PING, TEXT, RawWebSocket, close_payload, frame, request

pytestmark = pytest.mark.nightly(suite="attacks")

CLIENTS = int(os.environ.get("TT_CHURN_CLIENTS", "1000"))
WARM_UP = 200


def reset(connection: socket.socket) -> None:
    """Ends it with RST, unread data or not."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def come_and_go(hub: Hub, dice: random.Random, way: int) -> None:
    path = dice.choice(["/ws", "/ws", "/ws", "/worker"])
    with RawWebSocket(hub, path, hello=dice.random() < 0.8) as ws:
        match way:
            case 0:  # polite
                ws.send(frame(CLOSE, close_payload(1000)))
                while (got := ws.receive()) is not None and got.opcode != CLOSE:
                    pass
            case 1:
                reset(ws.socket)
            case 2:  # in the middle of a frame
                whole = frame(TEXT, request(2, 300))
                ws.send(whole[: dice.randrange(1, len(whole))])
            case 3:  # in the middle of a fragmented message
                ws.send(frame(TEXT, b'{"id"', fin=False), frame(PING, b"x"))
            case 4:  # with answers unread
                ws.send(*[frame(TEXT, request(number)) for number in range(2, 12)])
                reset(ws.socket)
            case 5:  # a controller
                claim = {"id": 2, "method": "control.claim", "params": {"take_over": True}}
                ws.send(frame(TEXT, json.dumps(claim).encode()))
            case 6:  # against the rules
                ws.send(frame(TEXT, b"\xff"), frame(3))
            case 7:
                ws.socket.shutdown(socket.SHUT_WR)


def half_a_handshake(hub: Hub, dice: random.Random) -> None:
    with socket.create_connection(("127.0.0.1", hub.port)) as connection:
        connection.sendall(b"GET /ws HTTP/1.1\r\nHost: localhost\r\n"[: dice.randrange(35)])
        if dice.random() < 0.5:
            reset(connection)


@pytest.mark.parametrize("clients", [pytest.param(50, marks=pytest.mark.smoke), CLIENTS])
def test_clients_come_and_go(hub: Hub, clients: int) -> None:
    stay = hub.viewer()
    with unharmed(hub):
        come_and_go_many_times(hub, clients)
    assert stay.request("ping")["result"] == {}


def come_and_go_many_times(hub: Hub, clients: int) -> None:
    dice = random.Random(5)
    warm_up = min(clients, WARM_UP)
    fds, memory = descriptors(hub), 0
    for number in range(warm_up + clients):
        if number == warm_up:
            wait_until(lambda: descriptors(hub) == fds, "the warm-up's clients are gone")
            memory = resident_bytes(hub)
        way = number % 9
        if way == 8:
            half_a_handshake(hub, dice)
        else:
            come_and_go(hub, dice, way)
    wait_until(lambda: descriptors(hub) == fds, f"{fds} descriptors as before")
    if not sanitized():  # a sanitizer keeps freed memory for a while
        assert resident_bytes(hub) - memory < 2 * MIB
