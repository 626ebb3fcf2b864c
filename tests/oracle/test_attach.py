"""The tracer inside somebody else's training: its records beside what PyTorch's own hooks kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attached_training import EVALUATION
from program import REPOSITORY, environment
from tensor_tracer import open_recording
from tensor_tracer.record import Record

pytestmark = pytest.mark.nightly(suite="attach")

FOLDER = Path(__file__).parent
EVERYTHING = {
    "entries": [
        {"point": "*", "rows": 0, "compressor": {"kind": "none"}},
        {"point": "*", "rows": 0, "direction": "gradient", "compressor": {"kind": "none"}},
    ]
}
NOTHING: dict[str, Any] = {"entries": []}


@dataclass
class Training:
    """A finished run of attached_training.py."""

    folder: Path
    ranks: int
    output: str
    of_rank: list[dict[str, Any]] = field(default_factory=list)

    @property
    def losses(self) -> list[float]:
        return list(self.of_rank[0]["losses"])

    def records(self) -> list[Record]:
        with open_recording(next((self.folder / "record").glob("*.ttrec"))) as recording:
            return list(recording.records())

    def told(self) -> dict[str, dict[str, Any]]:
        """What viewers know of each place, by its name."""
        with open_recording(next((self.folder / "record").glob("*.ttrec"))) as recording:
            return {point["name"]: point for point in recording.facts["points"]}

    def points(self) -> list[dict[str, Any]]:
        return list(json.loads((self.folder / "points0.json").read_text()))

    def witnessed(self, record: Record) -> np.ndarray[Any, Any]:
        """What the hooks kept of the record's module, put together from the ranks of data replica 0."""
        kind = "gradients" if record.direction == "gradient" else "values"
        place = next(p for p in self.points() if p["name"] == record.point and p["layer"] == record.layer)
        key = record.step, record.micro_batch, place["module"]
        parts = [of[kind][key] for of in self.of_rank]
        if list(parts[0].shape) == list(record.shape):
            return parts[0].float().numpy()
        return torch.cat(parts, dim=-1).float().numpy()


def train(
    folder: Path, ranks: int = 1, plan: Any = EVERYTHING, script: str = "attached_training.py",
    python: Path = Path(sys.executable), **options: Any,
) -> Training:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    asked = {"model": "plain", "wrap": "none", "steps": 4, "micro_batches": 1} | options
    if plan is not None:
        attach = {"port": 0, "run_dir": str(folder / "run"), "record": str(folder / "record"), "plan": plan}
        asked["attach"] = attach | asked.get("attach", {})
    launcher = [] if ranks == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    line = [str(python), *launcher, str(FOLDER / script), str(folder), json.dumps(asked)]
    done = subprocess.run(line, env=attach_environment(), capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(ranks)]
    return Training(folder, ranks, done.stdout + done.stderr, files)


def attach_environment() -> dict[str, str]:
    build = os.environ.get("TENSOR_TRACER_BUILD", str(REPOSITORY / "build/release"))
    return environment() | {"TENSOR_TRACER_BUILD": build, "PYTHONPATH": str(REPOSITORY / "python")}


def is_output(training: Training, record: Record) -> bool:
    place = next(p for p in training.points() if p["name"] == record.point and p["layer"] == record.layer)
    return record.point != "InputTokens" and str(place["path"]).endswith("output")


def compare(training: Training, fewest: int) -> None:
    """Every record has the bits that the hooks kept."""
    compared: set[tuple[str, str, int, int]] = set()
    for record in training.records():
        if record.point == "InputTokens" or not is_output(training, record):
            continue
        expected = training.witnessed(record)
        assert record.values.shape == expected.shape, record
        assert np.array_equal(record.values, expected), record
        compared.add((record.point, record.direction, record.layer, record.step))
    assert len(compared) >= fewest


CASES = [
    pytest.param("plain", "none", 1, 80, id="plain"),
    pytest.param("gpt2", "ddp", 2, 150, id="gpt2-ddp", marks=pytest.mark.smoke),
    pytest.param("llama", "fsdp", 2, 150, id="llama-fsdp"),
    pytest.param("llama", "tp", 2, 150, id="llama-tp", marks=pytest.mark.smoke),
]


@pytest.mark.parametrize(("model", "wrap", "ranks", "fewest"), CASES)
def test_records_have_the_bits_of_the_modules(model: str, wrap: str, ranks: int, fewest: int, tmp_path: Path) -> None:
    watched = train(tmp_path / "watched", ranks, model=model, wrap=wrap)
    compare(watched, fewest)
    alone = train(tmp_path / "alone", ranks, plan=None, model=model, wrap=wrap)
    assert watched.losses == alone.losses and len(alone.losses) == 4


def test_micro_batches_and_evaluations_are_told_apart(tmp_path: Path) -> None:
    every = {"rows": 0, "compressor": {"kind": "none"}}
    plan = {
        "entries": [
            {"point": "HiddenStates", "micro_batches": "0-1", **every},
            {"point": "HiddenStates", "direction": "gradient", "micro_batches": "1", **every},
            {"point": "Logits", "phases": ["eval"], **every},
        ]
    }
    run = train(tmp_path, plan=plan, micro_batches=2, evaluates=True)
    seen = set()
    for record in run.records():
        where = EVALUATION if record.phase == "eval" else record.micro_batch
        expected = run.of_rank[0]["gradients" if record.direction == "gradient" else "values"]
        place = next(p for p in run.points() if (p["name"], p["layer"]) == (record.point, record.layer))
        assert np.array_equal(record.values, expected[record.step, where, place["module"]].numpy()), record
        seen.add((record.point, record.phase, record.direction, record.micro_batch))
    assert seen == {
        ("HiddenStates", "train", "value", 0), ("HiddenStates", "train", "value", 1),
        ("HiddenStates", "train", "gradient", 1), ("Logits", "eval", "value", 0),
    }  # fmt: skip


def test_after_detach_no_hook_is_left_and_the_losses_are_those_without_a_tracer(tmp_path: Path) -> None:
    watched = train(tmp_path / "watched", steps=5, detach_after=3)
    assert watched.losses == train(tmp_path / "alone", plan=None, steps=5).losses
    with open_recording(next((tmp_path / "watched/record").glob("*.ttrec"))) as recording:
        assert {record.step for record in recording.records()} == {2, 3}
        assert recording.scalars("loss")[1] == pytest.approx(watched.losses[:3])


PROGRAMS = [
    pytest.param("plain", "none", 1, "layers[2].output *= 1.5", {"module": "blocks.1"}, id="layer"),
    pytest.param("gpt2", "ddp", 2, "layers[2].output *= 1.5", {"module": "transformer.h.1"}, id="tuple-ddp"),
    pytest.param("llama", "tp", 2, "layers[1].mlp.activation *= 1.5",
                 {"module": "model.layers.0.mlp.down_proj", "input": True}, id="sharded-input"),
    pytest.param("llama", "tp", 2, "layers[2].attention.output *= 1.5",
                 {"module": "model.layers.1.self_attn.o_proj"}, id="pending-collective"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "wrap", "ranks", "program", "scale"), PROGRAMS)
def test_a_program_changes_the_losses_as_a_hook_of_pytorch_does(
    model: str, wrap: str, ranks: int, program: str, scale: dict[str, Any], tmp_path: Path
) -> None:
    kind = {"model": model, "wrap": wrap}
    steered = train(tmp_path / "program", ranks, plan=NOTHING, program=program, program_from=3, **kind)
    by_hook = train(tmp_path / "hook", ranks, plan=None, scale=scale | {"factor": 1.5, "from": 3}, **kind)
    alone = train(tmp_path / "alone", ranks, plan=None, **kind)
    assert steered.losses == by_hook.losses
    assert steered.losses[:2] == alone.losses[:2] and steered.losses[2] != alone.losses[2]


@pytest.mark.cpu_only
def test_a_trainer_of_transformers_is_watched_by_its_callback(tmp_path: Path) -> None:
    plan = {"entries": [{"point": "*", "rows": 0, "micro_batches": "0-1", "compressor": {"kind": "none"}}]}
    watched = train(tmp_path / "watched", 2, plan, script="attached_trainer.py", model="gpt2", micro_batches=2)
    alone = train(tmp_path / "alone", 2, None, script="attached_trainer.py", model="gpt2", micro_batches=2)
    assert watched.losses == alone.losses and len(alone.losses) == 4
    places = {(place["name"], place["layer"]): place for place in watched.points()}
    compared = 0
    for record in watched.records():
        place = places[record.point, record.layer]
        if record.point != "InputTokens" and place["path"].endswith("output"):
            key = record.step, record.micro_batch, place["module"]
            assert np.array_equal(record.values, watched.of_rank[0]["values"][key].numpy()), record
            compared += 1
    assert compared >= 3 * 2 * 25
    with open_recording(next((tmp_path / "watched/record").glob("*.ttrec"))) as recording:
        steps, losses = recording.scalars("loss")
        assert list(steps) == [1, 2, 3, 4] and losses == pytest.approx(watched.losses, abs=1e-4)
