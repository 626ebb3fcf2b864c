"""Families of Transformers whose paths no table knows, and PEFT's adapters: layers, final norm and logit lens beside the
hidden states that Transformers returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attached_models import LAYERS, MODELS, STEPS, scores_of_t5, watched
from forked_ranks import run_ranks
from test_attach_safety import environment, options, records

pytestmark = pytest.mark.nightly(suite="attach")

EVERY: dict[str, Any] = {"rows": 0, "compressor": {"kind": "none"}}
POINTS = ("Embedding", "HiddenStates", "FinalNorm", "Logits", "LogitLens")
WITHOUT_NORM = {"bert"}  # its layers end with a norm, and a linear layer is between them and the output layer
WITHOUT_LENS = {"bert", "gemma2"}  # Gemma's logits are not those of the output layer


@pytest.mark.parametrize("kind", [*MODELS, "in-place", "lora-head", pytest.param("lora", marks=pytest.mark.smoke)])
def test_states_and_lens_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    points = [one for one in POINTS if not (one == "FinalNorm" and kind in WITHOUT_NORM)]
    points = [one for one in points if not (one == "LogitLens" and kind in WITHOUT_LENS)]
    attach = options(tmp_path, plan={"entries": [{"point": one, **EVERY} for one in points]})
    [steps] = run_ranks(watched, 1, tmp_path, attach, kind, env=environment(tmp_path))
    seen = set()
    for record in records(tmp_path):
        states, logits = (steps[record.step - 1][name].numpy() for name in ("states", "logits"))
        seen.add((record.point, record.layer, record.step))
        if record.point == "LogitLens":
            if record.layer == LAYERS:
                assert np.allclose(record.values, logits, rtol=1e-5, atol=1e-6), record
        elif record.point != "HiddenStates" or record.layer < LAYERS or kind in WITHOUT_NORM:
            # The last hidden state of Transformers is that after the final norm.
            row = {"Embedding": 0, "FinalNorm": LAYERS, "HiddenStates": record.layer}.get(record.point)
            assert np.array_equal(record.values, logits if row is None else states[row]), record
    layers = {"HiddenStates": range(1, LAYERS + 1), "LogitLens": range(1, LAYERS + 1)}
    assert seen == {(one, n, step) for one in points for n in layers.get(one, (0,)) for step in range(2, STEPS + 1)}


def test_dense_layers_beside_layers_of_experts(tmp_path: Path) -> None:
    """Only a dense layer returns the tensor of its last linear layer."""
    attach = options(tmp_path, plan={"entries": [{"point": "MLP2", **EVERY}]})
    run_ranks(watched, 1, tmp_path, attach, "dense and experts", env=environment(tmp_path))
    assert {record.layer for record in records(tmp_path)} == set(range(1, LAYERS + 1))


def test_a_bias_of_positions_is_no_attention(tmp_path: Path) -> None:
    attach = options(tmp_path, plan={"entries": []})
    [points] = run_ranks(scores_of_t5, 1, tmp_path, attach, env=environment(tmp_path))
    assert len(points) == 3 * LAYERS
    assert all("keeps no probabilities" in point["problem"] for point in points), points
