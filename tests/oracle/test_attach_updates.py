"""run.watch_optimizer() beside the same numbers, computed by PyTorch from the full parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attach_scenarios import Options, Training, refused_updates
from attached_training import Plain, batch_of, loss_of
from expected_updates import step_with_rows
from forked_ranks import run_ranks
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from tensor_tracer.attaching.updates import OfStage, names_of
from test_attach_safety import both, environment, options, records, results

pytestmark = pytest.mark.nightly(suite="attach")

PLAN = {"entries": [{"point": "Updates", "every": 2}]}


def make_optimizer(kind: str, training: Training) -> torch.optim.Optimizer:
    weights = training.model.parameters()
    if kind == "sgd":
        return torch.optim.SGD(weights, lr=1e-2, momentum=0.9)
    return torch.optim.AdamW(weights, lr=1e-2, foreach=False)


def train(attach: Options, kind: str, wrap: str, optimizer_kind: str) -> tuple[list[float], list[dict[str, Any]], Any]:
    """Losses, the expected rows of each step by the parameter's name, and the error of a second call."""
    training = Training(kind, wrap, attach)
    training.optimizer = make_optimizer(optimizer_kind, training)
    second = ""
    if training.run is not None:
        import tensor_tracer as tt

        training.run.watch_optimizer(training.optimizer)
        try:
            training.run.watch_optimizer(training.optimizer)
        except tt.TensorTracerError as error:
            second = error.code
    steps: list[dict[str, Any]] = []
    named = dict(training.root.named_parameters())

    def take(loss: Tensor) -> None:
        loss.backward()
        steps.append(step_with_rows(training.optimizer, named))
        training.optimizer.zero_grad()
        training.losses.append(float(loss.detach()))

    training.take = take  # type: ignore[method-assign]
    for step in range(1, 6):
        training.step(step)
    if training.run is not None:
        training.run.detach()
    assert not training.optimizer._optimizer_step_pre_hooks, "a hook of the optimizer is left"
    return training.losses, steps, second


def run_out_of_memory(attach: Options, when: str) -> list[float]:
    """In step 4, rank 1 has no memory for the `copies` of the weights, or for their `updates`."""
    from tensor_tracer.attaching import updates

    training = Training("plain", "ddp", attach)
    local_of, calls = updates.local_of, list[Tensor]()  # of a step
    copies = len(list(training.model.parameters()))

    def failing(tensor: Tensor) -> Tensor:
        calls.append(tensor)
        is_too_much = len(calls) > (0 if when == "copies" else copies)
        if training.rank == 1 and len(training.losses) == 3 and is_too_much:
            raise torch.OutOfMemoryError("no memory is left")
        return local_of(tensor)

    if training.run is not None:
        training.run.watch_optimizer(training.optimizer)
        updates.local_of = failing
    return training.steps(6, lambda _step: calls.clear())


def train_replicas(attach: Options) -> list[dict[str, list[float]]]:
    """Two replicas, which get the same batches, of a model on two tensor-parallel ranks; the weights are DTensors of the
    replica's ranks alone."""
    import tensor_tracer as tt

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(7)
    model = Plain()
    shared = {"blocks.*.up": ColwiseParallel(), "blocks.*.down": RowwiseParallel()}
    parallelize_module(model, mesh["tp"], shared)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    run = tt.attach(model, **attach)
    run.watch_optimizer(optimizer)
    steps = []
    for step in range(1, 4):
        with run.step():
            loss_of(model, batch_of(step, 0, {"wrap": "tp"}, 0, 1)).backward()
            steps.append(step_with_rows(optimizer, dict(model.named_parameters())))
            optimizer.zero_grad()
    run.detach()
    return steps


@pytest.mark.cpu_only
def test_weights_of_replicas_count_once(tmp_path: Path) -> None:
    steps = run_ranks(train_replicas, 4, tmp_path / "on", options(tmp_path, plan=PLAN), env=environment(tmp_path))[0]
    (record,) = [one for one in records(tmp_path) if one.point == "Updates"]
    rows = np.array(list(steps[record.step - 1].values()))
    assert np.allclose(record.values[0], rows, rtol=1e-5, atol=1e-30)


CASES = [
    pytest.param("plain", "none", 1, "adamw", id="plain", marks=pytest.mark.smoke),
    pytest.param("plain", "none", 1, "sgd", id="sgd"),
    pytest.param("plain", "ddp", 2, "adamw", id="ddp"),
    pytest.param("llama", "fsdp", 2, "adamw", id="fsdp"),
    pytest.param("llama", "tp", 2, "adamw", id="tp"),
]


@pytest.mark.cpu_only
def test_flat_weights_are_not_watched_and_training_goes_on(tmp_path: Path) -> None:
    refused = run_ranks(refused_updates, 2, tmp_path, options(tmp_path), env=environment(tmp_path))
    assert all("keeps the weights in flat tensors" in one and "use fully_shard (FSDP2)" in one for one in refused), refused


@pytest.mark.parametrize(("kind", "wrap", "ranks", "optimizer"), CASES)
def test_updates_equal_those_of_the_full_parameters(
    kind: str, wrap: str, ranks: int, optimizer: str, tmp_path: Path
) -> None:
    work = kind, wrap, optimizer
    alone = run_ranks(train, ranks, tmp_path / "alone", None, *work, env=environment(tmp_path / "alone"))
    attach = options(tmp_path, plan=PLAN)
    on = run_ranks(train, ranks, tmp_path / "on", attach, *work, env=environment(tmp_path))
    assert [one[0] for one in on] == [one[0] for one in alone]
    assert on[0][2] == "invalid_state"
    found = [one for one in records(tmp_path) if one.point == "Updates"]
    assert [one.step for one in found] == [2, 4]
    for record in found:
        expected = alone[0][1][record.step - 1]
        assert record.values.shape == (1, len(expected), 11 if optimizer == "adamw" else 8)
        with np.errstate(invalid="ignore", divide="ignore"):
            rows = np.array(list(expected.values()))
            assert np.allclose(record.values[0], rows, rtol=1e-5, atol=1e-30, equal_nan=True), record.step


STAGES = [
    pytest.param("h.0 h.1 | h.0", "wte.w h.0.w h.1.w | h.0.w norm.w", "wte.w h.0.w h.1.w h.2.w norm.w", id="counted in the stage"),
    pytest.param("h.0 h.1 | h.2", "wte.w h.0.w h.1.w | h.2.w norm.w", "wte.w h.0.w h.1.w h.2.w norm.w", id="counted in the model"),
    pytest.param("a | b", "a.w norm.w | b.w norm.w", "a.w norm.w b.w stage1.norm.w", id="not counted"),
]  # fmt: skip


@pytest.mark.smoke
@pytest.mark.parametrize(("layers", "names", "expected"), STAGES)
def test_names_of_parameters_are_those_of_the_whole_model(layers: str, names: str, expected: str) -> None:
    """The parts before and after | are those of two stages."""
    stages = [
        OfStage(of_layers.split(), dict.fromkeys(of_names.split(), 1))
        for of_layers, of_names in zip(layers.split("|"), names.split("|"), strict=True)
    ]
    assert list(names_of(stages).values()) == expected.split()


@pytest.mark.parametrize("when", ["copies", "updates"])
def test_too_little_memory_leaves_a_record_out_and_the_training_goes_on(when: str, tmp_path: Path) -> None:
    watched, alone = both(run_out_of_memory, 2, tmp_path, when, plan=PLAN)
    assert results(watched) == results(alone)
    assert "no record of Updates in step 4: no memory is left" in watched[1].output
    assert "the tracer is off" not in watched[0].output + watched[1].output
    assert [record.step for record in records(tmp_path / "with")] == [2, 6]
