"""How the tensor-parallel ranks share a tensor, and the sources of that knowledge.

The sources, in this order: the user's word; the placements of a DTensor; the placement of the module's
weight on the tensor-parallel axis; the module's class (megatron.py) or configuration (torchtitan.py). A tensor that no source knows is whole
on every rank if its bits are the same on every rank and are not all one number; otherwise it is rank-local.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement

from tensor_tracer.errors import TensorTracerError

kRankLocal = "rank-local"
_kByUser = "placements["


@dataclass(frozen=True)
class Layout:
    """`dim`: the sharded dim of the module's tensor, which may be negative; None: whole on every rank.
    `sizes`: the sizes of the segments of that dim, in logical order; empty: one segment."""

    dim: int | None = None
    sizes: tuple[int, ...] = ()
    source: str = ""
    is_known: bool = True
    problem: str = ""  # why the tensor cannot be traced; empty: it can
    gradient_problem: str = ""  # the same of its gradient

    @property
    def is_of_user(self) -> bool:
        return self.source.startswith(_kByUser)

    def __str__(self) -> str:
        if not self.is_known:
            return kRankLocal
        if self.dim is None:
            return "replicate"
        return f"shard({self.dim})" + (f" of segments {list(self.sizes)}" if len(self.sizes) > 1 else "")


kWhole = Layout(source="one tensor-parallel rank")
kPartialGradient = "each rank has a part of the sum that is the gradient"
kUnseenGradient = "the first step did not show whether all ranks have the whole gradient"
kUnknown = Layout(source="no source knows it", is_known=False, gradient_problem=kUnseenGradient)

# The layout of a module's output (True) or input (False) by its path and class; None: not known.
Rule = Callable[[str, nn.Module, bool], Layout | None]


@dataclass(frozen=True)
class TensorAxis:
    """The tensor-parallel axis of a DTensor's mesh, by its name. A mesh of one axis without a name is it too, as
    Transformers makes one; but not the mesh of FSDP, which shards the storage of weights and no values."""

    names: frozenset[str]
    unnamed: bool

    @classmethod
    def of(cls, model: nn.Module, names: Sequence[str]) -> TensorAxis:
        return cls(frozenset(names), not any(isinstance(module, FSDPModule) for module in model.modules()))

    def find(self, mesh: DeviceMesh) -> int | None:
        """The number of the axis; None: the mesh has none."""
        if mesh.mesh_dim_names is None:
            return 0 if self.unnamed and mesh.ndim == 1 else None
        return next((i for i, name in enumerate(mesh.mesh_dim_names) if name in self.names), None)

    def mesh_of(self, model: nn.Module) -> DeviceMesh | None:
        """The ranks along the axis of the model's weights; None: no weight is sharded on it."""
        for parameter in model.parameters():
            if isinstance(parameter, DTensor) and (axis := self.find(parameter.device_mesh)) is not None:
                mesh = parameter.device_mesh
                return mesh if mesh.mesh_dim_names is None else mesh[mesh.mesh_dim_names[axis]]
        return None


@dataclass(frozen=True)
class Layouts:
    """Finds layouts for one model. `ranks`: tensor-parallel ranks."""

    ranks: int
    overrides: Mapping[str, Placement]
    axis: TensorAxis
    rules: Sequence[Rule]
    contexts: int = 1  # context-parallel ranks

    def of_output(self, path: str, module: nn.Module, tensor: Tensor, tokens: int) -> Layout:
        """`tokens`: the length of the sequence, to recognise a rank's part of it."""
        by_weight = self._by_weight(module, tensor, tokens)
        return self._find(f"{path}.output", tensor, by_weight or self._by_rule(path, module, True))

    def of_input(self, path: str, module: nn.Module, tensor: Tensor) -> Layout:
        is_sharded = self._weight_dim(module) == 1 and not isinstance(module, nn.Embedding)
        by_weight = Layout(-1, source="its weight is Shard(1)") if is_sharded else None
        return self._find(f"{path}.input", tensor, by_weight or self._by_rule(path, module, False))

    def of_heads(self, path: str, tensor: Tensor, heads: int) -> Layout:
        """Of a tensor [batch, heads, …]. `heads`: those of the whole model; 0: not known."""
        if self.contexts > 1:
            return Layout(problem="a context-parallel rank has the queries of its tokens alone")
        is_sharded = heads > 0 and tensor.shape[1] * self.ranks == heads
        by_count = Layout(1, source=f"a rank has {tensor.shape[1]} of the {heads} heads") if is_sharded else None
        return self._find(path, tensor, by_count)

    def of_weight(self, path: str, weight: Tensor) -> Layout:
        return self._find(path, weight, None)

    def of_point(self, name: str, placement: str, tensor: Tensor) -> Layout:
        """`placement`: the sharded dim, "replicate", or empty for not known."""
        given = Layout(dim=None if placement == "replicate" else int(placement), source="point") if placement else None
        return self._find(name, tensor, given)

    def _find(self, path: str, tensor: Tensor, by_module: Layout | None) -> Layout:
        if self.ranks == 1:
            return kWhole
        for pattern, placement in self.overrides.items():
            if fnmatch.fnmatchcase(path, pattern):
                return replace(_layout_of(placement), source=f"{_kByUser}{pattern!r}]")
        if isinstance(tensor, DTensor):
            placement = self.on_axis(tensor)
            return replace(_layout_of(placement), source="DTensor")
        return by_module or kUnknown

    def _by_rule(self, path: str, module: nn.Module, is_output: bool) -> Layout | None:
        return next((found for rule in self.rules if (found := rule(path, module, is_output)) is not None), None)

    def on_axis(self, tensor: DTensor) -> Placement:
        """The tensor's placement on the tensor-parallel axis; a mesh without that axis shares no values."""
        axis = self.axis.find(tensor.device_mesh)
        return Replicate() if axis is None else tensor.placements[axis]

    def _by_weight(self, module: nn.Module, tensor: Tensor, tokens: int) -> Layout | None:
        dim = self._weight_dim(module)
        if dim is None:
            return None
        source = f"its weight is Shard({dim})"
        weight: Tensor = module._parameters["weight"]  # type: ignore[assignment]
        features = weight.shape[1 if isinstance(module, nn.Embedding) else 0]
        if dim == (1 if isinstance(module, nn.Embedding) else 0) and tensor.shape[-1] != features:
            return Layout(dim=-1, source=source)
        if tensor.dim() == 3 and tensor.shape[1] * self.ranks == tokens:
            return Layout(dim=1, source=f"{source}, and a rank has a part of the sequence")
        return Layout(source=source)

    def _weight_dim(self, module: nn.Module) -> int | None:
        """The dim that the tensor-parallel axis shards of the module's weight; None: none, or another module than a
        linear layer or an embedding, whose weight may be transposed, as that of Conv1D."""
        weight = module._parameters.get("weight")
        if not isinstance(weight, DTensor) or not isinstance(module, (nn.Linear, nn.Embedding)):
            return None
        placement = self.on_axis(weight)
        return placement.dim if isinstance(placement, Shard) else None


def _layout_of(placement: Placement) -> Layout:
    if isinstance(placement, Shard):
        return Layout(dim=placement.dim)
    if isinstance(placement, Partial):
        return Layout(problem="the ranks hold partial sums, which this module does not reduce")
    return Layout()


def check_overrides(placements: Mapping[str, Any]) -> dict[str, Placement]:
    for pattern, placement in placements.items():
        if not isinstance(placement, (Shard, Replicate)):
            raise TensorTracerError(
                "invalid_argument", f"{placement!r} is not a placement", f"placements[{pattern!r}]",
                "give Shard(dim) or Replicate() of torch.distributed.tensor",
            )  # fmt: skip
    return dict(placements)

