"""Interventions of real runs against PyTorch: loss, every gradient and every save of all programs of
graphs.py and configs/interventions, on one rank; and the same numbers on every mesh.

A run has up to 32 programs in force, each acting in different steps. By default the meshes are
TP 2 x DP 2 of the GPT-2 shape and, nightly, TP 4 of the Llama shape; TT_ALL_MESHES=1 takes all of both, and
TT_PROGRAMS_PER_RUN=1 gives each program a separate run, to find one that spoils the others.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from graphs import EVERYTHING, LAYERS, SHAPES, TINY, Scheduled
from hooked_gpt import MICRO_BATCH, Expected, Graph, World, expected, untouched
from observed_runs import Observed, Runs, acting, dump
from program import train
from torch import Tensor

NIGHTLY = pytest.mark.nightly(suite="meshes")

MESHES = [("gpt2", (2, 2)), pytest.param("llama", (4, 1), marks=NIGHTLY)]
if os.environ.get("TT_ALL_MESHES"):
    MESHES = [(shape, mesh) for shape in SHAPES for mesh in [(2, 1), (4, 1), (1, 2), (2, 2), (4, 2)]]
GLOBAL_BATCH = 4


def close(found: Tensor, wanted: Tensor, relative: float, floor: float = 0.0) -> str | None:
    """What is wrong, measured by the largest number; None if nothing."""
    if found.shape != wanted.shape:
        return f"shape {tuple(found.shape)}, expected {tuple(wanted.shape)}"
    if wanted.numel() == 0:
        return None
    found, wanted = found.double(), wanted.double()
    error = (found - wanted).abs().max().item()
    largest = wanted.abs().max().item()
    return None if error <= relative * largest + floor else f"off by {error:.3g} of {largest:.3g}"


def assert_close(found: Expected, wanted: Expected, relative: float) -> None:
    """Loss, gradients and saves. A gradient that is truly 0 may be rounding: of the whole norm."""
    assert found.loss == pytest.approx(wanted.loss, rel=relative)
    norm = torch.stack([g.norm() for g in wanted.gradients.values()]).norm().item()
    wrong = {}
    for name, gradient in wanted.gradients.items():
        wrong[name] = close(found.gradients[name], gradient, relative, 1e-14 * norm)
    assert found.saved.keys() == wanted.saved.keys()
    for key, value in wanted.saved.items():
        wrong[f"saved {key}"] = close(found.saved[key], value, relative)
    assert not {name: why for name, why in wrong.items() if why is not None}


def observed_step(observed: Observed, name: str, step: int) -> Expected:
    export = observed.run.export(step)
    return Expected(export.loss, export.gradients, observed.of_step(name, step))


def in_pytorch(graph: Graph, observed: Observed, placed: Scheduled, world: World) -> list[Expected]:
    """The program's steps, one after the other, from the weights and tokens of each."""
    results: list[Expected] = []
    before = None
    for index, step in enumerate(placed.steps):
        acts = graph if graph.acts(index) else untouched(graph)
        results.append(expected(acts, observed.run.export(step), world, step, before))
        before = results[-1].saved
    return results


def noise_of(observed: Observed, name: str, world: World) -> World:
    """The world with the random numbers that the program said it used."""
    return World(world.vectors, world.files, lambda save, step, row, layer: observed.saved[
        name, save, step, row, layer if (name, save, step, row, layer) in observed.saved else 0])


@pytest.mark.parametrize("shape", ["gpt2", pytest.param("llama", marks=NIGHTLY)])
@pytest.mark.parametrize("name", EVERYTHING)
def test_equals_pytorch(name: str, shape: str, runs: Runs) -> None:
    """Within 1e-9 of each tensor's largest number, in float64."""
    graph = EVERYTHING[name]
    observed, placed = runs.of(name, shape, (1, 1))
    world = noise_of(observed, name, runs.world)
    for step, wanted in zip(placed.steps, in_pytorch(graph, observed, placed, world), strict=True):
        sent = {k: v for k, v in wanted.saved.items() if k[0] not in graph.kept}
        found = observed_step(observed, name, step)
        drawn = {k: v for k, v in found.saved.items() if is_noise(graph, k[0])}
        assert_close(found, Expected(wanted.loss, wanted.gradients, sent | drawn), 1e-9)


def is_noise(graph: Graph, save: str) -> bool:
    return save not in {*graph.saves, *graph.layered}


@pytest.mark.parametrize(("shape", "mesh"), MESHES, ids=str)
@pytest.mark.parametrize("name", EVERYTHING)
def test_every_mesh_is_the_same(name: str, shape: str, mesh: tuple[int, int], runs: Runs) -> None:
    """Within 1e-12 of each tensor's largest number of the one-rank run; noise bit for bit."""
    alone, placed = runs.of(name, shape, (1, 1))
    split, _ = runs.of(name, shape, mesh)
    for step in placed.steps:
        found, wanted = observed_step(split, name, step), observed_step(alone, name, step)
        assert_close(found, wanted, 1e-12)
        for key, value in wanted.saved.items():
            if is_noise(EVERYTHING[name], key[0]):
                assert torch.equal(found.saved[key], value), key


@pytest.mark.parametrize(
    ("shape", "mesh"), [("gpt2", (1, 1)), pytest.param("llama", (1, 1), marks=NIGHTLY), *MESHES], ids=str
)
@pytest.mark.parametrize("name", EVERYTHING)
def test_it_acts_exactly_once(name: str, shape: str, mesh: tuple[int, int], runs: Runs) -> None:
    """In every forward of its steps, on all ranks, and in no other step."""
    graph = EVERYTHING[name]
    observed, placed = runs.of(name, shape, mesh)
    told = {step: one for (program, step), one in observed.applied.items() if program == name}
    acted = {step for step, one in told.items() if one["forwards"]}
    wanted = {step for index, step in enumerate(placed.steps) if graph.acts(index)}
    assert acted <= wanted
    for step in wanted if acting(graph) else ():
        one = told[step]
        waits = "saved(" in graph.text and step == placed.first
        assert one["failed"] == 0, dump(one)
        assert (one["waiting"] > 0) == waits, dump(one)
        if not waits:
            assert one["forwards"] == GLOBAL_BATCH // MICRO_BATCH, dump(one)
            assert one["ranks"] == one["of_ranks"] == mesh[0] * mesh[1], dump(one)
    if name == "identity":
        assert told[placed.first]["identity"] > 0


def test_noise_is_what_it_says(runs: Runs) -> None:
    """Normal with deviation 1 and uniform in [0, 1), and another one for every place, row and seed."""
    def drawn(name: str, save: str) -> Tensor:
        observed, placed = runs.of(name, "gpt2", (1, 1))
        found = observed.of_step(name, placed.first)
        chosen = [value.flatten() for key, value in sorted(found.items()) if key[0] == save]
        assert len(chosen) == LAYERS * GLOBAL_BATCH // MICRO_BATCH
        return torch.stack(chosen)

    normal, uniform = drawn("noise1_mlp", "mlp"), drawn("noise2_mlp", "mlp")
    assert abs(normal.mean()) < 5 / normal.numel() ** 0.5
    assert abs(normal.var() - 1) < 5 * (2 / normal.numel()) ** 0.5
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 5 * (1 / 12 / uniform.numel()) ** 0.5
    assert abs(uniform.var() - 1 / 12) < 5 * (1 / 180 / uniform.numel()) ** 0.5
    # Drawn with the bits of float32, so that a few of them may be equal.
    assert normal.unique().numel() >= normal.numel() - 8, "places, rows or positions share numbers"
    related = torch.corrcoef(normal) - torch.eye(len(normal))
    assert related.abs().max() < 6 / normal.shape[1] ** 0.5


def test_weights_meet_one_noise_per_step(runs: Runs) -> None:
    """The numbers belong to the matrix, not to the rows of the batch."""
    observed, placed = runs.of("noise1_weights", "gpt2", (1, 1))
    found = observed.of_step("noise1_weights", placed.first)
    for layer in range(1, LAYERS + 1):
        first, *others = [v for (save, _, at), v in found.items() if (save, at) == ("fc1", layer)]
        assert others and all(torch.equal(first, other) for other in others)


def test_seeds_give_other_noise(runs: Runs) -> None:
    observed, placed = runs.of("seeds", "gpt2", (1, 1))
    found = observed.of_step("seeds", placed.first)
    first, second = found["n", 0, 0].flatten(), found["m", 0, 0].flatten()
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 6 / first.numel() ** 0.5


def test_quiet_programs_change_no_bit(runs: Runs, flags, tmp_path: Path) -> None:
    """Steps in which programs change nothing are those of a run that knows no programs."""
    quiet = [runs.of(name, "gpt2", (1, 1)) for name, graph in EVERYTHING.items() if not graph.changes]
    last = max(placed.steps[-1] for _, placed in quiet)
    alone = train(dict(flags) | TINY | {"train_iters": last}, tmp_path, export_at=f"2-{last}")
    for observed, placed in quiet:
        for step in placed.steps:
            wanted, found = alone.export(step), observed.run.export(step)
            assert wanted.loss == found.loss, placed.graph.name
            for key, gradient in wanted.gradients.items():
                assert torch.equal(gradient, found.gradients[key]), (placed.graph.name, key)
