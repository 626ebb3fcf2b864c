"""Weights as places: programs change what a module uses in a forward as its weight or bias, and never the parameter.

Where our own models have one matrix and another model has several linear layers, such as queries, keys and values, the
layers together are a place too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.hooks import RemovableHandle

from tensor_tracer.attaching import megatron
from tensor_tracer.attaching.flat_weights import is_flat
from tensor_tracer.attaching.inert import Hook
from tensor_tracer.attaching.layouts import Layout, Layouts
from tensor_tracer.attaching.learning import Seen, fingerprint
from tensor_tracer.attaching.names import WEIGHTS
from tensor_tracer.attaching.table import Site
from tensor_tracer.attaching.wrappers import differentiable_local, local_of, wrapped_like


def with_weights(seen: Sequence[Seen], layouts: Layouts) -> list[Seen]:
    """What the learner has seen, and before the output of each module its weights."""
    found: list[Seen] = []
    for one in seen:
        for name in WEIGHTS if one.is_output and not one.layout.problem else ():
            weight = one.module._parameters.get(name)
            if weight is not None:
                found.append(_seen_of(one, name, weight, layouts))
        found.append(one)
    return found


def _seen_of(output: Seen, name: str, weight: Tensor, layouts: Layouts) -> Seen:
    layout = layouts.of_weight(f"{output.path}.{name}", weight)
    if megatron.fuses_gradients(output.module):
        layout = Layout(problem="the layer itself adds the gradient of its weight to main_grad")
    if is_flat(weight):
        layout = Layout(problem="FullyShardedDataParallel keeps it in a flat tensor; fully_shard (FSDP2) does not")
    if layout.dim is not None:
        layout = replace(layout, dim=layout.dim % weight.dim())
    is_asked = layouts.ranks > 1 and not isinstance(weight, DTensor)
    bits, is_constant = fingerprint(local_of(weight)) if is_asked else (0, True)
    shape = list(weight.shape)
    if layout.dim is not None and not isinstance(weight, DTensor):
        shape[layout.dim] *= layouts.ranks
    return Seen(
        output.path, output.module, name, None, tuple(shape), weight.dtype, layout, bits, is_constant,
        device=weight.device, calls=output.calls, is_weight=True,
    )  # fmt: skip


def settle_weights(sites: Sequence[Site]) -> None:
    """A weight with one number for each feature, such as that of a norm, is whole where no rank has a part of the
    features. Other weights whose layout is not known are no places."""
    outputs = {site.seen.path: site for site in sites if site.seen.is_output and site.layout.is_known}
    for site in sites:
        if not site.seen.is_weight or site.problem or site.layout.is_known:
            continue
        output = outputs.get(site.seen.path)
        if output is not None and _has_all_features(output.seen, output.layout.dim, site.seen.shape):
            site.layout = replace(site.layout, is_known=True, source="the output has all features on every rank")
        else:
            site.problem = "no source knows how the ranks share it"


def _has_all_features(output: Seen, sharded_dim: int | None, weight: tuple[int, ...]) -> bool:
    is_part = sharded_dim is not None and sharded_dim % len(output.shape) == len(output.shape) - 1
    return not is_part and weight == output.shape[-1:]


def with_joined(places: Sequence[Site], joined: Mapping[str, tuple[str, ...]]) -> list[Site]:
    """The places, and before the weights that are parts of one matrix of our own models, this matrix. `joined`: paths of
    the parts, from top to bottom, by the path of the matrix."""
    weights = {(site.layer, site.path): site for site in places if site.seen.is_weight}
    taken = {site.path for site in places}
    before: dict[int, list[Site]] = {}  # by the identity of the part whose module runs first
    for layer in sorted({site.layer for site in places if site.layer}):
        for path, of in joined.items():
            parts = [weights.get((layer, part)) for part in of]
            found = [part for part in parts if part is not None]
            if len(found) == len(parts) and path not in taken and _can_join(found):
                first = next(site for site in places if any(site is part for part in found))
                before.setdefault(id(first), []).append(_join(path, first, found))
    return [one for site in places for one in (*before.get(id(site), []), site)]


def _can_join(parts: Sequence[Site]) -> bool:
    """The parts stand on top of one another, and each rank has rows of all of them, or all rows."""
    return (
        len({(part.seen.shape[1:], part.seen.dtype, part.stage) for part in parts}) == 1
        and len({part.row.get("dim") for part in parts}) == 1
        and parts[0].row.get("dim") in (None, 0)
    )


def _join(path: str, first: Site, parts: list[Site]) -> Site:
    rows = sum(part.seen.shape[0] for part in parts)
    shape = (rows, *first.seen.shape[1:])
    row: dict[str, Any] = first.row | {"weight": list(shape)}
    if "segments" in row:
        row["segments"] = [segment for part in parts for segment in part.row["segments"]]
    return replace(
        first, seen=replace(first.seen, shape=shape), path=path, name=path, standard=None, row=row, parts=parts
    )


class WeightEdit:
    """Hooks on the modules of one place, a weight or several that are joined. In a forward they use the tensors that
    `change` makes of the weights; None: the weights are left. Thread: that of the forward."""

    def __init__(self, site: Site, change: Callable[[list[Tensor]], list[Tensor] | None]) -> None:
        self._parts = [part.seen for part in site.parts] or [site.seen]
        self._first = next(i for i, part in enumerate(self._parts) if part.path == site.seen.path)
        self._change = change
        self._made: dict[int, Tensor] = {}  # for modules that have not run yet

    def install(self) -> list[RemovableHandle]:
        handles = []
        for index, part in enumerate(self._parts):
            handles.append(part.module.register_forward_pre_hook(Hook(self._before(index))))
            handles.append(part.module.register_forward_hook(Hook(self._after(index)), always_call=True))
        return handles

    def _before(self, index: int) -> Any:
        def hook(module: nn.Module, _args: Any) -> None:
            if index == self._first:
                changed = self._change([getattr(part.module, part.part) for part in self._parts])
                self._made = dict(enumerate(changed or []))
            if index in self._made:  # found before the parameter, which stays as it is
                module.__dict__[self._parts[index].part] = self._made.pop(index)

        return hook

    def _after(self, index: int) -> Any:
        def hook(module: nn.Module, _args: Any, _output: Any) -> None:
            module.__dict__.pop(self._parts[index].part, None)

        return hook


def local_weight(site: Site, weights: Sequence[Tensor]) -> Tensor:
    """This rank's numbers of the weight that programs see, in the autograd graph. Raises ValueError."""
    local = [differentiable_local(weight) for weight in weights]
    joined = local[0] if len(local) == 1 else torch.cat(local)
    expected = list(site.seen.shape)
    if "segments" in site.row:
        expected[site.row["dim"]] = sum(size // ranks for size, ranks in site.row["segments"])
    if list(joined.shape) != expected:
        raise ValueError(f"a rank has numbers of shape {list(joined.shape)} of the weight, and needs {expected}")
    return joined


def parts_like(changed: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    """The inverse of local_weight(), for a changed tensor."""
    if len(weights) == 1:
        return [wrapped_like(changed, weights[0])]
    pieces = torch.split(changed, [local_of(weight).shape[0] for weight in weights])
    return [wrapped_like(piece, weight) for piece, weight in zip(pieces, weights, strict=True)]
