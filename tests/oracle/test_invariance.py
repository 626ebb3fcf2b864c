"""What must not change a run: who watches it, the mesh under dropout; and what bf16 may change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hf_models import FAMILIES, NEW, begun_from
from program import Run, train
from reference_gpt import loss_and_gradients
from viewer import live_run

NIGHTLY = pytest.mark.nightly(suite="meshes")

IMPORTED = [pytest.param(name, marks=NIGHTLY) for name in FAMILIES]

STEPS = 20
EVERYTHING = {
    "entries": [
        {"point": point, "rows": 0, "compressor": {"kind": kind}, "phases": ["train", "eval"]}
        for point in ("HiddenStates", "QKV", "MLP1", "MLP2")
        for kind in ("tile", "none")
    ]
}


WATCHED = [pytest.param(NEW, (1, 1), marks=NIGHTLY), (NEW, (2, 1)), pytest.param(NEW, (2, 2), marks=NIGHTLY),
           (FAMILIES[0], (2, 1)), *(pytest.param(name, (2, 1), marks=NIGHTLY) for name in FAMILIES[1:])]  # fmt: skip


@pytest.mark.parametrize(("model", "mesh"), WATCHED, ids=str)
def test_watching_changes_no_bit(model: str, mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """Losses, gradient norms and final weights of a watched and an unwatched float32 run."""
    flags = begun_from(flags, model, tmp_path)
    tensor, data = mesh
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(EVERYTHING))
    changes = {
        "train_iters": STEPS,
        "tensor_model_parallel_size": tensor,
        "eval_interval": 5,
        "eval_iters": 2,
    }
    unwatched = train(flags | changes, tmp_path / "alone", tensor * data, export_at=f"{STEPS}")
    watched_flags = changes | {
        "tensor_tracer_plan": plan,
        "export_tensors": tmp_path / "exports",
        "export_at": STEPS,
    }
    with live_run(flags | watched_flags, tmp_path / "watched", tensor * data) as run:
        with run.viewer() as viewer:
            viewer.wait_for(lambda: STEPS in viewer.steps(), "the last step")
        run.wait()
    assert viewer.records, "nothing was watched"
    for name in ("loss", "grad_norm", "valid_loss"):
        seen = {s["step"]: s[name] for s in viewer.named("step") if name in s}
        assert seen == {s["step"]: s[name] for s in unwatched.steps if name in s}, name
    watched = Run([], tmp_path / "exports").export(STEPS)
    for name, weight in unwatched.export(STEPS).weights.items():
        assert torch.equal(weight, watched.weights[name]), name


@pytest.mark.parametrize("model", [NEW, *IMPORTED])
def test_dropout_does_not_depend_on_the_mesh(model: str, flags, tmp_path: Path) -> None:
    """Both kinds of dropout, drawn for the same elements on every mesh, and really applied."""
    flags = begun_from(flags, model, tmp_path)
    changes = {"train_iters": STEPS, "params_dtype": "float64"}
    without = train(flags | changes, tmp_path / "without").losses()
    changes |= {"hidden_dropout": 0.1, "attention_dropout": 0.2}
    alone = train(flags | changes, tmp_path / "alone").losses()
    assert abs(alone[0] - without[0]) > 1e-6
    for tensor, data in [(2, 1), (1, 2), (4, 2)] if model == NEW else [(2, 2)]:
        changes["tensor_model_parallel_size"] = tensor
        other = train(flags | changes, tmp_path / f"{tensor}x{data}", tensor * data).losses()
        assert other == pytest.approx(alone, rel=1e-9, abs=0), (tensor, data)


NEAR = [pytest.param(NEW, (1, 1), marks=NIGHTLY), (NEW, (2, 1)), pytest.param(NEW, (1, 2), marks=NIGHTLY),
        *(pytest.param(name, (2, 1), marks=NIGHTLY) for name in FAMILIES)]  # fmt: skip


@pytest.mark.parametrize(("model", "mesh"), NEAR, ids=str)
def test_bf16_stays_near_float32(model: str, mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """Master weights stay float32; loss and gradients are those of float32 up to its 8 bits."""
    flags = begun_from(flags, model, tmp_path)
    tensor, data = mesh
    changes = {"bf16": True, "train_iters": STEPS, "tensor_model_parallel_size": tensor}
    run = train(flags | changes, tmp_path, tensor * data, export_at=f"1,{STEPS}")
    for step in (1, STEPS):
        export = run.export(step)
        tensors = [*export.weights.values(), *export.gradients.values()]
        assert {tensor.dtype for tensor in tensors} == {torch.float32}
        loss, expected = loss_and_gradients(
            export.config, export.weights, export.tokens, export.labels
        )
        assert export.loss == pytest.approx(loss.item(), rel=5e-3)
        found = torch.cat([export.gradients[name].flatten() for name in expected])
        error = found - torch.cat([gradient.flatten() for gradient in expected.values()])
        assert error.norm() <= 0.03 * found.norm()
