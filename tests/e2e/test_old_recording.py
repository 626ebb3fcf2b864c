"""A recording that the program of 2026-11-24 made, before places were data: it replays, and the client reads it."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest
from test_hub_replay import replaying, shown

from tensor_tracer import open_recording

MADE = Path(__file__).parents[1] / "golden" / "run_2026-11-24.ttrec.gz"
STEPS = 20
POINTS = {"QKV", "MLP1", "HiddenStates", "Logits"}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    file = tmp_path / "run.ttrec"
    file.write_bytes(gzip.decompress(MADE.read_bytes()))
    return file


def rows(file: Path, question: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(file) as database:
        return database.execute(question).fetchall()


def test_the_client_reads_it(recording: Path) -> None:
    with open_recording(recording) as opened:
        records = list(opened.records())
        steps, losses = opened.scalars("loss")
    blobs = [row[0] for row in rows(recording, "SELECT record FROM frames ORDER BY id")]
    assert len(records) == len(blobs) == 56
    assert all(isinstance(blob, bytes) and record.payload in blob for record, blob in zip(records, blobs, strict=True))
    assert {record.point for record in records} == POINTS
    told = rows(recording, "SELECT step, value FROM scalars WHERE name = 'loss' ORDER BY step")
    assert list(zip(steps.tolist(), losses.tolist(), strict=True)) == told
    assert len(told) == STEPS


def test_it_replays(recording: Path) -> None:
    places = "SELECT step, entry, layer FROM frames WHERE step = 20 ORDER BY entry, layer"
    last = [tuple(row) for row in rows(recording, places)]
    facts = json.loads(str(rows(recording, "SELECT facts FROM runs")[0][0]))
    with replaying(recording, "--speed", "100") as replay:
        viewer = replay.viewer
        run = viewer.hello["result"]["run"]
        assert (run["id"], run["model"]) == (facts["id"], facts["model"])
        viewer.receive_until(lambda: any(s["step"] == STEPS and s["paused"] for s in viewer.named("state")), "the end")
        viewer.receive_until(lambda: sorted(p for p in shown(viewer) if p[0] == STEPS) == last, "its records")
