"""Attention that is not recomputed is listed with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from attach_unseen_attention import points_of, record_run
from forked_ranks import run_ranks
from test_attach_safety import environment, options
from tensor_tracer import open_recording

pytestmark = pytest.mark.nightly(suite="attach")

REASONS = {
    "unknown_kernel": "the attention implementation 'unknown_kernel' keeps no probabilities",
    "class": "the class HandWrittenAttention keeps no probabilities",
    "te": "Transformer Engine's TEDotProductAttention keeps no probabilities",
    "compiled": "compiled code keeps no probabilities",
}


@pytest.mark.parametrize("kinds", [
    pytest.param(("sdpa", "eager", "unknown_kernel", "class", "te"), marks=pytest.mark.smoke), ("compiled",),
])  # fmt: skip
def test_attention_that_is_not_recomputed_is_listed_with_the_reason(kinds: tuple[str, ...], tmp_path: Path) -> None:
    (found,) = run_ranks(points_of, 1, tmp_path, kinds, env=environment(tmp_path), timeout=300)
    for kind, sites in found.items():
        layers = [1, 2, 3] if kind in ("sdpa", "eager", "unknown_kernel") else [1, 2]
        assert [one["layer"] for one in sites] == layers, kind
        if kind in REASONS:
            assert all(one["problem"].startswith(REASONS[kind]) and not one["name"] for one in sites), sites
        else:
            assert all(not one["problem"] and one["name"] == "RawAttentionScore" for one in sites), sites


def test_viewers_are_told_the_tensors_that_are_no_points(tmp_path: Path) -> None:
    plan = {"entries": [{"point": "RawAttentionScore"}, {"point": "HiddenStates"}]}
    run_ranks(record_run, 1, tmp_path, "class", options(tmp_path, plan=plan), env=environment(tmp_path))
    with open_recording(next(tmp_path.rglob("*.ttrec"))) as recording:
        rows = {row["path"]: row for row in recording.facts["untraced"]}
        points = {point["path"] for point in recording.facts["points"]}
        assert {record.point for record in recording.records()} == {"HiddenStates"}
    row = rows["layers[n].self_attention.scores"]
    assert (row["first_layer"], row["last_layer"]) == (1, 2) and row["reason"].startswith(REASONS["class"])
    assert points and points.isdisjoint(rows)
