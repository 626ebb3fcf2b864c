"""64 clients that come, stall, misbehave and vanish at random moments; the hub serves on (WS-2).

TT_STORM_SECONDS says how long (default 8), TT_STORM_SEED repeats one. With a sanitizer build in
TT_BIN_DIR a report makes the hub's exit code, and with it the test, a failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import struct
import threading
import time
from pathlib import Path

import pytest
from hub_harness import Hub, RawSocket, big_record, make_record, sanitized, wait_until
from hub_vitals import assert_good_client_is_served, descriptors

pytestmark = pytest.mark.nightly(suite="attacks")

SECONDS = float(os.environ.get("TT_STORM_SECONDS", "8"))
IDLE_SECONDS = 30  # the hub's
SEED = int(os.environ.get("TT_STORM_SEED", str(random.randrange(10**6))))
VIEWERS, WORKERS = 56, 8
METHODS = ["ping", "subscribe", "control.claim", "control.release", "control.pause", "plan.set", "nonsense"]  # fmt: skip
BIG = big_record(256 * 1024, sequence=1)


class Life:
    """One client after another, each with a random life and a random end."""

    def __init__(self, hub: Hub, seed: int, end: float) -> None:
        self.hub, self.dice, self.end = hub, random.Random(seed), end
        self.lives = 0

    def run(self) -> None:
        while time.monotonic() < self.end:
            self.lives += 1
            with contextlib.suppress(OSError, EOFError, AssertionError, ValueError):
                raw = RawSocket(self.hub.port, receive_buffer=self.dice.choice([None, 4096]))
                raw.socket.settimeout(0.5)
                self.live(raw)
                self.finish(raw)

    def live(self, raw: RawSocket) -> None:
        if self.dice.random() < 0.1:
            raw.socket.sendall(os.urandom(self.dice.randrange(1, 200)))
            return
        raw.upgrade("/ws", self.hub.token)
        if self.dice.random() < 0.9:
            self.request(raw, 1, "hello", {"versions": [1], "role": "viewer"})
        for number in range(2, self.dice.randrange(3, 30)):
            self.act(raw, number)

    def request(self, raw: RawSocket, number: int, method: str, params: dict) -> None:
        message = {"id": number, "method": method, "params": params}
        raw.send_frame(1, json.dumps(message).encode())

    def act(self, raw: RawSocket, number: int) -> None:
        choice = self.dice.random()
        if choice < 0.5:
            method = self.dice.choice(METHODS)
            takes_over = method == "control.claim" and self.dice.random() < 0.5
            self.request(raw, number, method, {"take_over": True} if takes_over else {})
        elif choice < 0.6:
            raw.send_frame(9, b"ping")
        elif choice < 0.64:
            raw.send_frame(self.dice.choice([0, 2, 3, 10]), os.urandom(20))
        elif choice < 0.68:
            raw.send_frame(1, os.urandom(20), mask=self.dice.random() < 0.5)
        elif choice < 0.72:
            raw.send_frame(1, b'{"id"', fin=False)
        elif choice < 0.9:
            raw.receive_frame()
        else:
            time.sleep(self.dice.random() * 0.05)

    def finish(self, raw: RawSocket) -> None:
        choice = self.dice.random()
        if choice < 0.3:
            raw.send_frame(8, b"\x03\xe8")
            if self.dice.random() < 0.5:
                raw.receive_close_code()
        elif choice < 0.5:  # cut within a frame
            raw.socket.sendall(b"\x81\xfe\x01\x00"[: self.dice.randrange(1, 4)])
        elif choice < 0.7:  # RST
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif choice < 0.8:
            raw.socket.shutdown(socket.SHUT_WR)
            raw.receive_close_code()
        raw.socket.close()


class WorkerLife(Life):
    """A leader rank, often the same as another one's, that answers what it is asked, or not."""

    def live(self, raw: RawSocket) -> None:
        raw.upgrade("/worker", self.hub.worker_token)
        rank = self.dice.choice([0, 0, 1, 2])
        self.request(raw, 1, "hello", {"versions": [1], "role": "worker", "rank": rank, "run": {}})
        for number in range(2, self.dice.randrange(3, 200)):
            self.act(raw, number)

    def act(self, raw: RawSocket, number: int) -> None:
        choice = self.dice.random()
        if choice < 0.5:
            raw.send_frame(2, make_record(bytes(64), sequence=number, layer=number % 9))
        elif choice < 0.55:
            raw.send_frame(2, BIG)
        elif choice < 0.57:
            raw.send_frame(2, os.urandom(200))
        elif choice < 0.8:
            event = self.dice.choice(["step", "state", "plan", "dropped", "log", "nonsense"])
            phase = self.dice.choice(["training", "paused"])
            params = {"step": number, "phase": phase}
            raw.send_frame(1, json.dumps({"event": event, "params": params}).encode())
        elif choice < 0.9:
            result = {"id": self.dice.randrange(1, 500), "result": {"step": number}}
            raw.send_frame(1, json.dumps(result).encode())
        else:
            time.sleep(self.dice.random() * 0.02)


@pytest.mark.parametrize("seconds", [pytest.param(1.0, marks=pytest.mark.smoke), SECONDS])
def test_storm(seconds: float, tmp_path: Path) -> None:
    print(f"TT_STORM_SEED={SEED}")
    hub = Hub(tmp_path / "run")
    fds, end = descriptors(hub), time.monotonic() + seconds
    lives = [Life(hub, SEED + at, end) for at in range(VIEWERS)]
    lives += [WorkerLife(hub, SEED - 1 - at, end) for at in range(WORKERS)]
    threads = [threading.Thread(target=life.run, daemon=True) for life in lives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 30)
    assert hub.process.poll() is None, "the hub died"
    assert_good_client_is_served(hub)
    for failure in ("handler_failed", "message_failed", "serve_failed", "tick_failed"):
        assert failure not in hub.log()
    assert seconds >= IDLE_SECONDS or "client_stalled" not in hub.log()
    if not sanitized():
        # Clients that do not answer a close, or go on sending after one, are given 2 s.
        wait_until(lambda: descriptors(hub) <= fds + 1, "no connection is left", 5)
    assert sum(life.lives for life in lives) > seconds * (10 if sanitized() else 50)
    assert hub.stop() < (10 if sanitized() else 2)
    assert hub.process.returncode == 0, "see the sanitizer's report above"
