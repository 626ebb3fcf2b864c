"""Trainings that test_attach_batches.py runs on forked ranks: batches of other shapes, and wrong options."""

from __future__ import annotations

from typing import Any

import tensor_tracer as tt
import torch
import torch.distributed as dist
from attach_scenarios import Options
from attached_training import VOCABULARY, make_model
from torch import Tensor, nn


def batch_of(number: int, rows: int, tokens: int) -> Tensor:
    return torch.randint(0, VOCABULARY, (rows, tokens), generator=torch.Generator().manual_seed(number))


def replicas(attach: Options, kind: str, rows: list[int], tokens: list[int]) -> dict[int, Tensor]:
    """Batches of a shape of its own for each data replica. Returns the output of layer 1, by step."""
    rank = dist.get_rank()
    model: Any = make_model(kind, "ddp")
    layers = model.model.layers if kind == "llama" else model.transformer.h
    kept: dict[int, Tensor] = {}
    step = 0
    layers[0].register_forward_hook(lambda _m, _a, output: kept.update({step: first_of(output).detach().clone()}))
    wrapped = nn.parallel.DistributedDataParallel(model)
    run = tt.attach(wrapped, **attach)  # type: ignore[arg-type]
    for step in (1, 2, 3):
        with run.step():
            ids = batch_of(10 * step + rank, rows[rank], tokens[rank])
            wrapped(input_ids=ids, labels=ids).loss.backward()
    run.detach()
    return kept


def first_of(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def uneven(attach: Options, rows: list[int]) -> list[list[bool]]:
    """Micro-batches with so many rows, in step 2. A program sets row 3 of the step to zero. Returns which rows are zero."""
    model = make_model("plain", "none")
    run = tt.attach(model, **attach)  # type: ignore[arg-type]
    with run.step():
        model(batch_of(1, 3, 5)).square().mean().backward()
        model(batch_of(1, 3, 5)).square().mean().backward()
    run.intervene('when(rows="3")\nlogits = logits * 0.0')
    found = []
    with run.step():
        for count in rows:
            logits = model(batch_of(2, count, 5))
            logits.square().mean().backward()
            found.append([bool((row == 0).all()) for row in logits])
    run.detach()
    return found


def evaluated(attach: Options) -> None:
    """Three micro-batches in each step, and three forwards of an evaluation after it."""
    model = make_model("plain", "none")
    run = tt.attach(model, **attach)  # type: ignore[arg-type]
    for _ in range(2):
        with run.step():
            for _ in range(3):
                model(batch_of(1, 2, 5)).square().mean().backward()
        with torch.no_grad():
            for _ in range(4):
                model(batch_of(1, 2, 5))
    run.detach()


def refused(attach: dict[str, Any]) -> str:
    try:
        tt.attach(make_model("plain", "none"), **attach)
    except tt.TensorTracerError as error:
        return str(error)
    return ""
