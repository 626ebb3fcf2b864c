"""tensor_tracer.point(): values and gradients beside PyTorch's own hooks, in eager and in compiled code."""

from __future__ import annotations

from pathlib import Path

import attach_points as scenarios
import pytest
import torch
from attach_points import Witnessed
from forked_ranks import run_ranks
from tensor_tracer.record import Record
from test_attach_safety import environment, options, records

pytestmark = pytest.mark.nightly(suite="attach")

EAGER = pytest.param("", id="eager", marks=pytest.mark.smoke)
EVERY = {"rows": 0, "compressor": {"kind": "none"}}


def plan(point: str) -> dict:
    return {"entries": [{"point": point, **EVERY}, {"point": point, "direction": "gradient", **EVERY}]}


def compare(found: list[Record], expected: list[Witnessed]) -> None:
    """The records of a point have the bits that hooks kept, put together from the ranks."""
    assert {(one.step, one.direction, one.layer) for one in found} == {key for key in expected[0] if key[0] > 1}
    for one in found:
        whole = torch.cat([of_rank[one.step, one.direction, one.layer] for of_rank in expected], dim=-1)
        assert torch.equal(torch.from_numpy(one.values.copy()), whole), one


@pytest.mark.parametrize("backend", [EAGER, "aot_eager"])
def test_a_named_value_is_watched_with_its_gradient(backend: str, tmp_path: Path) -> None:
    env = environment(tmp_path)
    bare = run_ranks(scenarios.pointed, 1, tmp_path / "bare", None, False, "", "", env=env)[0]
    off = run_ranks(scenarios.pointed, 1, tmp_path / "off", None, True, backend, "", env=env)[0]
    attach = options(tmp_path, plan=plan("hidden"))
    on = run_ranks(scenarios.pointed, 1, tmp_path / "on", attach, True, backend, "", env=env)[0]
    assert bare[0] == off[0] == on[0]
    compare([one for one in records(tmp_path) if one.point == "hidden"], [bare[1]])
    assert [one["layer"] for one in on[2] if one["name"] == "hidden" and not one["problem"]] == [1, 2, 3]


def test_the_inductor_computes_the_same_with_a_named_value(tmp_path: Path) -> None:
    env = environment(tmp_path) | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    off = run_ranks(scenarios.pointed, 1, tmp_path / "off", None, True, "inductor", "", env=env, timeout=300)[0]
    attach = options(tmp_path, plan=plan("hidden"))
    on = run_ranks(scenarios.pointed, 1, tmp_path / "on", attach, True, "inductor", "", env=env, timeout=300)[0]
    bare = run_ranks(scenarios.pointed, 1, tmp_path / "bare", None, False, "", "", env=env)[0]
    assert off[0] == on[0] and off[0] == pytest.approx(bare[0], abs=1e-5)
    found = [one for one in records(tmp_path) if one.point == "hidden"]
    assert len(found) == 3 * 3 * 2
    for one in found:
        expected = bare[1][one.step, one.direction, one.layer].numpy()
        assert abs(one.values - expected).max() <= 1e-5 * abs(expected).max() + 1e-7


def test_a_program_writes_a_named_value(tmp_path: Path) -> None:
    env = environment(tmp_path)
    attach = options(tmp_path, plan=plan("hidden"))
    program = "layers[2].hidden *= 2.0"
    on = run_ranks(scenarios.pointed, 1, tmp_path / "on", attach, True, "", program, env=env)[0]
    bare = run_ranks(scenarios.pointed, 1, tmp_path / "bare", None, False, "", "", env=env)[0]
    assert on[0][:2] == bare[0][:2] and on[0][2] != bare[0][2]
    (changed,) = [one for one in records(tmp_path) if (one.step, one.layer, one.direction) == (3, 2, "value")]
    assert torch.equal(torch.from_numpy(changed.values.copy()), 2.0 * bare[1][3, "value", 2])


@pytest.mark.cpu_only
def test_the_ranks_of_a_sharded_value_are_put_together(tmp_path: Path) -> None:
    bare = run_ranks(scenarios.sharded, 2, tmp_path / "bare", None, False, env=environment(tmp_path / "bare"))
    attach = options(tmp_path, plan=plan("squares"))
    on = run_ranks(scenarios.sharded, 2, tmp_path / "on", attach, True, env=environment(tmp_path / "on"))
    assert [losses for losses, _, _ in on] == [losses for losses, _, _ in bare]
    compare([one for one in records(tmp_path) if one.point == "squares"], [found for _, found, _ in bare])
