"""The tracer inside somebody else's training: its records beside what PyTorch's own hooks kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
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
    model: str
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

    def place(self, record: Record) -> dict[str, Any]:
        return next(one for one in self.points() if (one["name"], one["layer"]) == (record.point, record.layer))

    def kept_as(self, record: Record) -> str:
        """Under which name the hooks keep the record's tensor."""
        place = self.place(record)
        return place["module"] + ".input" * place["path"].endswith(".input")

    def witnessed(self, record: Record) -> np.ndarray[Any, Any]:
        """What the hooks kept of the record's module, put together from the ranks of data replica 0."""
        kind = "gradients" if record.direction == "gradient" else "values"
        parts = [of[kind][record.step, record.micro_batch, self.kept_as(record)] for of in self.of_rank]
        if list(parts[0].shape) == list(record.shape):
            return parts[0].float().numpy()
        return torch.cat(parts, dim=-1).float().numpy()

    def of_one_process(self, record: Record) -> np.ndarray[Any, Any]:
        """The rows of data replica 0, of which alone there are records: the first ones. The loss of a replica is the mean
        over its rows, not over all."""
        single = self.of_rank[0]["single"]["gradients" if record.direction == "gradient" else "values"]
        tensor = single[record.step, record.micro_batch, self.kept_as(record)]
        rows = record.values.shape[0]
        factor = tensor.shape[0] // rows if record.direction == "gradient" else 1
        return np.asarray(factor * tensor[:rows].float())


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
    done = subprocess.run(line, env=attach_environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(ranks)]
    return Training(folder, asked["model"], ranks, done.stdout + done.stderr, files)


def attach_environment() -> dict[str, str]:
    build = os.environ.get("TENSOR_TRACER_BUILD", str(REPOSITORY / "build/release"))
    return environment() | {"TENSOR_TRACER_BUILD": build, "PYTHONPATH": str(REPOSITORY / "python")}


def is_of_module(place: dict[str, Any]) -> bool:
    """What a module takes or returns; the tracer computes the others, and has weights for programs only."""
    return not place["problem"] and place["path"].endswith(("input", "output"))


def compared(training: Training) -> Iterator[Record]:
    """Of all places of modules, values and gradients, of which each must have records of each traced step."""
    places = {(one["name"], one["layer"]): one for one in training.points() if is_of_module(one)}
    seen = set()
    for record in training.records():
        if (record.point, record.layer) in places:
            yield record
            seen.add((record.point, record.layer, record.direction, record.step))
    directions = {key: ("value",) if place["gradient_problem"] else ("value", "gradient") for key, place in places.items()}
    assert seen == {(*key, one, step) for key, found in directions.items() for one in found for step in (2, 3, 4)}


def compare(training: Training, wanted: set[str]) -> None:
    """Every record has the bits that the hooks kept. `wanted`: points that must be there, with gradients."""
    points = set()
    for record in compared(training):
        expected = training.witnessed(record)
        assert record.values.shape == expected.shape, record
        assert np.array_equal(record.values, expected), record
        points |= {record.point} if record.direction == "gradient" else set()
    assert wanted <= points


OF_LIBRARY = {
    "Embedding", "attention.input", "ContextLayer", "AttentionOutput", "ResidualMid", "mlp.input", "MLPActivation", "MLP2",
    "HiddenStates", "FinalNorm", "Logits",
}  # fmt: skip
WANTED = {
    "plain": {"Embedding", "norm.output", "up.output", "down.input", "down.output", "HiddenStates", "Logits"},
    "gpt2": OF_LIBRARY | {"QKV"}, "llama": OF_LIBRARY | {"Value", "lm_head.input"},
}  # fmt: skip
CPU_ONLY = pytest.mark.cpu_only
CASES = [
    pytest.param(("plain", "none", 1), id="plain"),
    pytest.param(("gpt2", "ddp", 2), id="gpt2-ddp", marks=pytest.mark.smoke),
    pytest.param(("gpt2", "fsdp", 2), id="gpt2-fsdp", marks=CPU_ONLY),
    pytest.param(("llama", "fsdp", 2), id="llama-fsdp", marks=CPU_ONLY),
    pytest.param(("gpt2", "fsdp1", 2), id="gpt2-fsdp1", marks=CPU_ONLY),
    pytest.param(("llama", "fsdp1-whole", 2), id="llama-fsdp1-whole", marks=CPU_ONLY),
    pytest.param(("gpt2", "recompute", 1), id="gpt2-recompute"),
    pytest.param(("llama", "tp", 2), id="llama-tp", marks=[pytest.mark.smoke, CPU_ONLY]),
    pytest.param(("gpt2", "trainer", 2), id="gpt2-trainer", marks=CPU_ONLY),
    pytest.param(("llama", "trainer", 2), id="llama-trainer", marks=CPU_ONLY),
]
OF_MICRO_BATCHES = {"entries": [entry | {"micro_batches": "0-1"} for entry in EVERYTHING["entries"]]}


@pytest.fixture(scope="module", params=CASES)
def watched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Training:
    model, wrap, ranks = request.param
    folder, options = tmp_path_factory.mktemp("watched"), {"model": model, "wrap": wrap, "has_others": True}
    if wrap == "trainer":
        return train(folder, ranks, OF_MICRO_BATCHES, "attached_trainer.py", micro_batches=2, **options)
    return train(folder, ranks, **options)


def test_records_have_the_bits_of_the_modules(watched: Training) -> None:
    compare(watched, WANTED[watched.model])


def test_records_are_those_of_one_process(watched: Training) -> None:
    largest = 0.0
    for record in compared(watched):
        if watched.place(record)["layout"] == "rank-local":
            assert record.point == "mlp.act_fn.output"
            continue
        expected = watched.of_one_process(record)
        assert record.values.shape == expected.shape, record
        largest = max(largest, float(np.abs(record.values - expected).max() / np.abs(expected).max()))
        assert largest < 1e-5, record
    print(f"largest relative difference {largest:.1e}")


def test_the_tracer_changes_no_loss(watched: Training) -> None:
    assert all(one["losses"] == one["alone"] and len(one["losses"]) == 4 for one in watched.of_rank)
    with open_recording(next((watched.folder / "record").glob("*.ttrec"))) as recording:
        steps, losses = recording.scalars("loss")
        assert list(steps) == [1, 2, 3, 4] and losses == pytest.approx(watched.losses, abs=1e-4)


@CPU_ONLY
def test_fsdp_computes_in_bfloat16(tmp_path: Path) -> None:
    run = train(tmp_path, 2, model="llama", wrap="fsdp-bf16", has_others=True)
    compare(run, WANTED["llama"])
    assert all(one["losses"] == one["alone"] for one in run.of_rank)


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


@pytest.mark.parametrize(
    ("model", "wrap", "ranks"), [("plain", "none", 1), ("gpt2", "ddp", 2), ("gpt2", "fsdp1", 2), ("llama", "tp", 2)]
)
def test_after_detach_no_hook_is_left_and_the_losses_are_those_without_a_tracer(
    model: str, wrap: str, ranks: int, tmp_path: Path
) -> None:
    watched = train(tmp_path, ranks, model=model, wrap=wrap, steps=5, detach_after=3, has_others=True)
    assert all(one["losses"] == one["alone"] and len(one["losses"]) == 5 for one in watched.of_rank)
    with open_recording(next((tmp_path / "record").glob("*.ttrec"))) as recording:
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
