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
from program import REPOSITORY, environment
from tensor_tracer import open_recording
from tensor_tracer.record import Record

SCRIPT = Path(__file__).with_name("attached_training.py")
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


def train(folder: Path, ranks: int = 1, plan: Any = EVERYTHING, **options: Any) -> Training:
    folder.mkdir(parents=True, exist_ok=True)
    asked = {"model": "plain", "wrap": "none", "steps": 4, "micro_batches": 1} | options
    if plan is not None:
        attach = {"port": 0, "run_dir": str(folder / "run"), "record": str(folder / "record"), "plan": plan}
        asked["attach"] = attach | asked.get("attach", {})
    launcher = [] if ranks == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    line = [sys.executable, *launcher, str(SCRIPT), str(folder), json.dumps(asked)]
    done = subprocess.run(line, env=attach_environment(), capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(ranks)]
    return Training(folder, ranks, done.stdout + done.stderr, files)


def attach_environment() -> dict[str, str]:
    build = os.environ.get("TENSOR_TRACER_BUILD", str(REPOSITORY / "build/release"))
    return environment() | {"TENSOR_TRACER_BUILD": build, "PYTHONPATH": str(REPOSITORY / "python")}


def is_output(training: Training, record: Record) -> bool:
    place = next(p for p in training.points() if p["name"] == record.point and p["layer"] == record.layer)
    return record.point != "InputTokens" and not str(place["path"]).endswith(".input")


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
    pytest.param("gpt2", "ddp", 2, 150, id="gpt2-ddp"),
    pytest.param("llama", "fsdp", 2, 150, id="llama-fsdp"),
    pytest.param("llama", "tp", 2, 150, id="llama-tp"),
]


@pytest.mark.parametrize(("model", "wrap", "ranks", "fewest"), CASES)
def test_records_have_the_bits_of_the_modules(model: str, wrap: str, ranks: int, fewest: int, tmp_path: Path) -> None:
    watched = train(tmp_path / "watched", ranks, model=model, wrap=wrap)
    compare(watched, fewest)
    alone = train(tmp_path / "alone", ranks, plan=None, model=model, wrap=wrap)
    assert watched.losses == alone.losses and len(alone.losses) == 4
