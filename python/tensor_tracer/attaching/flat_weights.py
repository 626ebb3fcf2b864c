"""Weights that FullyShardedDataParallel (FSDP1) keeps in one flat tensor, of which each rank has a part.

Outside of a forward, such a parameter is a one-dimensional part, often of no element. In a forward, FSDP1 itself sets
the whole weights as attributes of the modules. So these weights are no places. FSDP2 keeps DTensors instead.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel


def is_flat(weight: Tensor) -> bool:
    """True for the flat tensor, and for a parameter that is a part of it."""
    return bool(getattr(weight, "_fsdp_flattened", False))


def whole_sizes(root: nn.Module) -> dict[int, int]:
    """The numbers of elements of the whole weights, by the identity of this rank's parameter."""
    sizes: dict[int, int] = {}
    for module in FullyShardedDataParallel.fsdp_modules(root):
        flat: Any = module._flat_param
        if flat is not None:
            sizes[id(flat)] = sum(flat._numels)
            sizes |= {id(one): size for one, size in zip(flat._params or [], flat._numels, strict=False)}
    return sizes
