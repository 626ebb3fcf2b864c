"""`plan.check`: what it foretells is what arrives, its errors are those of `plan.set`, no step waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoder import Record
from viewer import LiveRun, RequestError, Viewer, live_run

LAYERS, HIDDEN, STEPS = 2, 32, 12  # STEPS: a multiple of every period below


def everything(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of every point, compressor, dtype, direction and pass."""
    entries: list[dict[str, Any]] = [{"point": p["name"], "rows": 0} for p in points]
    entries += [
        {"point": "QKV", "rows": 0, "dtype": "u8", "compressor": {"kind": "tile", "tiles": 7}},
        {"point": "MLP1", "every": 3, "compressor": {"kind": "stats"}},
        {"point": "MLP2", "every": 2, "compressor": {"kind": "stats", "range": [-1, 1], "bins": 5}},
        {"point": "HiddenStates", "direction": "gradient", "dtype": "bf16", "rows": [1, 3]},
        {"point": "HiddenStates", "layers": "2", "dtype": "f64", "compressor": {"kind": "none"}},
        {"point": "RawAttentionScore", "tokens": [3, 9], "dtype": "u8"},
        {"point": "Logits", "compressor": {"kind": "topk", "k": 3}},
        {"point": "ResidualMid", "compressor": {"kind": "empty"}},
        {"point": "HiddenStates", "phases": ["train", "eval"], "every": 2, "tokens": [0, 5]},
        {"point": "HiddenStates", "phases": ["eval"], "rows": 0},
        {"point": "MLP2", "phases": ["eval"], "eval_forwards": "all"},
        {"point": "InputTokens", "phases": ["eval"], "rows": 0, "dtype": "i64"},
        {"point": "HiddenStates", "prompts": "probes", "rows": 0},
        {"point": "InputTokens", "prompts": "probes", "rows": 0},
        {"point": "HiddenStates", "prompts": "probes", "tokens": [7, 30], "every": 6},
        {"point": "HiddenStates", "prompts": "probes", "rows": 0,
         "compressor": {"kind": "projection", "vectors": ["evil"]}},
        {"point": "HiddenStates", "micro_batches": "0-1", "rows": 0},
        {"point": "HiddenStates", "enabled": False},
        {"point": "HiddenStates", "rows": [9, 12]},
        {"point": "LogitLens", "prompts": "probes", "rows": 0, "tokens": [2, 12]},
        {"point": "LogitLensMid", "layers": "2", "rows": 0, "tokens": [1, 9], "every": 2},
        {"point": "attention.entropy", "compressor": {"kind": "none"}},
        {"point": "mlp.contribution_ratio"},
        {"point": "Updates", "every": 2},
        {"point": "HiddenStates",
         "compressor": {"kind": "tile", "tiles": 4, "method": "data.abs().amax(dim=-1)"}},
    ]  # fmt: skip
    return entries


@pytest.fixture
def watched(flags: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    vectors = tmp_path / "vectors"
    vectors.mkdir()
    np.save(vectors / "evil.npy", np.ones((LAYERS, HIDDEN), np.float32))
    prompts = tmp_path / "probes.txt"
    prompts.write_text("one prompt\na second, longer prompt\nthree\n")
    return flags | {
        "num_layers": LAYERS, "hidden_size": HIDDEN, "train_iters": 10_000, "micro_batch_size": 2,
        "global_batch_size": 4, "eval_interval": 4, "eval_iters": 2, "monitor_interval": 3,
        "monitor_prompts": str(prompts), "tensor_tracer_vectors": str(vectors),
    }  # fmt: skip


def pause_at_a_multiple(viewer: Viewer) -> int:
    step = viewer.request("control.pause")["step"]
    return viewer.request("control.step", {"count": STEPS - step % STEPS})["step"]


def take_every_record(viewer: Viewer, first: int) -> None:
    """One step after the other: the hub replaces records that wait for a slow viewer."""
    for step in range(first, first + STEPS):
        viewer.request("control.step")
        viewer.wait_for(lambda: any(r.step == step for r in viewer.records), f"step {step}")  # noqa: B023


def check_of(viewer: Viewer, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return viewer.request("plan.check", {"plan": {"entries": entries}})


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_is_foretold_arrives(ranks: int, watched: dict[str, Any], tmp_path: Path) -> None:
    flags = watched | {"tensor_model_parallel_size": ranks}
    with live_run(flags, tmp_path / "live", ranks) as live, live.viewer() as viewer:
        entries = everything(viewer.run["points"])
        foretold = check_of(viewer, entries)
        viewer.request("control.claim", {"name": "test"})
        first = pause_at_a_multiple(viewer) + 1
        plan = viewer.request("plan.set", {"plan": {"entries": entries}})
        assert plan["step"] == first
        number = plan["plan"]["number"]
        take_every_record(viewer, first)
        due = sum(cost["records"] for cost in foretold["entries"]) * STEPS

        def taken_so_far() -> list[Record]:
            return [r for r in viewer.records if r.plan == number]

        viewer.wait_for(lambda: len(taken_so_far()) >= round(due), f"{due} records")
        viewer.drain(0.5)  # more than was foretold
        taken = taken_so_far()
        assert viewer.named("dropped") == []
        assert max(r.step for r in taken) == first + STEPS - 1
    for index, cost in enumerate(foretold["entries"]):
        mine = [r for r in taken if r.entry == index]
        where = f"entry {index}: {entries[index]}"
        assert len(mine) == pytest.approx(cost["records"] * STEPS), where
        assert sum(r.size for r in mine) == pytest.approx(cost["bytes"] * STEPS), where
    lens = next(i for i, one in enumerate(entries) if one["point"] == "LogitLensMid" and "tokens" in one)
    # Two rows, eight tokens, one layer, 256 tokens in the vocabulary; every second step.
    assert foretold["entries"][lens]["flops"] == 2 * 8 * 2 * 256 * HIDDEN / 2
    assert foretold["entries"][0]["flops"] == 0
    assert foretold["flops_per_step"] == pytest.approx(sum(e["flops"] for e in foretold["entries"]))
    assert foretold["bytes_per_step"] == pytest.approx(sum(e["bytes"] for e in foretold["entries"]))


WRONG = [
    ({"point": "Nowhere"}, "unknown point"),
    ({"point": "QKV", "every": 0}, "0 is not a whole number"),
    ({"point": "QKV", "compressor": {"kind": "tile", "method": "data.meen(dim=-1)"}}, "mean"),
    ({"point": "QKV", "compressor": {"kind": "tile", "method": "data.mean("}}, "column"),
]


def error_of(viewer: Viewer, method: str, entry: dict[str, Any]) -> str:
    with pytest.raises(RequestError) as refused:
        viewer.request(method, {"plan": {"entries": [entry]}})
    return str(refused.value)


def test_errors_are_those_of_plan_set_and_nothing_changes(
    watched: dict[str, Any], tmp_path: Path
) -> None:
    with live_run(watched, tmp_path / "live") as live:
        with live.viewer() as viewer, live.viewer() as controller:
            controller.request("control.claim", {"name": "test"})
            paused = controller.request("control.pause")["step"]
            for entry, message in WRONG:
                said = error_of(viewer, "plan.check", entry)
                assert message in said
                assert said == error_of(controller, "plan.set", entry)
            check_of(viewer, [{"point": "QKV"}])
            controller.drain(0.3)
            assert controller.named("plan") == []
            assert controller.request("control.step")["step"] == paused + 1
            assert no_trace_of_checks(live)


def no_trace_of_checks(live: LiveRun) -> bool:
    return "plan.check" not in (live.run_dir / "hub.log").read_text()


def test_no_step_is_waited_for(watched: dict[str, Any], tmp_path: Path) -> None:
    """Ten checks are answered between two steps of a run whose steps are long."""
    slow = watched | {"seq_length": 256, "micro_batch_size": 8, "global_batch_size": 64}
    with live_run(slow, tmp_path / "live") as live, live.viewer() as viewer:
        viewer.wait_for(lambda: len(viewer.steps()) >= 2, "two steps", timeout=60)
        viewer.wait_for(lambda count=len(viewer.steps()): len(viewer.steps()) > count, "a step")
        before = len(viewer.steps())
        for _ in range(10):
            check_of(viewer, everything(viewer.run["points"]))
        assert len(viewer.steps()) == before, "ten checks took a whole step: is the step long?"


@pytest.mark.parametrize("ranks", [1, 2])
def test_methods_meet_the_keys_of_the_prompts(ranks: int, watched: dict[str, Any], tmp_path: Path) -> None:
    """A method over the whole tensor was checked for the sequences of training and ran over prompts of 23."""
    keys = len("a second, longer prompt")
    flags = watched | {"tensor_model_parallel_size": ranks}
    entry = {"point": "RawAttentionScore", "layers": "1", "prompts": "probes", "rows": 0, "dtype": "f64"}

    def centred(tiles: int) -> dict[str, Any]:
        return {"kind": "tile", "tiles": tiles, "method": "(data - data.mean()).amax(dim=-1)"}

    with live_run(flags, tmp_path / "live", ranks) as live, live.viewer() as viewer:
        viewer.request("control.claim", {"name": "test"})
        first = pause_at_a_multiple(viewer) + 1
        assert f"8 tiles do not divide {keys} features" in error_of(viewer, "plan.set", entry | {"compressor": centred(8)})
        entries = [entry | {"compressor": {"kind": "none"}}, entry | {"compressor": centred(keys)}]
        number = viewer.request("plan.set", {"plan": {"entries": entries}})["plan"]["number"]
        viewer.request("control.step", {"count": 3})
        viewer.drain(0.3)
        taken = [r for r in viewer.records if r.plan == number and r.step == first + 2]
    assert [r.entry for r in taken] == [0, 1, 0, 1], "two prompts, then one"
    for whole, reduced in zip(taken[::2], taken[1::2], strict=True):
        assert whole.values.shape[-1] == keys
        expected = whole.values - whole.values.mean()
        np.testing.assert_allclose(reduced.values.reshape(expected.shape), expected, rtol=0, atol=1e-6)
