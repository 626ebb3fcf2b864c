"""Makes the place table of a model from what the learner has seen.

A place in a layer has the module's path after the layer, `mlp.down_proj.output`, and the layer's number,
from 1. A place outside the layers has the whole path. Four places have the names that plans and the page
know: InputTokens, Embedding (the input of the first layer), HiddenStates (the output of each layer), Logits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from torch import nn

from tensor_tracer.attaching import megatron
from tensor_tracer.attaching.attention import PARTS, standard_of
from tensor_tracer.attaching.contexts import Contexts
from tensor_tracer.attaching.layouts import Layout, kPartialGradient, kUnseenGradient
from tensor_tracer.attaching.learning import Seen
from tensor_tracer.attaching.flat_weights import whole_sizes
from tensor_tracer.attaching.names import FINAL_NORM, Names, Standard, of_model
from tensor_tracer.attaching.paths import named_modules, without_wrappers

kSame, kSequenceFirst, kFlat = 0, 1, 2
kMaxUntraced = 256  # rows
_kFloats = {"torch.float32", "torch.float64", "torch.bfloat16", "torch.float16"}


@dataclass
class Site:
    """A tensor of a module, and its place; a problem says why it is no place."""

    seen: Seen
    layer: int
    path: str  # of the place
    kind: str = ""  # the class of the module
    stage: int = 0  # the virtual pipeline stage of the module
    layer_path: str = ""  # of the module of the layer
    is_first_input: bool = False  # of the first layer
    is_model_output: bool = False  # of the part of the model that the stage has
    name: str = ""
    problem: str = ""
    shares_tokens: bool = False  # each context-parallel rank has those of its tokens
    is_claim_wrong: bool = False  # the problem: the shape contradicts the layout that a source claims
    layout: Layout = field(default_factory=Layout)
    row: dict[str, Any] = field(default_factory=dict)
    standard: Standard | None = None
    lens_of: Site | None = None  # the place whose logit lens it is
    outer_aliases: list[str] = field(default_factory=list)  # paths outside the layers, also of a place in a layer
    parts: list[Site] = field(default_factory=list)  # the weights that it joins, from top to bottom

    @property
    def at(self) -> str:
        """The place in this layer, such as `layers[3].mlp.output`."""
        return f"layers[{self.layer}].{self.path}" if self.layer else self.path

    @property
    def layout_text(self) -> str:
        return f"{self.layout}" + "; context-parallel ranks share the tokens" * self.shares_tokens

    @property
    def part_dims(self) -> list[int]:
        """The dims of the module's tensor of which a rank has a part that was learned."""
        dims = [] if self.layout.dim is None else [self.layout.dim]
        return [*dims, 1 - int(self.row["view"])] if self.shares_tokens else dims

    @property
    def has_gradient(self) -> bool:
        return not self.seen.is_made and not self.seen.is_weight and not self.layout.gradient_problem

    @property
    def full_path(self) -> str:
        return f"layers[n].{self.path}" if self.layer else self.path


@dataclass(frozen=True)
class Batch:
    """The shape of a micro-batch. `tokens`: of a whole sequence."""

    rows: int
    tokens: int
    is_sequence_first: bool = False  # the order of a module's dims where the shape does not say it
    contexts: Contexts = Contexts()

    @property
    def context_tokens(self) -> int:
        """Of a sequence on one context-parallel rank."""
        return self.tokens // self.contexts.ranks


def find_layers(root: nn.Module, seen: Sequence[Seen], before: int = 0) -> dict[str, int]:
    """The paths of the layers and their numbers, from 1: the largest list of modules of one class. `before`: the number
    of layers of the pipeline stages before. Megatron's layers say their number, which counts those too."""
    ran = {name.rpartition(".")[0] for one in seen for name in (one.name, *one.aliases)}
    flat = whole_sizes(root)
    best: tuple[tuple[int, int], dict[str, int]] = ((0, 0), {})
    for path, module in named_modules(root):
        if not isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
            continue
        children = {
            f"{path}.{name}" if path else name: without_wrappers(child) for name, child in module.named_children()
        }  # fmt: skip
        paths = [child for child in children if child in ran]
        if not paths or len({type(getattr(child, "_orig_mod", child)) for child in children.values()}) > 1:
            continue
        weights = (weight for child in module.children() for weight in child.parameters())
        elements = sum(flat.get(id(weight), weight.numel()) for weight in weights)
        size = elements, sum(1 for _ in module.modules()) if flat else 0  # a wrapper of all has the weights of a layer
        if size > best[0]:
            best = size, {
                child: megatron.layer_number(module) or before + number
                for number, (child, module) in enumerate(children.items(), 1) if child in ran
            }  # fmt: skip
    return best[1]


class LayerList:
    """Notices that layers were added, removed or replaced. `layers`: paths and numbers, as of find_layers()."""

    def __init__(self, root: nn.Module, layers: Mapping[str, int]) -> None:
        path = next(iter(layers), "").rpartition(".")[0]
        self._list: nn.Module | None = root.get_submodule(path) if layers else None
        self._known = self._children()

    def have_changed(self) -> bool:
        return self._children() != self._known

    def _children(self) -> list[int]:
        return [id(child) for child in self._list.children()] if self._list is not None else []


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
            _shape_weight(site, ranks, batch.contexts) if site.seen.is_weight else _shape(site, batch, ranks)
    return sites


def _site_of(seen: Seen, layers: Mapping[str, int]) -> Site:
    for layer_path, number in layers.items():
        short = ".".join(layer_path.split(".")[-2:]) + "."
        if seen.part == "point" and seen.path.startswith(short):
            return Site(seen, number, seen.path[len(short) :])
        if not f"{seen.path}.".startswith(f"{layer_path}."):
            continue
        if seen.is_output and f"{layer_path}.output" in (seen.name, *seen.aliases):
            return Site(seen, number, "output", layer_path=layer_path)
        if seen.path != layer_path:
            return Site(seen, number, seen.name[len(layer_path) + 1 :], layer_path=layer_path)
    return Site(seen, 0, seen.name)


def _problem_of(seen: Seen) -> str:
    if seen.calls > 1:
        return f"the module runs {seen.calls} times in a forward"
    if seen.layout.problem:
        return seen.layout.problem
    if str(seen.dtype) not in _kFloats:
        return f"its dtype is {seen.dtype}"
    return ""


def _shape_weight(site: Site, ranks: int, contexts: Contexts) -> None:
    """Sets the row's placement, or the problem."""
    dim, shape = site.layout.dim, list(site.seen.shape)
    site.row = {"view": kSame, "dims": [], "weight": shape}
    if contexts.ranks > 1:
        site.problem = "programs do not act on weights with context parallelism"
    if dim is None:
        return
    site.row |= {"dim": dim, "segments": [[shape[dim], ranks]]}
    if shape[dim] % ranks:
        site.problem = f"the ranks have unequal parts of its dim {dim} of size {shape[dim]}"


def _shape(site: Site, batch: Batch, ranks: int) -> None:
    """Sets the row's dims, view and placement, or the problem."""
    shape = site.seen.shape
    view = _view_of(site.seen, batch, ranks)
    if view is None:
        site.problem = f"its shape {list(shape)} is not [batch, sequence, features] with "
        site.problem += f"{batch.rows} rows and {batch.context_tokens} tokens"
        return
    dims = ["batch", "sequence", "features"] if len(shape) < 4 else ["batch", "heads", "sequence", "keys"]
    site.row = {"view": view, "dims": dims, "features": shape[-1]}
    _place(site, view, ranks)
    if len(shape) == 4 and batch.contexts.ranks > 1:
        site.problem = "a context-parallel rank has the attention of its tokens or heads alone"
    if site.problem or len(shape) != 3:
        return
    parts = ranks if site.row.get("dim") == 1 else 1
    if shape[1 - view] * parts != batch.context_tokens:
        layout = f"{site.layout} by {site.layout.source}" if site.layout.is_known else "known to no source"
        site.problem = f"a rank has {shape[1 - view]} of {batch.context_tokens} tokens, but the layout is {layout}"
        site.is_claim_wrong = site.layout.is_known
    elif batch.contexts.ranks > 1:
        _share_tokens(site, batch, parts)


def _share_tokens(site: Site, batch: Batch, parts: int) -> None:
    """The placement on all ranks that share tensors. `parts`: into which tensor-parallel ranks cut the tokens. If they cut
    the features, this placement stays, and that of the tokens stands beside it."""
    site.shares_tokens = True
    segment = [batch.tokens, batch.contexts.ranks * parts, batch.contexts.blocks(parts)]
    site.row |= {"contexts": segment} if site.row.get("dim") == 2 else {"dim": 1, "segments": [segment]}
    site.problem = batch.contexts.problem_of(batch.context_tokens)


def _view_of(seen: Seen, batch: Batch, ranks: int) -> int | None:
    """How the dims of the module's tensor are ordered; None: they are no dims of a place."""
    shape, tokens = seen.shape, (batch.context_tokens, batch.context_tokens // ranks)
    if len(shape) == 3:
        views = [
            view for view, rows, sequence in ((kSame, shape[0], shape[1]), (kSequenceFirst, shape[1], shape[0]))
            if rows == batch.rows and sequence in tokens
        ]  # fmt: skip
        prefers_second = batch.is_sequence_first and not (seen.is_output and megatron.is_batch_first(seen.module))
        return views[-1 if prefers_second else 0] if views else None
    if len(shape) == 2 and shape[0] == batch.rows * batch.tokens and batch.contexts.ranks == 1:
        return kFlat if not batch.is_sequence_first or batch.rows == 1 else None  # else [sequence × batch, features]
    is_attention = len(shape) == 4 and shape[0] == batch.rows and shape[2:] == (batch.tokens, batch.tokens)
    return kSame if is_attention else None


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
    elif view != kFlat and dim == (0 if view == kSequenceFirst else 1):
        row |= {"dim": 1, "segments": [[shape[dim] * ranks, ranks]]}
    else:
        site.problem = f"the layout {layout} is not supported"


def drop_uneven(sites: list[Site]) -> None:
    """A place is the same in all its layers, which follow one another. Outside the layers, one stage has it."""
    first: dict[str, Site] = {}
    _drop_doubled(sites)
    _even_paths(sites)
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


def _even_paths(sites: Sequence[Site]) -> None:
    """A tensor gets that of its paths which it has in the most layers: dense layers return what their last linear layer
    returned, and layers of experts a tensor of their own."""
    layers: dict[str, set[int]] = {}
    for site in sites:
        for path in (site.path, *_aliases(site)) if site.layer and not site.problem else ():
            layers.setdefault(path, set()).add(site.layer)
    for site in sites:
        if site.layer and not site.problem:
            site.path = max((site.path, *_aliases(site)), key=lambda path: len(layers[path]))


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


class Learned(NamedTuple):
    """What a rank has learned of a tensor. Hashes are those of `Seen`."""

    shape: tuple[int, ...]
    bits: int
    is_constant: bool
    gradient_bits: int | None

    @classmethod
    def of(cls, seen: Seen) -> Learned:
        return cls(seen.shape, seen.bits, seen.is_constant, seen.gradient_bits)


def settle_layouts(sites: list[Site], of_ranks: Sequence[Sequence[Learned]], ranks: int) -> list[str]:
    """Compares what the ranks that share tensors have seen. Decides the layouts that no source knows, and where every
    rank has the whole gradient. `ranks`: tensor-parallel ranks; those of one context have the same tokens. Returns a
    message for each claim that is wrong."""
    messages = []
    for index, site in enumerate(sites):
        mine = [seen[index] for seen in of_ranks]
        others = [str(rank) for rank, one in enumerate(mine) if one.shape != mine[0].shape]
        if others:
            site.problem = site.problem or f"its shape on the ranks {', '.join(others)} of those that share it is another"
        others = _unlike([one.bits for one in mine], ranks)
        if site.problem:
            if site.is_claim_wrong:
                messages.append(f"{site.seen.name} is not traced: {site.problem}")
            continue
        if not site.layout.is_known:
            if not others and not mine[0].is_constant:
                source = "equal on all ranks when it was learned"
                site.layout = replace(site.layout, is_known=True, source=source)
            elif site.shares_tokens:
                site.problem = "no source knows how the tensor-parallel ranks share it"
        elif site.layout.dim is None and others:
            site.problem = f"{site.layout.source} says that every rank has the whole, but the numbers of the "
            site.problem += f"tensor-parallel ranks {', '.join(others)} differ from those of rank 0"
            messages.append(f"{site.seen.name} is not traced: {site.problem}")
        elif site.layout.is_of_user and site.layout.dim is not None and not others and not mine[0].is_constant:
            site.problem = f"{site.layout.source} says that each rank has a part, but the numbers of the "
            site.problem += f"tensor-parallel ranks {', '.join(str(rank) for rank in range(len(mine)))} are the same"
            messages.append(f"{site.seen.name} is not traced: {site.problem}")
        _settle_gradient(site, [one.gradient_bits for one in mine], ranks)
    return messages


def _unlike(bits: Sequence[int | None], ranks: int) -> list[str]:
    """The ranks whose bits are not those of the first one of their tensor-parallel group."""
    return [str(rank) for rank, one in enumerate(bits) if one != bits[rank // ranks * ranks]]


def _settle_gradient(site: Site, bits: list[int | None], ranks: int) -> None:
    problem = site.layout.gradient_problem
    if not site.layout.is_known:
        problem = ""  # it is rank-local as the value is
    elif site.layout.dim is None and _unlike(bits, ranks):
        problem = kPartialGradient
    elif bits[0] is not None and problem == kUnseenGradient:
        problem = ""
    site.layout = replace(site.layout, gradient_problem=problem)


def share_gradient_problems(sites: list[Site]) -> None:
    """A place is the same in all its layers."""
    problems = {site.path: site.layout.gradient_problem for site in sites if site.layer and site.layout.gradient_problem}
    for site in sites:
        if site.layer and site.path in problems:
            site.layout = replace(site.layout, gradient_problem=problems[site.path])


def name_sites(sites: list[Site], names: Names, vocabulary: int) -> list[Site]:
    """The sites that are places, named, in the order of the forward. A name belongs to one place, first of all to the
    one with such a path: `mlp.input` is the input of `mlp`, if that is not the tensor that the norm before it returned.
    """
    places = [site for site in sites if not site.problem]
    paths = {site.full_path for site in places}
    last = max((site.stage for site in sites), default=0)
    final_norm = _final_norm_of(places, names)
    taken: dict[str, str] = {}
    owners = {(site.layer > 0, path): site.full_path for site in places for path in (*_aliases(site), site.path)}
    for site in places:
        is_logits = site.is_model_output and site.stage == last and site.row.get("features") == vocabulary
        own = names.own(site.full_path)
        site.standard = _standard_of(site, names, is_logits) or (FINAL_NORM if site is final_norm else None)
        if site.standard and owners.get((site.layer > 0, site.standard.path), site.full_path) != site.full_path:
            site.standard = None
        wanted = own or (site.standard.name if site.standard else site.path)
        if taken.setdefault(wanted, site.full_path) != site.full_path:
            wanted, site.standard = site.path, None
        site.name = wanted
    _even_names(places)
    _name_head(places, taken)
    _tell_apart(places)
    return places


def _standard_of(site: Site, names: Names, is_logits: bool) -> Standard | None:
    return (
        standard_of(site.layer, site.seen.part)
        or of_model(site.layer, site.path, site.is_first_input, is_logits)
        or names.standard([site.path, *_aliases(site)], site.layer > 0)
    )


def absent_names(sites: Sequence[Site], names: Names) -> dict[str, str]:
    """Why a tensor is no place, by each name that a plan may give it. REQUIRES: the places have their names."""
    taken = {name for site in sites if not site.problem for name in (site.name, *_names_in_plans(site, site.standard))}
    found: dict[str, str] = {}
    for site in sites:
        for name in _names_in_plans(site, _standard_of(site, names, site.is_model_output)) if site.problem else ():
            if name not in taken:
                found.setdefault(name, f"{site.at}: {site.problem}")
    return found


def _names_in_plans(site: Site, standard: Standard | None) -> list[str]:
    paths = [site.path, *_aliases(site), *([standard.path] if standard is not None else [])]
    full = [f"layers[n].{path}" for path in paths] if site.layer else []
    return [*paths, *full, *([standard.name] if standard is not None else [])]


def _even_names(places: Sequence[Site]) -> None:
    """A place has one name in all layers. A hook on a module of one layer may have made two tensors of one."""
    by_path: dict[str, list[Site]] = {}
    for site in places:
        if site.layer:
            by_path.setdefault(site.path, []).append(site)
    for path, sites in by_path.items():
        if len({site.name for site in sites}) > 1:
            for site in sites:
                site.name, site.standard = path, None


def _final_norm_of(places: Sequence[Site], names: Names) -> Site | None:
    """A norm between the last layer and the module of the logits, if no site has the path of a known final norm."""
    outside = [site for site in places if not site.layer and site.seen.is_output]
    if any(names.standard([site.path, *_aliases(site)], False) is FINAL_NORM for site in outside):
        return None
    ends = [site.seen.path.split(".") for site in outside if site.is_model_output]
    # PEFT's copy of an output layer is in a module that takes the input.
    taken = {".".join([*path[:end], "input"]) for path in ends for end in range(1, len(path) + 1)}
    given = {alias for site in places if site.layer and site.path == "output" for alias in site.seen.aliases}
    return next((
        site for site in outside if "norm" in site.kind.lower() and f"{site.seen.path}.input" in given
        and not taken.isdisjoint((*site.seen.aliases, *site.seen.twins))
    ), None)  # fmt: skip


def _name_head(places: Sequence[Site], taken: Collection[str]) -> None:
    """Names of our own models for the weights and the input of final norm and output layer."""
    for name, module in (("FinalNorm", "final_norm"), ("Logits", "output_layer")):
        of = next((site for site in places if site.standard is not None and site.standard.name == name), None)
        if of is None or not of.seen.is_output:
            continue
        for site in places:
            if site.seen.is_weight and (site.stage, site.seen.path) == (of.stage, of.seen.path):
                site.standard = Standard(f"{module}.{site.seen.part}", f"{module}.{site.seen.part}")
                site.name = site.standard.name if site.standard.name not in taken else site.name
            elif f"{of.seen.path}.input" in (site.seen.name, *site.seen.aliases):
                site.outer_aliases = [f"{of.seen.path}.input", f"{module}.input"]


def _tell_apart(places: Sequence[Site]) -> None:
    """The library looks for a place by its name or path in the layers and outside at once."""
    in_layers = {name for site in places if site.layer for name in (site.name, site.path, *_aliases(site))}
    in_layers |= {site.standard.path for site in places if site.layer and site.standard}
    for site in places:
        while not site.layer and site.path in in_layers:
            is_named_by_path = site.name == site.path
            site.path = f"model.{site.path}"
            site.name = site.path if is_named_by_path else site.name


def describe(site: Site, head_size: int, taken: Set[str]) -> dict[str, Any]:
    """The site for the library (src/attach/places.h). `taken`: names and paths of all places, which are no other names
    of this one: the tensor may be passed on unchanged in some layers only."""
    is_local = not site.layout.is_known
    can_write = site.seen.part in ("input", "output", "point") or site.seen.is_weight
    is_apart = "contexts" in site.row or (site.shares_tokens and site.layout.gradient_problem)
    can_write = can_write and not is_local and not is_apart
    name = site.standard.name if site.standard is not None else ""
    is_vocabulary = name == "Logits" or site.lens_of is not None
    row = site.row | {
        "layer": site.layer,
        "stage": site.stage,
        "name": site.name,
        "path": site.path,
        "text": _text_of(site) + ("; values of tensor rank 0 only" if is_local else ""),
        "dtype": str(site.seen.dtype).removeprefix("torch."),
        "rank_local": is_local,
        "in_programs": can_write,
        "writable": can_write and not site.seen.is_compiled,
        "gradient": site.has_gradient,
        "vocabulary": is_vocabulary,
    }
    if site.seen.is_made:
        row["formula"] = _formula_of(site)
    if is_vocabulary or name == "RawAttentionScore":
        row["numbers"] = "logit" if is_vocabulary else "attention probability"
    aliases = _aliases(site)
    if (standard := site.standard) is not None:
        row["flag"] = standard.flag
        row["heads"] = standard.has_heads and head_size > 0 and row["features"] % head_size == 0
        aliases = list(dict.fromkeys([*aliases, standard.path]))
        if name == "Embedding":
            row["hidden_state"] = 0
    return row | {"aliases": [alias for alias in aliases if alias == site.name or alias not in taken]}


def untraced_rows(sites: Sequence[Site]) -> list[dict[str, Any]]:
    """"untraced" of the run's facts: the tensors that are no places, attention first. A row has the layers with one
    reason."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for site in sites:
        if not site.problem:
            continue
        new = {"path": site.full_path, "first_layer": site.layer, "last_layer": site.layer, "reason": site.problem}
        row = rows.setdefault((site.full_path, site.problem), new)
        row["last_layer"] = max(row["last_layer"], site.layer)
    return sorted(rows.values(), key=lambda row: not row["path"].endswith("scores"))[:kMaxUntraced]


def _text_of(site: Site) -> str:
    seen = site.seen
    module = f"{_without_number(site)} ({site.kind})"
    if seen.is_weight:
        modules = ", ".join(_without_number(part) for part in site.parts) or module
        return f"{seen.part} of {modules}, as this forward uses it"
    if seen.part == "point":
        return f"tensor_tracer.point({seen.path!r})" + "; programs cannot write it in compiled code" * seen.is_compiled
    if site.lens_of is not None:
        return f"logit lens: what final norm and output layer give for {site.lens_of.name}; {module}"
    if seen.is_made:
        return f"{PARTS[seen.part].text}; {module}"
    return f"{'attention probabilities' if seen.part == 'scores' else seen.part} of {module}"


def _formula_of(site: Site) -> str:
    """How the tracer computes a value that it makes itself."""
    if (read := site.lens_of) is None:
        return PARTS[site.seen.part].formula
    path = read.standard.path if read.standard is not None else read.path
    return f"output_layer(final_norm({f'layers[n].{path}' if read.layer else path}))"


def _without_number(site: Site) -> str:
    parts = site.seen.path.split(".") if site.seen.path else ["the model"]
    return ".".join("n" if site.layer and part.isdigit() else part for part in parts)


def _aliases(site: Site) -> list[str]:
    """Other names of the tensor, in the form of paths of places."""
    if not site.layer:
        return site.seen.aliases
    if not site.layer_path:
        return []
    start = f"{site.layer_path}."
    names = [name.removeprefix(start) for name in (site.seen.name, *site.seen.aliases) if name.startswith(start)]
    return [name for name in names if name != site.path]


def tokens_row(every_stage: bool) -> dict[str, Any]:
    """The tokens. `every_stage`: each pipeline stage gets them, not only the first."""
    return {
        "layer": 0, "stage": -1 if every_stage else 0, "name": "InputTokens", "path": "tokens",
        "text": "token ids and positions", "dtype": "int64",
        "flag": 8, "writable": False, "gradient": False, "dims": ["ids_positions", "batch", "sequence"],
    }  # fmt: skip


