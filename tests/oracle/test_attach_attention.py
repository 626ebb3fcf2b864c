"""Attention of an attached run: what the tracer recomputes beside what Transformers' eager attention returns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attach_scenarios import Training as Attached
from forked_ranks import run_ranks
from tensor_tracer.record import Record
from test_attach import Training, train
from test_attach_safety import environment, options, records

pytestmark = pytest.mark.nightly(suite="attach")

PARTS = ("RawAttentionScore", "attention.entropy", "attention.largest_score", "attention.first_token_share")


def plan_of(*points: str) -> dict[str, Any]:
    return {"entries": [{"point": point, "rows": 0, "compressor": {"kind": "none"}} for point in points]}


def eager_probabilities(training: Training, record: Record) -> torch.Tensor:
    """[batch, heads, sequence, sequence] of data replica 0, the heads of all tensor-parallel ranks."""
    parts = [of["values"][record.step, 0, f"attention {record.layer}"] for of in training.of_rank]
    return torch.cat(parts, dim=1) if parts[0].shape[1] < 4 else parts[0]


def largest_scores(training: Training, record: Record) -> torch.Tensor:
    """[batch, heads, sequence], from the queries and keys that GPT-2's c_attn returns."""
    qkv = training.of_rank[0]["values"][record.step, 0, f"transformer.h.{record.layer - 1}.attn.c_attn"]
    query, key, _ = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -math.inf).amax(-1)


def expected_values(training: Training, record: Record) -> np.ndarray[Any, Any]:
    probabilities = eager_probabilities(training, record)
    if record.point == "RawAttentionScore":
        return np.asarray(probabilities)
    by_head = {
        "attention.entropy": lambda: torch.special.entr(probabilities).sum(-1),
        "attention.largest_score": lambda: largest_scores(training, record),
        "attention.first_token_share": lambda: probabilities[..., 0],
    }
    return np.asarray(by_head[record.point]().transpose(1, 2))


CASES = [
    pytest.param("gpt2", "ddp", 2, PARTS, id="gpt2-ddp"),
    pytest.param("llama", "tp", 2, ("RawAttentionScore", "attention.entropy", "attention.first_token_share"),
                 id="llama-tp", marks=pytest.mark.smoke),
]


@pytest.mark.parametrize(("model", "wrap", "ranks", "points"), CASES)
def test_recomputed_attention_is_that_of_eager_attention(
    model: str, wrap: str, ranks: int, points: tuple[str, ...], tmp_path: Path
) -> None:
    run = train(tmp_path, ranks, plan_of(*points), model=model, wrap=wrap, steps=3, keeps_attention=True)
    seen = set()
    for record in run.records():
        assert record.values == pytest.approx(expected_values(run, record), abs=2e-6), record
        seen.add((record.point, record.layer, record.step))
    assert seen == {(point, layer, step) for point in points for layer in (1, 2, 3) for step in (2, 3)}
    told = run.told()
    assert told["RawAttentionScore"]["numbers"] == "attention probability"
    assert told["HiddenStates"]["numbers"] == "activation"
    assert {name for name, place in told.items() if "formula" in place} & {*PARTS, "HiddenStates"} == set(PARTS)


def with_one_more_part(attach: dict[str, Any]) -> None:
    from tensor_tracer.attaching.attention import PARTS, Part

    PARTS["own_share"] = Part(
        "attention of each query to itself, by head", "probabilities[q, q]",
        lambda _, probabilities: probabilities.diagonal(0, -2, -1),
    )  # fmt: skip
    Attached("llama", "tp", attach).steps(3)


@pytest.mark.cpu_only
def test_another_place_of_attention_is_one_entry(tmp_path: Path) -> None:
    attach = options(tmp_path, plan=plan_of("RawAttentionScore", "attention.own_share"))
    run_ranks(with_one_more_part, 2, tmp_path / "ranks", attach, env=environment(tmp_path))
    found = {(record.point, record.step, record.layer): record.values for record in records(tmp_path)}
    assert len(found) == 12
    for step in (2, 3):
        for layer in (1, 2, 3):
            scores = found["RawAttentionScore", step, layer]
            own = scores.diagonal(0, -2, -1).transpose(0, 2, 1)
            assert np.allclose(found["attention.own_share", step, layer], own, atol=1e-6)


def test_attention_that_a_module_returns_is_not_recomputed(tmp_path: Path) -> None:
    run = train(tmp_path, 1, plan_of("RawAttentionScore"), model="llama", attention="eager", steps=3, keeps_attention=True)
    records = run.records()
    assert len(records) == 6 and all(
        np.array_equal(record.values, eager_probabilities(run, record).numpy()) for record in records
    )
    assert not any(place["name"] == "attention.entropy" for place in run.points())
    assert "formula" not in run.told()["RawAttentionScore"]
