"""The final norm and the output layer of a model, with the weights as they are: for logit lenses and for programs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import _resolve_process_group
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.nn.utils.stateless import _reparametrize_module

from tensor_tracer.attaching.flat_weights import is_flat
from tensor_tracer.attaching.layouts import TensorAxis
from tensor_tracer.attaching.table import Site, kFlat, kSame

# The lens of each of these places, by its name and path.
_LENSES = {
    "Embedding": ("LogitLensEmbedding", "embedding.lens"),
    "ResidualMid": ("LogitLensMid", "mid_lens"),
    "HiddenStates": ("LogitLens", "lens"),
}


@dataclass(frozen=True)
class Head:
    """`is_sharded`: each tensor-parallel rank has its columns of the logits; else each has all of them. `positions`: where
    this rank's tokens are in the sequence; None: it has all tokens."""

    norm: nn.Module
    output: nn.Module
    logits: Site
    axis: TensorAxis
    is_sharded: bool
    owners: Sequence[tuple[nn.Module, str, nn.Module]] = ()  # parent, attribute, and the module that it was
    positions: Tensor | None = None
    group: str = ""  # the name of that of the ranks that share the logits; a reference would keep its connections open
    counts: bool = True  # the gradients that programs send to the weights; a trainer adds up those of the contexts

    def owned_by(self, root: nn.Module) -> Head:
        """The head as a part of the model, for has_changed()."""
        both = (self.norm, self.output)
        owners = [
            (parent, name, child) for parent in root.modules()
            for name, child in parent._modules.items() if child is not None and any(child is one for one in both)
        ]  # fmt: skip
        return replace(self, owners=owners)

    def has_changed(self) -> bool:
        return any(parent._modules.get(name) is not child for parent, name, child in self.owners)

    @classmethod
    def of(cls, places: Sequence[Site], axis: TensorAxis) -> Head | None:
        """None: the model's logits are not the output of a linear layer after a final norm, or another rank has these."""
        norm, logits = (_find(places, name) for name in ("FinalNorm", "Logits"))
        if norm is None or logits is None or not (norm.seen.is_output and logits.seen.is_output):
            return None
        if norm.stage != logits.stage:
            return None
        weight, dim = logits.seen.module._parameters.get("weight"), logits.layout.dim
        if weight is None or is_flat(weight) or weight.dim() != 2 or dim not in (None, 2, -1) or not logits.layout.is_known:
            return None
        return cls(norm.seen.module, logits.seen.module, logits, axis, dim is not None)

    def final_norm(self, x: Tensor) -> Tensor:
        """`x`: [..., hidden size], the same on every tensor-parallel rank, as the result."""
        weights = {name: self._on_rank(one, False) for name, one in self.norm.named_parameters()}
        with _reparametrize_module(self.norm, weights):  # without the module's hooks, which exchange and trace
            result: Tensor = self.norm.forward(x)
        return result

    def output_layer(self, x: Tensor) -> Tensor:
        """`x`: [..., hidden size] -> [..., vocabulary], or this rank's columns of it."""
        weight, bias = (self.output._parameters.get(name) for name in ("weight", "bias"))
        assert weight is not None
        if self.is_sharded and torch.is_grad_enabled():
            x = _Shared.apply(x, self.group)  # type: ignore[no-untyped-call]
        return nn.functional.linear(
            x, self._on_rank(weight, self.is_sharded), None if bias is None else self._on_rank(bias, self.is_sharded)
        )

    def lens(self, x: Tensor, first: int, end: int) -> Tensor:
        """[rows, tokens, hidden size] -> [rows, tokens, vocabulary], or this rank's columns of it; zeros for tokens that
        are not between `first` and `end` in the sequence."""
        wanted: Any = slice(first, end)
        if self.positions is not None:
            wanted = ((self.positions >= first) & (self.positions < end)).to(x.device)
        with torch.no_grad():
            logits = self.output_layer(self.final_norm(x[:, wanted]))
            whole = logits.new_zeros(*x.shape[:2], logits.shape[-1])
            whole[:, wanted] = logits
            return whole

    def _on_rank(self, weight: Tensor, keeps_shard: bool) -> Tensor:
        """This rank's numbers of a weight; without `keeps_shard` all of them, which is collective over the axis."""
        weight = weight if self.counts else weight.detach()
        if not isinstance(weight, DTensor):
            return weight
        number = self.axis.find(weight.device_mesh)
        if any(isinstance(one, Shard) for index, one in enumerate(weight.placements) if index != number):
            raise ValueError("FSDP holds a weight of final norm or output layer in parts at this moment")
        if number is not None and isinstance(weight.placements[number], Shard) and not keeps_shard:
            weight = weight.redistribute(placements=[Replicate()] * weight.device_mesh.ndim)
        return weight.to_local()


class _Shared(torch.autograd.Function):
    """A value of which each rank of the group uses the whole, for its part of a result: its gradient is the sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: str) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].contiguous().clone()
        try:
            dist.all_reduce(total, group=_resolve_process_group(ctx.group))
        except (RuntimeError, ValueError):  # the tracer has ended since the forward, here or on another rank
            return gradients[0], None
        return total, None


def _find(places: Sequence[Site], name: str) -> Site | None:
    return next((site for site in places if site.standard is not None and site.standard.name == name), None)


def with_lenses(places: Sequence[Site], has_head: bool) -> list[Site]:
    """The places, and after each that a lens can read, its lens. `has_head`: a rank of this pipeline has a Head. Its
    stage alone has lenses, because they need the weights."""
    logits = _find(places, "Logits") if has_head else None
    found: list[Site] = []
    for site in places:
        found.append(site)
        name = site.standard.name if site.standard is not None else ""
        is_whole = site.layout.is_known and site.layout.dim is None and site.row["view"] != kFlat
        if logits is None or site.stage != logits.stage or name not in _LENSES or not is_whole:
            continue
        lens_name, path = _LENSES[name]
        of_logits = {key: logits.row[key] for key in ("dims", "features", "dim", "segments", "contexts") if key in logits.row}
        seen = replace(site.seen, part="lens", is_made=True, aliases=[])
        row: dict[str, Any] = {"view": kSame} | of_logits
        found.append(Site(
            seen, site.layer, path, site.kind, site.stage, name=lens_name, layout=logits.layout, row=row, lens_of=site,
            shares_tokens=site.shares_tokens,
        ))  # fmt: skip
    return found


_heads: dict[int, Head] = {}
_numbers = itertools.count(1)


def offer(head: Head) -> int:
    """The number by which the library calls the head for programs."""
    number = next(_numbers)
    _heads[number] = head
    return number


def withdraw(number: int) -> None:
    _heads.pop(number, None)


def register_head() -> None:
    """Defines the operator by which the library calls final norm and output layer, with their gradients."""

    def call_head(x: Tensor, head: int, module: str) -> Tensor:
        one = _heads[head]
        return one.final_norm(x) if module == "final_norm" else one.output_layer(x)

    _library.impl(  # type: ignore[no-untyped-call]
        "call_head", call_head, "CompositeImplicitAutograd"
    )


_library = torch.library.Library("tensor_tracer", "FRAGMENT")  # type: ignore[no-untyped-call]
