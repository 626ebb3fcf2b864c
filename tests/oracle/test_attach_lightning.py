"""The tracer inside a training by Lightning's Trainer: its records beside what PyTorch's own hooks kept."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_environment import make_environment
from stopping import pause_step_and_stop
from tensor_tracer import open_recording
from test_attach import NOTHING, OF_MICRO_BATCHES, WANTED, Training, attach_environment, compare, train

NIGHTLY = pytest.mark.nightly(suite="attach")
SCRIPT = "lightning_training.py"
STEPS, MICRO_BATCHES = 4, 2


@pytest.fixture(scope="session")
def python() -> Path:
    return make_environment("lightning", "--no-deps")


def fit(python: Path, folder: Path, ranks: int, **options: Any) -> Training:
    asked = {"steps": STEPS, "micro_batches": MICRO_BATCHES} | options
    return train(folder, ranks, script=SCRIPT, python=python, **asked)


@NIGHTLY
@pytest.mark.parametrize("ranks", [1, 2])
def test_records_have_the_bits_of_the_modules(ranks: int, python: Path, tmp_path: Path) -> None:
    watched = fit(python, tmp_path / "watched", ranks, plan=OF_MICRO_BATCHES)
    alone = fit(python, tmp_path / "alone", ranks, plan=None)
    compare(watched, WANTED["gpt2"])
    assert {record.micro_batch for record in watched.records() if record.phase == "train"} == {0, 1}
    assert [rank["losses"] for rank in watched.of_rank] == [rank["losses"] for rank in alone.of_rank]
    assert len(alone.losses) == STEPS * MICRO_BATCHES


@NIGHTLY
def test_the_numbers_of_a_step_are_logged(python: Path, tmp_path: Path) -> None:
    watched = fit(python, tmp_path, 1, plan=NOTHING)
    with open_recording(next((tmp_path / "record").glob("*.ttrec"))) as recording:
        steps, losses = recording.scalars("loss")
        assert list(steps) == list(range(1, STEPS + 1))
        assert np.allclose(losses, np.mean(np.reshape(watched.losses, (STEPS, MICRO_BATCHES)), axis=1), rtol=1e-12)
        assert list(recording.scalars("lr")[1]) == watched.of_rank[0]["rates"]
        assert list(recording.scalars("valid_loss")[0]) == [2, 4]


@NIGHTLY
def test_a_viewer_pauses_and_stops_the_training(python: Path, tmp_path: Path) -> None:
    attach = {"port": 0, "run_dir": str(tmp_path / "run"), "record": str(tmp_path / "record"), "plan": NOTHING}
    asked = {"steps": 100_000, "micro_batches": 1, "attach": attach}
    line = [str(python), "-W", "ignore", SCRIPT, str(tmp_path), json.dumps(asked)]
    stopped = pause_step_and_stop(line, tmp_path / "run")
    assert torch.load(tmp_path / "rank0.pt")["steps"] == stopped


@NIGHTLY
def test_a_trainer_fits_again_after_an_exception(python: Path, tmp_path: Path) -> None:
    attach = {"port": None, "run_dir": str(tmp_path / "run"), "record": str(tmp_path / "record"), "plan": NOTHING}
    line = [str(python), "-W", "ignore", "lightning_again.py", json.dumps(attach)]
    folder, env = Path(__file__).parent, attach_environment()
    ended = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == {"steps": [2, 4], "hooks": 0}
