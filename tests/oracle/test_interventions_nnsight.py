"""Interventions as users of nnsight write them (nnsight_edits.py), on the reference model wrapped by nnsight: their
results must be those of real runs, and of the hooks that test_interventions.py goes by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from graphs import EVERYTHING, LLAMA, SHAPES
from hooked_gpt import World, expected
from nnsight_edits import EDITS
from observed_runs import Runs
from own_environment import run_in_environment
from reference_gpt import Export
from test_hooked_gpt import make_export
from torch import Tensor

pytestmark = pytest.mark.nightly(suite="attach")

Case = tuple[Export, float, dict[str, Tensor]]  # a step, its loss and gradients by nnsight


def by_nnsight(exports: Sequence[Export], world: World, folder: Path) -> dict[str, Case]:
    """A step for each of EDITS."""
    torch.save((world, list(zip(EDITS, exports, strict=True))), folder / "cases.pt")
    run_in_environment("nnsight", "nnsight_edits.py", folder / "cases.pt", folder / "results.pt")
    results = torch.load(folder / "results.pt")
    return {name: (export, *result) for name, export, result in zip(EDITS, exports, results, strict=True)}


@pytest.fixture(scope="module", params=SHAPES)
def shape(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def of_one_step(shape: str, runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """All edits of the same random weights and tokens."""
    export = make_export(LLAMA if shape == "llama" else {})
    return by_nnsight([export] * len(EDITS), runs.world, tmp_path_factory.mktemp("step"))


@pytest.fixture(scope="module")
def of_runs(shape: str, runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """The step of a real run in which the program acted."""
    found = [runs.of(name, shape, (1, 1)) for name in EDITS]
    exports = [observed.run.export(placed.first) for observed, placed in found]
    return by_nnsight(exports, runs.world, tmp_path_factory.mktemp("runs"))


def assert_close(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    norm = torch.stack([g.norm() for g in wanted.values()]).norm()
    for name, gradient in wanted.items():
        allowed = 1e-9 * gradient.abs().max() + 1e-14 * norm
        assert (found[name] - gradient).abs().max() <= allowed, name


@pytest.mark.parametrize("name", EDITS)
def test_hooks_do_what_nnsight_does(name: str, of_one_step: dict[str, Case], runs: Runs) -> None:
    export, loss, gradients = of_one_step[name]
    wanted = expected(EVERYTHING[name], export, runs.world, 1)
    assert loss == pytest.approx(wanted.loss, rel=1e-12)
    assert_close(gradients, wanted.gradients)


@pytest.mark.parametrize("name", EDITS)
def test_runs_do_what_nnsight_does(name: str, of_runs: dict[str, Case]) -> None:
    export, loss, gradients = of_runs[name]
    assert export.loss == pytest.approx(loss, rel=1e-9)
    assert_close(export.gradients, gradients)
