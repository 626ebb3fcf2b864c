"""What trainings with context parallelism share: the tokens of a rank, and all_gather with a gradient. That of
torch.distributed.nn takes gloo's groups of all ranks only."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def tokens_of_rank(tokens: int, rank: int, ranks: int, order: str = "zigzag") -> Tensor:
    """The positions of a rank's tokens, in the order of its tensors; "zigzag" as Megatron's get_batch_on_this_cp_rank takes
    them."""
    if order == "contiguous":
        return torch.arange(tokens).chunk(ranks)[rank]
    pieces = torch.arange(tokens).chunk(2 * ranks)
    return torch.cat([pieces[rank], pieces[2 * ranks - 1 - rank]])


def order_of_whole(tokens: int, ranks: int, order: str = "zigzag") -> Tensor:
    """The places of a sequence's tokens in the tensors of all ranks, one after another."""
    return torch.cat([tokens_of_rank(tokens, rank, ranks, order) for rank in range(ranks)]).argsort()


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
