"""How old what a viewer sees is: one that takes a message a second (WS-4), one that comes late (WS-7), and any
behind a hub that is too slow for its trainer."""

from __future__ import annotations

import os
import signal
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hub_crowd import open_viewer
from hub_harness import Hub, Peer, big_record, in_background, running_hub, sanitized
from hub_vitals import MIB
from raw_websocket import BINARY, RawWebSocket, frame
from test_hub_metrics import scrape

pytestmark = pytest.mark.nightly(suite="attacks")

KIB = 1024
LAYERS, SIZE = 16, 32 * KIB
TAKEN = 6  # messages, one a second
MOST = {1: 2.0, 2: 3.0}  # seconds, by window: one for each message that waits, and one more
KEYS, LATE = 200, 7


class Feed:
    """A trainer of 20 steps a second, whose records say when they were sent."""

    def __init__(self, hub: Hub) -> None:
        self._worker = hub.worker()
        self.sent: dict[int, float] = {}  # by step

    def run(self, over: threading.Event) -> None:
        while not over.wait(0.05):
            step = len(self.sent) + 1
            self.sent[step] = time.monotonic()
            self._worker.connection.send(
                b"".join(big_record(SIZE, step * LAYERS + layer, step=step, layer=layer) for layer in range(LAYERS))
            )

    @contextmanager
    def running(self) -> Iterator[None]:
        with in_background(self.run):
            yield


def take_one(viewer: Peer, taken: int) -> None:
    viewer.receive_until(lambda: viewer.binary_messages == taken, f"message {taken}")
    viewer.notify("ack", messages=taken)


@pytest.mark.parametrize("window", MOST)
def test_a_viewer_that_takes_a_message_a_second(hub: Hub, window: int) -> None:
    """10 MB a second are sent to it. What it shows is the newest of every layer that it has got."""
    feed = Feed(hub)
    viewer = hub.connect("/ws")
    viewer.request("hello", {"versions": [1], "role": "viewer", "window": window})
    ages = []
    with feed.running():
        for taken in range(1, TAKEN + 1):
            time.sleep(1)
            take_one(viewer, taken)
            newest = max(record["step"] for record in viewer.records)
            ages.append(time.monotonic() - feed.sent[newest])
        viewer.drain(0.5)
    told = viewer.named("dropped")
    print(f"window {window}: {', '.join(f'{age:.2f}' for age in ages)} s old; {sum(d['records'] for d in told)} dropped")
    assert max(ages) <= MOST[window]
    assert sum(d["records"] for d in told) > 100 and all(d["where"] == "viewer" for d in told)
    assert {key for d in told for key in d["entries"]} == {"0"}


@pytest.fixture
def full_hub(tmp_path: Path) -> Iterator[Hub]:
    """Many keys, of which a viewer that reads nothing has missed some."""
    with running_hub(tmp_path / "run") as hub:
        worker = hub.worker(points=[{"name": "HiddenStates", "flag": 7}])
        stalled, witness = open_viewer(hub, receive_buffer=4 * KIB), hub.viewer()
        for step in range(1, 6):
            worker.notify("step", step=step, loss=1.0)
            for key in range(KEYS):
                sequence = step * KEYS + key
                worker.connection.send(big_record(16 * KIB, sequence, step=step, entry=key % 4, layer=key // 4))
        last = 6 * KEYS - 1
        witness.receive_until(lambda: any(r["sequence"] == last for r in witness.records), "the last one")
        assert scrape(hub)['records_dropped_total{reason="viewer"}'] > KEYS, "no fair weather"
        yield hub
        stalled.socket.close()


@pytest.mark.smoke
def test_a_late_viewer_has_everything_at_once(full_hub: Hub) -> None:
    took = []
    for _ in range(LATE):
        start = time.monotonic()
        late = full_hub.viewer()
        facts = time.monotonic() - start
        late.receive_until(lambda late=late: len(late.records) >= KEYS, "the latest of every key")
        took.append(time.monotonic() - start)
        assert late.hello["result"]["run"]["points"] and facts <= took[-1]
        assert {(r["entry"], r["layer"]) for r in late.records} == {(k % 4, k // 4) for k in range(KEYS)}
        assert {r["step"] for r in late.records} == {5} and late.named("dropped") == []
        late.connection.close()
    print(f"schema and {KEYS} keys: {', '.join(f'{1e3 * t:.0f}' for t in took)} ms")
    assert statistics.median(took) <= (1.0 if sanitized() else 0.25)


def bytes_taken(hub: Hub, connection: socket.socket, data: bytes) -> int:
    """How much of `data`, over and over, the system lets in while the hub stands still."""
    taken = 0
    connection.settimeout(0.05)
    os.kill(hub.pid(), signal.SIGSTOP)
    try:
        while True:
            taken += connection.send(data[taken % len(data) :])
    except TimeoutError:
        return taken
    finally:
        os.kill(hub.pid(), signal.SIGCONT)
        connection.settimeout(10)
        connection.sendall(data[taken % len(data) :])  # to the end of a record


def test_little_waits_in_the_system_before_a_hub(hub: Hub) -> None:
    """What stands there is older than all that the trainer's own queue would let go of."""
    flood = b"".join(frame(BINARY, big_record(64 * KIB, n, layer=n % 64)) for n in range(64))
    with RawWebSocket(hub, "/worker") as worker:
        worker.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * KIB)
        # The system lets the buffer of one who reads much at once grow.
        waiting = [bytes_taken(hub, worker.socket, flood) for _ in range(12)]
    print(f"{', '.join(f'{w / MIB:.1f}' for w in waiting)} MiB")
    assert max(waiting) < 3 * MIB
