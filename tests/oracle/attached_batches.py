"""Trainings that test_attach_batches.py runs on forked ranks: batches of other shapes, and wrong options."""

from __future__ import annotations

from typing import Any

import tensor_tracer as tt
import torch
import torch.distributed as dist
from attach_scenarios import Options
from attached_training import VOCABULARY, Plain, make_model
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


def reads_back(attach: Options, rows: list[list[int]]) -> list[list[bool]]:
    """A program makes the logits of a micro-batch their mean of the step before. `rows`: of the micro-batches, by step.
    Returns where they are one number."""
    model = make_model("plain", "none")
    run = tt.attach(model, **attach)  # type: ignore[arg-type]
    found = []
    for step, of_step in enumerate(rows, 1):
        found.append(list[bool]())
        with run.step():
            for count in of_step:
                logits = model(batch_of(step, count, 5))
                logits.square().mean().backward()
                found[-1].append(bool((logits == logits[0, 0, 0]).all()))
        if step == 1:
            run.intervene('save(logits.mean(), "mean", send=False)\nlogits = logits * 0.0 + saved("mean")')
    run.detach()
    return found


class FromEmbeddings(Plain):
    """A model that does not get its tokens."""

    def forward(self, hidden: Tensor) -> Tensor:
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)  # type: ignore[no-any-return]


def told(attach: Options, rows: list[int]) -> Tensor:
    """The step gets the tokens of all its micro-batches, which have so many rows. After it comes an evaluation of other
    texts. Returns the tokens."""
    model, embedding = FromEmbeddings(), nn.Embedding(VOCABULARY, 32)
    run = tt.attach(model, **attach)  # type: ignore[arg-type]
    ids = batch_of(1, sum(rows), 5)
    for _ in range(3):
        with run.step(ids):
            for part in ids.split(rows):
                model(embedding(part)).square().mean().backward()
        with torch.no_grad():
            model(embedding(batch_of(2, rows[0], 5)))
    run.detach()
    return ids


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
