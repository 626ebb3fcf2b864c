"""all_gather with a gradient. That of torch.distributed.nn takes gloo's groups of all ranks only."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, group: Any) -> Tensor:
        ctx.group = group
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, part, group=group)
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].contiguous()
        dist.all_reduce(total, group=ctx.group)
        return total[dist.get_rank(ctx.group)], None


def all_gather(part: Tensor, group: Any) -> list[Tensor]:
    """The parts of all ranks of the group. The gradient of a part is the sum over the ranks."""
    return list(_Gather.apply(part.contiguous(), group))  # type: ignore[no-untyped-call]
