"""The tracer in trainings whose ranks share each sequence: its records are those of the whole sequences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import context_training as training
import numpy as np
import pytest
import torch
from forked_ranks import Ranks, run_ranks
from mesh_training import LAYERS, ROWS, STEPS, batch_of
from tensor_tracer.attaching.contexts import Contexts
from tensor_tracer.attaching.layouts import Layout
from tensor_tracer.attaching.learning import Seen
from tensor_tracer.attaching.table import Batch, describe, make_sites
from tensor_tracer.record import Record
from test_attach_mesh import COLUMNS, PLACES, WHOLE, in_layer
from test_attach_safety import EVERY, EVERYTHING, environment, options, records
from torch import Tensor, nn

pytestmark = pytest.mark.nightly(suite="attach")

WITH_TOKENS = {"entries": [*EVERYTHING["entries"], {"point": "InputTokens", **EVERY}]}
WITH_UPDATES = {"entries": [*EVERYTHING["entries"], {"point": "Updates", **EVERY}]}
# Programs that use positions, sums over a sequence, other layers, and random numbers.
PROGRAMS = {
    "noise": "layers[1].output = layers[1].output + 0.1 * noise(layers[1].output)",
    "position": "layers[1].output[:, 3] = layers[1].output[:, 3] * 2",
    "scaled": "layers[2].self_attn.o_proj.output = layers[2].self_attn.o_proj.output * (1 + layers[1].output.mean(dim=-1, keepdim=True))",
    "lens": "layers[2].output = layers[2].output * (1 + 0.1 * output_layer(final_norm(layers[1].output[:, 2:4])).mean())",
    "mean": "layers[2].output = layers[2].output - layers[1].output.mean(1, keepdim=True)",
    "tokens": 'layers[2].output *= 1.5\nwhen(tokens="1-3", rows="0")',
    "last token": 'layers[1].output = 0.5\nwhen(tokens="-1")',
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
    assert "programs do not act on weights" in problems["layers[1].mlp.down_proj.weight"]
    assert {one.point for one in found} >= {"HiddenStates", "Embedding", "Logits", "FinalNorm", "LogitLens", "InputTokens"}


@pytest.mark.parametrize("sharing", ["tensor", "sequence"])
def test_records_on_a_mesh_with_tensor_parallelism(sharing: str, tmp_path: Path) -> None:
    """The tensor-parallel ranks have the same tokens, or a part of those of their context."""
    ranks, single, found = both((1, 2, 2), "zigzag", tmp_path, sharing)
    compare(ranks, single, found, (1, 2, 2), lambda name: PLACES[sharing][in_layer(name)])


@pytest.mark.parametrize(
    ("shape", "sharing", "order", "refused"),
    [((1, 2, 1), "none", "zigzag", {}), ((1, 1, 2), "sequence", "zigzag", {}), ((1, 2, 2), "tensor", "contiguous", {}),
     *[((1, 2, 2), "sequence", order, {"lens": "tensor-parallel ranks must not share the vocabulary"})
       for order in ("zigzag", "contiguous")]],
)  # fmt: skip
def test_programs_act_on_whole_sequences(
    shape: tuple[int, int, int], sharing: str, order: str, refused: dict[str, str], tmp_path: Path
) -> None:
    found = {}
    accepted = {name: text for name, text in PROGRAMS.items() if name not in refused}
    for name, of, programs in (("one", (1, 1, 1), accepted), ("ranks", shape, PROGRAMS)):
        folder = tmp_path / name
        arguments: Any = (of, order, options(folder, plan=WITH_UPDATES), programs, sharing)
        ranks = run_ranks(training.train, of[1] * of[2], folder, *arguments, env=environment(folder))
        found[name] = {key_of(record): record.values for record in records(folder)}
    assert ranks[0]["refused"].keys() == refused.keys()
    assert all(text in ranks[0]["refused"][name] for name, text in refused.items())
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
    ("order", "kind", "told"),
    [
        (None, "right", "context_parallel_order: it is not known which tokens of a sequence a rank has; give 'zigzag'"),
        ("zig-zag", "right", "context_parallel_order: 'zig-zag' is neither 'contiguous' nor 'zigzag'"),
        ("zigzag", "swapped", "which do not ascend; give each tensor-parallel group other ranks"),
        ("zigzag", "the same", "which do not ascend; give each tensor-parallel group other ranks"),
        ("zigzag", "none", "context_parallel_order: there is no group whose ranks share sequences"),
        ("zigzag", "a mesh on one rank", "context_parallel_group: a mesh of 2 axes is no group of ranks"),
        ("zigzag", "a list", "context_parallel_group: a list is no group of ranks"),
    ],
)
def test_errors(order: str | None, kind: str, told: str, tmp_path: Path) -> None:
    """On every rank."""
    for message in run_ranks(training.refused, 4, tmp_path, order, kind, options(tmp_path), env=environment(tmp_path)):
        assert told in message


LENGTHS = [
    pytest.param([[4, 4], [4, 4], [6, 6], [4, 4]], [2, 4], "step 3 has a forward that is neither traced", id="another length"),
    pytest.param([[4, 4], [4, 4], [5, 4], [4, 4]], [2, 4], "they have (2, 5), (2, 4)", id="unequal lengths"),
    pytest.param([[4, 4], [5, 5], [4, 4], [4, 4]], [3, 4], "they have (2, 5), (2, 5)", id="an odd length"),
    pytest.param([[5, 4], [5, 4], [5, 4], [5, 4]], [], "", id="unequal from the first step on"),
    pytest.param([[5, 5], [5, 5], [5, 5], [5, 5]], [], "", id="odd from the first step on"),
]


@pytest.mark.parametrize(("lengths", "steps", "told"), LENGTHS)
def test_forwards_of_other_lengths_are_left_out(
    lengths: list[list[int]], steps: list[int], told: str, tmp_path: Path
) -> None:
    """And the training goes on."""
    attach = options(tmp_path)
    ended = Ranks(training.of_lengths, 2, tmp_path, lengths, attach, env=environment(tmp_path)).wait()
    assert [one.exit_code for one in ended] == [0, 0], [one.output for one in ended]
    assert told in ended[0].output
    assert sorted({record.step for record in records(tmp_path)}) == steps


def test_one_rank_may_evaluate_what_nobody_watches(tmp_path: Path) -> None:
    attach = options(tmp_path, plan={"entries": [{"point": "HiddenStates", "phases": ["train"], **EVERY}]})
    env = environment(tmp_path) | {"GROUP_SECONDS": "20"}
    ended = Ranks(training.of_lengths, 2, tmp_path, [[4, 4]] * 3, attach, True, env=env).wait()
    assert all("off from step" not in one.output for one in ended), [one.output for one in ended]
    assert sorted({record.step for record in records(tmp_path)}) == [2, 3]


@pytest.mark.parametrize(
    ("packed", "told", "steps"),
    [([1, 2, 3, 4], "the tracer is off from step 2 on", []), ([3], "forwards with packed_seq_params are neither", [2, 4])],
    ids=["all", "one"],
)
def test_packed_sequences_are_left_out(packed: list[int], told: str, steps: list[int], tmp_path: Path) -> None:
    attach = options(tmp_path)
    ended = Ranks(training.of_packed, 2, tmp_path, packed, attach, env=environment(tmp_path)).wait()
    assert [one.exit_code for one in ended] == [0, 0], [one.output for one in ended]
    assert ended[0].output.count(told) == 1 and "no forward with gradients" not in ended[0].output
    assert sorted({record.step for record in records(tmp_path)}) == steps


def test_later_stages_leave_out_an_evaluation_of_another_length(tmp_path: Path) -> None:
    plan = {"entries": [{"point": "HiddenStates", "phases": ["train", "eval"], **EVERY}]}
    ended = Ranks(training.stages_of_lengths, 4, tmp_path, options(tmp_path, plan=plan), env=environment(tmp_path)).wait()
    assert [one.exit_code for one in ended] == [0] * 4, [one.output for one in ended]
    assert all("step 2 has a forward that is neither traced" in ended[rank].output for rank in (0, 2))
    found = {(record.layer, record.step, record.phase) for record in records(tmp_path)}
    assert found == {(layer, step, "train") for layer in (1, 2, 3) for step in (2, 3, 4)}


@pytest.mark.parametrize("axis", ["dp", "cp"])
def test_updates_count_each_shard_once(axis: str, tmp_path: Path) -> None:
    attach = options(tmp_path, plan={"entries": [{"point": "Updates", **EVERY}]})
    norms = run_ranks(training.sharded_updates, 4, tmp_path, axis, attach, env=environment(tmp_path))[0]
    (record,) = records(tmp_path)
    assert np.allclose(record.values[0, :, 1], norms, rtol=1e-6)


def test_a_place_whose_gradient_is_a_sum_is_not_in_programs() -> None:
    """Its parts would have to be put together over the contexts and added up over the tensor-parallel ranks."""
    batch = Batch(2, 8, contexts=Contexts(2, "zigzag"))
    for problem in ("", "each rank has a part of the sum"):
        layout = Layout(source="a class", gradient_problem=problem)
        seen = Seen("norm", nn.LayerNorm(4), "output", None, (2, 4, 4), torch.float32, layout, 0, False)
        (site,) = make_sites([seen], {}, batch, 2)
        site.name = "norm"
        row = describe(site, 0, set())
        assert row["in_programs"] == row["writable"] == (not problem) and row["dim"] == 1


def test_the_same_tokens_on_all_ranks_are_told(tmp_path: Path) -> None:
    ended = Ranks(training.the_same, 2, tmp_path, options(tmp_path), env=environment(tmp_path)).wait()
    assert "the context-parallel ranks have the same tokens" in ended[0].output


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
        parts.append(held[0] if how == WHOLE else torch.cat(held, -1 if how == COLUMNS else 1))
    whole = torch.empty_like(torch.cat(parts, 1))
    for context, part in enumerate(parts):
        whole[:, ranks[context * shape[2]]["own"]] = part
    return whole
