"""What a trainer multiplies a loss by before it calls backward() on it. The gradients of activations contain it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_watchers: list[object] = []
_scales: list[float | None] = []  # of the backwards that run now, the innermost last
_replaced: list[tuple[Callable[..., None], Callable[..., None]]] = []  # torch.autograd.backward: the own, and ours


def watch(watcher: object) -> None:
    """Until unwatch(), loss_scale() works: Tensor.backward calls torch.autograd.backward, which is replaced."""
    if watcher not in _watchers:
        _watchers.append(watcher)
    if not _replaced:
        own: Callable[..., None] = torch.autograd.backward
        _replaced.append((own, _watched(own)))
        torch.autograd.backward = _replaced[0][1]


def unwatch(watcher: object) -> None:
    if watcher in _watchers:
        _watchers.remove(watcher)
    # What another one has put over ours stays, with ours below.
    if not _watchers and _replaced and torch.autograd.backward is _replaced[0][1]:
        torch.autograd.backward = _replaced.pop()[0]


def loss_scale() -> float | None:
    """The product of the numbers by which the trainer multiplied or divided the loss of the backward that runs now, after
    the loss was one number; None: not known."""
    return _scales[-1] if _scales else None


def _watched(own: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(own)
    def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
        _scales.append(_scale_of(tensors) if _watchers and grad_tensors is None else None)
        try:
            own(tensors, grad_tensors, *args, **kwargs)
        finally:
            _scales.pop()

    return backward


def _scale_of(tensors: Any) -> float | None:
    try:
        (loss,) = (tensors,) if isinstance(tensors, Tensor) else tensors
        scale, node = 1.0, loss.grad_fn
        while (found := _factor_of(node)) is not None:
            scale, node = scale * found[0], found[1]
        return scale if math.isfinite(scale) else None
    except Exception:  # no error of ours reaches training
        return None


def _factor_of(node: Any) -> tuple[float, Any] | None:
    """The constant by which a node of the graph multiplies, and the node before; None: it does something else."""
    if node is None or node.name() not in ("MulBackward0", "DivBackward0"):
        return None
    (before, _), (of_other, _) = node.next_functions
    if node.name() == "MulBackward0" and before is None:
        return _number(node._saved_self), of_other
    if of_other is not None:
        return None
    other = _number(node._saved_other)
    return other if node.name() == "MulBackward0" else 1 / other, before


def _number(constant: Any) -> float:
    return float(constant.item() if isinstance(constant, Tensor) else constant)
