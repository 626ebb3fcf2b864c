"""Watching changes nothing, and nothing that a viewer sends hurts the run."""

from __future__ import annotations

import contextlib
import json
import os
import random
import string
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_models import FAMILIES, NEW, begun_from
from program import train
from safetensors.torch import load_file
from viewer import LiveRun, RequestError, Viewer, assert_memory_is_flat, live_run
from websockets.exceptions import ConnectionClosed

STEPS = 30
POINTS = ("QKV", "Query", "Key", "Value", "ContextLayer", "AttentionOutput", "ResidualMid", "MLP1")
POINTS += ("MLPActivation", "MLP2", "HiddenStates", "Embedding", "FinalNorm", "Logits")
EVERYTHING = [
    *({"point": p, "rows": 0, "phases": ["train", "eval"]} for p in (*POINTS, "RawAttentionScore")),
    *({"point": p, "direction": "gradient", "compressor": {"kind": "stats"}}
      for p in (*POINTS, "RawAttentionScore")),
    {"point": "InputTokens", "micro_batches": "0-1"},
    {"point": "MLP1", "compressor": {"kind": "tile", "tiles": 4, "method": "data.std(-1)"}},
    {"point": "HiddenStates", "prompts": "probes", "compressor": {"kind": "none"}},
]  # fmt: skip
PLANS = [
    EVERYTHING,
    [],
    [{"point": "QKV", "compressor": {"kind": "stats"}}, {"point": "Key", "direction": "gradient"}],
    [{"point": "Logits", "compressor": {"kind": "topk", "k": 3}}],
    [{"point": "RawAttentionScore", "rows": 0, "dtype": "u8"}],
]


def shape(flags: dict[str, Any], folder: Path, **more: Any) -> dict[str, Any]:
    """A run with micro-batches, evaluations and dropout, exported at its last step."""
    folder.mkdir(parents=True)
    return flags | {
        "train_iters": STEPS + 1,
        "micro_batch_size": 2,
        "global_batch_size": 8,
        "tensor_model_parallel_size": 2,
        "eval_interval": 7,
        "eval_iters": 1,
        "hidden_dropout": 0.1,
        "export_tensors": str(folder / "exports"),
        "export_at": STEPS + 1,
    } | more


def traced(folder: Path, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The flags of a run with prompts and this plan."""
    (folder / "plan.json").write_text(json.dumps({"entries": entries}))
    (folder / "probes.txt").write_text("def f(x):\nhello\n")
    return {
        "tensor_tracer_plan": str(folder / "plan.json"),
        "monitor_prompts": str(folder / "probes.txt"),
        "monitor_interval": 3,
    }


def weights(folder: Path, step: int = STEPS + 1) -> dict[str, torch.Tensor]:
    """The weights that a step begins with, and its gradients."""
    return load_file(folder / "exports" / f"step_{step:06d}.safetensors")


def watched(flags: dict[str, Any], folder: Path, entries: list, reconfigure: bool = False) -> dict:
    with live_run(flags | traced(folder, entries), folder, ranks=4) as run:
        with run.viewer() as viewer:
            if reconfigure:
                reconfigure_every_step(viewer)
            viewer.wait_for(lambda: STEPS + 1 in viewer.steps(), "the last step", 60)
            warnings = [log for log in viewer.named("log") if log["level"] != "info"]
            assert not warnings
            assert bool(viewer.records) == bool(entries)
        run.wait()
    return weights(folder)


def reconfigure_every_step(viewer: Viewer) -> None:
    viewer.request("control.claim", {"name": "oracle", "take_over": False})
    step = 0
    viewer.request("control.pause")
    while step < STEPS:
        viewer.request("plan.set", {"plan": {"entries": PLANS[step % len(PLANS)]}})
        step = viewer.request("control.step", {"count": 1})["step"]
    viewer.request("control.continue")


NIGHTLY = pytest.mark.nightly(suite="meshes")
HOW = [
    pytest.param(NEW, {}, id="float32", marks=NIGHTLY),
    pytest.param(NEW, {"bf16": True}, id="bf16"),
    pytest.param(NEW, {"params_dtype": "bfloat16"}, id="bfloat16", marks=NIGHTLY),
    *(pytest.param(model, {}, id=model, marks=NIGHTLY) for model in FAMILIES),
]  # fmt: skip


@pytest.mark.parametrize(("model", "more"), HOW)
def test_weights_are_equal_bit_for_bit_however_one_watches(model: str, more, flags, tmp_path: Path) -> None:
    flags = begun_from(flags, model, tmp_path)
    folders = {name: tmp_path / name for name in ("absent", "idle", "watched", "reconfigured")}
    runs = {name: shape(flags, folder, **more) for name, folder in folders.items()}
    train(runs["absent"], folders["absent"], ranks=4)
    alone = weights(folders["absent"])
    seen = {
        "idle": watched(runs["idle"], folders["idle"], []),
        "watched": watched(runs["watched"], folders["watched"], EVERYTHING),
        "reconfigured": watched(runs["reconfigured"], folders["reconfigured"], EVERYTHING, True),
    }
    for name, found in seen.items():
        assert found.keys() == alone.keys()
        for key, tensor in alone.items():
            assert torch.equal(found[key], tensor), (name, key)


# --- what is wrong is answered --------------------------------------------------------------------

EXPRESSIONS = [
    "data.__class__.__mro__[1].__subclasses__()", "__import__('os').system('true')", "data.mean(",
    "data.nope()", "data + unknown", "data.add_(1)", "lambda: 0", "[x for x in data]",
    "data.nonzero()", "data[data > 0]", "data" + ".abs()" * 500, "(" * 300, "1" * 100,
    "data.repeat(1, 1, 10**9)", "data.mean(dim=7)", "data.view(3, 7)", "torch.load('x')", "é.mean()",
    "data.mean(dim='x')", "data if 1 else 2", "data; data", "data\x00", "", " ", "data.numpy()",
]  # fmt: skip
COMPRESSORS = [
    {"kind": "tile", "tiles": 0}, {"kind": "tile", "tiles": 10**30}, {"kind": "zip"}, {}, [], 7,
    {"kind": "stats", "range": [1]}, {"kind": "stats", "range": ["a", "b"]}, {"kind": ["tile"]},
    {"kind": "projection"}, {"kind": "projection", "vectors": ["../../etc/passwd"]},
    {"kind": "topk", "k": -1}, {"kind": "tile", "tiles_one_rank": 1, "method_one_rank": "x"},
    {"kind": "none", "nope": 1}, {"kind": "tile", "method": 3},
]  # fmt: skip
WRONG = [
    {"layers": "0"}, {"layers": "9"}, {"layers": "1-"}, {"layers": None, "rows": "all"}, {"every": 0},
    {"every": 1.5}, {"phases": "train"}, {"phases": ["train", "test"]}, {"micro_batches": "99"},
    {"rows": [2, 1]}, {"rows": -3}, {"tokens": [0, 10**6]}, {"tokens": "0-4"}, {"dtype": "f8"},
    {"dtype": 32}, {"direction": "sideways"}, {"prompts": "nobody"}, {"prompts": 1}, {"nope": 1},
    {"enabled": "yes"}, {"point": 7}, {"point": "Nope"}, {"point": None},
    {"direction": "gradient", "phases": ["eval"]},
]  # fmt: skip


def wrong_entry(draw: random.Random) -> dict[str, Any]:
    kind = draw.randrange(3)
    entry: dict[str, Any] = {"point": "MLP1"}
    if kind == 0:
        return entry | draw.choice(WRONG)
    if kind == 1:
        return entry | {"compressor": draw.choice(COMPRESSORS)}
    text = draw.choice(EXPRESSIONS)
    if draw.random() < 0.5:
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(string.punctuation.replace('#', '')) + text[at:] + "]"
    return entry | {"compressor": {"kind": "tile", "method": text}}


def wrong_plan(draw: random.Random) -> Any:
    """A plan that must be refused as a whole, though parts of it may be right."""
    kind = draw.randrange(12)
    if kind == 0:
        return draw.choice([None, 3, "plan", [], {}, {"entries": 3}, {"entries": [[]]}])
    if kind == 1:
        return {"entries": [{"point": "MLP1"}] * 65}
    if kind == 2:
        return {"entries": [], "extra": {"a" * draw.randrange(50): [1] * draw.randrange(50)}}
    right = [{"point": "HiddenStates"}] * draw.randrange(4)
    return {"entries": [*right, wrong_entry(draw)]}


def send_wrong_plans(run: LiveRun, draw: random.Random, count: int) -> None:
    """From a new connection: the hub takes 200 messages at once from each, of which 32 may
    wait for the trainer."""
    with run.viewer() as viewer:
        viewer.request("control.claim", {"name": "oracle", "take_over": True})
        for begin in range(0, count, 32):
            plans = [wrong_plan(draw) for _ in range(min(32, count - begin))]
            numbers = [viewer.start("plan.set", {"plan": plan}) for plan in plans]
            for number, plan in zip(numbers, plans, strict=True):
                with pytest.raises(RequestError) as refused:
                    taken = viewer.result_of(number, "plan.set")
                    pytest.fail(f"{plan} was taken as {taken}")
                assert refused.value.code in {"invalid_argument", "invalid_expression"}, plan


@NIGHTLY
def test_ten_thousand_wrong_plans_cost_no_step(flags, tmp_path: Path) -> None:
    """While it trains: each is answered by an error, the plan stays, the steps go on, and the
    weights are those of a run that nobody attacked."""
    count, compared = int(os.environ.get("TT_WRONG_PLANS", "10000")), 200
    more = {"lr_decay_iters": compared, "export_at": compared}
    train(shape(flags, tmp_path / "quiet", train_iters=compared, **more), tmp_path / "quiet", ranks=4)
    folder = tmp_path / "attacked"
    attacked = shape(flags, folder, train_iters=1_000_000, **more)
    with live_run(attacked | traced(folder, [{"point": "QKV"}]), folder, ranks=4) as run:
        with run.viewer() as viewer:
            draw, sent = random.Random(4), 0
            while sent < count or max(viewer.steps(), default=0) <= compared:
                send_wrong_plans(run, draw, 190)
                sent += 190
                viewer.drain(0.01)
            viewer.request("control.claim", {"name": "oracle", "take_over": True})
            last = viewer.request("control.stop")["step"]
            with contextlib.suppress(ConnectionClosed):
                viewer.wait_for(lambda: last in viewer.steps(), "the last step", 30)
            assert viewer.steps() == list(range(1, last + 1))
            assert {record.plan for record in viewer.records} == {1}
        run.wait()
    found, expected = weights(folder, compared), weights(tmp_path / "quiet", compared)
    for key, tensor in expected.items():
        assert torch.equal(found[key], tensor), key


# --- many plans for a long time -------------------------------------------------------------------


def random_plan(draw: random.Random) -> list[dict[str, Any]]:
    entries = []
    for _ in range(draw.randrange(6)):
        entry = {"point": draw.choice(POINTS), "rows": draw.choice([0, 1]), "every": draw.choice([1, 2])}
        entry["dtype"] = draw.choice(["f32", "bf16", "u8", "f16"])
        entry["compressor"] = draw.choice(
            [{"kind": "tile", "tiles": draw.randrange(1, 24)}, {"kind": "none"}, {"kind": "empty"}]
            + [{"kind": "tile", "tiles": 4, "method": "data.abs().amax(dim=-1)"}]
        )
        if draw.random() < 0.2:
            entry |= {"dtype": "f32", "compressor": {"kind": "stats"}}
        if draw.random() < 0.3:
            entry["direction"] = "gradient"
        entries.append(entry)
    return entries


def assert_gaps_are_explained(viewer: Viewer) -> None:
    numbers = sorted(record.sequence for record in viewer.records)
    assert len(set(numbers)) == len(numbers)
    missing = numbers[-1] - len(numbers)
    assert missing == sum(dropped["records"] for dropped in viewer.named("dropped"))


@NIGHTLY
def test_soak_of_changing_plans(flags, tmp_path: Path) -> None:
    """A new random plan every five steps: memory stays, nothing stalls, gaps are told."""
    steps = int(os.environ.get("TT_SOAK_STEPS", "2000"))
    draw = random.Random(5)
    changes = {"train_iters": steps, "tensor_model_parallel_size": 2, "eval_interval": 50}
    with live_run(flags | changes, tmp_path / "run", ranks=4) as run, run.viewer() as viewer:
        viewer.request("control.claim", {"name": "oracle", "take_over": False})
        viewer.request("control.pause")
        memory: list[dict[int, float]] = []
        done = 0
        while done < steps - 5:
            viewer.request("plan.set", {"plan": {"entries": random_plan(draw)}})
            done = viewer.request("control.step", {"count": 5}, timeout=60)["step"]
            if done > steps // 4:  # by then every buffer has had its largest plans
                memory.append(run.memory_mib())
        viewer.request("control.continue")
        viewer.wait_for(lambda: steps in viewer.steps(), "the last step", 60)
        with contextlib.suppress(ConnectionClosed):
            viewer.drain(5)  # until the hub has sent all and ends
        assert not [log for log in viewer.named("log") if log["level"] != "info"]
        assert_gaps_are_explained(viewer)
        assert viewer.steps() == list(range(1, steps + 1))
        run.wait()
    assert_memory_is_flat(memory)
