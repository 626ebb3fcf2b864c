"""Puts together what the tensor-parallel ranks of a test have, by torch.distributed.all_gather."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def gathered(kept: dict[Any, Tensor], group: Any) -> dict[Any, list[Tensor]]:
    """The numbers of each rank of the group, in the order of its ranks, by key. Collective: all ranks have the same
    keys."""
    found = {}
    for key in sorted(kept):
        mine = kept[key].contiguous()
        found[key] = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
        dist.all_gather(found[key], mine, group=group)
    return found
