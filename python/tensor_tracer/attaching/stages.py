"""Puts the place table of a model together from what each of its pipeline stages has seen, the same on every rank."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from tensor_tracer.attaching import facts as about
from tensor_tracer.attaching import megatron
from tensor_tracer.attaching.agreement import share
from tensor_tracer.attaching.chunks import Chunk
from tensor_tracer.attaching.contexts import Contexts
from tensor_tracer.attaching.groups import Groups, name_of
from tensor_tracer.attaching.head import Head, with_lenses
from tensor_tracer.attaching.layouts import Layouts
from tensor_tracer.attaching.learning import Learner, fingerprint
from tensor_tracer.attaching.names import Names
from tensor_tracer.attaching.table import (
    Batch, Learned, Site, describe, drop_uneven, find_layers, make_sites, name_sites, settle_layouts,
    share_gradient_problems, tokens_row, untraced_rows,
)  # fmt: skip
from tensor_tracer.attaching.tokens import text_size
from tensor_tracer.attaching.updates import OfStage, UpdateWatch
from tensor_tracer.attaching.weights import settle_weights, with_joined, with_weights


@dataclass(frozen=True)
class _Part:
    """What a virtual pipeline stage tells the others."""

    known: about.Known
    batch: Batch
    has_tokens: bool
    layers: tuple[str, ...]  # their paths, in order
    vocabulary: int
    micro_batches: int
    sizes: dict[str, int]  # of parameters that are watched, by name
    loss_scale: float | None  # as of Learner

    @property
    def num_layers(self) -> int:
        return len(self.layers)


@dataclass(frozen=True)
class Table:
    """`sites`: of all stages, in the order of the forward, and the lenses. `places`: those that are places. `layers`: the
    paths and numbers of the layers on this rank, by stage. `head`: None: this rank has none."""

    sites: list[Site]
    places: list[Site]
    layers: dict[int, dict[str, int]]
    batch: Batch
    head: Head | None
    micro_batches: int  # of the first step
    description: dict[str, Any]  # for the library (src/attach/places.h), with the run's facts
    warnings: list[str]

    @property
    def shards_sequence(self) -> bool:
        """True if ranks share a tensor by its tokens."""
        return any(len(site.row["dims"]) == 3 and site.row.get("dim") == 1 for site in self.places)


def make_table(
    chunks: Sequence[Chunk], groups: Groups, layouts: Layouts, names: Names, told: dict[str, str],
    updates: UpdateWatch | None,
) -> Table:  # fmt: skip
    """`told`: the names of trainer and tokenizer. REQUIRES: every chunk has run a forward. Collective over all ranks."""
    ranks = len(groups.tensor_ranks)
    learned = {chunk.stage: (chunk, _learner_of(chunk)) for chunk in chunks}
    parts = groups.gather_stages(
        {stage: _part_of(chunk, learner, groups, updates) for stage, (chunk, learner) in learned.items()}
    )
    batch = next((part.batch for part in parts if part.has_tokens), parts[0].batch)
    batch = replace(batch, is_sequence_first=any(part.batch.is_sequence_first for part in parts))
    own: dict[int, list[Site]] = {}
    layers: dict[int, dict[str, int]] = {}
    warnings: list[str] = []
    for stage, (chunk, learner) in learned.items():
        layers[stage] = find_layers(chunk.root, learner.seen, sum(part.num_layers for part in parts[:stage]))
        own[stage] = make_sites(with_weights(learner.seen, layouts), layers[stage], batch, ranks, stage)
        seen = [Learned.of(site.seen) for site in own[stage]]
        warnings += settle_layouts(own[stage], groups.gather(seen), ranks) if len(groups.shard_ranks) > 1 else []
        settle_weights(own[stage])
        warnings += _warn_of_tokens(learner.tokens, groups)
        warnings += [f"it is not known what the module passes on: {one}" for one in learner.failures]
    sites = _join(own, groups)
    _drop_unshared(sites, groups)
    warnings += _unknown_paths(sites, names, layouts)
    places = with_joined(name_sites(sites, names, max(part.vocabulary for part in parts)), names.joined)
    head = Head.of(places, layouts.axis)
    if head is not None:
        head = replace(
            head.owned_by(learned[head.logits.stage][0].root), positions=groups.positions(batch.context_tokens),
            group=name_of(groups.tensor), counts=groups.context_index == 0,
        )  # fmt: skip
    places = with_lenses(places, any(share(head is not None, groups.pipeline)))
    shown = share(batch, groups.control)[0]  # another replica may have batches of another shape
    others = [updates.row([OfStage(part.layers, part.sizes) for part in parts])] if updates is not None else []
    description = _describe(places, parts, shown, told, others)
    description["facts"] |= _facts_of_replicas(parts, shown, groups.data_size) | {"untraced": untraced_rows(sites)}
    sites += [site for site in places if site.lens_of is not None or site.parts]
    return Table(sites, places, layers, batch, head, parts[0].micro_batches, description, warnings)


def _unknown_paths(sites: Sequence[Site], names: Names, layouts: Layouts) -> list[str]:
    """Messages on names and placements of attach() that no tensor has."""
    paths = {name for site in sites for name in (site.seen.name, *site.seen.aliases)}
    return [
        *(f"names: no tensor has the path {one!r}" for one in names.unknown({site.full_path for site in sites})),
        *(f"placements: no tensor has a path like {one!r}" for one in layouts.overrides if not fnmatch.filter(paths, one)),
    ]


def _warn_of_tokens(tokens: Tensor | None, groups: Groups) -> list[str]:
    """If the context-parallel ranks have the same tokens. Collective over the ranks that share tensors."""
    if groups.contexts.ranks == 1:
        return []
    found = groups.gather(None if tokens is None else fingerprint(tokens)[0])
    if found[0] is None or len(set(found)) > 1:
        return []
    return ["the context-parallel ranks have the same tokens: give the model of each rank its own part of every sequence"]


def _learner_of(chunk: Chunk) -> Learner:
    assert chunk.learned is not None, "a stage has run no forward"
    return chunk.learned


def _part_of(chunk: Chunk, learner: Learner, groups: Groups, updates: UpdateWatch | None) -> _Part:
    found = find_layers(chunk.root, learner.seen)
    is_sequence_first = megatron.is_sequence_first([chunk.root.get_submodule(path) for path in found])
    batch = replace(_batch_of(learner, groups.contexts), is_sequence_first=is_sequence_first)
    known = about.known_of(chunk.root, len(groups.tensor_ranks))
    sizes = updates.sizes(chunk.stage) if updates is not None else {}
    vocabulary = learner.text_size or text_size(chunk.root)
    return _Part(
        known, batch, learner.tokens is not None, tuple(found), vocabulary, max(chunk.micro_batch, 1), sizes,
        learner.loss_scale,
    )  # fmt: skip


def _batch_of(learner: Learner, contexts: Contexts) -> Batch:
    rows, tokens = 1, 1
    shapes = Counter(seen.shape[:2] for seen in learner.seen if len(seen.shape) == 3)
    if learner.tokens is not None:
        rows, tokens = learner.tokens.shape
    elif shapes:
        rows, tokens = shapes.most_common(1)[0][0]
    return Batch(rows, tokens * contexts.ranks, contexts=contexts)


def _join(own: dict[int, list[Site]], groups: Groups) -> list[Site]:
    """The sites of all stages, made even. Only those of this rank have their modules."""
    sent = {
        stage: [replace(site, seen=replace(site.seen, module=nn.Identity())) for site in sites]
        for stage, sites in own.items()
    }
    every = groups.gather_stages(sent)
    for stage, sites in own.items():
        for joined, site in zip(every[stage], sites, strict=True):
            joined.seen.module = site.seen.module
    joined_sites = [site for sites in every for site in sites]
    drop_uneven(joined_sites)
    share_gradient_problems(joined_sites)
    return joined_sites


def _drop_unshared(sites: list[Site], groups: Groups) -> None:
    """A tensor is a place only if it is one on every rank: data replicas may have batches of different shapes, and with one
    row a tensor of positions looks like activations. Collective over all ranks."""
    own = {(site.stage, site.seen.name): site for site in sites if not site.problem}
    names = sorted(own)
    digest = hashlib.sha256(json.dumps(names).encode()).hexdigest()
    if len(set(share(digest, groups.control))) == 1:
        return
    of_ranks = [set(one) for one in share(names, groups.control)]
    for key in set(names) - set.intersection(*of_ranks):
        others = ", ".join(str(rank) for rank, found in enumerate(of_ranks) if key not in found)
        own[key].problem = f"it is no place on the ranks {others}, which have a batch of another shape"


def _describe(
    places: list[Site], parts: list[_Part], batch: Batch, told: dict[str, str], others: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    num_layers, micro_batches = sum(part.num_layers for part in parts), parts[0].micro_batches
    model = _model_of(places, parts, batch)
    head_size = about.head_size(parts[0].known, model)
    dtypes = [str(site.seen.dtype).removeprefix("torch.") for site in places if not site.seen.is_weight]
    dtype = dtypes[0] if dtypes else "float32"
    every_stage = all(part.has_tokens for part in parts) and len(parts) > 1
    taken = {site.path for site in places} | {site.name for site in places}
    rows = [describe(site, head_size, taken) for site in places]
    for row in rows:
        if len(row["dims"]) == 4:
            row["features"] = batch.tokens  # the keys, which other replicas may have more or less of
    sites = [tokens_row(every_stage), *rows, *others]
    names = [str(site["name"]) for site in sites]
    return {
        "places": {
            "num_layers": num_layers, "batch": batch.rows, "sequence": batch.tokens, "dtype": dtype,
            "sites": sites,
            "outer_aliases": {
                alias: index for index, site in enumerate(places, 1) for alias in site.outer_aliases if alias not in taken
            },
            "layer_input": names.index("Embedding") if "Embedding" in names else 0,
            "layer_output": names.index("HiddenStates") if "HiddenStates" in names else 0,
        },
        "step": {
            "micro_batches": micro_batches, "micro_batch_size": batch.rows, "seq_length": batch.tokens,
            "hidden_size": model["hidden_size"], "head_size": max(head_size, 1), "dtype": dtype,
        },
        "facts": {
            "model": model, "micro_batch_size": batch.rows, "tokenizer": {"kind": told["tokenizer"]},
            "configuration": {"trainer": told["trainer"], "model": parts[0].known.kind},
        },
    }  # fmt: skip


def _facts_of_replicas(parts: Sequence[_Part], batch: Batch, replicas: int) -> dict[str, Any]:
    micro_batches = parts[0].micro_batches
    gradients = {"data_parallel_size": replicas, "gradient_accumulation_steps": micro_batches}
    scale = next((part.loss_scale for part in parts if part.loss_scale is not None), None)
    return {
        "global_batch_size": batch.rows * micro_batches * replicas,
        "gradients": gradients | ({} if scale is None else {"loss_scale": scale}),
    }


def _model_of(places: list[Site], parts: list[_Part], batch: Batch) -> dict[str, Any]:
    """The facts of the model."""
    states = [site for site in places if site.name == "HiddenStates"]
    features = [site.row["features"] for site in states or places if not site.seen.is_weight]
    hidden_size = int(max(features, default=1))
    num_layers, vocabulary = sum(part.num_layers for part in parts), max(part.vocabulary for part in parts)
    return about.model_facts([part.known for part in parts], num_layers, hidden_size, batch.tokens, vocabulary)
