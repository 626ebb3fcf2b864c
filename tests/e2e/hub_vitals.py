"""What a hub uses, and what its good clients notice while others misbehave."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from hub_harness import Hub, make_record, sanitized

MIB = 1024 * 1024


def resident_bytes(hub: Hub) -> int:
    for line in Path(f"/proc/{hub.pid()}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def descriptors(hub: Hub) -> int:
    return len(os.listdir(f"/proc/{hub.process.pid}/fd"))


def assert_good_client_is_served(hub: Hub) -> None:
    start = time.monotonic()
    viewer = hub.viewer()
    assert viewer.request("ping")["result"] == {}
    assert time.monotonic() - start < (5 if sanitized() else 1)
    viewer.connection.close()


@contextlib.contextmanager
def unharmed(hub: Hub, growth: int = 64 * MIB) -> Iterator[None]:
    """Around an attack: a worker loses no record, the hub needs no memory and serves on.

    The worker sends a record every 5 ms; a viewer must get each of them, in order.
    """
    worker, viewer = hub.worker(), hub.viewer()
    viewer.drain(0.05)  # the latest record of another worker
    viewer.records.clear()
    before = peak = resident_bytes(hub)
    over, sent = threading.Event(), 0

    def train() -> None:
        nonlocal peak, sent
        while not over.is_set():
            sent += 1
            worker.connection.send(make_record(bytes(64), sequence=sent, layer=sent % 5))
            peak = max(peak, resident_bytes(hub))
            time.sleep(0.005)

    def watch() -> None:
        while not over.is_set():
            viewer.drain(0.05)

    threads = [threading.Thread(target=work, daemon=True) for work in (train, watch)]
    for thread in threads:
        thread.start()
    try:
        yield
        assert_good_client_is_served(hub)
    finally:
        over.set()
        for thread in threads:
            thread.join(10)
    viewer.receive_until(lambda: len(viewer.records) >= sent, "every record")
    assert [record["sequence"] for record in viewer.records] == list(range(1, sent + 1))
    assert not viewer.named("dropped") and worker.request("ping")["result"] == {}
    peak = max(peak, resident_bytes(hub))
    if not sanitized():  # a sanitizer keeps freed memory for a while
        assert peak - before < growth, f"{(peak - before) / MIB:.1f} MiB more"
    worker.connection.close()
    viewer.connection.close()
