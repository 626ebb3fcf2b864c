"""Finds token ids and positions among the arguments of a model."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from tensor_tracer.attaching import megatron

_kNames = ("input_ids", "tokens", "input", "idx", "x")


def find_tokens(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """The first integers of shape [batch, sequence]; None: the model gets none."""
    named = [kwargs[name] for name in _kNames if name in kwargs]
    for value in (*named, *args, *kwargs.values()):
        if isinstance(value, Tensor) and value.dim() == 2 and value.dtype in (torch.int64, torch.int32):
            return value.detach().to(torch.int64)
    return None


def given_positions(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the positions that the model's forward gets, by the names of its parameters."""
    given = dict(zip(inspect.signature(model.forward).parameters, args, strict=False)) | kwargs
    return {
        name: tuple(value.shape) for name, value in given.items() if "position" in name and isinstance(value, Tensor)
    }


def text_size(model: nn.Module) -> int:
    """The number of tokens that the model knows; 0: not known."""
    sizes = [module.num_embeddings for module in model.modules() if isinstance(module, nn.Embedding)]
    return megatron.text_size(model) or max(sizes, default=0)
