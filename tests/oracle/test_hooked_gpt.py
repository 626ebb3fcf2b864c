"""The oracle of interventions itself: that it does what programs say, without the program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from graphs import EVERYTHING, HIDDEN, LLAMA, TINY, at_steps, write_world
from hooked_gpt import Expected, Graph, Saved, World, expected
from interpreter import Interpreted
from reference_gpt import Config, Export, loss_and_gradients, parameter_shapes
from torch import Tensor

NOTHING = Graph("nothing", "")


def make_export(shape: dict) -> Export:
    """Random weights and tokens of the tiny model."""
    values = TINY | shape | {"vocab_size": 256}
    names = Config.__dataclass_fields__
    config = Config(**{k: v for k, v in values.items() if k in names}, add_bias_linear=not shape)
    random = torch.Generator().manual_seed(1)

    def draw(name: str, size: tuple[int, ...]) -> Tensor:
        one = 1.0 if "norm.weight" in name else 0.0
        return one + 0.1 * torch.randn(size, generator=random, dtype=torch.float64)

    weights = {name: draw(name, size) for name, size in parameter_shapes(config).items()}
    text = b"a few steps of the step, to step over; e and more"
    tokens = torch.tensor([list((text * 3)[7 * row : 7 * row + 17]) for row in range(4)])
    return Export(config, weights, {}, tokens[:, :-1], tokens[:, 1:], 0.0)


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def export(request: pytest.FixtureRequest) -> Export:
    return make_export(LLAMA if request.param == "llama" else {})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = write_world(tmp_path_factory.mktemp("world"))
    world.noise = some_noise
    yield world


def some_noise(name: str, step: int, row: int, layer: int) -> Tensor:
    """Every place that programs put noise on has as many columns."""
    random = torch.Generator().manual_seed(1000 * row + 10 * layer + len(name) + ord(name[0]))
    return torch.randn(HIDDEN, generator=random).double()


def run(graph: Graph, export: Export, world: World) -> Expected:
    """The last of the program's steps."""
    before: Saved | None = None
    for step in range(graph.steps):
        result = expected(graph, export, world, step, before)
        before = result.saved
    return result


def difference(a: Expected, b: Expected) -> float:
    """The largest, of loss and gradients, relative to each tensor's largest number, or for gradients
    that are rounding to a thousandth of the whole norm."""
    found, floor = [abs(a.loss - b.loss) / b.loss], norm(b) / 1000
    for name, gradient in b.gradients.items():
        error = (a.gradients[name] - gradient).abs().max()
        found.append((error / (gradient.abs().max() + floor)).item())
    return max(found)


def norm(one: Expected) -> float:
    return torch.stack([gradient.norm() for gradient in one.gradients.values()]).norm().item()


def test_without_a_program_it_is_the_reference(export: Export, world: World) -> None:
    loss, gradients = loss_and_gradients(export.config, export.weights, export.tokens, export.labels)
    found = run(NOTHING, export, world)
    assert found.loss == pytest.approx(loss.item(), rel=1e-14)
    for name, gradient in gradients.items():
        assert (found.gradients[name] - gradient).abs().max() <= 1e-14 * max(1.0, gradient.abs().max())


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_program_changes_what_it_should(name: str, export: Export, world: World) -> None:
    """A test of a program that does nothing here would say nothing."""
    graph = EVERYTHING[name]
    found = run(graph, export, world)
    off = difference(found, run(NOTHING, export, world))
    assert off > 1e-6 if graph.changes else off == 0
    assert all(torch.isfinite(value).all() for value in found.gradients.values())


@pytest.mark.parametrize("name", ["project_out", "fc1", "weight_fc1", "matrix", "scores"])
def test_gradients_are_those_of_the_changed_loss(name: str, export: Export, world: World) -> None:
    """By finite differences along a random direction of all weights."""
    graph, random = EVERYTHING[name], torch.Generator().manual_seed(2)
    ways = {n: torch.randn(w.shape, generator=random).double() for n, w in export.weights.items()}
    slope = sum((run(graph, export, world).gradients[n] * ways[n]).sum().item() for n in ways)
    step, losses = 1e-6, []
    for sign in (1, -1):
        moved = {n: w + sign * step * ways[n] for n, w in export.weights.items()}
        losses.append(run(graph, Export(**{**vars(export), "weights": moved}), world).loss)
    assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(slope, rel=1e-4)


def test_a_steered_layer_by_hand(export: Export, world: World) -> None:
    """Adding v to the output of layer 3 is adding it to the last bias of layer 3."""
    by_hooks = run(EVERYTHING["steer"], export, world)
    if not export.config.add_bias_linear:
        return
    v = world.vectors["evil"][3]
    moved = export.weights | {"layers.3.mlp.fc2.bias": export.weights["layers.3.mlp.fc2.bias"] + 2 * v}
    loss, gradients = loss_and_gradients(export.config, moved, export.tokens, export.labels)
    assert by_hooks.loss == pytest.approx(loss.item(), rel=1e-13)
    for name, gradient in gradients.items():
        assert torch.allclose(by_hooks.gradients[name], gradient, rtol=1e-10, atol=1e-14)


def test_a_silent_head_by_hand(export: Export, world: World) -> None:
    """A head that gives 0 is a head whose columns of the next matrix are 0."""
    by_hooks = run(EVERYTHING["ablate_head"], export, world)
    proj = export.weights["layers.2.attention.proj.weight"].clone()
    proj[:, 8:16] = 0
    moved = export.weights | {"layers.2.attention.proj.weight": proj}
    loss, _ = loss_and_gradients(export.config, moved, export.tokens, export.labels)
    assert by_hooks.loss == pytest.approx(loss.item(), rel=1e-13)


def test_steps_are_put_into_a_program() -> None:
    assert at_steps("layers[1].output *= 2", 3, 4) == 'when(steps="3-4")\nlayers[1].output *= 2\n'
    assert at_steps('# when(\nwhen(rows="1")\nx', 3, 3) == '# when(\nwhen(steps="3-3", rows="1")\nx\n'


def test_the_list_is_long_enough() -> None:
    programs = {path.stem for path in (Path(__file__).parents[2] / "configs/interventions").glob("*.tti")}
    assert programs <= EVERYTHING.keys()
    assert len(EVERYTHING.keys() - programs) >= 40


@pytest.mark.parametrize("name", [n for n, g in EVERYTHING.items() if "noise(" not in g.text])
def test_the_functions_say_what_the_text_says(name: str, export: Export, world: World) -> None:
    """Two readings of every program: functions by hand, and an interpreter of its text."""
    graph = EVERYTHING[name]
    before: Saved | None = None
    for step in range(graph.steps):
        by_hand = expected(graph if graph.acts(0) else NOTHING, export, world, step, before)
        by_text = expected(graph, export, world, step, before, make=Interpreted)
        before = by_hand.saved
        assert difference(by_text, by_hand) < 1e-13
        assert by_text.saved.keys() == by_hand.saved.keys()
        for key, value in by_hand.saved.items():
            error = (by_text.saved[key] - value).abs().max()
            assert error <= 1e-12 * value.abs().max(), key
