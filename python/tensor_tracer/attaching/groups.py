"""The process groups of an attached run: its mesh, and groups that only the tracer uses."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from tensor_tracer.attaching import megatron, torchtitan, tp_plan
from tensor_tracer.attaching.agreement import share
from tensor_tracer.attaching.contexts import Contexts, kZigzag
from tensor_tracer.attaching.layouts import TensorAxis
from tensor_tracer.errors import TensorTracerError

T = TypeVar("T")

_kSharedGloo = "tensor_tracer_gloo"  # a backend of torch.distributed


@dataclass(frozen=True)
class Groups:
    """`tensor_ranks`: the global ranks of this rank's tensor-parallel group, in order. `shard_ranks`: those that share
    tensors: the tensor-parallel groups of all context-parallel ranks, one after another. `pipeline_ranks`: those of its
    pipeline-parallel group, in the order of the stages."""

    tensor_ranks: tuple[int, ...]
    shard_ranks: tuple[int, ...]
    data_index: int
    data_size: int
    rank: int
    pipeline_ranks: tuple[int, ...]
    first_rank: int = 0  # of this pipeline stage: the first tensor-parallel rank of its first context and replica
    contexts: Contexts = Contexts()
    control: Any = None  # with gloo, for the CPU; None: one rank
    tracer: Any = None  # with gloo, and with NCCL for a model on CUDA
    tensor: Any = None
    pipeline: Any = None

    @property
    def pipeline_index(self) -> int:
        return self.pipeline_ranks.index(self.rank)

    @property
    def context_index(self) -> int:
        return self.shard_ranks.index(self.rank) // len(self.tensor_ranks)

    def positions(self, tokens: int) -> Tensor | None:
        """Where this rank's `tokens` tokens are in the sequence; None: it has the whole sequence."""
        return self.contexts.positions(self.context_index, tokens) if self.contexts.ranks > 1 else None

    def settings(self) -> dict[str, Any]:
        tensor, pipeline = len(self.tensor_ranks), len(self.pipeline_ranks)
        return {
            "rank": self.rank, "control_group": name_of(self.control), "tracer_group": name_of(self.tracer),
            "tensor_group": name_of(self.tensor),
            "mesh": {"tensor": tensor, "context": self.contexts.ranks, "pipeline": pipeline, "data": self.data_size},
            "coordinates": {
                "tensor": self.shard_ranks.index(self.rank), "pipeline": self.pipeline_index, "data": self.data_index,
            },
        }  # fmt: skip

    def gather(self, value: Any) -> list[Any]:
        """The value of each of `shard_ranks`. Collective over them."""
        return share(value, self.tracer)

    def gather_stages(self, values: Mapping[int, T]) -> list[T]:
        """The values of all virtual pipeline stages, in their order. `values`: of those on this rank, by number.
        Collective over the pipeline-parallel ranks."""
        found: dict[int, T] = {}
        for one in share(dict(values), self.pipeline):
            found |= one
        return [found[stage] for stage in sorted(found)]

    def destroy(self) -> Groups:
        """The same without process groups. Their connections close with the last reference to them: this object."""
        for group in (self.control, self.tracer, self.tensor, self.pipeline):
            if group is not None and dist.is_initialized():
                dist.destroy_process_group(group)
        return replace(self, control=None, tracer=None, tensor=None, pipeline=None)


def make_groups(
    model: nn.Module, axis: TensorAxis, tensor_group: Any = None, pipeline_group: Any = None,
    context_group: Any = None, order: str | None = None,
) -> Groups:  # fmt: skip
    """`tensor_group`: the tensor-parallel group that the user gave; None: that of a model of Megatron-Core, torchtitan or
    Transformers (`tp_plan`), or else that of the model's DTensors. `pipeline_group`: the pipeline-parallel group, in the
    order of the stages; None: that of Megatron-Core, if it is in use; so is `context_group`. `order`: as of Contexts;
    None: that of Megatron-Core. Raises TensorTracerError. Collective over all ranks."""
    if world() is None or dist.get_world_size() == 1:
        return Groups((0,), (0,), 0, 1, 0, (0,))
    rank = dist.get_rank()
    of_library = (one.tensor_group(model) for one in (megatron, torchtitan, tp_plan))
    given = tensor_group or next((one for one in of_library if one is not None), None)
    tensor = sorted(_ranks_of(given) or _mesh_ranks(model, axis) or [rank])
    pipeline = _ranks_of(pipeline_group or megatron.pipeline_group()) or [rank]
    context = _ranks_of(context_group or megatron.context_group()) or [rank]
    if order is not None and not (context_group or megatron.context_group()):
        message, remedy = "there is no group whose ranks share sequences", "give context_parallel_group too"
        raise TensorTracerError("invalid_argument", message, "context_parallel_order", remedy)
    every = share((tuple(tensor), tuple(pipeline), tuple(context)), world())
    tensors, pipelines, contexts = ([one[at] for one in every] for at in range(3))
    for name, parts in (("tensor", tensors), ("pipeline", pipelines), ("context", contexts)):
        _check_parts(parts, name)
    _check_pipelines(pipelines)
    sharing = _sharing_ranks(tensors, contexts)
    # A data replica is known by the ranks that share tensors in its first pipeline stage.
    replicas = sorted({sharing[one[0]] for one in pipelines})
    index = replicas.index(sharing[pipelines[rank][0]])
    first = pipelines[replicas[0][0]][pipelines[rank].index(rank)]
    control = _new_group(None, "gloo")
    backend = "cpu:gloo,cuda:nccl" if any(one.is_cuda for one in model.parameters()) else "gloo"
    tracer, own = (_group_of(rank, sharing, backend) for _ in range(2))
    stages = _group_of(rank, pipelines, "gloo")
    return Groups(
        tensors[rank], sharing[rank], index, len(replicas), rank, pipelines[rank], first,
        Contexts(len(context), order or kZigzag) if len(context) > 1 else Contexts(), control, tracer, own, stages,
    )  # fmt: skip


def whole_tokens(
    tokens: Tensor | None, shape: tuple[int, int], length: int, groups: Groups
) -> tuple[Tensor, str]:  # fmt: skip
    """The tokens of the whole sequences, from those of this context-parallel rank, [rows, length]; zeros if a rank has
    none; else empty and the shapes of the ranks, if one has others. `shape`: of this rank, if it has no tokens. Collective
    over the ranks that share tensors."""
    has_text = tokens is not None
    mine = torch.tensor([*(tokens.shape if tokens is not None else shape), has_text], dtype=torch.int64)
    every = [torch.empty_like(mine) for _ in groups.shard_ranks]
    dist.all_gather(every, mine, group=groups.tracer)
    shapes = [(int(one[0]), int(one[1])) for one in every]
    if any(shape != (shapes[0][0], length) for shape in shapes):
        return torch.empty(0), ", ".join(map(str, shapes[:: len(groups.tensor_ranks)]))
    if tokens is None or not all(bool(one[2]) for one in every):
        return torch.zeros(shapes[0][0], length * groups.contexts.ranks, dtype=torch.int64), ""
    parts = [torch.empty_like(tokens) for _ in groups.shard_ranks]
    dist.all_gather(parts, tokens.contiguous(), group=groups.tracer)
    return groups.contexts.whole(torch.stack(parts[:: len(groups.tensor_ranks)])), ""


def check_group(name: str, group: Any) -> None:
    """An argument of attach(). Raises TensorTracerError."""
    if group is None or isinstance(group, dist.ProcessGroup) or (isinstance(group, DeviceMesh) and group.ndim == 1):
        return
    found = f"a mesh of {group.ndim} axes" if isinstance(group, DeviceMesh) else f"a {type(group).__name__}"
    remedy = 'give a process group, or a mesh of one axis such as mesh["cp"]'
    raise TensorTracerError("invalid_argument", f"{found} is no group of ranks", name, remedy)


def _check_pipelines(pipelines: Sequence[tuple[int, ...]]) -> None:
    if pipelines[0][0] != 0 or len({len(one) for one in pipelines}) > 1:
        message = f"global rank 0 is not in the first stage of equally long pipelines {sorted(set(pipelines))}"
        raise TensorTracerError(
            "invalid_argument", message, "pipeline_parallel_group", "give rank 0 the first stage of its pipeline"
        )


def _sharing_ranks(tensors: Sequence[tuple[int, ...]], contexts: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Of each rank, Groups.shard_ranks. A process group has its ranks in ascending order."""
    found = [tuple(rank for one in context for rank in tensors[one]) for context in contexts]
    if wrong := next((one for one in found if list(one) != sorted(set(one))), None):
        message = f"the tensor-parallel groups of one context-parallel group have the ranks {list(wrong)}, which do not ascend"
        remedy = "give each tensor-parallel group other ranks, with numbers that follow one another"
        raise TensorTracerError("invalid_argument", message, "context_parallel_group", remedy)
    _check_parts(found, "context")
    return found


def _ranks_of(group: Any) -> list[int] | None:
    """The ranks of a process group or a DeviceMesh with one axis."""
    if group is None:
        return None
    return list(dist.get_process_group_ranks(group.get_group() if isinstance(group, DeviceMesh) else group))


def _check_parts(parts: Sequence[tuple[int, ...]], axis: str) -> None:
    if sorted(one for part in set(parts) for one in part) != list(range(len(parts))):
        message = f"the {axis}-parallel groups {[list(part) for part in sorted(set(parts))]} do not divide the ranks"
        raise TensorTracerError("invalid_argument", message, f"{axis}_parallel_group", "give each rank its own group")


def _group_of(rank: int, parts: Sequence[tuple[int, ...]], backend: str) -> Any:
    """A new group of the ranks of this rank's part; None: it is alone. Every rank makes every group, in one order."""
    found = None
    for part in sorted(set(parts)):
        made = _new_group(list(part), backend) if len(part) > 1 else None
        found = made if rank in part else found
    return found


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
    if _gloo_devices():
        _register_shared_gloo()
        backend = backend.replace("gloo", _kSharedGloo)
    return dist.new_group(ranks, backend=backend, timeout=options._timeout)


def _gloo_devices() -> list[Any]:
    """Those of the trainer's own gloo group; empty: it has none."""
    of_trainer: Any = dist.group.WORLD
    backends = [of_trainer._get_backend(kind) for kind in of_trainer._device_types]
    of_gloo: list[Any] = [one for one in backends if isinstance(one, dist.ProcessGroupGloo)]
    return list(of_gloo[0].options._devices) if of_gloo else []


def _register_shared_gloo() -> None:
    """Gloo on the trainer's devices. A device has a thread that wakes up a hundred times a second, also if nothing
    happens; with their own devices, our groups would cost more than the rest of a tracer that traces nothing."""
    if _kSharedGloo.upper() in dist.Backend._plugins:
        return

    def make(about: Any, _options: Any) -> Any:
        gloo: Any = dist.ProcessGroupGloo
        options = gloo._Options()
        options._devices, options._timeout = _gloo_devices(), about.timeout
        return gloo(about.store, about.group_rank, about.group_size, options)

    dist.Backend.register_backend(_kSharedGloo, make, extended_api=True, devices=["cpu"])


def _mesh_ranks(model: nn.Module, axis: TensorAxis) -> list[int] | None:
    mesh = axis.mesh_of(model)
    return None if mesh is None else [int(rank) for rank in mesh.mesh.flatten()]


def name_of(group: Any) -> str:
    return "" if group is None else str(group.group_name)
