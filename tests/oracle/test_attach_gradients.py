"""The facts of an attached run state the factors that its gradients contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attach_gradients as scenarios
import pytest
import torch
from attach_gradients import LOSS_SCALE, MICRO_BATCHES, STEPS
from forked_ranks import run_ranks
from tensor_tracer import open_recording
from test_attach_safety import environment, options, records

pytestmark = pytest.mark.nightly(suite="attach")

PLAN = {"entries": [{"point": "Logits", "direction": "gradient", "rows": 0, "compressor": {"kind": "none"}}]}
SCALED = {"data_parallel_size": 2, "gradient_accumulation_steps": MICRO_BATCHES, "loss_scale": LOSS_SCALE / MICRO_BATCHES}


@pytest.mark.parametrize(
    ("scaling", "ranks", "told"),
    [
        pytest.param("scaler", 2, SCALED, marks=pytest.mark.smoke),
        ("none", 1, SCALED | {"data_parallel_size": 1, "loss_scale": 1.0}),
    ],
)
def test_recorded_gradients_have_the_factor_of_the_facts(
    scaling: str, ranks: int, told: dict[str, Any], tmp_path: Path
) -> None:
    attach = options(tmp_path, plan=PLAN)
    of_rank = run_ranks(scenarios.scaled, ranks, tmp_path / "on", attach, scaling, env=environment(tmp_path))
    with open_recording(next((tmp_path / "record").glob("*.ttrec"))) as recording:
        assert recording.facts["gradients"] == told
        html = recording._repr_html_()
    assert f"gradient_accumulation_steps {MICRO_BATCHES}" in html and f"loss_scale {told['loss_scale']}" in html
    found = records(tmp_path)
    assert [one.step for one in found] == list(range(2, STEPS + 1))
    for one in found:  # the factor is a power of 2, so the bits are equal
        assert torch.equal(torch.from_numpy(one.values.copy()), of_rank[0][0][one.step] * told["loss_scale"])
    assert all(of[1][1:] == ("torch.autograd", "backward") for of in of_rank)


def test_a_loss_whose_backward_is_not_seen_has_no_stated_scale(tmp_path: Path) -> None:
    attach = options(tmp_path, plan=PLAN)
    run_ranks(scenarios.scaled, 1, tmp_path / "on", attach, "engine", env=environment(tmp_path))
    with open_recording(next((tmp_path / "record").glob("*.ttrec"))) as recording:
        assert recording.facts["gradients"] == {"data_parallel_size": 1, "gradient_accumulation_steps": MICRO_BATCHES}
