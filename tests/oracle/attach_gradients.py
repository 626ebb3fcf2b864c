"""Trainings whose loss is scaled before its backward, for test_attach_gradients.py. They run on forked ranks."""

from __future__ import annotations

from typing import Any

import torch
from attach_scenarios import Options, Training
from attached_training import batch_of, loss_of, numbers_of
from torch import Tensor

STEPS, MICRO_BATCHES, LOSS_SCALE = 3, 2, 1024.0
Found = tuple[dict[int, Tensor], Any]


def scaled(attach: Options, scaling: str) -> Found:
    """By step, the gradient of the mean loss of the first micro-batch by its logits, which autograd computes apart; and
    the sites. `scaling`: "scaler", "none", or "engine", which hides the loss from the tracer."""
    training = Training("plain", "ddp" if scaling == "scaler" else "none", attach)
    scaler = torch.amp.GradScaler("cpu", init_scale=LOSS_SCALE, enabled=scaling == "scaler")
    expected: dict[int, Tensor] = {}
    for step in range(1, STEPS + 1):
        with training.run.step():
            for micro_batch in range(MICRO_BATCHES):
                ids = batch_of(step, micro_batch, {"wrap": training.wrap}, training.rank, training.ranks)
                if micro_batch == 0:
                    expected[step] = unscaled(training, ids)
                loss = loss_of(training.model, ids)
                backward(loss if scaling == "none" else scaler.scale(loss / MICRO_BATCHES), scaling == "engine")
            scaler.step(training.optimizer)
            scaler.update()
            training.optimizer.zero_grad()
    points = training.run.points()
    training.run.detach()
    return expected, (points, torch.autograd.backward.__module__, torch.autograd.backward.__qualname__)


def unscaled(training: Training, ids: Tensor) -> Tensor:
    """Without the root module, whose hooks count a forward."""
    hidden = training.root.embedding(ids)
    for block in training.root.blocks:
        hidden = block(hidden)
    logits = training.root.head(hidden).detach().requires_grad_()
    mean = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    return numbers_of(torch.autograd.grad(mean, logits)[0])


def backward(loss: Tensor, is_hidden: bool) -> None:
    if is_hidden:  # as Megatron-Core does with deallocate_pipeline_outputs
        engine = torch.autograd.Variable._execution_engine
        engine.run_backward((loss,), (torch.ones_like(loss),), False, False, (), allow_unreachable=True, accumulate_grad=True)
    else:
        loss.backward()
