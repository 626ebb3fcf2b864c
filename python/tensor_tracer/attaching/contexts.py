"""Context parallelism: each rank has a part of every sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tensor_tracer.errors import TensorTracerError

kContiguous, kZigzag = "contiguous", "zigzag"


@dataclass(frozen=True)
class Contexts:
    """How `ranks` context-parallel ranks share a sequence. `order`: "contiguous": rank c has part c of `ranks`. "zigzag":
    rank c has the pieces c and 2 * ranks - 1 - c of 2 * ranks, so that causal attention costs each rank the same; it is
    the order of Megatron-Core, and of PyTorch's context_parallel with load balancing."""

    ranks: int = 1
    order: str = kContiguous

    def blocks(self, parts: int) -> list[int]:
        """The owner of each of the equal blocks of a sequence, as of mesh::Segment; empty: rank after rank. `parts`: the
        number of parts into which tensor-parallel ranks cut the tokens of one rank; part t of rank c belongs to c * parts
        + t."""
        if self.ranks == 1 or self.order == kContiguous:
            return []
        in_piece = parts if parts % 2 else parts // 2
        owners = []
        for piece in range(2 * self.ranks):
            rank, first = (piece, 0) if piece < self.ranks else (2 * self.ranks - 1 - piece, in_piece)
            owners += [rank * parts + (first + one) * parts // (2 * in_piece) for one in range(in_piece)]
        return owners

    def positions(self, rank: int, tokens: int) -> Tensor:
        """Where the `tokens` tokens of a rank are in the sequence."""
        if self.order == kContiguous:
            return torch.arange(rank * tokens, (rank + 1) * tokens)
        half = torch.arange(tokens // 2)
        return torch.cat([half + piece * (tokens // 2) for piece in (rank, 2 * self.ranks - 1 - rank)])

    def whole(self, parts: Tensor) -> Tensor:
        """[ranks, batch, tokens of a rank] -> [batch, tokens of the sequence]."""
        found = torch.empty_like(parts).permute(1, 0, 2).reshape(parts.shape[1], -1)
        for rank, part in enumerate(parts):
            found[:, self.positions(rank, part.shape[1]).to(part.device)] = part
        return found

    def problem_of(self, tokens: int) -> str:
        """Why a rank cannot have so many tokens; empty: it can."""
        return "" if self.order == kContiguous or tokens % 2 == 0 else f"a rank has {tokens} tokens, not two equal pieces"


def check_order(group: Any, order: str | None) -> None:
    """The arguments of attach(). Raises TensorTracerError."""
    if order not in (None, kContiguous, kZigzag):
        message = f"{order!r} is neither {kContiguous!r} nor {kZigzag!r}"
        raise TensorTracerError("invalid_argument", message, "context_parallel_order", "give one of them")
    if group is not None and order is None:
        message = "it is not known which tokens of a sequence a rank has"
        remedy = f"give {kZigzag!r} if rank c of n has the pieces c and 2n - 1 - c of 2n, {kContiguous!r} if it has part c of n"
        raise TensorTracerError("invalid_argument", message, "context_parallel_order", remedy)
