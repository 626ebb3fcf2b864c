"""What the ranks must agree on: no rank waits for another one that has failed or does something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.distributed as dist

from tensor_tracer.errors import TensorTracerError


def share(value: Any, group: Any) -> list[Any]:
    """The value of each rank of the group, in their order. `group`: None: this rank alone. Collective over it."""
    if group is None:
        return [value]
    values: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(values, value, group=group)
    return values


def agree(problem: Exception | None, group: Any, arguments: Mapping[str, str] | None = None) -> None:
    """Raises on every rank of the group, if one of them has a problem or other arguments than the first rank.
    Collective over the group."""
    told = None
    if problem is not None:
        code, where = getattr(problem, "code", "failed"), getattr(problem, "where", "attach")
        told = code, getattr(problem, "message", str(problem)), where, getattr(problem, "remedy", "")
    every = share((told, dict(arguments or {})), group)
    if problem is not None:
        raise problem
    for rank, (said, _) in enumerate(every):
        if said is not None:
            code, message, where, remedy = said
            raise TensorTracerError(code, f"{message} (on rank {rank})", where, remedy)
    for name, value in every[0][1].items():
        others = [str(rank) for rank, (_, given) in enumerate(every) if given[name] != value]
        if others:
            message = f"it differs from that of rank 0 on the ranks {', '.join(others)}"
            raise TensorTracerError("invalid_argument", message, name, "give the same on every rank")
