"""What an intervention does, as plain functions on the reference model.

A `Graph` is a program's text beside the same thing said in PyTorch: functions for the values and
gradients that it writes, for what it saves, and for the layers that it skips. `expected` runs the
reference with them, micro-batch by micro-batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from reference_gpt import Export, ReferenceGpt
from torch import Tensor

MICRO_BATCH = 2
HEAD_SIZE = 8
ALL = None  # in the place of a layer's number

Place = tuple[str, int]
Write = Callable[[Tensor, "Seen"], Tensor]
Writes = Mapping[tuple[str, "int | None"], Write]
Save = Callable[["Seen"], Tensor]
NoiseOf = Callable[[str, int, int, int], Tensor]  # of a save's name, step, first row, layer


@dataclasses.dataclass(frozen=True)
class Graph:
    """A program and what it should do. `steps`: so many training steps, one after the other, in
    which `acts` says by their index, from 0, whether it acts."""

    name: str
    text: str
    writes: Writes = dataclasses.field(default_factory=dict)
    gradients: Writes = dataclasses.field(default_factory=dict)
    saves: Mapping[str, Save] = dataclasses.field(default_factory=dict)
    layered: Mapping[str, Save] = dataclasses.field(default_factory=dict)  # one for each of `layers`
    layers: Sequence[int] = (1, 2, 3, 4)
    kept: Mapping[str, Save] = dataclasses.field(default_factory=dict)  # with send=False
    skips: Callable[[int, Seen], bool] = lambda layer, seen: False
    steps: int = 1
    acts: Callable[[int], bool] = lambda index: True
    changes: bool = True  # whether anything is different with it


@dataclasses.dataclass
class World:
    """What programs may name besides the model."""

    vectors: Mapping[str, Tensor]  # [layers + 1, hidden]
    files: Mapping[str, Tensor]
    noise: NoiseOf | None = None


class Seen:
    """One forward pass of one micro-batch: what was met so far, `s[point, layer]` as written,
    `s.old` as it was before, `s.gradient` likewise in the backward pass."""

    def __init__(self, graph: Graph, world: World, tokens: Tensor, first_row: int, step: int) -> None:
        self.graph, self.world, self.tokens = graph, world, tokens
        self.first_row, self.step = first_row, step
        self.layer = 0
        self.values: dict[Place, Tensor] = {}
        self.old: dict[Place, Tensor] = {}
        self.gradient: dict[Place, Tensor] = {}
        self.before: Mapping[str, Tensor] = {}
        self.model: ReferenceGpt | None = None  # set before the forward

    def __getitem__(self, place: Place) -> Tensor:
        return self.values[place]

    def vector(self, name: str, row: int) -> Tensor:
        return self.world.vectors[name][row]

    def unit(self, name: str, row: int) -> Tensor:
        return self.vector(name, row) / self.vector(name, row).norm()

    def noise(self, save: str) -> Tensor:
        """The random numbers that the program said it used."""
        assert self.world.noise is not None
        return self.world.noise(save, self.step, self.first_row, self.layer)

    def only(
        self, old: Tensor, new: Tensor, rows: Sequence[int] | None = None,
        tokens: Sequence[int] | None = None,
    ) -> Tensor:  # fmt: skip
        """`new` in these rows of the global batch and at these positions, elsewhere `old`."""
        row = torch.arange(self.first_row, self.first_row + old.shape[0])
        position = torch.arange(old.shape[1])
        chosen_rows = torch.isin(row, torch.tensor(rows)) if rows is not None else row >= 0
        chosen = torch.ones_like(position, dtype=torch.bool)
        if tokens is not None:
            chosen = torch.isin(position, torch.tensor([t % old.shape[1] for t in tokens]))
        return torch.where((chosen_rows[:, None] & chosen)[..., None], new, old)

    def spells(self, text: str) -> Tensor:
        """Where the row spells this text, [rows, sequence, 1]."""
        mask = torch.zeros_like(self.tokens, dtype=torch.bool)
        wanted = list(text.encode())
        for row, line in enumerate(self.tokens.tolist()):
            for start in range(len(line) - len(wanted) + 1):
                if line[start : start + len(wanted)] == wanted:
                    mask[row, start : start + len(wanted)] = True
        return mask[..., None]

    def edit(self, point: str, layer: int, value: Tensor) -> Tensor:
        """Given to the reference model."""
        value = value.view_as(value)  # a tied weight's two uses are two tensors
        self.old[point, layer] = value
        value = self._write(self.graph.writes, point, layer, value)
        self.values[point, layer] = value
        if value.requires_grad:
            value.register_hook(partial(self._backward, point, layer))
        return value

    def _backward(self, point: str, layer: int, gradient: Tensor) -> Tensor:
        self.gradient[point, layer] = gradient
        gradient = self._write(self.graph.gradients, point, layer, gradient)
        self.gradient[point, layer] = gradient
        return gradient

    def _write(self, writes: Writes, point: str, layer: int, value: Tensor) -> Tensor:
        self.layer = layer
        for key in ((point, layer), (point, ALL)):
            if key in writes:
                value = writes[key](value, self)
        return value

    def skips(self, layer: int) -> bool:
        return self.graph.skips(layer, self)

    def saved(self) -> dict[tuple[str, int], Tensor]:
        """After the backward pass, by name and layer, 0 without one."""
        alone = {**self.graph.saves, **self.graph.kept}
        found = {(name, 0): save(self).detach() for name, save in alone.items()}
        for name, save in self.graph.layered.items():
            for self.layer in self.graph.layers:
                found[name, self.layer] = save(self).detach()
        return found


Saved = dict[tuple[str, int, int], Tensor]  # by name, first row, layer


@dataclasses.dataclass(frozen=True)
class Expected:
    loss: float
    gradients: dict[str, Tensor]
    saved: Saved


def expected(
    graph: Graph, export: Export, world: World, step: int, before: Saved | None = None,
    make: type[Seen] = Seen,
) -> Expected:  # fmt: skip
    """Loss, gradients and saves of one training step. `before`: what the step before it saved."""
    leaves = {n: w.detach().clone().requires_grad_() for n, w in export.weights.items()}
    total = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    groups = len(export.tokens) // MICRO_BATCH
    loss, saved = 0.0, {}
    for first in range(0, len(export.tokens), MICRO_BATCH):
        rows = slice(first, first + MICRO_BATCH)
        seen = make(graph, world, export.tokens[rows], first, step)
        seen.before = {name: x for (name, at, _), x in (before or {}).items() if at == first}
        model = seen.model = ReferenceGpt(export.config, leaves, edit=seen.edit, skips=seen.skips)
        part = model.loss(export.tokens[rows], export.labels[rows]) / groups
        gradients = torch.autograd.grad(part, list(leaves.values()), allow_unused=True)
        for name, gradient in zip(leaves, gradients, strict=True):
            if gradient is not None:
                total[name] += gradient
        loss += part.item()
        for (name, layer), value in seen.saved().items():
            saved[name, first, layer] = value
    return Expected(loss, total, saved)


def untouched(graph: Graph) -> Graph:
    """A program that does nothing, for the steps in which this one does not act."""
    return Graph(graph.name, "")


def put(x: Tensor, index: object, value: Tensor | float) -> Tensor:
    """x with x[index] = value; x stays."""
    changed = x.clone()
    changed[index] = value  # type: ignore[index]
    return changed


def heads(x: Tensor) -> Tensor:
    """[..., heads, head size]"""
    return x.unflatten(-1, (-1, HEAD_SIZE))


def put_heads(x: Tensor, which: object, value: Tensor | float) -> Tensor:
    """With x.heads[which] = value."""
    return put(heads(x), (..., which, slice(None)), value).flatten(-2)
