"""The tracer in trainings whose ranks share each sequence: its records are those of the whole sequences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import context_training as training
import numpy as np
import pytest
import torch
from forked_ranks import run_ranks
from mesh_training import LAYERS, ROWS, STEPS, batch_of
from tensor_tracer.attaching.contexts import Contexts
from tensor_tracer.record import Record
from test_attach_mesh import PLACES, WHOLE, in_layer
from test_attach_safety import EVERY, EVERYTHING, environment, options, records
from torch import Tensor

pytestmark = pytest.mark.nightly(suite="attach")

WITH_TOKENS = {"entries": [*EVERYTHING["entries"], {"point": "InputTokens", **EVERY}]}
WITH_UPDATES = {"entries": [*EVERYTHING["entries"], {"point": "Updates", **EVERY}]}
# Programs that use positions, sums over a sequence, other layers, and random numbers.
PROGRAMS = {
    "noise": "layers[1].output = layers[1].output + 0.1 * noise(layers[1].output)",
    "position": "layers[1].output[:, 3] = layers[1].output[:, 3] * 2",
    "scaled": "layers[2].self_attn.o_proj.output = layers[2].self_attn.o_proj.output * layers[1].output.norm(dim=-1, keepdim=True)",
    "mean": "layers[2].output = layers[2].output - layers[1].output.mean(1, keepdim=True)",
}


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("shape", "order"),
    [((1, 2, 1), "zigzag"), ((1, 4, 1), "contiguous"), ((2, 2, 1), "zigzag")],
    ids=["two contexts", "four contexts", "two replicas"],
)
def test_records_are_those_of_whole_sequences(shape: tuple[int, int, int], order: str, tmp_path: Path) -> None:
    ranks, single, found = both(shape, order, tmp_path)
    compare(ranks, single, found, shape, lambda name: WHOLE)
    problems = {one["path"]: one["problem"] for one in ranks[0]["points"] if one["problem"]}
    assert "the queries of its tokens alone" in problems["layers[1].self_attn.scores"]
    assert {one.point for one in found} >= {"HiddenStates", "Embedding", "Logits", "FinalNorm", "LogitLens", "InputTokens"}


@pytest.mark.parametrize("sharing", ["tensor", "sequence"])
def test_records_on_a_mesh_with_tensor_parallelism(sharing: str, tmp_path: Path) -> None:
    """The tensor-parallel ranks have the same tokens, or a part of those of their context."""
    ranks, single, found = both((1, 2, 2), "zigzag", tmp_path, sharing)
    compare(ranks, single, found, (1, 2, 2), lambda name: PLACES[sharing][in_layer(name)])
    problems = {one["path"]: one["problem"] for one in ranks[0]["points"]}
    assert "tensor-parallel ranks share its features" in problems["layers[1].self_attn.q_proj.output"]


@pytest.mark.parametrize(
    ("shape", "sharing"), [((1, 2, 1), "none"), ((1, 1, 2), "sequence"), ((1, 2, 2), "tensor"), ((1, 2, 2), "sequence")]
)
def test_programs_act_on_whole_sequences(shape: tuple[int, int, int], sharing: str, tmp_path: Path) -> None:
    found = {}
    for name, of in (("one", (1, 1, 1)), ("ranks", shape)):
        folder = tmp_path / name
        arguments: Any = (of, "zigzag", options(folder, plan=WITH_UPDATES), PROGRAMS, sharing)
        for one in run_ranks(training.train, of[1] * of[2], folder, *arguments, env=environment(folder)):
            assert one["refused"] == {}
        found[name] = {key_of(record): record.values for record in records(folder)}
    assert {key[0] for key in found["ranks"]} >= {"HiddenStates", "AttentionOutput", "FinalNorm", "Updates"}
    for key, values in found["ranks"].items():
        if key in found["one"] and key[0] != "mlp.act_fn.output":  # without contexts, it is rank-local
            assert np.abs(found["one"][key] - values).max() <= 1e-5 * np.abs(values).max(), key


def test_the_tracer_changes_no_loss(tmp_path: Path) -> None:
    env = environment(tmp_path)
    losses = [
        [one["losses"] for one in run_ranks(training.train, 2, tmp_path / str(number), (1, 2, 1), "zigzag", attach, {}, env=env)]
        for number, attach in enumerate((options(tmp_path), None))
    ]
    assert losses[0] == losses[1] and len(set(losses[0][0])) == STEPS


@pytest.mark.parametrize(
    ("order", "group", "told"),
    [
        (None, "cp", "context_parallel_order: it is not known which tokens of a sequence a rank has; give 'zigzag'"),
        ("zig-zag", "cp", "context_parallel_order: 'zig-zag' is neither 'contiguous' nor 'zigzag'"),
        ("zigzag", "tp", "are not in ascending order"),
    ],
)
def test_errors(order: str | None, group: str, told: str, tmp_path: Path) -> None:
    for message in run_ranks(training.refused, 4, tmp_path, order, group, options(tmp_path), env=environment(tmp_path)):
        assert told in message


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_the_owners_of_blocks(ranks: int, parts: int) -> None:
    """`parts`: into which tensor-parallel ranks cut the tokens of a context-parallel rank."""
    contexts, tokens = Contexts(ranks, "zigzag"), 2 * 3 * 4 * ranks
    blocks = contexts.blocks(parts) or [0] * (ranks == 1)
    owners = np.repeat(blocks, tokens // len(blocks))
    pieces = np.split(np.arange(tokens), 2 * ranks)
    for rank in range(ranks):
        own = np.concatenate([pieces[rank], pieces[2 * ranks - 1 - rank]])
        assert np.array_equal(contexts.positions(rank, len(own)), own)
        for part, held in enumerate(np.split(own, parts) if ranks > 1 else ()):
            assert np.array_equal(np.flatnonzero(owners == rank * parts + part), held)


def key_of(record: Record) -> tuple[Any, ...]:
    return record.point, record.layer, record.direction, record.step


def both(
    shape: tuple[int, int, int], order: str, folder: Path, sharing: str = "none"
) -> tuple[list[dict[str, Any]], dict[str, Any], list[Record]]:
    """What each rank of the traced training kept, what one process kept, and the records."""
    env, attach = environment(folder), options(folder, plan=WITH_TOKENS)
    count = shape[0] * shape[1] * shape[2]
    arguments: Any = (shape, order, attach, {}, sharing)
    ranks = run_ranks(training.train, count, folder / "ranks", *arguments, env=env)
    (single,) = run_ranks(training.train, 1, folder / "one", (1, 1, 1), order, None, {}, sharing, env=env)
    return ranks, single, records(folder)


def compare(
    ranks: list[dict[str, Any]], single: dict[str, Any], found: list[Record], shape: tuple[int, int, int],
    how: Callable[[str], str],
) -> None:  # fmt: skip
    """`how`: the tensor-parallel ranks share a tensor. Every place was recorded in both directions."""
    places = {(one["name"], one["layer"]): one for one in ranks[0]["points"] if not one["problem"]}
    rows, seen = ROWS // shape[0], set()
    for record in found:
        if record.point == "InputTokens":
            assert torch.equal(torch.from_numpy(record.values[0].copy()), batch_of(record.step)[:rows]), record
        place = places.get((record.point, record.layer))
        if place is None or not place["path"].endswith(("input", "output")):  # computed by the tracer
            continue
        name = f"{place['module']}.{place['path'].rpartition('.')[2]}"
        kind = "gradients" if record.direction == "gradient" else "values"
        wanted = joined(ranks, shape, kind, (record.step, name), how(name))
        values = torch.from_numpy(record.values.copy())
        assert torch.equal(values, wanted), record
        of_one = single[kind][record.step, name][:rows] * (shape[0] if kind == "gradients" else 1)
        assert (values - of_one).abs().max() <= 1e-5 * of_one.abs().max(), record
        seen.add((record.point, record.layer, record.direction, record.step))
    expected = {
        (*key, direction, step)
        for key, place in places.items() if place["path"].endswith(("input", "output"))
        for direction in ("value", "gradient") if direction == "value" or not place["gradient_problem"]
        for step in range(2, STEPS + 1)
    }  # fmt: skip
    assert seen == expected and len({key[:2] for key in seen}) > 5 * LAYERS


def joined(ranks: list[dict[str, Any]], shape: tuple[int, int, int], kind: str, key: Any, how: str) -> Tensor:
    """The tensor of data replica 0, from the parts of its ranks."""
    parts = []
    for context in range(shape[1]):
        of_context = ranks[context * shape[2] : (context + 1) * shape[2]]
        held = [one[kind][key] for one in of_context]
        if kind == "gradients" and key in of_context[0]["partial"]:
            held, how = [torch.stack(held).sum(0)], WHOLE
        if how == WHOLE:
            assert all(torch.equal(one, held[0]) for one in held), key
        parts.append(held[0] if how == WHOLE else torch.cat(held, 1))
    whole = torch.empty_like(torch.cat(parts, 1))
    for context, part in enumerate(parts):
        whole[:, ranks[context * shape[2]]["own"]] = part
    return whole
