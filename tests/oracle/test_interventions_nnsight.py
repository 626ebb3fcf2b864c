"""Ten interventions as users of nnsight write them: on the reference model wrapped by nnsight, whose
results must be those of real runs, and of the hooks that test_interventions.py goes by.

nnsight needs transformers and is large, so it is not among the packages of the tests:

    python -m venv build/nnsight-venv
    echo "$PWD/.venv/lib/python3.11/site-packages" > build/nnsight-venv/lib/python3.11/site-packages/parent.pth
    build/nnsight-venv/bin/pip install nnsight
    build/nnsight-venv/bin/python -m pytest tests/oracle/test_interventions_nnsight.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from graphs import EVERYTHING, LAYERS, LLAMA, SHAPES
from hooked_gpt import MICRO_BATCH, World, expected, put, put_heads
from observed_runs import Runs
from reference_gpt import Config, Export, ReferenceGpt
from test_hooked_gpt import make_export
from torch import Tensor, nn

nnsight = pytest.importorskip(
    "nnsight", reason="nnsight is not installed; the top of this file says how to run it in a venv of its own"
)

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


def assert_close(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    norm = torch.stack([g.norm() for g in wanted.values()]).norm()
    for name, gradient in wanted.items():
        allowed = 1e-9 * gradient.abs().max() + 1e-14 * norm
        assert (found[name] - gradient).abs().max() <= allowed, name


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", EDITS)
def test_hooks_do_what_nnsight_does(name: str, shape: str, runs: Runs) -> None:
    export = make_export(LLAMA if shape == "llama" else {})
    wanted = expected(EVERYTHING[name], export, runs.world, 1)
    loss, gradients = by_nnsight(name, export, runs.world)
    assert loss == pytest.approx(wanted.loss, rel=1e-12)
    assert_close(gradients, wanted.gradients)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", EDITS)
def test_runs_do_what_nnsight_does(name: str, shape: str, runs: Runs) -> None:
    observed, placed = runs.of(name, shape, (1, 1))
    export = observed.run.export(placed.first)
    loss, gradients = by_nnsight(name, export, runs.world)
    assert export.loss == pytest.approx(loss, rel=1e-9)
    assert_close(export.gradients, gradients)
