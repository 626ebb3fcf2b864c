"""Interventions as users of nnsight write them, on the reference model with a module at every place.

    python nnsight_edits.py CASES OUT

test_interventions_nnsight.py starts it with the interpreter that has nnsight. CASES is a torch.save of the `World` and
of (name, Export) for each step. OUT gets (loss, gradients) of each step with the edit of that name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from graphs import LAYERS
from hooked_gpt import MICRO_BATCH, World, put, put_heads
from reference_gpt import Config, Export, ReferenceGpt
from torch import Tensor, nn

POINTS = ("QKV", "ContextLayer", "AttentionOutput", "MLP1", "MLPActivation", "MLP2", "HiddenStates")


class Place(nn.Module):
    """Where nnsight can look and write."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Gpt(nn.Module):
    """The reference model with a module at every place: model.HiddenStates[2].output."""

    def __init__(self, config: Config, weights: dict[str, Tensor]) -> None:
        super().__init__()
        for point in POINTS:
            setattr(self, point, nn.ModuleList(Place() for _ in range(LAYERS + 1)))
        self.Embedding, self.FinalNorm, self.Logits = Place(), Place(), Place()
        self.leaves = {name: w.detach().clone().requires_grad_() for name, w in weights.items()}
        self._reference = ReferenceGpt(config, self.leaves, edit=self._edit)

    def forward(self, tokens: Tensor) -> Tensor:
        return self._reference.logits(tokens)

    def _edit(self, point: str, layer: int, value: Tensor) -> Tensor:
        place = getattr(self, point, None)
        if place is None:
            return value
        return place[layer](value) if layer else place(value)


def steer(m: Any, w: World) -> None:
    m.HiddenStates[3].output = m.HiddenStates[3].output + 2.0 * w.vectors["evil"][3]


def project_out(m: Any, w: World) -> None:
    u = w.vectors["evil"][3] / w.vectors["evil"][3].norm()
    h = m.HiddenStates[3].output
    m.HiddenStates[3].output = h - (h @ u)[..., None] * u


def ablate_layer(m: Any, w: World) -> None:
    m.AttentionOutput[2].output = torch.zeros_like(m.AttentionOutput[2].output)
    m.MLP2[2].output = torch.zeros_like(m.MLP2[2].output)


def ablate_head(m: Any, w: World) -> None:
    m.ContextLayer[2].output = put_heads(m.ContextLayer[2].output, 1, 0.0)


def mean_ablate_neuron(m: Any, w: World) -> None:
    a = m.MLPActivation[2].output
    m.MLPActivation[2].output = put(a, (..., 3), a[..., 3].mean())


def patch_file(m: Any, w: World) -> None:
    m.HiddenStates[2].output = put(m.HiddenStates[2].output, (slice(None), -1), w.files["resid"])


def qkv(m: Any, w: World) -> None:
    m.QKV[2].output = m.QKV[2].output.tanh()


def early_to_late(m: Any, w: World) -> None:
    early = m.HiddenStates[1].output
    m.HiddenStates[4].output = m.HiddenStates[4].output + 0.5 * early


def every_layer(m: Any, w: World) -> None:
    for layer in range(1, LAYERS + 1):
        m.HiddenStates[layer].output = 0.9 * m.HiddenStates[layer].output


def shift(m: Any, w: World) -> None:
    h = m.HiddenStates[2].output
    m.HiddenStates[2].output = put(h, (slice(None), slice(4, 8)), h[:, :4])


def mask(m: Any, w: World) -> None:
    h = m.HiddenStates[2].output
    m.HiddenStates[2].output = torch.where(h > 0, 0.5 * h, h)


def temperature(m: Any, w: World) -> None:
    m.Logits.output = m.Logits.output / 1.7


EDITS: dict[str, Callable[[Any, World], None]] = {
    edit.__name__: edit
    for edit in (steer, project_out, ablate_layer, ablate_head, mean_ablate_neuron, patch_file, qkv,
                 early_to_late, every_layer, shift, mask, temperature)
}  # fmt: skip


def by_nnsight(name: str, export: Export, world: World) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients of a step with one of the edits."""
    import nnsight  # the test imports the names of the edits without it

    gpt = Gpt(export.config, export.weights)
    model, edit = nnsight.NNsight(gpt), EDITS[name]
    total = {key: torch.zeros_like(leaf) for key, leaf in gpt.leaves.items()}
    loss, groups = 0.0, len(export.tokens) // MICRO_BATCH
    for first in range(0, len(export.tokens), MICRO_BATCH):
        rows = slice(first, first + MICRO_BATCH)
        tokens = export.tokens[rows]
        with model.trace(tokens):
            edit(model, world)
            logits = model.output.save()
        part = F.cross_entropy(logits.flatten(0, 1), export.labels[rows].flatten()) / groups
        gradients = torch.autograd.grad(part, list(gpt.leaves.values()), allow_unused=True)
        for key, gradient in zip(gpt.leaves, gradients, strict=True):
            total[key] += gradient if gradient is not None else 0
        loss += part.item()
    return loss, total


def main() -> None:
    torch.set_num_threads(1)
    world, cases = torch.load(sys.argv[1], weights_only=False)
    torch.save([by_nnsight(name, export, world) for name, export in cases], sys.argv[2])


if __name__ == "__main__":
    main()
