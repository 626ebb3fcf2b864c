"""The tokens with the largest numbers over a run, against a sort of everything that the run sent."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoder import Record, decode
from program import train
from test_points import MICRO_BATCH, MICRO_BATCHES, NIGHTLY, entry, write_vectors
from test_stream import LLAMA

K, AROUND, STEPS = 7, 16, 4
ALL = {"micro_batches": "0-1", "rows": 0}
COLUMNS = {"kind": "top_tokens", "columns": [5, 0, 77], "k": K}
VECTORS = {"kind": "top_tokens", "vectors": ["evil", "plain"], "k": K}
ENTRIES: list[dict[str, Any]] = [
    {"point": "InputTokens", "dtype": "i64"} | ALL,
    entry("MLPActivation", **ALL),
    entry("MLPActivation", compressor=COLUMNS, **ALL),
    entry("HiddenStates", compressor={"kind": "projection", "vectors": ["evil", "plain"]}, **ALL),
    entry("HiddenStates", compressor=VECTORS, **ALL),
    entry("MLPActivation", tokens=[3, 11], compressor=COLUMNS, rows=[1, 3]),
]


def run(flags: dict, tensor: int, folder: Path) -> list[Record]:
    folder.mkdir(parents=True)
    write_vectors(folder / "vectors")
    (folder / "plan.json").write_text(json.dumps({"entries": ENTRIES}))
    changes = {
        "params_dtype": "float64", "train_iters": STEPS, "micro_batch_size": MICRO_BATCH,
        "global_batch_size": MICRO_BATCH * MICRO_BATCHES, "tensor_model_parallel_size": tensor,
        "tensor_tracer_plan": str(folder / "plan.json"), "tensor_tracer_vectors": str(folder / "vectors"),
        "record": str(folder),
    }  # fmt: skip
    train(flags | changes, folder, tensor)
    with contextlib.closing(sqlite3.connect(folder / "run.ttrec")) as recording:
        rows = [row for (row,) in recording.execute("SELECT record FROM frames ORDER BY sequence")]
        numbers = recording.execute("SELECT flag, name FROM points").fetchall()
    facts = {"points": [{"flag": flag, "name": name} for flag, name in numbers]}
    return [one for row in rows for one in decode(row + bytes(-len(row) % 8), facts)]


def around(ids: np.ndarray, position: int) -> tuple[int, ...]:
    padded = np.concatenate([np.full(AROUND, -1), ids, np.full(AROUND, -1)])
    return tuple(int(i) for i in padded[position : position + 2 * AROUND + 1])


def best_of(seen: list[tuple[float, int, int, int, tuple[int, ...]]]) -> np.ndarray:
    """The k largest, each text once; empty places as docs/protocol.md says."""
    found: list[tuple[float, int, int, int, tuple[int, ...]]] = []
    for one in sorted(seen, key=lambda token: -token[0]):
        if len(found) < K and one[4] not in [other[4] for other in found]:
            found.append(one)
    rows = [[*one[:4], *one[4]] for one in found]
    rows += [[np.nan, -1, -1, -1] + [-1] * (2 * AROUND + 1)] * (K - len(rows))
    return np.array(rows)


def expected(records: list[Record], kept: int, whole: int, units: list[int], layer: int, last: int) -> np.ndarray:
    """The list after step `last` from what entry `whole` sent: the columns `units` of it."""
    one = ENTRIES[kept]
    first, end = one["rows"] if isinstance(one["rows"], list) else (0, MICRO_BATCH)
    tokens = one.get("tokens", [0, None])
    ids = {(r.step, r.micro_batch): r.values[0] for r in records if r.entry == 0}
    seen: list[list] = [[] for _ in units]
    for r in records:
        taken = r.micro_batch == 0 or "micro_batches" in one
        if r.entry != whole or r.layer != layer or r.step > last or not taken:
            continue
        for row in range(first, end):
            text = ids[r.step, r.micro_batch][row]
            for position in range(*slice(*tokens).indices(len(text))):
                for found, unit in zip(seen, units, strict=True):
                    where = (r.step, r.first_row + row, position, around(text, position))
                    found.append((r.values[row, position, unit], *where))
    return np.stack([best_of(found) for found in seen])


@pytest.mark.parametrize("shape", [{}, pytest.param(LLAMA, marks=NIGHTLY)], ids=["gpt2", "llama"])
@pytest.mark.parametrize("tensor", [pytest.param(1, marks=NIGHTLY), 2])
def test_lists_are_those_of_a_sort(tensor: int, shape: dict, flags, tmp_path: Path) -> None:
    # Column 77 lies on the second rank of two.
    records = run(dict(flags) | shape | {"ffn_hidden_size": 128}, tensor, tmp_path / "run")
    checked = 0
    for kept, whole, units in ((2, 1, [5, 0, 77]), (4, 3, [0, 1]), (5, 1, [5, 0, 77])):
        lists = {(r.layer, r.step): r for r in records if r.entry == kept}  # the last of a step
        for (layer, step), record in lists.items():
            assert record.compressor == "top_tokens"
            wanted = expected(records, kept, whole, units, layer, step)
            assert record.values.shape == wanted.shape == (len(units), K, 4 + 2 * AROUND + 1)
            assert np.array_equal(record.values, wanted, equal_nan=True), (kept, layer, step)
            checked += 1
    assert checked == 3 * 2 * STEPS
