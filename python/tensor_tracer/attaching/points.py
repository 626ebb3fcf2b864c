"""`tensor_tracer.point`: a name for a value inside a forward, which makes it a place of the table.

Eager code calls the watchers, which are the learner and the hooks of attached runs, directly. Compiled code has
the operator tensor_tracer::point, which calls them when it runs; it returns a copy, because an operator of Python
may not return its input. The operator's second result is the number of the copy's input, by which the gradient
finds it in the backward.
"""

from __future__ import annotations

import itertools
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.placement_types import Placement

from tensor_tracer.errors import TensorTracerError


class Watcher(Protocol):
    """Thread: that of the forward, and those of the backward."""

    def at_point(self, name: str, placement: str, tensor: Tensor, is_compiled: bool) -> Tensor | None:
        """Takes the value of a point. Returns the value that the model must use; None: the watcher knows no such
        point now."""

    def at_gradient(self, number: int, gradient: Tensor) -> None:
        """Takes the gradient of a value that compiled code gave, which had this number."""


_watchers: list[Watcher] = []
_numbers = itertools.count(1)


def watch(watcher: Watcher) -> None:
    if watcher not in _watchers:
        _watchers.append(watcher)


def unwatch(watcher: Watcher) -> None:
    if watcher in _watchers:
        _watchers.remove(watcher)


def point(name: str, x: Tensor, placement: Placement | None = None) -> Tensor:
    """Names a value inside a forward: it becomes a place, with its gradient. Returns `x`; in compiled code a copy.

    `name`: as the path of a module. In a layer it begins with the layer's path or its last two parts,
    "layers.11.scores", and counts from 0 as paths do. `placement`: how the tensor-parallel ranks share the value,
    Shard(dim) or Replicate(); None: found out in the first step. Raises TensorTracerError for other placements.
    """
    if torch.compiler.is_compiling():
        return torch.ops.tensor_tracer.point(x, name, _text_of(placement))[0]  # type: ignore[no-any-return]
    for watcher in reversed(_watchers):
        used = watcher.at_point(name, _text_of(placement), x, False)
        if used is not None:
            return used
    return x


def _text_of(placement: Placement | None) -> str:
    if placement is None:
        return ""
    if isinstance(placement, Shard):
        return str(placement.dim)
    if isinstance(placement, Replicate):
        return "replicate"
    message = f"{placement!r} is not a placement"
    raise TensorTracerError("invalid_argument", message, "point", "give Shard(dim) or Replicate()")


@torch.library.custom_op("tensor_tracer::point", mutates_args=())
def _point(x: Tensor, name: str, placement: str) -> tuple[Tensor, Tensor]:
    number = next(_numbers)
    leaf = x.detach().requires_grad_()
    leaf.tensor_tracer_number = number  # type: ignore[attr-defined]
    for watcher in reversed(_watchers):
        with torch.enable_grad():
            if watcher.at_point(name, placement, leaf, True) is not None:
                break
    return x.clone(), torch.tensor(number)


@_point.register_fake
def _(x: Tensor, name: str, placement: str) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty((), dtype=torch.int64)


@torch.library.custom_op("tensor_tracer::point_gradient", mutates_args=())
def _point_gradient(gradient: Tensor, number: Tensor) -> Tensor:
    for watcher in _watchers:
        watcher.at_gradient(int(number), gradient)
    return gradient.clone()


@_point_gradient.register_fake
def _(gradient: Tensor, number: Tensor) -> Tensor:
    return torch.empty_like(gradient)


def _keep_number(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, gradient: Tensor, _of_number: Any) -> tuple[Tensor, None, None]:
    (number,) = ctx.saved_tensors
    return torch.ops.tensor_tracer.point_gradient(gradient, number), None, None


_point.register_autograd(_backward, setup_context=_keep_number)
