"""Records in memory that a worker shares with the hub, written by a worker in Python."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_harness import FACTS, Hub, Peer, make_record, running_hub, wait_until
from test_hub_metrics import scrape
from websockets.sync.client import connect

SIZE = 8 << 20
KEY = "0123456789abcdef" * 2
HEAD = 64  # of a block
RECORD = 100_000  # bytes of a payload


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with running_hub(tmp_path / "run") as running:
        yield running


class Memory:
    """A worker's memory; docs/protocol.md, "Shared memory"."""

    def __init__(self, seals: int = fcntl.F_SEAL_SHRINK, key: str = KEY) -> None:
        self.fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, SIZE)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        self.bytes = mmap.mmap(self.fd, SIZE)
        self.bytes[: len(key)] = key.encode()

    def offer(self, **changed: Any) -> dict[str, Any]:
        return {"pid": os.getpid(), "fd": self.fd, "bytes": SIZE, "key": KEY} | changed

    def put(self, offset: int, records: bytes) -> None:
        self.bytes[offset + HEAD : offset + HEAD + len(records)] = records
        self.bytes[offset : offset + 4] = struct.pack("<I", 1)

    def state(self, offset: int) -> int:
        return struct.unpack("<I", self.bytes[offset : offset + 4])[0]


def places(*blocks: tuple[int, int]) -> bytes:
    return struct.pack("<II", 0x31535454, len(blocks)) + b"".join(struct.pack("<QQ", *b) for b in blocks)


def sharing_worker(hub: Hub, offer: Any) -> Peer:
    peer = hub.connect("/worker")
    params = {"versions": [1], "role": "worker", "rank": 0, "run": FACTS, "shared_memory": offer}
    peer.hello = peer.request("hello", params)
    return peer


def received(viewer: Peer, count: int) -> list[dict[str, int]]:
    viewer.receive_until(lambda: len(viewer.records) >= count, f"{count} records")
    return viewer.records


def test_what_lies_in_the_memory_reaches_viewers(hub: Hub) -> None:
    memory = Memory()
    worker = sharing_worker(hub, memory.offer())
    assert worker.hello["result"]["shared_memory"] is True
    viewer = hub.viewer()
    first = make_record(os.urandom(RECORD), sequence=1, layer=1)
    second = make_record(os.urandom(RECORD), sequence=2, layer=2) + make_record(sequence=3, layer=3)
    memory.put(64, first)
    memory.put(1 << 20, second)
    worker.connection.send(places((64, len(first)), (1 << 20, len(second))))
    got = b""
    while len(got) < len(first + second):
        message = viewer.connection.recv(timeout=10)
        got += message if isinstance(message, bytes) else b""
    assert got == first + second
    assert scrape(hub)["shared_memory_received_bytes_total"] == len(first + second)


@pytest.mark.nightly(suite="attacks")
def test_a_block_comes_back_when_nobody_needs_it(hub: Hub) -> None:
    memory = Memory()
    worker = sharing_worker(hub, memory.offer())
    for sequence in range(1, 41):
        offset = sequence % 2 * (1 << 20) + 64
        wait_until(lambda offset=offset: memory.state(offset) == 0, "the block is free")
        record = make_record(bytes(RECORD), sequence=sequence, step=sequence)
        memory.put(offset, record)
        worker.connection.send(places((offset, len(record))))
        wait_until(lambda offset=offset: memory.state(offset) != 1, "the block is taken")
    assert memory.state(64) == 2, "the latest one is kept for who comes late"
    worker.drain(0.2)
    told = worker.named("taken")
    assert told[-1]["bytes"] > 40 * RECORD - (128 << 10)
    assert [t["bytes"] for t in told] == sorted(t["bytes"] for t in told)


def leave_a_record(port: int, token: str) -> None:
    """A worker that hands one record over, says so, and waits for its end."""
    memory = Memory()
    record = make_record(b"x" * RECORD, sequence=1)
    memory.put(64, record)
    params = {"versions": [1], "role": "worker", "run": FACTS, "shared_memory": memory.offer()}
    headers = {"Authorization": f"Bearer {token}"}
    with connect(f"ws://127.0.0.1:{port}/worker", additional_headers=headers) as worker:
        worker.send(json.dumps({"id": 1, "method": "hello", "params": params}))
        worker.recv()
        worker.send(places((64, len(record))))
        while memory.state(64) != 2:
            time.sleep(0.01)
        print("taken", flush=True)
        time.sleep(60)


def test_late_viewers_see_what_a_dead_worker_left(hub: Hub) -> None:
    call = f"leave_a_record({hub.port}, {hub.worker_token!r})"
    command = [sys.executable, "-c", f"from test_hub_shared_memory import *; {call}"]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent)
    assert worker.stdout is not None and worker.stdout.readline() == b"taken\n"
    worker.kill()
    worker.wait()
    assert received(hub.viewer(), 1)[0]["bytes"] == RECORD


def test_memory_that_is_not_the_workers_is_refused(hub: Hub, tmp_path: Path) -> None:
    memory = Memory()
    regular = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(regular, SIZE)
    os.pwrite(regular, KEY.encode(), 0)
    reading, writing = os.pipe()
    offers = [
        memory.offer(key="f" * 32),
        memory.offer(pid=1 << 22),
        memory.offer(pid=hub.pid()),
        memory.offer(bytes=SIZE // 2),
        memory.offer(bytes=1 << 62),
        memory.offer(bytes=-1),
        memory.offer(fd=regular),
        memory.offer(fd=reading),
        memory.offer(fd="../../environ"),
        Memory(seals=fcntl.F_SEAL_GROW).offer(),
        None,
        [],
        {},
        {"pid": os.getpid()},
    ]
    for count, offer in enumerate(offers, start=1):
        worker = sharing_worker(hub, offer)
        assert worker.hello["result"]["shared_memory"] is False, offer
        worker.connection.send(make_record(sequence=count))
        worker.connection.close()
        wait_until(lambda n=count: scrape(hub)["records_received_total"] == n, "sent itself")
    for fd in (regular, reading, writing):
        os.close(fd)


def test_no_message_of_places_hurts_the_hub(hub: Hub) -> None:
    memory = Memory()
    worker = sharing_worker(hub, memory.offer())
    viewer = hub.viewer()
    record = make_record(bytes(RECORD), sequence=1)
    memory.put(64, record)
    most = (1 << 64) - 1
    bad = [(0, 8), (63, 8), (SIZE, 8), (SIZE - 64, 8), (most, most), (most - 63, 128), (64, most),
           (64, SIZE), (128, 8), (1 << 20, 8)]  # fmt: skip
    messages = [places(b) for b in bad]
    messages += [places((64, len(record)))[:k] for k in range(8, 24)]
    messages += [struct.pack("<II", 0x31535454, (1 << 32) - 1) + bytes(160), places((64, 0), (64, 0))]
    for message in messages:
        worker.connection.send(message)
    wait_until(lambda: scrape(hub)["damaged_messages_total"] == len(messages), "each is damage")
    memory.put(64, record)
    worker.connection.send(places((64, len(record))))
    assert received(viewer, 1)[0]["sequence"] == 1


def test_what_the_worker_changes_afterwards_does_not_hurt_the_hub(hub: Hub) -> None:
    """Lengths in a header that was checked, and blocks that are used again while they are held."""
    memory = Memory()
    worker = sharing_worker(hub, memory.offer())
    viewer = hub.viewer()
    record = make_record(bytes(RECORD), sequence=1)
    end = time.monotonic() + 1
    sent = 0
    while time.monotonic() < end:
        offset = 64 + sent % 16 * (1 << 18)
        memory.put(offset, record)
        worker.connection.send(places((offset, len(record))))
        memory.bytes[offset + HEAD + 88 : offset + HEAD + 96] = struct.pack("<Q", 1 << 40)
        sent += 1
    with pytest.raises(OSError):  # the seal
        os.ftruncate(memory.fd, 0)
    assert viewer.request("ping") == {"id": 2, "result": {}}
