"""Interventions of live runs under the protocol: when they begin and end, exactly how often they
act on every mesh, sliders in mid-run, leases, and what is refused."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoder import decode
from test_control import claim
from viewer import LiveRun, RequestError, Viewer, live_run

NIGHTLY = pytest.mark.nightly(suite="meshes")
LESS_OFTEN = [pytest.param(mesh, marks=NIGHTLY) for mesh in [(1, 1), (2, 1), (1, 2)]]

SEQUENCE, MICRO_BATCH = 16, 2
SMALL = {"train_iters": 100_000, "seq_length": SEQUENCE, "micro_batch_size": MICRO_BATCH}
HALVE = "layers[1].mlp.output *= 0.5"
SHARDED = "layers[2].attention.query *= 2"
GATHERED = "x = layers[1].mlp.fc1\nlayers[1].mlp.fc1 = x - x.mean(dim=-1, keepdim=True)"
ALPHA = (
    "alpha = param(0.5, min=0.0, max=2000.0)\n"
    'save(alpha + 0.0 * layers[1].output[0, 0, 0], "alpha")\n'
    "layers[1].output *= 1 + 1e-6 * alpha"
)
PROMPTS = ["def f(x):", "é", "a longer one, é"]


def apply(viewer: Viewer, name: str, program: Any, **more: Any) -> dict[str, Any]:
    return viewer.request("intervention.apply", {"name": name, "program": program} | more)


def paused(viewer: Viewer) -> int:
    claim(viewer)
    return viewer.request("control.pause")["step"]


def step(viewer: Viewer, count: int = 1) -> int:
    """Does so many steps, and waits for what they told."""
    last = viewer.request("control.step", {"count": count})["step"]
    viewer.drain(0.3)
    return last


def in_force(viewer: Viewer) -> list[str]:
    """The names of the programs that the last notification told of."""
    viewer.drain(0.1)
    return [program["name"] for program in viewer.named("interventions")[-1]["programs"]]


def applied(viewer: Viewer, name: str) -> dict[int, dict[str, Any]]:
    """What a program did, by step."""
    return {
        one["step"]: program
        for one in viewer.named("applied") for program in one["programs"] if program["name"] == name
    }  # fmt: skip


def saved(viewer: Viewer, name: str) -> dict[int, float]:
    """A number that a program saved in the first micro-batch, by step."""
    return {one["step"]: float(one["values"][0]) for one in viewer.named("saved")
            if one["name"] == name and one["micro_batch"] == 0}  # fmt: skip


@pytest.fixture(scope="module", params=[1, 2], ids=["alone", "tensor2"])
def run(request: pytest.FixtureRequest, flags, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    """A run for all tests that leave it as they found it."""
    changes = SMALL | {"tensor_model_parallel_size": request.param}
    folder = tmp_path_factory.mktemp("controlled")
    with live_run(flags | changes, folder, request.param) as live:
        yield live


@pytest.fixture
def viewer(run: LiveRun) -> Iterator[Viewer]:
    """The controller; in the end no program is in force and the run goes on."""
    with run.viewer() as viewer:
        yield viewer
        claim(viewer, take_over=True)
        viewer.request("intervention.remove")
        viewer.request("control.release")
        viewer.drain(0.05)


# How often they act


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("mesh", [*LESS_OFTEN, (2, 2)], ids=str)
def test_exact_counters(mesh: tuple[int, int], accumulation: int, flags, tmp_path: Path) -> None:
    """Every forward of every replica once, on all ranks, however a program is computed."""
    ranks, forwards = mesh[0] * mesh[1], mesh[1] * accumulation
    changes = SMALL | {"tensor_model_parallel_size": mesh[0], "global_batch_size": MICRO_BATCH * forwards}
    programs = {"whole": HALVE, "sharded": SHARDED, "gathered": GATHERED}
    with live_run(flags | changes, tmp_path, ranks) as run, run.viewer() as viewer:
        begin = paused(viewer)
        for name, text in programs.items():
            answer = apply(viewer, name, text)
            assert (answer["step"], answer["ranks"]) == (begin + 1, ranks)
            assert (answer["program"]["name"], answer["program"]["since"]) == (name, begin + 1)
        assert step(viewer, 3) == begin + 3
        viewer.request("intervention.remove")
        step(viewer, 2)
        for name in programs:
            counts = applied(viewer, name)
            assert set(counts) == {begin + 1, begin + 2, begin + 3}
            for one in counts.values():
                positions = forwards * MICRO_BATCH * SEQUENCE
                assert (one["forwards"], one["positions"]) == (forwards, positions), one
                assert [write["positions"] for write in one["writes"]] == [positions]
                assert (one["identity"], one["waiting"], one["failed"]) == (0, 0, 0)
                assert one["ranks"] == one["of_ranks"] == ranks


@pytest.mark.parametrize("mesh", [*LESS_OFTEN[:2], (2, 2)], ids=str)
def test_evaluation_and_prompts_are_met_once(mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    ranks, data = mesh[0] * mesh[1], mesh[1]
    prompts = tmp_path / "probes.txt"
    prompts.write_text("\n".join(PROMPTS) + "\n")
    changes = SMALL | {
        "tensor_model_parallel_size": mesh[0],
        "global_batch_size": 2 * MICRO_BATCH * data,
        "eval_interval": 2,
        "eval_iters": 3,
        "monitor_prompts": str(prompts),
        "monitor_interval": 3,
    }
    texts = {
        "train": HALVE, "eval": f'when(phase="eval")\n{HALVE}', "prompts": f'when(prompts="*")\n{HALVE}',
        "probes": f'when(prompts="probes")\n{HALVE}', "all": f'when(phase="all")\n{HALVE}',
        "told": 'when(phase="eval")\nsave(layers[2].output.norm(), "n")',
    }  # fmt: skip
    length = max(len(text.encode()) for text in PROMPTS)
    batch = 2 * MICRO_BATCH * data * SEQUENCE
    with live_run(flags | changes, tmp_path, ranks) as run, run.viewer() as viewer:
        begin = paused(viewer)
        for name, text in texts.items():
            apply(viewer, name, text)
        last = step(viewer, 6)
        for at in range(begin + 1, last + 1):
            train = (2 * data, batch)
            evaluated = (3 * 2 * data, 3 * batch) if at % 2 == 0 else (0, 0)
            read = (2, len(PROMPTS) * length) if at % 3 == 0 else (0, 0)
            expected = {"train": train, "eval": evaluated, "prompts": read, "probes": read}
            expected["all"] = tuple(map(sum, zip(train, evaluated, read)))
            for name, counts in expected.items():
                one = applied(viewer, name).get(at, {"forwards": 0, "positions": 0})
                assert (one["forwards"], one["positions"]) == counts, (name, at, one)
        # Of the three batches of an evaluation the first one's saves are told.
        saves = [(one["step"], one["first_row"]) for one in viewer.named("saved")]
        rows = [MICRO_BATCH * i for i in range(2 * data)]
        assert sorted(saves) == [(at, row) for at in range(begin + 1, last + 1) if at % 2 == 0 for row in rows]


def test_rows_and_tokens_are_counted(viewer: Viewer) -> None:
    """Positions are those written: of 8 rows and 16 tokens 3 rows and 4 tokens."""
    paused(viewer)
    apply(viewer, "some", f'when(rows="1-3", tokens="0-2,-1")\n{HALVE}')
    last = step(viewer)
    assert applied(viewer, "some")[last]["positions"] == 3 * 4


def test_every_layer_and_every_skip_is_counted_by_its_place(viewer: Viewer) -> None:
    """A condition that ranks know for their shards alone counts a position once."""
    paused(viewer)
    every = "layers[layer].mlp.activation"
    apply(viewer, "some", f'when(layers="1-2", tokens="0-2")\nif {every} > 0: {every} *= 0.5')
    apply(viewer, "left_out", "if layers[1].output.mean() > -1e9: skip(layers[2])")
    last = step(viewer)
    counts = applied(viewer, "some")[last]
    assert [write["place"] for write in counts["writes"]] == [
        "layers[1].mlp.activation", "layers[2].mlp.activation"]  # fmt: skip
    # Some of the 64 features of each of the 8 x 3 tokens are above 0; the skipped layer has none.
    assert [write["positions"] for write in counts["writes"]] == [24, 0]
    assert counts["positions"] == 24
    assert applied(viewer, "left_out")[last]["writes"] == [
        {"place": "skip(layers[2])", "positions": 8 * SEQUENCE}]  # fmt: skip


def test_a_saved_weight_is_that_of_its_step(viewer: Viewer) -> None:
    """The optimizer writes weights in place; what is saved stays."""
    paused(viewer)
    weight = "w = layers[1].mlp.fc1.weight\n"
    apply(viewer, "kept", f'{weight}save(w, "w", send=False)\nsave((w - saved("w")).abs().max(), "moved")')
    last = step(viewer, 3)
    assert set(saved(viewer, "moved")) == {last - 1, last}
    assert min(saved(viewer, "moved").values()) > 0


# When they begin and end


def test_programs_begin_and_end_at_the_steps_that_were_answered(viewer: Viewer) -> None:
    """While training runs."""
    claim(viewer)
    begin = apply(viewer, "a", ALPHA)["step"]
    viewer.wait_for(lambda: max(viewer.steps(), default=0) > begin + 5, "a few steps")
    answer = viewer.request("intervention.remove", {"name": "a"})
    viewer.wait_for(lambda: max(viewer.steps()) > answer["step"] + 5, "a few steps")
    assert answer["removed"] == ["a"]
    assert set(saved(viewer, "alpha")) == set(range(begin, answer["step"]))
    told = [(one["step"], one["reason"], len(one["programs"])) for one in viewer.named("interventions")]
    assert told[-2:] == [(begin, "apply", 1), (answer["step"], "remove", 0)]


def test_a_program_of_the_same_name_replaces(viewer: Viewer) -> None:
    paused(viewer)
    apply(viewer, "a", HALVE)
    apply(viewer, "b", HALVE)
    apply(viewer, "a", ALPHA)
    assert sorted(in_force(viewer)) == ["a", "b"]
    last = step(viewer)
    assert saved(viewer, "alpha")[last] == 0.5
    with pytest.raises(RequestError):
        viewer.request("intervention.remove", {"name": "c"})
    assert viewer.request("intervention.remove", {"name": "b"})["removed"] == ["b"]
    assert in_force(viewer) == ["a"]
    assert sorted(viewer.request("intervention.remove")["removed"]) == ["a"]


def test_time_to_live(viewer: Viewer) -> None:
    begin = paused(viewer)
    answer = apply(viewer, "short", ALPHA, ttl=3)
    assert answer["program"]["until"] == begin + 3
    step(viewer, 5)
    assert set(saved(viewer, "alpha")) == {begin + 1, begin + 2, begin + 3}
    last = viewer.named("interventions")[-1]
    assert (last["reason"], last["step"], last["programs"]) == ("expired", begin + 4, [])


def test_the_end_of_the_lease_reverts_what_is_not_kept(run: LiveRun, viewer: Viewer) -> None:
    claim(viewer)
    apply(viewer, "gone", HALVE)
    apply(viewer, "kept", HALVE, keep=True)
    viewer.request("control.release")
    viewer.wait_for(lambda: viewer.named("interventions")[-1]["reason"] == "lease", "the revert")
    assert in_force(viewer) == ["kept"]
    with run.viewer() as late:
        assert [program["name"] for program in late.run["interventions"]] == ["kept"]
    claim(viewer)
    apply(viewer, "gone", HALVE)
    with run.viewer() as other:
        claim(other, take_over=True)
        assert sorted(in_force(viewer)) == ["gone", "kept"], "a take-over ends nothing"


def test_without_the_lease_nothing_is_changed(viewer: Viewer) -> None:
    for method in ("apply", "set", "remove", "preview"):
        with pytest.raises(RequestError) as refused:
            viewer.request(f"intervention.{method}", {"name": "a", "program": HALVE})
        assert refused.value.code == "not_controller", method
    checked = viewer.request("intervention.check", {"program": ALPHA})
    assert checked["parameters"] == [{"name": "alpha", "value": 0.5, "min": 0.0, "max": 2000.0}]
    assert checked["saves"] == ["alpha"]
    assert [w["place"] for w in checked["writes"]] == ["layers[1].output"]
    again = viewer.request("intervention.check", {"program": checked["graph"]})
    assert again["graph"] == checked["graph"]
    assert viewer.request("intervention.check", {"program": checked["text"]})["graph"] == checked["graph"]


# Parameters


def test_ramp(viewer: Viewer) -> None:
    begin = paused(viewer)
    ramp = ALPHA.replace("min=0.0, max=2000.0", "ramp_from=0.1, ramp_steps=4")
    apply(viewer, "ramp", ramp)
    step(viewer, 7)
    found = [saved(viewer, "alpha")[begin + n] for n in range(1, 8)]
    assert found == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5])


def test_given_and_refused_values(viewer: Viewer) -> None:
    paused(viewer)
    answer = apply(viewer, "a", ALPHA, parameters={"alpha": 3.0})
    assert answer["program"]["parameters"][0]["value"] == 3.0
    assert saved_after_a_step(viewer) == 3.0
    for value in (-1.0, 2000.5, "NaN", "Infinity", None, "x", [1], 1e308):
        with pytest.raises(RequestError) as refused:
            viewer.request("intervention.set", {"name": "a", "parameter": "alpha", "value": value})
        assert refused.value.code in {"invalid_argument", "invalid_request"}, value
    for params in ({"name": "b", "parameter": "alpha"}, {"name": "a", "parameter": "beta"}):
        with pytest.raises(RequestError):
            viewer.request("intervention.set", params | {"value": 1.0})
    with pytest.raises(RequestError):
        apply(viewer, "a", ALPHA, parameters={"beta": 3.0})
    assert saved_after_a_step(viewer) == 3.0


def saved_after_a_step(viewer: Viewer) -> float:
    last = step(viewer)
    return saved(viewer, "alpha")[last]


def test_values_in_a_burst(viewer: Viewer) -> None:
    """Of several values before one step the last counts; the others are told so."""
    paused(viewer)
    apply(viewer, "a", ALPHA)
    viewer.request("control.continue")
    numbers = {}
    for value in range(1, 31):
        params = {"name": "a", "parameter": "alpha", "value": float(value)}
        numbers[value] = viewer.start("intervention.set", params)
    taken = {}
    for value, number in numbers.items():
        try:
            answer = viewer.result_of(number, "a value")
        except RequestError as error:
            assert error.code == "superseded"
            continue
        if not answer.get("superseded"):
            assert answer["step"] not in taken, "two values for one step"
            taken[answer["step"]] = float(value)
    assert 30.0 in taken.values()
    # What a program saved may come after the notification of a later step.
    viewer.wait_for(lambda: max(saved(viewer, "alpha"), default=0) >= max(taken), "the last value")
    found = saved(viewer, "alpha")
    assert {at: found[at] for at in taken} == taken


def test_preview_says_what_would_happen(viewer: Viewer) -> None:
    """And nothing stays: the loss without is that of the last step."""
    paused(viewer)
    last = step(viewer)
    loss = next(one["loss"] for one in viewer.named("step") if one["step"] == last)
    answer = viewer.request("intervention.preview", {"program": HALVE})
    train = next(one for one in answer["batches"] if one["batch"] == "train")
    assert answer["step"] == last
    assert train["loss_on"] != train["loss_off"]
    assert abs(train["loss_off"] - loss) < 0.2 * loss, "the weights have moved by one step"
    [write] = answer["writes"]
    assert write["place"] == "layers[1].mlp.output" and write["positions"] == 8 * SEQUENCE
    assert write["norm_change"] == pytest.approx(0.5 * write["norm_before"], rel=1e-3)
    assert viewer.named("interventions")[-1:] == [] or in_force(viewer) == []
    step(viewer)
    assert last + 1 not in applied(viewer, "preview")


def test_preview_of_a_gradient_runs_backward(viewer: Viewer) -> None:
    last = paused(viewer)
    text = "layers[layer].output.grad *= 0.5"
    answer = viewer.request("intervention.preview", {"program": text})
    assert [write["place"] for write in answer["writes"]] == [
        "layers[1].output.grad", "layers[2].output.grad"]  # fmt: skip
    for write in answer["writes"]:
        assert write["positions"] == 8 * SEQUENCE and write["norm_before"] > 0
        assert write["norm_change"] == pytest.approx(0.5 * write["norm_before"], rel=1e-6)
    # What goes on below has been halved by then.
    above = viewer.request("intervention.preview", {"program": "layers[1].output.grad *= 0.5"})
    below = answer["writes"][0]["norm_before"]
    assert above["writes"][0]["norm_before"] == pytest.approx(2 * below, rel=1e-6)
    assert all(one["loss_on"] == one["loss_off"] for one in answer["batches"])
    assert step(viewer) == last + 1


def test_preview_shows_the_same_batch_without_and_with_it(viewer: Viewer) -> None:
    """Records of the evaluation batch, at every mesh those of whole tensors."""
    last = paused(viewer)
    watched = {"layers": "1-2", "phases": ["eval"], "rows": 1, "compressor": {"kind": "none"}}
    points = ("InputTokens", "MLP1", "MLP2", "HiddenStates")
    entries = [watched | {"point": name} for name in points]
    del entries[0]["layers"]
    asked = {"program": HALVE, "plan": {"entries": entries}}
    records = viewer.request("intervention.preview", asked)["records"]
    off, on = ({(one.point, one.layer): one for one in decode(base64.b64decode(records[side]), viewer.run)}
               for side in ("off", "on"))  # fmt: skip
    assert off.keys() == on.keys() and len(off) == 7
    assert {(one.step, one.phase) for one in [*off.values(), *on.values()]} == {(last, "eval")}
    halved = off["MLP2", 1].values
    assert np.abs(halved).max() > 0 and np.array_equal(on["MLP2", 1].values, 0.5 * halved)
    for key in (("InputTokens", 0), ("MLP1", 1)):
        assert np.array_equal(off[key].values, on[key].values), key
    for key in (("HiddenStates", 1), ("MLP1", 2), ("HiddenStates", 2)):
        assert not np.array_equal(off[key].values, on[key].values), key
    assert "records" not in viewer.request("intervention.preview", {"program": HALVE})


def test_a_preview_refuses_a_wrong_plan_and_too_much(viewer: Viewer) -> None:
    """And the run goes on."""
    paused(viewer)
    big = {"layers": "1-2", "phases": ["eval"], "rows": 0, "compressor": {"kind": "none"}, "dtype": "f64"}
    points = ("QKV", "MLP1", "MLPActivation", "MLP2", "HiddenStates", "RawAttentionScore")
    all_of_them = [big | {"point": name} for name in points] * 9
    for entries, code in (([{"point": "Nothing"}], "invalid_argument"), (all_of_them, "too_large")):
        with pytest.raises(RequestError) as refused:
            viewer.request("intervention.preview", {"program": HALVE, "plan": {"entries": entries}})
        assert refused.value.code == code, refused.value
    step(viewer)
