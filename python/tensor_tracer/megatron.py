"""The tracer in a training by Megatron-LM.

    import tensor_tracer as tt
    from megatron.training import training

    training.train_step = tt.megatron.wrap_train_step(training.train_step, port=8765)
    training.pretrain(…)

Megatron-Core 0.16.1 has no callbacks, and no named sites for tensors inside the model. So the function that trains one
step is replaced, and tensors come from hooks on modules.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tensor_tracer.attaching import AttachedRun, RunStopped, attach


def wrap_train_step(train_step: Callable[..., Any], run: AttachedRun | None = None, **options: Any) -> Callable[..., Any]:
    """A function that does what `train_step` does, inside run.step(), and logs the loss, the norm of the gradient,
    and the learning rate with which the step was taken.

    `train_step`: that of megatron.training.training, or a function with its arguments `model`, the list of this rank's
    model chunks, and `optimizer`, and its results: the losses first, and the norm of the gradient third of four or sixth
    of more. `run`: what attach() returned; without it, the first call attaches, with the `options` of attach().
    If a viewer stops the run, the results tell Megatron-LM to save a checkpoint (with --save) and to exit; a
    `train_step` with four results raises RunStopped. Raises TensorTracerError. Collective over all ranks.
    """
    signature = inspect.signature(train_step)
    last: tuple[Any, ...] = ()  # results
    steps = _Steps()

    @functools.wraps(train_step)
    def traced(*args: Any, **kwargs: Any) -> Any:
        nonlocal run, last
        given = signature.bind(*args, **kwargs).arguments
        iteration: int | None = given.get("iteration")
        if run is None:
            first = {"first_step": iteration + 1} if iteration is not None else {}
            run = attach(given["model"], **({"trainer": "Megatron-LM"} | first | options))
        rate = _learning_rate(given["optimizer"])
        try:
            with run.step(number=steps.next(iteration, run)):
                results: tuple[Any, ...] = train_step(*args, **kwargs)
        except RunStopped:
            if len(last) < 7:
                raise
            return ({}, 1, _saves_checkpoints(), True, 0, None, None, *last[7:])
        last = results
        numbers = {"loss": _loss(results[0]), "grad_norm": results[5 if len(results) > 4 else 2], "lr": rate}
        run.log(**{name: number for name, number in numbers.items() if number is not None})
        return results

    return traced


class _Steps:
    """The run's steps keep their distance to Megatron-LM's iterations: with --iterations-to-skip, calls are left out."""

    def __init__(self) -> None:
        self._distance: int | None = None

    def next(self, iteration: int | None, run: AttachedRun) -> int | None:
        """The number of the next step; None: the one after the last. `iteration`: from 0; None: not known."""
        if iteration is None:
            return None
        if self._distance is None:
            self._distance = run.step_number - iteration
        number = iteration + 1 + self._distance
        return number if number > run.step_number else None


def _loss(losses: Mapping[str, Any]) -> Tensor | None:
    """The first loss. A pair is a sum over tokens and their number. None: another pipeline stage has the loss."""
    if not losses:
        return None
    value = torch.as_tensor(next(iter(losses.values()))).detach().flatten()
    return value[0] / value[1] if value.numel() == 2 else value.mean()


def _learning_rate(optimizer: Any) -> float | None:
    """That of the weights without a separate rate, as embeddings and output layer may have one."""
    groups = getattr(optimizer, "param_groups", [])
    usual = (one for one in groups if one.get("default_config", not one.get("is_decoupled_lr")))
    return next((float(one["lr"]) for one in usual), None)


def _saves_checkpoints() -> bool:
    """True if Megatron-LM was started with --save."""
    training: Any = sys.modules.get("megatron.training")
    return training is not None and bool(getattr(training.get_args(), "save", None))
