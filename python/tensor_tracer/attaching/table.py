"""Makes the place table of a model from what the learner has seen.

A place in a layer has the module's path after the layer, `mlp.down_proj.output`, and the layer's number,
from 1. A place outside the layers has the whole path. Four places have the names that plans and the page
know: InputTokens, Embedding (the input of the first layer), HiddenStates (the output of each layer), Logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from tensor_tracer.attaching import megatron
from tensor_tracer.attaching.layouts import Layout
from tensor_tracer.attaching.learning import Seen
from tensor_tracer.attaching.names import Names, Standard, of_model

_kSame, _kSequenceFirst, _kFlat = 0, 1, 2
_kFloats = {"torch.float32", "torch.float64", "torch.bfloat16", "torch.float16"}


@dataclass
class Site:
    """A tensor of a module, and its place; a problem says why it is no place."""

    seen: Seen
    layer: int
    path: str  # of the place
    kind: str = ""  # the class of the module
    stage: int = 0  # the virtual pipeline stage of the module
    is_first_input: bool = False  # of the first layer
    is_model_output: bool = False  # of the part of the model that the stage has
    name: str = ""
    problem: str = ""
    is_claim_wrong: bool = False  # the problem: the shape contradicts the layout that a source claims
    layout: Layout = field(default_factory=Layout)
    row: dict[str, Any] = field(default_factory=dict)
    standard: Standard | None = None

    @property
    def full_path(self) -> str:
        return f"layers[n].{self.path}" if self.layer else self.path


@dataclass(frozen=True)
class Batch:
    """The shape of a micro-batch."""

    rows: int
    tokens: int
    is_sequence_first: bool = False  # the order of a module's dims where the shape does not say it


def find_layers(root: nn.Module, seen: Sequence[Seen], before: int = 0) -> dict[str, int]:
    """The paths of the layers and their numbers, from 1: the largest list of modules of one class. `before`: the number
    of layers of the pipeline stages before. Megatron's layers say their number, which counts those too."""
    ran = {one.path for one in seen}
    best: tuple[int, dict[str, int]] = (0, {})
    for path, module in root.named_modules():
        if not isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
            continue
        children = {f"{path}.{name}" if path else name: child for name, child in module.named_children()}
        paths = [child for child in children if child in ran]
        if not paths or len({type(child) for child in children.values()}) > 1:
            continue
        size = sum(parameter.numel() for child in children.values() for parameter in child.parameters())
        if size > best[0]:
            best = size, {
                child: megatron.layer_number(module) or before + number
                for number, (child, module) in enumerate(children.items(), 1) if child in ran
            }  # fmt: skip
    return best[1]


def make_sites(
    seen: Sequence[Seen], layers: Mapping[str, int], batch: Batch, ranks: int, stage: int = 0
) -> list[Site]:
    """The sites of one virtual pipeline stage."""
    sites = [_site_of(one, layers) for one in seen]
    first_input = f"{next(iter(layers), '')}.input"
    for site in sites:
        names = [site.seen.name, *site.seen.aliases]
        site.kind, site.stage = type(site.seen.module).__name__, stage
        site.is_first_input = stage == 0 and first_input in names
        site.is_model_output = "output" in names or (
            site.seen.is_output and megatron.is_output_layer(site.seen.path, site.seen.module)
        )
        site.layout = site.seen.layout
        is_received = site.seen.is_received or (stage > 0 and first_input in names and not site.seen.is_output)
        site.problem = "the pipeline stage before has it" if is_received else _problem_of(site.seen)
        if not site.problem:
            _shape(site, batch, ranks)
    return sites


def _site_of(seen: Seen, layers: Mapping[str, int]) -> Site:
    for layer_path, number in layers.items():
        if seen.path == layer_path and seen.is_output:
            return Site(seen, number, "output")
        if seen.path.startswith(layer_path + "."):
            return Site(seen, number, seen.name[len(layer_path) + 1 :])
    return Site(seen, 0, seen.name)


def _problem_of(seen: Seen) -> str:
    if seen.calls > 1:
        return f"the module runs {seen.calls} times in a forward"
    if seen.layout.problem:
        return seen.layout.problem
    if str(seen.dtype) not in _kFloats:
        return f"its dtype is {seen.dtype}"
    return ""


def _shape(site: Site, batch: Batch, ranks: int) -> None:
    """Sets the row's dims, view and placement, or the problem."""
    shape = site.seen.shape
    view = _view_of(site.seen, batch, ranks)
    if view is None:
        site.problem = f"its shape {list(shape)} is not [batch, sequence, features]"
        return
    dims = ["batch", "sequence", "features"] if len(shape) < 4 else ["batch", "heads", "sequence", "keys"]
    site.row = {"view": view, "dims": dims, "features": shape[-1]}
    _place(site, view, ranks)
    if site.problem or len(shape) != 3:
        return
    parts = ranks if site.row.get("dim") == 1 else 1
    if shape[1 - view] * parts != batch.tokens:
        layout = f"{site.layout} by {site.layout.source}" if site.layout.is_known else "known to no source"
        site.problem = f"a rank has {shape[1 - view]} of {batch.tokens} tokens, but the layout is {layout}"
        site.is_claim_wrong = site.layout.is_known


def _view_of(seen: Seen, batch: Batch, ranks: int) -> int | None:
    """How the dims of the module's tensor are ordered; None: they are no dims of a place."""
    shape, tokens = seen.shape, (batch.tokens, batch.tokens // ranks)
    if len(shape) == 3:
        views = [
            view for view, rows, sequence in ((_kSame, shape[0], shape[1]), (_kSequenceFirst, shape[1], shape[0]))
            if rows == batch.rows and sequence in tokens
        ]  # fmt: skip
        prefers_second = batch.is_sequence_first and not (seen.is_output and megatron.is_batch_first(seen.module))
        return views[-1 if prefers_second else 0] if views else None
    if len(shape) == 2 and shape[0] == batch.rows * batch.tokens:
        return _kFlat if not batch.is_sequence_first or batch.rows == 1 else None  # else [sequence × batch, features]
    is_attention = len(shape) == 4 and shape[0] == batch.rows and shape[2:] == (batch.tokens, batch.tokens)
    return _kSame if is_attention else None


def _place(site: Site, view: int, ranks: int) -> None:
    """The placement of the row's tensor, from the layout of the module's tensor."""
    shape, layout, row = site.seen.shape, site.layout, site.row
    if len(shape) == 4:
        chunks = ranks if layout.dim in (1, -3) else 1
        row |= {"dim": 1, "segments": [[shape[1] * chunks, chunks]]}
        return
    if layout.dim is None:
        return
    dim = layout.dim % len(shape)
    if dim == len(shape) - 1:
        sizes = layout.sizes or (shape[-1] * ranks,)
        row |= {"dim": 2, "segments": [[size, ranks] for size in sizes], "features": sum(sizes)}
        if sum(sizes) != shape[-1] * ranks:
            site.problem = f"{layout.source} says {sum(sizes)} features, but {ranks} ranks have {shape[-1]} each"
            site.is_claim_wrong = True
    elif view != _kFlat and dim == (0 if view == _kSequenceFirst else 1):
        row |= {"dim": 1, "segments": [[shape[dim] * ranks, ranks]]}
    else:
        site.problem = f"the layout {layout} is not supported"


def drop_uneven(sites: list[Site]) -> None:
    """A place is the same in all its layers, which follow one another. Outside the layers, one stage has it."""
    first: dict[str, Site] = {}
    _drop_doubled(sites)
    for site in sites:
        if site.problem or site.layer == 0:
            continue
        known = first.setdefault(site.path, site)
        if known.row != site.row or str(known.layout) != str(site.layout):
            site.problem = f"its shape differs from that in layer {known.layer}"
    for path in first:
        numbers = [site.layer for site in sites if site.path == path and site.layer and not site.problem]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            for site in sites:
                if site.path == path and site.layer:
                    site.problem = site.problem or "the place exists in some layers only"


def _drop_doubled(sites: list[Site]) -> None:
    """Outside the layers, the first stage has a path. What a stage but the last returns is no output of the model."""
    stage_of: dict[str, int] = {}
    last = max((site.stage for site in sites), default=0)
    for site in sites:
        if site.problem or site.layer:
            continue
        if site.stage < last:
            site.seen.aliases = [alias for alias in site.seen.aliases if alias != "output"]
        if site.stage < last and site.path == "output":
            site.problem = "the next pipeline stage gets it"
        elif stage_of.get(site.path, site.stage) != site.stage:
            site.problem = f"pipeline stage {stage_of[site.path]} has a place with this path"
        else:
            for name in (site.path, *site.seen.aliases):
                stage_of.setdefault(name, site.stage)


def settle_layouts(sites: list[Site], of_ranks: Sequence[Sequence[tuple[tuple[int, ...], int, bool]]]) -> list[str]:
    """Compares what the tensor-parallel ranks have seen: shape, bits, and whether all numbers are the same.
    Decides the layouts that no source knows. Returns a message for each claim that is wrong."""
    messages = []
    for index, site in enumerate(sites):
        mine = [seen[index] for seen in of_ranks]
        others = [str(rank) for rank, one in enumerate(mine) if one[0] != mine[0][0]]
        if others:
            site.problem = site.problem or f"its shape on the tensor-parallel ranks {', '.join(others)} is another"
        others = [str(rank) for rank, one in enumerate(mine) if one[1] != mine[0][1]]
        if site.problem:
            if site.is_claim_wrong:
                messages.append(f"{site.seen.name} is not traced: {site.problem}")
            continue
        if not site.layout.is_known:
            if not others and not mine[0][2]:
                site.layout = Layout(source="equal on all ranks when it was learned")
        elif site.layout.dim is None and others:
            site.problem = f"{site.layout.source} says that every rank has the whole, but the numbers of the "
            site.problem += f"tensor-parallel ranks {', '.join(others)} differ from those of rank 0"
            messages.append(f"{site.seen.name} is not traced: {site.problem}")
    return messages


def name_sites(sites: list[Site], names: Names, vocabulary: int) -> list[Site]:
    """The sites that are places, named, in the order of the forward. A name belongs to one place."""
    places = [site for site in sites if not site.problem]
    last = max((site.stage for site in sites), default=0)
    taken: dict[str, str] = {}
    for site in places:
        is_logits = site.is_model_output and site.stage == last and site.row["features"] == vocabulary
        own = names.own(site.full_path)
        site.standard = of_model(site.layer, site.path, site.is_first_input, is_logits) or names.standard(
            [site.path, *_aliases(site)]
        )
        wanted = own or (site.standard.name if site.standard else site.path)
        if taken.setdefault(wanted, site.full_path) != site.full_path:
            wanted, site.standard = site.path, None
        site.name = wanted
    return places


def describe(site: Site, head_size: int) -> dict[str, Any]:
    """The site for the library (src/attach/places.h)."""
    what = "output" if site.seen.is_output else "input"
    is_local = not site.layout.is_known
    row = site.row | {
        "layer": site.layer,
        "stage": site.stage,
        "name": site.name,
        "path": site.path,
        "text": f"{what} of {_without_number(site)} ({site.kind})" + ("; values of tensor rank 0 only" if is_local else ""),
        "dtype": str(site.seen.dtype).removeprefix("torch."),
        "rank_local": is_local,
        "in_programs": not is_local,
        "writable": not is_local,
        "vocabulary": site.standard is not None and site.standard.name == "Logits",
    }
    aliases = _aliases(site)
    if (standard := site.standard) is not None:
        row["flag"] = standard.flag
        row["heads"] = standard.has_heads and head_size > 0 and row["features"] % head_size == 0
        aliases = list(dict.fromkeys([*aliases, standard.path]))
        if standard.name == "Embedding":
            row["hidden_state"] = 0
    return row | {"aliases": [alias for alias in aliases if alias != site.path]}


def _without_number(site: Site) -> str:
    parts = site.seen.path.split(".") if site.seen.path else ["the model"]
    return ".".join("n" if site.layer and part.isdigit() else part for part in parts)


def _aliases(site: Site) -> list[str]:
    """Other names of the tensor, in the form of paths of places."""
    found = []
    prefix = ""
    if site.layer:
        own = site.seen.path
        prefix = own if site.path == "output" else own[: len(own) - len(site.path.rpartition(".")[0])].rstrip(".")
    for alias in site.seen.aliases:
        if not site.layer:
            found.append(alias)
        elif alias.startswith(prefix + "."):
            found.append(alias[len(prefix) + 1 :])
    return found


def tokens_row(every_stage: bool) -> dict[str, Any]:
    """The tokens. `every_stage`: each pipeline stage gets them, not only the first."""
    return {
        "layer": 0, "stage": -1 if every_stage else 0, "name": "InputTokens", "path": "tokens", "text": "token ids and positions", "dtype": "int64",
        "flag": 8, "writable": False, "gradient": False, "dims": ["ids_positions", "batch", "sequence"],
    }  # fmt: skip


