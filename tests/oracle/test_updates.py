"""The trace point Updates against torch.optim.AdamW, on every mesh."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import torch
from reference_gpt import Export
from test_points import NIGHTLY, entry, records_of_three_steps
from test_stream import LLAMA
from torch import Tensor

GROUPED = LLAMA | {"num_query_groups": 1}  # ranks hold copies of keys and values
COLUMNS = (
    "count weight_norm weight_rms gradient_norm gradient_rms update_norm update_rms update_ratio "
    "first_moment_norm first_moment_rms second_moment_mean"
).split()


def rms(x: Tensor) -> Tensor:
    return x.square().mean().sqrt()


def optimizer_of(weights: dict[str, Tensor], flags: dict) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        [
            {"params": [w for w in weights.values() if w.ndim >= 2]},
            {"params": [w for w in weights.values() if w.ndim < 2], "weight_decay": 0.0},
        ],
        weight_decay=flags["weight_decay"],
        betas=(flags["adam_beta1"], flags["adam_beta2"]),
        eps=flags["adam_eps"],
    )


def in_pytorch(exports: list[Export], rates: list[float], flags: dict, clip: float) -> list[dict[str, list[float]]]:
    """The numbers of each parameter in each step, by name."""
    weights = {name: w.clone().requires_grad_() for name, w in exports[0].weights.items()}
    optimizer = optimizer_of(weights, flags)
    steps = []
    for export, rate in zip(exports, rates, strict=True):
        norm = torch.stack([g.norm() for g in export.gradients.values()]).norm().item()
        for name, weight in weights.items():
            weight.data.copy_(export.weights[name])
            weight.grad = export.gradients[name] * min(1.0, clip / (norm + 1e-6))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        numbers = {}
        for name, weight in weights.items():
            before, gradient = export.weights[name], export.gradients[name]
            update, state = weight.detach() - before, optimizer.state[weight]
            first, second = state["exp_avg"], state["exp_avg_sq"]
            values = [torch.tensor(weight.numel()), before.norm(), rms(before), gradient.norm(), rms(gradient),
                      update.norm(), rms(update), update.norm() / before.norm(), first.norm(), rms(first),
                      second.mean()]  # fmt: skip
            numbers[name] = [float(value) for value in values]
        steps.append(numbers)
    return steps


@pytest.mark.parametrize(
    ("tensor", "replicas"),
    [pytest.param(1, 1, marks=NIGHTLY), (2, 2), (4, 1), pytest.param(1, 2, marks=NIGHTLY)],
)
@pytest.mark.parametrize("shape", [pytest.param({}, marks=NIGHTLY), GROUPED], ids=["gpt2", "multi-query"])
def test_updates_equal_pytorch(shape: dict, tensor: int, replicas: int, flags, tmp_path: Path) -> None:
    exports, clip, rate = tmp_path / "exports", 0.5, 3e-3
    more = shape | {"export_tensors": str(exports), "export_at": "1-3", "clip_grad": clip,
                    "lr": rate, "min_lr": rate, "lr_warmup_iters": 0}  # fmt: skip
    records = records_of_three_steps(flags, more, tmp_path / "run", tensor, [entry("Updates")], replicas)
    read = [Export.read(exports / f"step_{step:06d}.safetensors") for step in (1, 2, 3)]
    expected = in_pytorch(read, [rate] * 3, flags, clip)
    names = parameter_names(tmp_path / "run")
    assert sorted(names) == sorted(expected[0])
    for (step, _, layer, row), record in records.items():
        assert (layer, row, record.values.shape) == (0, 0, (1, len(names), len(COLUMNS)))
        for name, found in zip(names, record.values[0], strict=True):
            wanted = np.array(expected[step - 1][name])
            with np.errstate(invalid="ignore", divide="ignore"):
                assert np.allclose(found, wanted, rtol=1e-5, atol=1e-30, equal_nan=True), (step, name)


def parameter_names(folder: Path) -> list[str]:
    """The rows of Updates, from the run's facts."""
    with contextlib.closing(sqlite3.connect(folder / "run.ttrec")) as recording:
        (facts,) = recording.execute("SELECT facts FROM runs").fetchone()
    (point,) = [one for one in json.loads(facts)["points"] if one["name"] == "Updates"]
    assert point["columns"] == COLUMNS
    return point["parameters"]


def test_watching_updates_changes_no_weight(flags, tmp_path: Path) -> None:
    found = []
    for name, entries in (("off", []), ("on", [entry("Updates")])):
        exports = tmp_path / name / "exports"
        more = {"export_tensors": str(exports), "export_at": "3", "params_dtype": "float32"}
        records_of_three_steps(flags, more, tmp_path / name, 2, entries)
        found.append(Export.read(exports / "step_000003.safetensors").weights)
    off, on = found
    assert all(torch.equal(off[name], on[name]) for name in off)
