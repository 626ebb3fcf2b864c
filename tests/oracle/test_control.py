"""Steering a real run: the lease, pause, step, continue, and a new plan in mid-run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from viewer import LiveRun, RequestError, Viewer, live_run

RANKS = 2
# Numbers of Tensor Tracer, which its viewers know.
LEGACY_FLAGS = {"QKV": 1, "RawAttentionScore": 2, "ContextLayer": 3, "MLP1": 4, "MLP2": 5,
                "AttentionOutput": 6, "HiddenStates": 7, "InputTokens": 8}  # fmt: skip


@pytest.fixture
def run(flags, tmp_path: Path) -> Iterator[LiveRun]:
    """Two tensor-parallel ranks with far more steps than any test waits for."""
    changes = {"train_iters": 100_000, "tensor_model_parallel_size": RANKS}
    with live_run(flags | changes, tmp_path, RANKS) as live:
        yield live


def claim(viewer: Viewer, take_over: bool = False) -> None:
    answer = viewer.request("control.claim", {"name": "oracle", "take_over": take_over})
    assert answer == {"lease_seconds": 30}


def test_hello_describes_the_run(run: LiveRun, flags) -> None:
    with run.viewer() as viewer:
        facts = viewer.run
        assert viewer.hello["version"] == 1
        assert facts["mesh"] == {"tensor": RANKS, "pipeline": 1, "data": 1}
        for name in ("num_layers", "hidden_size", "num_attention_heads", "seq_length"):
            assert facts["model"][name] == flags[name]
        numbers = {point["name"]: point["flag"] for point in facts["points"]}
        assert len(set(numbers.values())) == len(numbers)
        assert all(numbers[name] == flag for name, flag in LEGACY_FLAGS.items())
        assert viewer.request("ping") == {}


def test_pause_step_continue(run: LiveRun) -> None:
    with run.viewer() as viewer:
        claim(viewer)
        paused = viewer.request("control.pause")
        assert paused["ranks"] == RANKS
        viewer.drain(0.5)
        assert max(viewer.steps(), default=0) <= paused["step"]
        assert viewer.named("state")[-1] == {"phase": "paused", "step": paused["step"]}

        for count in (1, 3):
            before = paused["step"]
            paused = viewer.request("control.step", {"count": count})
            assert paused == {"step": before + count, "ranks": RANKS}
            viewer.drain(0.3)
            assert viewer.steps()[-1] == paused["step"]

        assert viewer.request("control.continue") == paused
        viewer.wait_for(lambda: viewer.steps()[-1] > paused["step"] + 5, "more steps")
        assert viewer.steps() == sorted(set(viewer.steps())), "steps out of order or twice"


def test_without_the_lease_nothing_is_steered(run: LiveRun) -> None:
    with run.viewer() as first, run.viewer() as second:
        for method in ("control.pause", "control.continue", "control.step", "plan.set"):
            with pytest.raises(RequestError) as refused:
                first.request(method, {"plan": {"entries": []}} if method == "plan.set" else None)
            assert refused.value.code == "not_controller", method
        claim(first)
        with pytest.raises(RequestError) as refused:
            claim(second)
        assert refused.value.code == "busy"
        claim(second, take_over=True)
        with pytest.raises(RequestError) as refused:
            first.request("control.pause")
        assert refused.value.code == "not_controller"
        second.request("control.pause")


def test_the_end_of_the_lease_ends_the_pause(run: LiveRun) -> None:
    with run.viewer() as watcher:
        with run.viewer() as controller:
            claim(controller)
            paused = controller.request("control.pause")["step"]
            controller.request("control.release")
            watcher.wait_for(lambda: max(watcher.steps(), default=0) > paused, "training goes on")


def test_new_plan_is_taken_at_the_step_that_was_answered(run: LiveRun) -> None:
    entry = {"point": "MLP2", "layers": "2", "compressor": {"kind": "tile", "tiles": 3, "method": "mean"}}
    with run.viewer() as viewer:
        claim(viewer)
        viewer.wait_for(lambda: max(viewer.steps(), default=0) >= 3, "a few steps")
        old = viewer.run["plan"]["number"]
        answer = viewer.request("plan.set", {"plan": {"entries": [entry]}})
        assert answer["ranks"] == RANKS
        new = answer["plan"]["number"]
        assert new > old
        taken = answer["plan"]["entries"][0]
        assert {name: taken[name] for name in entry} == entry

        viewer.wait_for(
            lambda: any(r.plan == new and r.step > answer["step"] for r in viewer.records),
            "records of the new plan",
        )
        for record in viewer.records:
            assert record.plan == (new if record.step >= answer["step"] else old)
            if record.plan == new:
                assert (record.point, record.layer, record.features) == ("MLP2", 2, 32)
                assert record.values.shape == (1, 32, 3)
        assert [p for p in viewer.named("plan") if p["plan"]["number"] == new] == [
            {"plan": answer["plan"], "step": answer["step"]}
        ]


def test_every_and_rows_and_no_entries(run: LiveRun) -> None:
    """Every third step, more rows than a micro-batch has, and then nothing at all."""
    entry = {"point": "MLP1", "layers": "1", "every": 3, "rows": 99}
    with run.viewer() as viewer:
        claim(viewer)
        viewer.request("control.pause")
        number = viewer.request("plan.set", {"plan": {"entries": [entry]}})["plan"]["number"]
        last = viewer.request("control.step", {"count": 9})["step"]
        viewer.wait_for(
            lambda: any(r.plan == number and r.step > last - 3 for r in viewer.records), "records"
        )
        taken = [record for record in viewer.records if record.plan == number]
        assert all(record.step % 3 == 0 for record in taken)
        assert {record.values.shape for record in taken} == {(4, 32, 64)}

        empty = viewer.request("plan.set", {"plan": {"entries": []}})["plan"]
        assert empty["entries"] == []
        before = len(viewer.records)
        viewer.request("control.step", {"count": 3})
        viewer.drain(0.3)
        assert len(viewer.records) == before


def test_subscription_and_late_viewer(run: LiveRun) -> None:
    """Entries that were not asked for do not come; a late viewer sees the latest at once."""
    entries = [{"point": "MLP1"}, {"point": "MLP2"}, {"point": "InputTokens"}]
    with run.viewer() as first:
        claim(first)
        first.request("control.pause")
        number = first.request("plan.set", {"plan": {"entries": entries}})["plan"]["number"]
        first.request("subscribe", {"entries": [1]})
        step = first.request("control.step", {"count": 2})["step"]
        first.drain(0.3)
        ours = {(r.entry, r.layer, r.step) for r in first.records if r.plan == number}
        assert ours == {(1, layer, at) for layer in (1, 2) for at in (step - 1, step)}
        with run.viewer() as late:
            late.drain(0.3)
            assert late.steps()[-2:] == [step - 1, step]
            latest = {(r.entry, r.layer) for r in late.records if r.step == step}
            assert latest == {(0, 1), (0, 2), (1, 1), (1, 2), (2, 0)}
            assert late.hello["control"]["holder"]["name"] == "oracle"


@pytest.mark.parametrize("count", [0, -1, 1.5, "two", 10**18])
def test_refused_step_counts(count: object, refusing: Viewer) -> None:
    with pytest.raises(RequestError) as refused:
        refusing.request("control.step", {"count": count})
    assert refused.value.code == "invalid_argument"


def test_steps_past_the_end_are_answered_at_the_end(flags, tmp_path: Path) -> None:
    with live_run(flags | {"train_iters": 50}, tmp_path) as live:
        with live.viewer() as viewer:
            claim(viewer)
            viewer.request("control.pause")
            assert viewer.request("control.step", {"count": 500}) == {"step": 50, "ranks": 1}
        live.wait()


@pytest.mark.parametrize(
    "entry",
    [
        {"point": "Nothing"},
        {"point": "HiddenStates", "layers": "3"},
        {"point": "HiddenStates", "layers": "0-1"},
        {"point": "HiddenStates", "compressor": {"kind": "tile", "tiles": 33}},
        {"point": "HiddenStates", "compressor": {"kind": "tile", "tiles": 0}},
        {"point": "HiddenStates", "compressor": {"kind": "zip"}},
        {"point": "HiddenStates", "rows": -1},
        {"point": "HiddenStates", "every": 0},
        {"point": "HiddenStates", "dtype": "f8"},
        {"point": "HiddenStates", "phases": ["sleep"]},
        {"point": "HiddenStates", "colour": "red"},
        {"layers": "1"},
    ],
    ids=str,
)
def test_refused_plans_change_nothing(entry: dict, refusing: Viewer) -> None:
    before = len(refusing.named("plan"))
    with pytest.raises(RequestError) as refused:
        refusing.request("plan.set", {"plan": {"entries": [{"point": "MLP1"}, entry]}})
    assert refused.value.code == "invalid_argument"
    refusing.drain(0.05)
    assert len(refusing.named("plan")) == before


@pytest.fixture(scope="module")
def refusing(flags, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """One paused run for all plans that are refused."""
    folder = tmp_path_factory.mktemp("refusing")
    with live_run(flags | {"train_iters": 100_000}, folder) as live, live.viewer() as viewer:
        claim(viewer)
        viewer.request("control.pause")
        yield viewer
