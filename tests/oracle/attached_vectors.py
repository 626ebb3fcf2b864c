"""Trainings that test_attach_vectors.py runs on forked ranks: the tracer is attached, and direction vectors are made
between two steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from attached_prompts import Letters, Stages, prepared, state_of, weights_of
from attached_training import VOCABULARY
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

AFTER = 2  # the step after which vectors are made
STEPS = 4


class Added(Letters):
    """Adds a token at the begin, as many tokenizers do."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [60] * add_special_tokens + super().encode(text)


def error_of(call: Callable[[], Any]) -> str:
    """The message; empty: none was raised."""
    try:
        call()
    except Exception as error:
        return str(error)
    return ""


def plainly(found: Any) -> dict[str, Any]:
    """Without the class."""
    return {kind: (one.rows, one.provenance) for kind, one in found.items()}


def extracted(attach: Any, kind: str, wrap: str, sides: Any, options: list[dict[str, Any]]) -> dict[str, Any]:
    """In a training with dropout, by each of the options. Ranks other than 0 have no texts."""
    import tensor_tracer as tt

    training = prepared(attach, kind, wrap, 0.1)
    given = sides if training.rank == 0 else ([], [])
    for number in range(1, AFTER + 1):
        training.step(number)
    before = state_of(training.root)
    found = [plainly(tt.vectors.extract(training.run, *given, **one)) for one in options]
    is_kept = state_of(training.root) == before
    weights = weights_of(training)
    for number in range(AFTER + 1, STEPS + 1):
        training.step(number)
    training.run.detach()
    return {"found": found, "weights": weights, "losses": training.losses, "is_state_kept": is_kept}


def of_folder(attach: Any, folder: str, sides: Any, program: str, options: dict[str, Any]) -> dict[str, Any]:
    """Of a model that is not trained. A program that changes its states is in force."""
    import tensor_tracer as tt

    model = AutoModelForCausalLM.from_pretrained(folder)
    run = tt.attach(nn.parallel.DistributedDataParallel(model) if dist.is_initialized() else model, **attach)
    ids = torch.arange(5)[None]
    with run.step():
        model(ids)
    run.intervene(program)
    with run.step():
        model(ids)
    found = tt.vectors.extract(run, *sides, **options)
    run.detach()
    return plainly(found)


def saved(attach: Any, sides: Any, path: str) -> str:
    """By the vector's own method. Returns the error of a second time."""
    import tensor_tracer as tt

    training = prepared(attach, "gpt2", "none", 0.0)
    training.step(1)
    one = tt.vectors.extract(training.run, *sides)["response"]
    one.save(path)
    message = error_of(lambda: one.save(path))
    one.save(path, force=True)
    training.run.detach()
    return message


def refusals(attach: Any, calls: list[tuple[Any, Any, dict[str, Any]]]) -> list[str]:
    """Of each call; after them, the run still makes vectors and steps."""
    import tensor_tracer as tt

    training = prepared(attach, "gpt2", "none", 0.0)
    training.step(1)
    messages = [
        error_of(lambda given=given: tt.vectors.extract(training.run, given[0], given[1], **given[2])) for given in calls
    ]
    tt.vectors.extract(training.run, [[1, 2]], [[3, 4]])
    training.step(2)
    training.run.detach()
    return messages


def out_of_place(attach: Any) -> list[str]:
    """Before the first step, in a step, after detach(), and of a model instead of a run."""
    import tensor_tracer as tt

    training = prepared(attach, "gpt2", "none", 0.0)

    def extract() -> Any:
        return tt.vectors.extract(training.run, [[1, 2]], [[3, 4]])

    messages = [error_of(extract)]
    training.step(1)
    with training.run.step():
        messages.append(error_of(extract))
    training.run.detach()
    messages.append(error_of(extract))
    return [*messages, error_of(lambda: tt.vectors.extract(training.model, [[1]], [[2]]))]


def without_norm(attach: Any) -> str:
    return _refusal(attach, "plain")


def not_finite(attach: Any) -> str:
    return _refusal(attach, "gpt2", lambda root: root.transformer.h[1].mlp.c_proj.bias)


def _refusal(attach: Any, kind: str, weight: Callable[[Any], Tensor] | None = None) -> str:
    """`weight`: gets a number that is not finite."""
    import tensor_tracer as tt

    training = prepared(attach, kind, "none", 0.0)
    training.step(1)
    if weight is not None:
        weight(training.root).data[3] = torch.nan
    message = error_of(lambda: tt.vectors.extract(training.run, [[1, 2]], [[3, 4]]))
    training.run.detach()
    return message


def in_stages(attach: Any) -> str:
    import tensor_tracer as tt

    training = Stages(attach)
    training.step(1)
    message = error_of(lambda: tt.vectors.extract(training.run, [[1, 2]], [[3, 4]]))
    training.run.detach()
    return message


def of_one_rank(attach: Any) -> tuple[list[str], list[float]]:
    """What goes wrong on one rank alone, and the losses of a training that goes on."""
    import tensor_tracer as tt

    training = prepared(attach, "gpt2", "ddp", 0.0)
    is_first = training.rank == 0
    training.step(1)
    block = training.root.transformer.h[1]

    def fail(_module: nn.Module, _args: Any) -> None:
        if training.rank == 1 and not torch.is_grad_enabled():
            raise ZeroDivisionError("no such text")

    calls: list[tuple[Any, Any, dict[str, Any]]] = [
        ([[1, VOCABULARY]] if is_first else [[1]], [[2]], {}),
        ([[1, 2]], [[3, 4]], {"batch_size": 8 if is_first else 4}),
        ([[1, 2]], [[3, 4]], {"out": "/proc/none/v.pt"}),
    ]
    messages = [error_of(lambda one=one: tt.vectors.extract(training.run, one[0], one[1], **one[2])) for one in calls]
    with contextlib.closing(_Hook(block, fail)):
        messages.append(error_of(lambda: tt.vectors.extract(training.run, [[1, 2]], [[3, 4]])))
    training.step(2)
    training.run.detach()
    return messages, training.losses


class _Hook:
    def __init__(self, module: nn.Module, before: Any) -> None:
        self._handle = module.register_forward_pre_hook(before)

    def close(self) -> None:
        self._handle.remove()
