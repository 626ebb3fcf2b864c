"""Many clients that come, stall, misbehave and vanish at random moments; the hub serves on.

TT_CHAOS_SECONDS says how long (default 6). With a sanitizer build in TT_BIN_DIR a report ends the hub
and with it the test.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time

from hub_harness import Hub, RawSocket, make_record

SECONDS = float(os.environ.get("TT_CHAOS_SECONDS", "6"))
CLIENTS = 24
METHODS = ["ping", "subscribe", "control.claim", "control.release", "control.pause", "nonsense"]


def misbehave(hub: Hub, seed: int, end: float) -> None:
    """One client after another, each with a random life."""
    dice = random.Random(seed)
    while time.monotonic() < end:
        with contextlib.suppress(OSError, EOFError, AssertionError):
            raw = RawSocket(hub.port, receive_buffer=dice.choice([None, 4096]))
            if dice.random() < 0.1:
                raw.socket.sendall(os.urandom(dice.randrange(1, 200)))
                continue
            raw.upgrade("/ws", hub.token)
            hello = {"id": 1, "method": "hello", "params": {"versions": [1], "role": "viewer"}}
            raw.send_frame(1, json.dumps(hello).encode())
            for number in range(2, dice.randrange(3, 30)):
                act(raw, dice, number)
            if dice.random() < 0.5:
                raw.send_frame(8, b"\x03\xe8")
            if dice.random() < 0.3:
                raw.socket.recv(100)
            raw.socket.close()


def act(raw: RawSocket, dice: random.Random, number: int) -> None:
    choice = dice.random()
    if choice < 0.6:
        request = {"id": number, "method": dice.choice(METHODS)}
        raw.send_frame(1, json.dumps(request).encode())
    elif choice < 0.7:
        raw.send_frame(9, b"ping")
    elif choice < 0.75:
        raw.send_frame(dice.choice([0, 2, 3, 10]), os.urandom(20))
    elif choice < 0.8:
        raw.send_frame(1, os.urandom(20), mask=False)
    elif choice < 0.9:
        raw.receive_frame()
    else:
        time.sleep(dice.random() * 0.05)


def trainer(hub: Hub, end: float) -> None:
    """A trainer that reconnects twice a second."""
    sequence = 0
    while time.monotonic() < end:
        worker = hub.worker()
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            sequence += 1
            worker.notify("step", step=sequence)
            worker.connection.send(make_record(bytes(64), sequence=sequence, layer=sequence % 9))
            time.sleep(0.002)
        if sequence % 2:
            worker.connection.socket.close()
        else:
            worker.connection.close()


def test_chaos(hub: Hub) -> None:
    end = time.monotonic() + SECONDS
    threads = [
        threading.Thread(target=misbehave, args=(hub, seed, end), daemon=True)
        for seed in range(CLIENTS)
    ]
    threads.append(threading.Thread(target=trainer, args=(hub, end), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 30)
    assert hub.process.poll() is None, "the hub died"
    start = time.monotonic()
    viewer = hub.viewer()
    assert viewer.request("ping")["result"] == {}
    assert time.monotonic() - start < 1
