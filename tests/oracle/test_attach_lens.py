"""Logit lenses of an attached run, and programs that call final norm and output layer, beside Transformers' modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensor_tracer import open_recording
from test_attach import NOTHING, Training, train

CASES = [
    pytest.param("gpt2", "ddp", 2, id="gpt2-ddp", marks=pytest.mark.nightly(suite="attach")),
    pytest.param("llama", "fsdp", 2, id="llama-fsdp", marks=pytest.mark.nightly(suite="attach")),
    pytest.param("llama", "tp", 2, id="llama-tp"),
]
TOLERANCE = 2e-5


def entry(point: str, **more: Any) -> dict[str, Any]:
    return {"point": point, "rows": 0, "compressor": {"kind": "none"}, **more}


def lens_of(training: Training, step: int, layer: int, rank: int = 0) -> np.ndarray[Any, Any]:
    return np.asarray(training.of_rank[rank]["values"][step, 0, f"lens {layer}"])


@pytest.mark.parametrize(("model", "wrap", "ranks"), CASES)
def test_a_lens_is_what_norm_and_head_give(model: str, wrap: str, ranks: int, tmp_path: Path) -> None:
    plan = {"entries": [entry("LogitLens"), entry("LogitLensEmbedding")]}
    program = 'save(output_layer(final_norm(layers[2].output[:, -1:])), "lens")'
    options = {"model": model, "wrap": wrap, "steps": 3, "keeps_lenses": True, "program": program}
    run = train(tmp_path, ranks, plan, **options)
    seen = set()
    for record in run.records():
        expected = lens_of(run, record.step, record.layer)
        assert record.values == pytest.approx(expected, abs=TOLERANCE), record
        seen.add((record.point, record.layer, record.step))
    points = [("LogitLensEmbedding", 0), *(("LogitLens", layer) for layer in (1, 2, 3))]
    assert seen == {(*point, step) for point in points for step in (2, 3)}
    told = run.told()
    assert {told[name]["numbers"] for name in ("Logits", "LogitLens", "LogitLensMid", "LogitLensEmbedding")} == {"logit"}
    assert told["LogitLens"]["formula"] == "output_layer(final_norm(layers[n].output))"
    assert told["LogitLensEmbedding"]["formula"] == "output_layer(final_norm(embedding.output))"
    assert "formula" not in told["Logits"]
    check_saved(run)


def check_saved(run: Training) -> None:
    """The program's values of the last token are those of the lens of layer 2."""
    with open_recording(next((run.folder / "record").glob("*.ttrec"))) as recording:
        saved = [event["detail"] for event in recording.events("saved")]
    assert {one["step"] for one in saved} == {2, 3}
    for one in saved:  # each data replica saves its rows
        rank = 1 if one["first_row"] else 0
        expected = lens_of(run, one["step"], 2, rank)[:, -1:]
        assert [float(value) for value in one["values"]] == pytest.approx(expected.reshape(-1), abs=TOLERANCE), one


@pytest.mark.nightly(suite="attach")
@pytest.mark.cpu_only
def test_the_loss_at_each_token_is_part_of_the_steps_loss(tmp_path: Path) -> None:
    topk = {"kind": "topk", "k": 4}
    run = train(tmp_path, 2, {"entries": [entry("Logits", compressor=topk), entry("InputTokens")]}, model="llama", wrap="tp")
    records = {(record.point, record.step): record.values for record in run.records()}
    for step in (2, 3, 4):
        ids, (loss, target) = records["InputTokens", step][0], np.moveaxis(records["Logits", step][2], -1, 0)[2:]
        assert np.array_equal(target[:, :-1], ids[:, 1:]) and (target[:, -1] == -1).all()
        assert np.isnan(loss[:, -1]).all() and loss[:, :-1].mean() == pytest.approx(run.losses[step - 1], rel=1e-5)


@pytest.mark.nightly(suite="attach")
def test_the_losses_are_those_without_lenses(tmp_path: Path) -> None:
    plan = {"entries": [entry("LogitLens"), entry("LogitLensMid")]}
    watched = train(tmp_path / "watched", plan=plan, model="llama")
    assert watched.records() and watched.losses == train(tmp_path / "alone", plan=NOTHING, model="llama").losses
