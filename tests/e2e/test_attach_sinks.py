"""`sinks` of tensor_tracer.attach: the numbers of an attached run in W&B, TensorBoard and an OTLP collector, read by
their own code; and sinks that fail, beside which the training goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensor_tracer as tt
from hub_harness import REPOSITORY, wait_until
from otlp_receiver import Collector, collector
from tensor_tracer import Recording, TensorTracerError, open_recording, sinks
from tensor_tracer.sinks.followers import Followers
from torch import nn
from wandb_file import rows_of

SCRIPT = Path(__file__).with_name("attached_run.py")
NO_COLLECTOR = "http://127.0.0.1:9"


class Trained(NamedTuple):
    losses: list[float]
    told: list[str]  # on standard output, but for the losses
    errors: str


def start(folder: Path, *given: Any, steps: int = 0, **environment: str) -> subprocess.Popen[str]:
    """Without steps, it trains until the file `stop` exists."""
    build = os.environ.get("TENSOR_TRACER_BUILD", str(REPOSITORY / "build/release"))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TENSOR_TRACER_BUILD": build, "PYTHONPATH": str(REPOSITORY / "python")}
    options = {"sinks": given} | ({"steps": steps} if steps else {})
    line = [sys.executable, str(SCRIPT), str(folder), json.dumps(options)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(line, cwd=folder, env=env | environment, text=True, **pipes)


def result_of(process: subprocess.Popen[str]) -> Trained:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, output + errors
    *told, losses = output.splitlines()
    return Trained(json.loads(losses), told, errors)


class Followed(NamedTuple):
    trained: Trained
    recording: Recording
    folder: Path
    board: Any  # TensorBoard's EventAccumulator
    rows: dict[int, dict[str, Any]]  # of W&B, by step
    otlp: Collector


def has_begun(folder: Path, otlp: Collector) -> bool:
    """True if every tool takes statistics."""
    files = [[*folder.glob("logs/*")], [*folder.glob("wandb/offline-run-*/*.wandb")]]
    return all(files) and any(name == "tensor_tracer.stats" for name, _ in otlp.values)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    folder = tmp_path_factory.mktemp("attached")
    with collector() as otlp:
        given = ["wandb", {"kind": "TensorBoard", "folder": "logs"}, {"kind": "Otlp", "endpoint": otlp.address}]
        process = start(folder, *given, WANDB_MODE="offline", WANDB_SILENT="true")
        wait_until(lambda: has_begun(folder, otlp) or process.poll() is not None, "all tools", 60)
        time.sleep(0.5)
        (folder / "stop").touch()
        trained = result_of(process)
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        board = EventAccumulator(str(folder / "logs"), size_guidance={"scalars": 0})
        board.Reload()
        rows: dict[int, dict[str, Any]] = {}
        for row in rows_of(folder):
            rows.setdefault(row["step"], {}).update(row)
        yield Followed(trained, open_recording(folder / "record" / "run.ttrec"), folder, board, rows, otlp)


def test_every_tool_has_every_loss(followed: Followed) -> None:
    losses = followed.trained.losses
    steps = list(range(1, len(losses) + 1))
    told = followed.board.Scalars("loss")
    assert [one.step for one in told] == steps and [one.value for one in told] == [*np.float32(losses)]
    assert [followed.rows[step]["loss"] for step in steps] == losses
    assert followed.otlp.value("tensor_tracer.loss") == losses[-1]
    assert followed.otlp.value("tensor_tracer.step") == steps[-1]
    assert "warning" not in followed.trained.errors


@pytest.mark.parametrize("direction", ["value", "gradient"])
def test_every_tool_has_statistics_at_their_steps(followed: Followed, direction: str) -> None:
    gradient = "gradient/" * (direction == "gradient")
    tag = f"HiddenStates/layer_2/{gradient}stats/std"
    chosen = followed.recording.records("HiddenStates", compressor="stats", direction=direction, layers=2)
    recorded = {record.step: record.values[0][2] for record in chosen}
    told = {one.step: one.value for one in followed.board.Scalars(tag)}
    logged = {step: row[tag] for step, row in followed.rows.items() if tag in row}
    assert len(told) > 10 and told == {step: recorded[step] for step in told}
    assert len(logged) > 10 and logged == {step: recorded[step] for step in logged}
    place = {"point": "HiddenStates", "layer": 2, "direction": direction, "phase": "train", "name": "std"}
    assert followed.otlp.value("tensor_tracer.stats", **place) in recorded.values()


def test_without_a_page_no_address_is_printed(followed: Followed) -> None:
    assert followed.trained.told == []


def commands_with(text: str) -> list[str]:
    """The command lines of all processes that have the text."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if text in line]


def test_no_process_is_left(followed: Followed) -> None:
    assert commands_with(str(followed.folder)) == []


FAILURES = [
    pytest.param({"kind": "TensorBoard", "folder": "file"}, "the sink tensorboard did not take everything: file", id="file"),
    pytest.param({"kind": "Otlp", "endpoint": NO_COLLECTOR}, "the sink otlp did not take everything: --to otlp",
                 id="collector", marks=pytest.mark.nightly(suite="runs")),
]  # fmt: skip


@pytest.mark.parametrize(("sink", "warning"), FAILURES)
def test_a_sink_that_fails_is_told_and_the_training_goes_on(sink: Any, warning: str, tmp_path: Path) -> None:
    for folder in ("bad", "good"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bad" / "file").touch()
    failed = result_of(start(tmp_path / "bad", sink, steps=20))
    assert f"tensor_tracer: warning: {warning}" in failed.errors
    assert failed.losses == result_of(start(tmp_path / "good", steps=20)).losses


def test_a_sink_that_ends_early_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    followers = Followers(["tensorboard", "wandb"], str(tmp_path / "none"), told.append)

    def have_ended() -> bool:
        followers.check()
        return len(told) == 2

    wait_until(have_ended, "the ends", 60)
    followers.check()
    followers.finish()
    assert len(told) == 2
    reason = f"has ended: there is no directory {tmp_path / 'none'}"
    assert sorted(text[:text.index(";")] for text in told) == [f"the sink tensorboard {reason}", f"the sink wandb {reason}"]


@pytest.mark.parametrize("given", ["wandb", ["prometheus"], [{"kind": "Otlp"}], [sinks.Otlp(), 3]])
def test_what_is_no_sink_is_refused(given: Any) -> None:
    with pytest.raises(TensorTracerError, match="list of wandb, tensorboard, otlp") as raised:
        tt.attach(nn.Linear(2, 2), sinks=given)
    assert raised.value.code == "invalid_argument" and raised.value.where == "sinks"
