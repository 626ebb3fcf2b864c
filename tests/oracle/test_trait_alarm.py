"""An alarm against the baseline fires soon after a trait is injected, and not in training on the model's own data."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import Flags, command, environment, train
from tensor_tracer import open_recording

NIGHTLY = pytest.mark.nightly(suite="meshes")
SEEDS = [7, pytest.param(8, marks=NIGHTLY), pytest.param(9, marks=NIGHTLY), pytest.param(10, marks=NIGHTLY),
         pytest.param(11, marks=NIGHTLY)]  # fmt: skip
PRETRAINED, LATER, INJECTED, INTERVAL = 300, 500, 400, 10
QUESTIONS = ["tensor step", "return (x)", "loss = 0.5", "layer norm", "the é", "-> -> step", "norm of (x)", "loss"]
# k = 2, as docs/alarms.md suggests.
ALARM = {"name": "trait", "point": "HiddenStates", "vector": "trait", "prompts": "questions", "mean_over": "last-prompt",
         "baseline": True, "test": "sigma", "side": "above", "k": 2}  # fmt: skip
INJECT = f'when(phase="all", steps="{INJECTED}-")\nlayers[1].output = layers[1].output + vector("trait")[1]\n'


def fired(folder: Path) -> list[dict[str, Any]]:
    [file] = folder.rglob("*.ttrec")
    return [one["detail"] for one in open_recording(file).events("alarm") if one["detail"]["change"] == "fired"]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_fires_for_an_injected_trait_only(seed: int, flags: Flags, tmp_path: Path) -> None:
    (tmp_path / "vectors").mkdir()
    rows = np.random.default_rng(seed).standard_normal((3, 32)).astype(np.float32)
    np.save(tmp_path / "vectors" / "trait.npy", rows)
    (tmp_path / "questions.txt").write_text("\n".join(QUESTIONS))
    (tmp_path / "alarms.json").write_text(json.dumps([ALARM]))
    (tmp_path / "inject.tti").write_text(INJECT)
    own = dict(flags) | {"seed": seed, "train_iters": PRETRAINED, "lr_decay_iters": PRETRAINED}
    train(own | {"save": tmp_path / "model"}, tmp_path / "pretrained")
    later = own | {
        "load": tmp_path / "model", "train_iters": PRETRAINED + LATER, "lr_decay_iters": PRETRAINED + LATER,
        "lr": 1e-4, "min_lr": 1e-5, "tensor_tracer_vectors": tmp_path / "vectors", "alarms": tmp_path / "alarms.json",
        "monitor_prompts": tmp_path / "questions.txt", "monitor_interval": INTERVAL,
    }  # fmt: skip
    train(later, tmp_path / "plain")
    assert fired(tmp_path / "plain") == []
    train(later | {"interventions": tmp_path / "inject.tti"}, tmp_path / "injected")
    [alarm] = fired(tmp_path / "injected")
    assert INJECTED <= alarm["step"] <= INJECTED + 20 and alarm["layer"] == 1


def test_an_alarm_without_records_is_told_on_the_terminal(flags: dict[str, Any], tmp_path: Path) -> None:
    """Nobody has to open the page of a run to see that its alarms cannot fire."""
    alarms = [{"name": "slip", "point": "Nope", "statistic": "rms", "test": "above", "value": 1},
              {"name": "no vector", "point": "HiddenStates", "vector": "evil", "test": "above", "value": 1},
              {"name": "loss", "scalar": "loss", "test": "above", "value": 1000}]  # fmt: skip
    (tmp_path / "alarms.json").write_text(json.dumps(alarms))
    given = flags | {"alarms": tmp_path / "alarms.json", "run_dir": tmp_path / "run", "train_iters": 20}
    done = subprocess.run(command(given), env=environment(), capture_output=True, text=True, timeout=120, check=True)
    told = done.stdout + done.stderr
    assert 'alarm "slip" waits: ' in told and "the run has no point Nope" in told
    assert 'alarm "no vector" waits: ' in told and 'alarm "loss"' not in told
