"""A real run beside its hub, for tests that need a trainer which trains."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hub_harness import HubOfRun, Peer
from program import Flags, tiny_flags, write_text
from viewer import LiveRun, live_run

RANKS = 2


def two_ranks(folder: Path) -> Flags:
    """Of a run that does not end by itself, tensor parallel, on a text in this folder."""
    data = tiny_flags(write_text(folder / "text.txt"))
    return {**data, "train_iters": 1_000_000, "tensor_model_parallel_size": RANKS}


@contextlib.contextmanager
def started(flags: Flags, folder: Path) -> Iterator[tuple[LiveRun, HubOfRun, Peer]]:
    """A run of two ranks that has done some steps, its hub and a viewer."""
    with live_run(flags, folder, RANKS) as run:
        run.address()
        hub = HubOfRun(run.run_dir)
        viewer = hub.viewer()
        viewer.receive_until(lambda: len(viewer.named("step")) > 3, "some steps", 60)
        yield run, hub, viewer
        viewer.connection.close()
