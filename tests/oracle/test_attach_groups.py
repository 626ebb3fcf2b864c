"""Tensor-parallel groups and layouts that a model's modules state: Megatron's tp_group, the tp_plan of Transformers."""

from __future__ import annotations

from pathlib import Path

import attach_groups as scenarios
import pytest
import torch
from forked_ranks import run_ranks
from test_attach_safety import environment, options, records

pytestmark = pytest.mark.nightly(suite="attach")

PLAN = {
    "entries": [
        {"point": f"layers[n].mlp.{place}", "rows": 0, "compressor": {"kind": "none"}}
        for place in ("gate_proj.output", "output")
    ]
}


@pytest.mark.smoke
def test_the_group_of_megatron_modules_comes_before_that_of_the_process(tmp_path: Path) -> None:
    ranks = run_ranks(scenarios.megatron_ranks, 4, tmp_path, env=environment(tmp_path))
    assert ranks == [(0, 2), (1, 3), (0, 2), (1, 3)]


def test_a_tp_plan_says_the_layout_of_plain_weights(tmp_path: Path) -> None:
    env, folder = environment(tmp_path), str(tmp_path / "model")
    (whole, _), = run_ranks(scenarios.locally_shared, 1, tmp_path / "one", None, folder, env=env)
    attach = options(tmp_path, plan=PLAN)
    of_rank = run_ranks(scenarios.locally_shared, 2, tmp_path / "two", attach, folder, env=env)
    sites = {one["path"]: one for one in of_rank[0][1]}
    assert sites["layers[1].mlp.gate_proj.output"]["layout"] == "shard(-1)"
    assert "tp_plan 'local_colwise'" in sites["layers[1].mlp.gate_proj.output"]["source"]
    assert "partial sums" in sites["layers[1].mlp.down_proj.output"]["problem"]
    assert "tp_plan 'gather'" in sites["layers[1].mlp.output"]["source"]
    found = records(tmp_path)
    assert len(found) == 2 * 3
    for one in found:
        is_gate = one.point == "mlp.gate_proj.output"
        path = f"model.layers.{one.layer - 1}.mlp" + ".gate_proj" * is_gate
        values = torch.from_numpy(one.values.copy())
        parts = [of[0][path] for of in of_rank]
        assert torch.equal(values, torch.cat(parts, -1) if is_gate else parts[0]), one
        assert (values - whole[path]).abs().max() <= 1e-5 * whole[path].abs().max(), one
