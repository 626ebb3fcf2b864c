"""Nothing that goes wrong with the tracer reaches the training, and nothing is silent: attached trainings on forked
ranks, beside the same trainings without the tracer."""

from __future__ import annotations

import contextlib
import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import attach_scenarios as scenarios
import pytest
import torch
from forked_ranks import Ended, Ranks, run_ranks
from program import REPOSITORY
from tensor_tracer import RecordError, open_recording
from tensor_tracer.record import Record

pytestmark = pytest.mark.nightly(suite="attach")

EVERY = {"rows": 0, "compressor": {"kind": "none"}}
EVERYTHING = {"entries": [{"point": "*", **EVERY}, {"point": "*", "direction": "gradient", **EVERY}]}
BUILD = os.environ.get("TENSOR_TRACER_BUILD", str(REPOSITORY / "build/release"))


def environment(folder: Path) -> dict[str, str]:
    return {"TENSOR_TRACER_BUILD": BUILD, "FOLDER": str(folder)}


def options(folder: Path, **more: Any) -> dict[str, Any]:
    return {"port": 0, "run_dir": str(folder / "run"), "record": str(folder / "record"), "plan": EVERYTHING} | more


def both(work: Any, ranks: int, folder: Path, *arguments: Any, **more: Any) -> tuple[list[Ended], list[Ended]]:
    """With and without the tracer. All ranks must succeed."""
    ended = []
    for name in ("with", "without"):
        place = folder / name
        attach = options(place, **more) if name == "with" else None
        ended.append(Ranks(work, ranks, place, attach, *arguments, env=environment(place)).wait())
        assert all(one.exit_code == 0 for one in ended[-1]), [one.output for one in ended[-1]]
    return ended[0], ended[1]


def records(folder: Path) -> list[Record]:
    """Of all recordings: a hub that takes the place of a dead one begins a new file."""
    found = []
    for file in (folder / "record").glob("*.ttrec"):
        with contextlib.suppress(RecordError), open_recording(file) as recording:  # the dead hub may have written no run
            found += list(recording.records())
    return found


def results(ended: list[Ended]) -> list[Any]:
    return [one.result for one in ended]


@pytest.mark.smoke
@pytest.mark.parametrize(("which", "told"), [("hub", "no contact with the hub"), ("supervisor", "the hub has ended")])
def test_the_hub_may_die(which: str, told: str, tmp_path: Path) -> None:
    watched, alone = both(scenarios.kill_hub, 1, tmp_path, which)
    assert results(watched) == results(alone)
    assert told in watched[0].output
    steps = {record.step for record in records(tmp_path / "with")}
    assert (8 in steps) == (which == "hub")


def test_a_viewer_may_die(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    attach = options(tmp_path / "with")
    training = Ranks(scenarios.lose_viewer, 1, tmp_path / "with", attach, str(gone), env=environment(tmp_path))
    viewer = Ranks(scenarios.watch_and_die, 1, tmp_path / "viewer", attach["run_dir"], str(gone), env={})
    assert viewer.wait()[0].exit_code == -9 and gone.exists()
    (ended,) = training.wait()
    assert ended.exit_code == 0, ended.output
    place = tmp_path / "without"
    arguments = None, "plain", "none", len(ended.result)
    assert run_ranks(scenarios.train, 1, place, *arguments, env=environment(place)) == [ended.result]


def test_a_pause_may_last_longer_than_the_limit_of_the_groups(tmp_path: Path) -> None:
    env = environment(tmp_path) | {"GROUP_SECONDS": "4"}
    ranks = Ranks(scenarios.pause, 2, tmp_path / "with", options(tmp_path / "with"), 8.0, env=env)
    ended = ranks.wait()
    assert [one.exit_code for one in ended] == [0, 0], [one.output for one in ended]
    assert all("the tracer is off" not in one.output for one in ended) and ended[0].seconds > 8
    place = tmp_path / "without"
    arguments = None, "plain", "ddp", len(ended[0].result)
    assert run_ranks(scenarios.train, 2, place, *arguments, env=environment(place)) == results(ended)


def test_a_loss_that_is_not_finite_is_logged_and_other_values_are_refused(tmp_path: Path) -> None:
    values = [1.0, float("nan"), float("inf"), 2.0, torch.ones(2), "much", 3.0]
    [refusals] = run_ranks(scenarios.logged, 1, tmp_path, options(tmp_path), values, env=environment(tmp_path))
    assert [refusal.partition(";")[0] for refusal in refusals] == [
        "log(loss=...): tensor([1., 1.]) is no number", "log(loss=...): 'much' is no number"]  # fmt: skip
    assert {record.step for record in records(tmp_path)} == set(range(2, 8)), "the tracer stays on"
    with open_recording(next((tmp_path / "record").glob("*.ttrec"))) as recording:
        steps, losses = recording.scalars("loss")
    assert (list(steps), list(losses)) == ([1, 4, 7], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("kind", ["plain", "gpt2"])
def test_copies_of_the_model_are_not_traced(kind: str, tmp_path: Path) -> None:
    watched, alone = both(scenarios.copied, 1, tmp_path, kind)
    assert results(watched) == results(alone)
    of_step = Counter(record.step for record in records(tmp_path / "with"))
    assert set(of_step) == {2, 3, 4, 5} and len(set(of_step.values())) == 1


LOST = [
    pytest.param("plain", "ddp", "killed", -9, marks=pytest.mark.smoke, id="ddp-killed"),
    pytest.param("plain", "ddp", "raises", 1, id="ddp-raises"),
    pytest.param("llama", "tp", "killed", -9, id="tp-killed"),
    pytest.param("llama", "tp", "raises", 1, id="tp-raises"),
]


@pytest.mark.parametrize(("kind", "wrap", "how", "code"), LOST)
def test_a_lost_rank_ends_the_run_as_without_the_tracer(
    kind: str, wrap: str, how: str, code: int, tmp_path: Path
) -> None:
    ended = []
    for name in ("with", "without"):
        place = tmp_path / name
        attach = options(place) if name == "with" else None
        ended.append(Ranks(scenarios.lose_rank, 2, place, attach, kind, wrap, how, env=environment(place)).wait())
    watched, alone = ended
    assert [one.exit_code for one in watched] == [one.exit_code for one in alone] == [1, code]
    # Both times the training's own collective tells of the loss.
    its_collective = "loss.backward()" if wrap == "ddp" else "logits = model(ids)"
    assert its_collective in watched[0].output and its_collective in alone[0].output
    assert watched[0].seconds - watched[1].seconds < alone[0].seconds - alone[1].seconds + 5
    assert "the tracer is off from step 4 on" in watched[0].output


WRONG = [
    pytest.param("model.layers.*.self_attn.q_proj.output", "Replicate", id="replicate"),
    pytest.param("model.layers.*.mlp.output", "Shard", id="shard"),
]


@pytest.mark.cpu_only
@pytest.mark.parametrize(("pattern", "kind"), WRONG)
def test_a_wrong_placement_switches_its_place_off(pattern: str, kind: str, tmp_path: Path) -> None:
    from torch.distributed.tensor import Replicate, Shard

    claim = {pattern: Replicate() if kind == "Replicate" else Shard(-1)}
    watched, alone = both(scenarios.train, 2, tmp_path, "llama", "tp", 3, placements=claim)
    assert results(watched) == results(alone)
    assert f"is not traced: placements['{pattern}']" in watched[0].output
    ranks = {"Replicate": "ranks 1 differ from those of rank 0", "Shard": "ranks 0, 1 are the same"}[kind]
    assert watched[0].output.count(ranks) == 3  # layers


@pytest.mark.cpu_only
@pytest.mark.parametrize("point", ["MLP2", "layers[n].mlp.output", "*mlp.output"])
def test_an_entry_of_a_wrong_placement_is_left_out(point: str, tmp_path: Path) -> None:
    from torch.distributed.tensor import Shard

    options = {"placements": {"model.layers.*.mlp.output": Shard(-1)}}
    plan = {"entries": [{"point": point}, {"point": "HiddenStates", "compressor": {"kind": "stats"}}]}
    watched, alone = both(scenarios.train, 2, tmp_path, "llama", "tp", 3, plan=plan, **options)
    assert results(watched) == results(alone)
    assert f"plan entry 0 ({point}) is left out: layers[1].mlp.down_proj.output: placements[" in watched[0].output
    assert {record.point for record in records(tmp_path / "with")} == {"HiddenStates"}


def test_placements_and_names_of_no_tensor_are_told(tmp_path: Path) -> None:
    from torch.distributed.tensor import Shard

    more = {"placements": {"blocks.*.upp.output": Shard(-1)}, "names": {"layers[n].upp.output": "Up"}}
    (one,) = run_with(scenarios.train, 1, tmp_path, "plain", "none", 2, more=more)
    assert "placements: no tensor has a path like 'blocks.*.upp.output'" in one.output
    assert "names: no tensor has the path 'layers[n].upp.output'" in one.output


@pytest.mark.parametrize("which", ["tokens", "rows", "features"])
def test_records_follow_shapes_that_change_between_steps(which: str, tmp_path: Path) -> None:
    watched, alone = both(scenarios.other_shapes, 1, tmp_path, "plain", "none", which)
    assert results(watched) == results(alone)
    of_module = [record for record in records(tmp_path / "with") if (record.point, record.layer) == ("up.output", 2)]
    shapes = {(record.step, record.direction, record.values.shape) for record in of_module}
    later = {"tokens": (4, 10, 64), "rows": (2, 12, 64), "features": (4, 12, 128)}[which]
    for direction in ("value", "gradient"):
        assert {(3, direction, (4, 12, 64)), (5, direction, later)} <= shapes


@pytest.mark.cpu_only
def test_a_sharded_tensor_of_another_shape_is_switched_off(tmp_path: Path) -> None:
    watched, alone = both(scenarios.other_shapes, 2, tmp_path, "llama", "tp", "features")
    assert results(watched) == results(alone)
    steps: dict[tuple[str, int], set[int]] = {}
    for record in records(tmp_path / "with"):
        steps.setdefault((record.point, record.layer), set()).add(record.step)
    assert max(steps["mlp.gate_proj.output", 2]) == 3 and max(steps["HiddenStates", 2]) == 7
    assert "mlp.gate_proj.output" in watched[0].output


EDITS = [
    ("replaced", "no values of layers[2].down"), ("appended", "layers were added, removed or replaced"),
    ("removed", "layers were added, removed or replaced"), ("compiled", "no forward with gradients was seen in step 4"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "told"), EDITS)
def test_an_edited_model_is_told(how: str, told: str, tmp_path: Path) -> None:
    watched, alone = both(scenarios.edit, 1, tmp_path, how)
    assert results(watched) == results(alone)
    assert watched[0].output.count(told) == 1


@pytest.mark.parametrize("which", ["all", "one", "in place"])
def test_compiled_layers_are_watched_or_listed_with_the_reason(which: str, tmp_path: Path) -> None:
    watched, alone = both(scenarios.compiled, 1, tmp_path, which)
    (losses, points), (expected, _) = watched[0].result, alone[0].result
    assert losses == expected
    states = [point for point in points if point["path"] in {f"layers[{n}].output" for n in (1, 2, 3)}]
    assert len(states) == 3
    assert all(("compiled in place" in point["problem"]) == (which == "in place") for point in states)
    layers = {record.layer for record in records(tmp_path / "with") if record.point == "HiddenStates"}
    assert layers == (set() if which == "in place" else {1, 2, 3})


def test_two_models_have_a_tracer_each(tmp_path: Path) -> None:
    watched, alone = both(scenarios.two_models, 1, tmp_path)
    assert results(watched) == results(alone)
    assert len(list((tmp_path / "with/record").glob("*.ttrec"))) == 2


SMOKE = pytest.mark.smoke
SCALES, MAY_SKIP = "layers[2].output *= 1.5", "if layers[1].output.norm() > 1e6: skip(layers[2])"
PLACE_IS_OFF, ALL_IS_OFF = "is not traced any more: forced", "the tracer is off from step 4 on"
FAILURES = [
    pytest.param("plain", "ddp", 0, "capture", "", PLACE_IS_OFF, id="capture", marks=SMOKE),
    pytest.param("plain", "ddp", 1, "begin", "", ALL_IS_OFF, id="begin"),
    pytest.param("plain", "ddp", 1, "before_step", "", ALL_IS_OFF, id="before-step"),
    pytest.param("llama", "tp", 1, "end_forward", "", ALL_IS_OFF, id="end-forward", marks=SMOKE),
    pytest.param("llama", "tp", 1, "end", "", ALL_IS_OFF, id="end"),
    pytest.param("llama", "tp", 0, "capture", "", PLACE_IS_OFF, id="capture-tp"),
    pytest.param("llama", "tp", 1, "skips", MAY_SKIP, ALL_IS_OFF, id="skips"),
]


@pytest.mark.parametrize(("kind", "wrap", "rank", "method", "program", "told"), FAILURES)
def test_an_error_of_the_tracer_does_not_reach_the_training(
    kind: str, wrap: str, rank: int, method: str, program: str, told: str, tmp_path: Path
) -> None:
    watched = run_with(scenarios.fail, 2, tmp_path / "with", kind, wrap, method, rank, program)
    place = tmp_path / "without"
    alone = run_ranks(scenarios.train, 2, place, None, kind, wrap, 7, env=environment(place))
    assert results(watched) == alone
    assert ": forced" in watched[rank].output
    everybody = watched if told == ALL_IS_OFF else [watched[rank]]
    assert all("the tracer is off" in one.output or told in one.output for one in everybody)


def test_a_tracer_that_ends_holds_no_group_of_a_watched_optimizer(tmp_path: Path) -> None:
    """The other rank would wait for it, for half an hour."""
    watched = run_with(scenarios.fail, 2, tmp_path / "with", "llama", "tp", "end_forward", 1, "", True)
    place = tmp_path / "without"
    assert results(watched) == run_ranks(scenarios.train, 2, place, None, "llama", "tp", 7, env=environment(place))
    assert all("the tracer is off" in one.output for one in watched)


@pytest.mark.cpu_only
def test_the_backward_of_a_program_survives_a_tracer_that_ends_before_it(tmp_path: Path) -> None:
    program = "layers[1].mlp.activation -= layers[1].mlp.activation.mean(-1, keepdim=True)"
    watched = run_with(scenarios.fail, 2, tmp_path, "llama", "tp", "end_forward", 1, program)
    losses = [loss for one in results(watched) for loss in one]
    assert len(losses) == 14 and all(math.isfinite(loss) for loss in losses)
    assert all("the tracer is off from step 4 on" in one.output for one in watched)


def test_the_gradient_of_a_shared_value_survives_a_group_that_is_gone() -> None:
    from tensor_tracer.attaching.head import _Shared

    x = torch.ones(3, requires_grad=True)
    (_Shared.apply(x, "gone") * torch.arange(3.0)).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None and x.grad.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(("kind", "wrap", "ranks"), [("plain", "none", 1), ("llama", "tp", 2)])
def test_a_program_that_fails_ends_and_the_training_goes_on(kind: str, wrap: str, ranks: int, tmp_path: Path) -> None:
    watched = run_with(scenarios.fail, ranks, tmp_path / "with", kind, wrap, "apply", ranks - 1, SCALES)
    place = tmp_path / "without"
    alone = run_ranks(scenarios.train, ranks, place, None, kind, wrap, 7, env=environment(place))
    losses = results(watched)[0]
    assert losses[0] == alone[0][0] and losses[1] != alone[0][1] and len(losses) == 7
    assert (ALL_IS_OFF if ranks > 1 else PLACE_IS_OFF) in watched[-1].output


def run_with(work: Any, ranks: int, folder: Path, *arguments: Any, more: Any = None) -> list[Ended]:
    ended = Ranks(work, ranks, folder, options(folder, **(more or {})), *arguments, env=environment(folder)).wait()
    assert all(one.exit_code == 0 for one in ended), [one.output for one in ended]
    return ended


LEFT = [
    pytest.param("plain", "ddp", 2, False, id="ddp", marks=SMOKE), pytest.param("plain", "none", 1, True, id="raises"),
    pytest.param("llama", "tp", 2, False, id="tp"), pytest.param("llama", "tp", 2, True, id="tp-raises"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "wrap", "ranks", "raises"), LEFT)
def test_detach_leaves_nothing_behind(kind: str, wrap: str, ranks: int, raises: bool, tmp_path: Path) -> None:
    for rank, one in enumerate(run_with(scenarios.left_behind, ranks, tmp_path, kind, wrap, raises)):
        assert one.result["after"] == one.result["before"], one.output
        assert one.result["attached"]["hooks"] > one.result["before"]["hooks"]
        if rank == 0:
            assert one.result["attached"]["children"] and one.result["attached"]["ours"]
        if ranks > 1:
            assert one.result["attached"]["groups"] > one.result["before"]["groups"]
            # These threads wake up a hundred times a second: our groups have no such thread. Before 2.13 they have
            # no name.
            assert one.result["attached"]["loops"] == one.result["before"]["loops"]
            assert one.result["before"]["loops"] > 0 or torch.__version__ < "2.13"


def test_a_detached_run_keeps_neither_model_nor_optimizer(tmp_path: Path) -> None:
    assert run_ranks(scenarios.forgotten, 1, tmp_path, options(tmp_path), env=environment(tmp_path)) == [[True, True]]


ERRORS = [
    ("twice", 1, {}, {}, "already_attached", "detach the earlier run first"),
    ("launched", 1, {}, {}, "not_initialized", "after init_process_group"),
    ("meta", 2, {}, {}, "invalid_argument", "meta device"),
    ("no library", 2, {}, {}, "no_extension", "there is no such file"),
    ("port", 2, {}, {}, "port_in_use", "another port"),
    ("", 2, {"first_step": 1}, {"first_step": 5}, "invalid_argument", "first_step: it differs from that of rank 0"),
    ("", 2, {}, {"names": {"blocks.0.output": "Mine"}}, "invalid_argument", "names: it differs"),
    ("", 2, {}, {"placements": {"x": 3}}, "invalid_argument", "3 is not a placement"),
    ("", 2, {}, {"tensor_parallel_axis": ("model",)}, "invalid_argument", "tensor_parallel_axis: it differs"),
    ("", 1, {"names": "megatrom"}, {}, "invalid_argument", "names: 'megatrom' is not known; give hf, megatron, torchtitan"),
    ("", 2, {"plan": {"entries": [{"point": "none*"}]}}, {}, "invalid_argument", "no place has a name like"),
    ("", 2, {"plan": {"entries": [{"point": "Nowhere"}]}}, {}, "invalid_argument", "Nowhere"),
    ("", 2, {"plan": {"entries": 30 * [{"point": "*"}]}}, {}, "invalid_argument", "of '*', the plan has"),
    ("", 2, {"plan": []}, {}, "invalid_argument", "list is no plan"),
    ("", 2, {"files": "/nowhere"}, {"files": None}, "invalid_argument", "there is no folder"),
]


@pytest.mark.parametrize(("what", "ranks", "all_have", "rank_1_has", "code", "text"), ERRORS)
def test_errors_are_those_of_every_rank(
    what: str, ranks: int, all_have: dict, rank_1_has: dict, code: str, text: str, tmp_path: Path
) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = {"port": taken.getsockname()[1]} if what == "port" else {}
        attach = options(tmp_path) | all_have | port
        place = tmp_path / "ranks"
        found = run_ranks(scenarios.attach_error, ranks, place, attach, rank_1_has, what, env=environment(place))
    for has, says, seconds in found:
        assert has == code and text in says and seconds < 20


@pytest.mark.smoke
def test_steps_count_from_the_one_that_the_trainer_names(tmp_path: Path) -> None:
    attach = options(tmp_path, first_step=41)
    run_ranks(scenarios.train, 1, tmp_path / "run", attach, "plain", "none", 3, env=environment(tmp_path))
    with open_recording(next((tmp_path / "record").glob("*.ttrec"))) as recording:
        assert list(recording.scalars("loss")[0]) == [41, 42, 43]
    assert {record.step for record in records(tmp_path)} == {42, 43}


def test_what_rank_0_gives_counts(tmp_path: Path) -> None:
    """Another plan, port, recording or folder of vectors of rank 1 changes nothing, and nobody waits."""
    others = {"plan": "/nowhere.json", "port": 1, "vectors": "/nowhere", "record": None}
    attach = options(tmp_path)
    place = tmp_path / "ranks"
    found = run_ranks(scenarios.attach_error, 2, place, attach, others, env=environment(place))
    assert [code for code, _, _ in found] == ["", ""], found
    assert {record.step for record in records(tmp_path)} == {2, 3}


@pytest.mark.parametrize("what", ["evaluation", "calls", pytest.param("late", marks=SMOKE), "shapes"])
def test_ranks_may_do_different_things(what: str, tmp_path: Path) -> None:
    watched, alone = both(scenarios.uneven, 2, tmp_path, what)
    assert results(watched) == results(alone)
    assert {record.step for record in records(tmp_path / "with")} >= {3, 4, 5}


@pytest.mark.parametrize("where", ["rank 1", "everywhere"])
def test_an_exception_in_a_step_may_be_caught(where: str, tmp_path: Path) -> None:
    watched, alone = both(scenarios.recover, 2, tmp_path, where)
    assert results(watched) == results(alone)
    steps = {record.step for record in records(tmp_path / "with")}
    assert {2, 4, 5} <= steps


SKIPS = [
    pytest.param("gpt2", "ddp", 2, "skip(layers[2])", [2], id="gpt2-ddp"),
    pytest.param("llama", "none", 1, "skip(layers[1])\nskip(layers[2])", [1, 2], id="llama"),
    pytest.param("llama", "fsdp", 2, "skip(layers[3])", [3], id="llama-fsdp"),
    pytest.param("llama", "tp", 2, "skip(layers[2])", [2], id="llama-tp"),
]


@pytest.mark.parametrize(("kind", "wrap", "ranks", "program", "skipped"), SKIPS)
def test_programs_skip_layers(
    kind: str, wrap: str, ranks: int, program: str, skipped: list[int], tmp_path: Path
) -> None:
    watched, replaced = both(scenarios.steer, ranks, tmp_path, kind, wrap, program, skipped)
    place = tmp_path / "plain"
    plain = run_ranks(scenarios.train, ranks, place, None, kind, wrap, 6, env=environment(place))
    assert results(watched) == results(replaced)
    assert results(watched)[0][:2] == plain[0][:2] and results(watched)[0][2:] != plain[0][2:]
