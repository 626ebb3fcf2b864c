"""The tracer inside a training on two pipeline stages by two tensor-parallel ranks: its records beside what PyTorch's own
hooks kept on the ranks, put together by all_gather."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import grid_training
import numpy as np
import pytest
import torch
from forked_ranks import run_ranks
from pipeline_training import LAYERS, MICRO_BATCHES
from small_llama import COLUMNS, NORMS, ROWS
from tensor_tracer import open_recording
from tensor_tracer.record import Record
from test_attach_pipeline import EVERYTHING
from test_attach_safety import environment, options

pytestmark = pytest.mark.nightly(suite="attach")

IN_LAYERS = [*COLUMNS, *ROWS, *NORMS, ""]
OUTSIDE = {"wte": 0, "norm": 1, "lm_head": 1}  # the stage
RANKS = grid_training.STAGES * grid_training.TENSOR


def path_of(place: dict[str, Any]) -> str:
    """The path of the module, in a layer after the layer."""
    return place["module"].partition(".")[2].partition(".")[2] if place["layer"] else str(place["module"])


def assembled(parts: list[torch.Tensor], path: str) -> np.ndarray[Any, Any]:
    if path in COLUMNS:
        return torch.cat(parts, dim=-1).numpy()
    assert all(torch.equal(part, parts[0]) for part in parts), path
    return parts[0].numpy()


def outputs(folder: Path, places: dict[tuple[str, int], dict[str, Any]]) -> list[tuple[Record, str]]:
    """The records of what modules returned, with the module's path."""
    with open_recording(next((folder / "record").glob("*.ttrec"))) as recording:
        assert recording.facts["mesh"] == {"tensor": 2, "pipeline": 2, "data": 1}
        records = [(one, places.get((one.point, one.layer))) for one in recording.records()]
        assert list(recording.scalars("loss")[0]) == [1, 2, 3]
    return [
        (record, path_of(place)) for record, place in records
        if place is not None and place["path"].endswith("output")
    ]  # fmt: skip


def test_records_have_the_bits_of_the_ranks(tmp_path: Path) -> None:
    attach = options(tmp_path, plan=EVERYTHING)
    watched = run_ranks(grid_training.train, RANKS, tmp_path / "with", attach, env=environment(tmp_path))
    alone = run_ranks(grid_training.train, RANKS, tmp_path / "without", None, env=environment(tmp_path))
    assert [one["losses"] for one in watched] == [one["losses"] for one in alone]
    assert all(len(of_step) == MICRO_BATCHES for of_step in alone[-1]["losses"])
    assert all(one["points"] == watched[0]["points"] for one in watched)
    places = {(one["name"], one["layer"]): one for one in watched[0]["points"] if not one["problem"]}
    seen: Counter[Any] = Counter()
    for record, path in outputs(tmp_path, places):
        stage = (record.layer - 1) * grid_training.STAGES // LAYERS if record.layer else OUTSIDE[path]
        kept = watched[stage * grid_training.TENSOR]["gradients" if record.direction == "gradient" else "values"]
        expected = assembled(kept[record.step, record.micro_batch, record.layer, path], path)
        assert record.pipeline_rank == stage and record.values.shape == expected.shape, (record, path)
        assert np.array_equal(record.values, expected), (record, path)
        seen[path, record.layer, record.direction, record.step, record.micro_batch] += 1
    assert seen == Counter(
        (path, layer, direction, step, micro_batch)
        for layer in range(LAYERS + 1)
        for path in (IN_LAYERS if layer else OUTSIDE)
        for direction in ("value", "gradient")
        for step in range(2, grid_training.STEPS + 1)
        for micro_batch in range(MICRO_BATCHES)
    )
