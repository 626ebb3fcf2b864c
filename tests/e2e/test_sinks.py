"""`python -m tensor_tracer follow`: a real run in TensorBoard, W&B and an OTLP collector, read by their own code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from fake_hub import FakeHub
from hub_harness import REPOSITORY, wait_until
from otlp_receiver import Collector, collector
from program import tiny_flags, write_text
from tensor_tracer import Record, Recording, connect, open_recording
from viewer import LiveRun, live_run
from wandb_file import rows_of

PLAN = [
    {"point": "HiddenStates", "compressor": {"kind": "stats", "range": [-2, 2], "bins": 4}},
    {"point": "HiddenStates", "direction": "gradient", "compressor": {"kind": "stats"}},
    {"point": "HiddenStates", "compressor": {"kind": "tile"}},
    {"point": "HiddenStates", "compressor": {"kind": "projection", "vectors": ["up"]}},
    {"point": "Updates"},
]


def start_following(run: Path, *options: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tensor_tracer", "follow", str(run), *options]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python"), **environment}
    return subprocess.Popen(
        command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return output


class Followed(NamedTuple):
    recording: Recording
    board: Any  # TensorBoard's EventAccumulator
    rows: dict[int, dict[str, Any]]  # of W&B, by step
    otlp: Collector
    outputs: list[str]


def drive(run: LiveRun, viewers: int, steps: int) -> None:
    """As soon as the viewers are there, sets the plan and an alarm that fires; ends the run so many steps later."""
    with connect(run_dir=run.run_dir) as client, client.control("test") as control:
        next(client.steps(timeout=60))  # a trainer has connected
        while len(client.viewers()) < 1 + viewers:
            time.sleep(0.05)
        client.set_alarm("loss", "range", scalar="loss", low=0, high=0.1)
        first = control.set_plan(PLAN).step
        for row in client.steps(timeout=60):
            if row["step"] >= first + steps:
                break
        control.stop()
    run.wait()


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    folder = tmp_path_factory.mktemp("sinks")
    (folder / "vectors").mkdir()
    np.save(folder / "vectors" / "up.npy", np.ones((3, 32), np.float32))
    flags = tiny_flags(write_text(folder / "text.txt")) | {
        "train_iters": 1_000_000, "tensor_tracer_vectors": str(folder / "vectors"), "record": str(folder / "record"),
    }  # fmt: skip
    with collector() as otlp, live_run(flags, folder) as run:
        run.address()
        tools = [
            start_following(run.run_dir, "--to", "tensorboard", "--output", "logs/run", folder=folder),
            start_following(run.run_dir, "--to", "wandb", folder=folder, WANDB_MODE="offline", WANDB_SILENT="true"),
            start_following(run.run_dir, "--to", "otlp", "--endpoint", otlp.address, folder=folder),
        ]
        drive(run, len(tools), 300)
        outputs = [finish(tool) for tool in tools]
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        board = EventAccumulator(str(folder / "logs" / "run"), size_guidance={"histograms": 0, "scalars": 0})
        board.Reload()
        rows: dict[int, dict[str, Any]] = {}
        for row in rows_of(folder):
            rows.setdefault(row["step"], {}).update(row)
        yield Followed(open_recording(folder / "record" / "run.ttrec"), board, rows, otlp, outputs)


def test_all_tools_have_every_loss(followed: Followed) -> None:
    steps, losses = followed.recording.scalars("loss")
    assert len(steps) >= 300
    told = followed.board.Scalars("loss")
    assert [one.step for one in told] == list(steps)
    assert [one.value for one in told] == [np.float32(loss) for loss in losses]
    assert [followed.rows[step]["loss"] for step in steps] == list(losses)
    assert followed.otlp.value("tensor_tracer.loss") == losses[-1]
    assert followed.otlp.value("tensor_tracer.step") == steps[-1]
    assert followed.otlp.resource["tensor_tracer.run.id"] == followed.recording.records()[0].run
    for output in followed.outputs:
        assert f"{len(steps)} steps" in output and f"the run stopped at step {steps[-1]}" in output


def of_one_step(followed: Followed, tag: str, **chosen: Any) -> tuple[Record, dict[str, Any]]:
    """The newest record of which W&B has the readings, and the row there. A hub sends a slow viewer not all records."""
    step = max(step for step, row in followed.rows.items() if any(name.startswith(tag) for name in row))
    [record] = followed.recording.records(steps=step, **chosen)
    return record, followed.rows[step]


def test_statistics_have_their_steps_and_histograms(followed: Followed) -> None:
    tag = "HiddenStates/layer_2/stats"
    chosen = {"point": "HiddenStates", "compressor": "stats", "direction": "value", "layers": 2}
    record, row = of_one_step(followed, f"{tag}/", **chosen)
    assert row[f"{tag}/rms"] == record.values[1][1]
    assert row[f"{tag}/histogram/values"] == [*record.values[0][10:14]]
    told = {one.step: one.value for one in followed.board.Scalars(f"{tag}/std")}
    recorded = {one.step: one.values[0] for one in followed.recording.records(**chosen)}
    assert len(told) > 10 and told == {step: recorded[step][2] for step in told}
    for one in followed.board.Histograms(f"{tag}/histogram"):
        assert one.histogram_value.bucket == [*recorded[one.step][10:14]]
        assert [*np.diff([one.histogram_value.min, *one.histogram_value.bucket_limit])] == [1, 1, 1, 1]
    place = {"point": "HiddenStates", "layer": 2, "direction": "value", "phase": "train"}
    assert followed.otlp.value("tensor_tracer.stats", **place, name="std") in [stats[2] for stats in recorded.values()]


def test_gradients_projections_and_updates_have_their_names(followed: Followed) -> None:
    tag = "HiddenStates/layer_1/gradient/stats/"
    gradient, row = of_one_step(followed, tag, point="HiddenStates", direction="gradient", layers=1)
    assert row[f"{tag}norm"] == gradient.values[0][5]
    tag = "HiddenStates/layer_1/projection/"
    projection, row = of_one_step(followed, tag, point="HiddenStates", compressor="projection", layers=1)
    assert row[f"{tag}up"] == pytest.approx(projection.values.astype(float).mean(), rel=1e-12)
    updates, row = of_one_step(followed, "Updates/", point="Updates")
    [point] = [point for point in followed.recording.facts["points"] if point["name"] == "Updates"]
    column, parameter = point["columns"].index("update_ratio"), 1
    ratio = updates.values[0, parameter, column]
    assert ratio > 0 and row[f"Updates/{point['parameters'][parameter]}/update_ratio"] == ratio


def test_an_alarm_is_told_once(followed: Followed) -> None:
    [fired] = [one for one in followed.board.Scalars("alarms/loss") if one.value == 1]
    assert followed.rows[fired.step]["alarms/loss"] == 1
    assert followed.otlp.value("tensor_tracer.alarms", alarm="loss") == 1


def test_the_tools_can_be_left_at_any_time(tmp_path: Path) -> None:
    flags = tiny_flags(write_text(tmp_path / "text.txt")) | {"train_iters": 1_000_000}
    with live_run(flags, tmp_path) as run:
        run.address()
        tool = start_following(run.run_dir, "--to", "tensorboard", "--output", "logs", folder=tmp_path)
        with connect(run_dir=run.run_dir) as client:
            first = next(client.steps(timeout=60))
            while not list(tmp_path.glob("logs/*")):
                assert tool.poll() is None, tool.communicate()
                time.sleep(0.05)
            tool.send_signal(signal.SIGINT)
            assert "the run goes on" in finish(tool)
            assert any(row["step"] > first["step"] + 3 for row in client.steps(timeout=60))


def test_records_that_were_left_out_are_counted(tmp_path: Path) -> None:
    with FakeHub() as fake:
        fake.answers["alarms.list"] = {"alarms": []}
        tool = start_following(fake.write_run_dir(tmp_path), "--to", "tensorboard", "--output", "logs", folder=tmp_path)
        wait_until(lambda: bool(fake.named("alarms.list")), "the first request", 60)
        fake.tell("dropped", records=7, entries={"0": 7})
        fake.tell("state", phase="finished", step=3)
        fake.viewer.close()
        assert "; the run finished at step 3; 7 records came too fast and were left out" in finish(tool)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["abc:def", "--to", "otlp"], "'abc:def' is no address; write http://HOST:PORT/"),
        (["runs/none", "--to", "otlp"], "there is no directory runs/none"),
        (["127.0.0.1:1", "--to", "otlp"], "127.0.0.1:1"),
        (["x", "--to", "tensorboard"], "--to tensorboard needs --output FOLDER"),
    ],
)
def test_a_wrong_command_says_what_to_do(tmp_path: Path, options: list[str], text: str) -> None:
    tool = start_following(Path(options[0]), *options[1:], folder=tmp_path)
    _, errors = tool.communicate(timeout=30)
    assert tool.returncode in (1, 2) and text in errors and "Traceback" not in errors
