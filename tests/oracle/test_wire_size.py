"""What watching costs on the wire: u8 records beside the JSON that MegaScope's training mode sends."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from decoder import Record
from test_control import claim
from viewer import live_run

# A tensor as its page gets it: 96 tiles of 64 tokens, every number written out.
TILES, TOKENS = 96, 64


def update(record: Record) -> str:
    """As MegaScope's Python writes it."""
    shape = list(record.values.shape)
    return json.dumps({"type": "update", "update_type": 4, "layer_id": record.layer, "args": shape,
                       "result": record.values.astype(np.float32).ravel().tolist()})  # fmt: skip


def test_u8_needs_a_fifteenth_of_the_json_within_its_bound(flags, tmp_path: Path) -> None:
    """The bound of docs/protocol.md, "Records": half of one of the 252 parts of a line's range."""
    shape = {"seq_length": TOKENS, "hidden_size": 384, "train_iters": 100_000}
    tile = {"kind": "tile", "tiles": TILES, "method": "mean"}
    entries = [{"point": "MLP1", "layers": "1", "compressor": tile, "dtype": d} for d in ("f32", "u8")]
    with live_run(flags | shape, tmp_path, 1) as run, run.viewer() as viewer:
        claim(viewer)
        number = viewer.request("plan.set", {"plan": {"entries": entries}})["plan"]["number"]
        viewer.wait_for(lambda: sum(r.plan == number for r in viewer.records) >= 6, "records")
    found = {(r.entry, r.step): r for r in viewer.records if r.plan == number}
    steps = {step for entry, step in found if (1 - entry, step) in found}
    assert len(steps) >= 2
    for step in steps:
        exact, coded = found[0, step], found[1, step]
        assert exact.values.shape == coded.values.shape == (1, TOKENS, TILES)
        assert 15 * coded.size <= len(update(exact)), (coded.size, len(update(exact)))
        reach = exact.values.max(-1) - exact.values.min(-1)
        worst = np.abs(coded.values.astype(np.float64) - exact.values).max(-1)
        assert (worst <= 1.0001 * reach / 504 + 1e-6).all()
