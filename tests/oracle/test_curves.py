"""Fifty steps: the same loss curve on every mesh, twice the same bits on one mesh."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import train

NIGHTLY = pytest.mark.nightly(suite="meshes")

STEPS = 50
MESHES = [(1, 2), (2, 1), (2, 2), (4, 1), (4, 2)]


def curve(flags, folder: Path, mesh: tuple[int, int], dtype: str) -> list[float]:
    """The losses of a run on (tensor, data) ranks, followed by its validation losses."""
    tensor, data = mesh
    changes = {
        "train_iters": STEPS,
        "params_dtype": dtype,
        "tensor_model_parallel_size": tensor,
        "eval_interval": 25,
        "eval_iters": 2,
    }
    run = train(flags | changes, folder, ranks=tensor * data, timeout=300)
    assert [step["step"] for step in run.steps] == list(range(1, STEPS + 1))
    tokens = int(flags["global_batch_size"]) * int(flags["seq_length"])
    assert [step["consumed_tokens"] for step in run.steps] == [
        tokens * n for n in range(1, STEPS + 1)
    ]
    validation = [step["valid_loss"] for step in run.steps if "valid_loss" in step]
    assert len(validation) == 2
    return run.losses() + validation


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), pytest.param("float32", 1e-4, marks=NIGHTLY)])
def test_same_curve_on_every_mesh(dtype: str, tolerance: float, flags, tmp_path: Path) -> None:
    alone = curve(flags, tmp_path / "alone", (1, 1), dtype)
    assert alone[STEPS - 1] < alone[0] - 0.5, "the model does not learn"
    for mesh in MESHES:
        other = curve(flags, tmp_path / f"{mesh[0]}x{mesh[1]}", mesh, dtype)
        assert other == pytest.approx(alone, rel=tolerance, abs=0), mesh


def test_repeats_bit_for_bit(flags, tmp_path: Path) -> None:
    first, second = (curve(flags, tmp_path / name, (2, 1), "float32") for name in "ab")
    assert first == second


def test_seed_changes_the_run(flags, tmp_path: Path) -> None:
    changes = {"train_iters": 1, "params_dtype": "float64"}
    losses = [
        train(flags | changes | {"seed": seed}, tmp_path / str(seed)).losses() for seed in (1, 2)
    ]
    assert losses[0] != losses[1]
