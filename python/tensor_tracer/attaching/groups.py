"""The process groups of an attached run: its mesh, and groups that only the tracer uses."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import torch.distributed as dist
from torch import nn

from tensor_tracer.attaching import megatron, torchtitan
from tensor_tracer.attaching.agreement import share
from tensor_tracer.attaching.layouts import TensorAxis
from tensor_tracer.errors import TensorTracerError


@dataclass(frozen=True)
class Groups:
    """`tensor_ranks`: the global ranks of this rank's tensor-parallel group, in order."""

    tensor_ranks: tuple[int, ...]
    data_index: int
    data_size: int
    rank: int
    control: Any = None  # with gloo, for the CPU; None: one rank
    tracer: Any = None  # with gloo, and with NCCL for a model on CUDA
    tensor: Any = None

    def settings(self) -> dict[str, Any]:
        return {
            "control_group": _name_of(self.control), "tracer_group": _name_of(self.tracer),
            "tensor_group": _name_of(self.tensor),
            "mesh": {"tensor": len(self.tensor_ranks), "data": self.data_size},
            "coordinates": {"tensor": self.tensor_ranks.index(self.rank), "data": self.data_index},
        }  # fmt: skip

    def gather(self, value: Any) -> list[Any]:
        """The value of each tensor-parallel rank. Collective over them."""
        return share(value, self.tracer)

    def destroy(self) -> Groups:
        """The same without process groups. Their connections close with the last reference to them: this object."""
        for group in (self.control, self.tracer, self.tensor):
            if group is not None and dist.is_initialized():
                dist.destroy_process_group(group)
        return replace(self, control=None, tracer=None, tensor=None)


def make_groups(model: nn.Module, axis: TensorAxis, tensor_group: Any) -> Groups:
    """`tensor_group`: the tensor-parallel group that the user gave; None: that of Megatron-Core, if it is in use, that of
    a model of torchtitan, or else that of the model's DTensors. Collective over all ranks."""
    if world() is None:
        return Groups((0,), 0, 1, 0)
    megatron.check_supported()
    rank = dist.get_rank()
    given = tensor_group or megatron.tensor_group() or torchtitan.tensor_group(model)
    of_tensor = dist.get_process_group_ranks(given) if given is not None else _mesh_ranks(model, axis)
    own = sorted(of_tensor or [rank])
    parts = sorted({tuple(one) for one in share(own, world())})
    if sorted(one for part in parts for one in part) != list(range(dist.get_world_size())):
        message = f"the tensor-parallel groups {[list(part) for part in parts]} do not divide the ranks"
        raise TensorTracerError("invalid_argument", message, "tensor_parallel_group", "give each rank its own group")
    if dist.get_world_size() == 1:
        return Groups((0,), 0, 1, 0)
    control = _new_group(None, "gloo")
    tracer = tensor = None
    backend = "cpu:gloo,cuda:nccl" if any(one.is_cuda for one in model.parameters()) else "gloo"
    for part in parts:  # every rank makes every group, in the same order
        made = [_new_group(list(part), backend) for _ in range(2)] if len(part) > 1 else [None, None]
        if rank in part:
            tracer, tensor = made
    return Groups(tuple(own), parts.index(tuple(own)), len(parts), rank, control, tracer, tensor)


def world() -> Any:
    """The group of all ranks; None: the trainer has not made one. Raises TensorTracerError if it should have."""
    if dist.is_available() and dist.is_initialized():
        return dist.group.WORLD
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        message = "attach comes before torch.distributed.init_process_group"
        raise TensorTracerError("not_initialized", message, "attach", "call attach after init_process_group")
    return None


def _new_group(ranks: list[int] | None, backend: str) -> Any:
    """A rank that hangs is noticed as soon as by the trainer's own groups: they have the same limit of time."""
    of_trainer: Any = dist.group.WORLD
    options = of_trainer._get_backend(of_trainer._device_types[0]).options
    return dist.new_group(ranks, backend=backend, timeout=options._timeout)


def _mesh_ranks(model: nn.Module, axis: TensorAxis) -> list[int] | None:
    mesh = axis.mesh_of(model)
    return None if mesh is None else [int(rank) for rank in mesh.mesh.flatten()]


def _name_of(group: Any) -> str:
    return "" if group is None else str(group.group_name)
