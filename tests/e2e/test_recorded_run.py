"""A whole run that is recorded: what the file holds is what the run computed and a viewer saw."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hub_harness import claim, error_code
from program import Flags, binary, command, environment, tiny_flags, write_text
from test_hub_replay import replaying, shown

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from tensor_tracer import Run, connect, open_recording  # noqa: E402

STEPS = 6


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    text = write_text(tmp_path_factory.mktemp("data") / "text.txt")
    return {**tiny_flags(text), "train_iters": STEPS, "log_format": "json", "eval_interval": 0}


@contextlib.contextmanager
def watched(line: list[str], run_dir: Path) -> Iterator[Run]:
    """A viewer of a run that waits for it; the run must come to its own end."""
    process = subprocess.Popen(line, env=environment(), stdout=subprocess.DEVNULL)
    try:
        while not (run_dir / "hub.json").exists():
            assert process.poll() is None
        with connect(run_dir=run_dir) as run:
            while run.facts is None:
                time.sleep(0.01)
            yield run
        assert process.wait(20) == 0
    finally:
        process.kill()


def test_without_a_port_a_recording_is_written_and_nobody_is_waited_for(flags: Flags, tmp_path: Path) -> None:
    line = command(
        {**flags, "run_dir": str(tmp_path / "run"), "record": str(tmp_path / "kept"),
         "tensor_model_parallel_size": 2}, 2,
    )  # fmt: skip
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = [json.loads(text) for text in done.stdout.splitlines()]
    recording = open_recording(tmp_path / "kept" / "run.ttrec")
    steps, losses = recording.scalars("loss")
    assert list(steps) == list(range(1, STEPS + 1))
    assert list(losses) == [step["loss"] for step in said]
    maps = list(recording.records(point="HiddenStates"))
    assert {record.step for record in maps} == set(steps)
    assert all(np.isfinite(record.values).all() and record.values.size > 0 for record in maps)
    assert recording.facts["configuration"]["train-iters"] == str(STEPS)


def test_of_many_vectors_the_default_plan_takes_as_many_as_fit(flags: Flags, tmp_path: Path) -> None:
    """The terminal and the run's log name those that it leaves out."""
    (tmp_path / "vectors").mkdir()
    for number in range(10, 43):
        np.save(tmp_path / "vectors" / f"v{number}.npy", np.ones((3, 32), np.float32))
    line = command(
        {**flags, "run_dir": str(tmp_path / "run"), "record": str(tmp_path), "log_format": "text",
         "tensor_tracer_vectors": str(tmp_path / "vectors"), "train_iters": 1}, 1,
    )  # fmt: skip
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = "the default plan projects on the first 32 vectors; left out: v42"
    assert f"note   {told}\n" in done.stdout
    recording = open_recording(tmp_path / "run.ttrec")
    assert [event["detail"]["message"] for event in recording.events("log")] == [told]
    projected = [e for e in recording.facts["plan"]["entries"] if e["compressor"]["kind"] == "projection"]
    assert [entry["point"] for entry in projected] == ["HiddenStates", "FinalNorm"]
    assert all(entry["compressor"]["vectors"][-1] == "v41" for entry in projected)
    assert len(recording.facts["vectors"]) == 33


def test_what_a_viewer_saw_is_what_was_recorded(flags: Flags, tmp_path: Path) -> None:
    line = command(
        {**flags, "run_dir": str(tmp_path / "run"), "record": str(tmp_path), "tensor_tracer_port": 0,
         "tensor_tracer_wait": True}, 1,
    )  # fmt: skip
    with watched(line, tmp_path / "run") as run:
        seen = {(r.step, r.layer): r.values for r in run.records(point="HiddenStates", timeout=20)}
    recording = open_recording(tmp_path / "run.ttrec")
    kept = {(r.step, r.layer): r.values for r in recording.records(point="HiddenStates")}
    assert len(kept) >= STEPS
    assert seen.keys() <= kept.keys() and len(seen) >= len(kept) - 2
    for place, values in seen.items():
        assert np.array_equal(values, kept[place], equal_nan=True), place


@pytest.mark.nightly(suite="history")
def test_two_runs_in_one_folder_have_a_recording_each_and_say_which(flags: Flags, tmp_path: Path) -> None:
    told = []
    for name in ("first", "second"):
        line = command(
            {**flags, "run_dir": str(tmp_path / name), "record": str(tmp_path), "tensor_tracer_port": 0,
             "tensor_tracer_wait": True}, 1,
        )  # fmt: skip
        with watched(line, tmp_path / name) as run:
            told.append((run.facts["recording"], run.facts["id"]))
            assert list(run.records(timeout=20))
    assert told[0][0] == str(tmp_path / "run.ttrec") != told[1][0]
    for path, run_id in told:
        assert open_recording(path).facts["id"] == run_id


@pytest.mark.nightly(suite="history")
def test_the_runs_controller_can_end_it(flags: Flags, tmp_path: Path) -> None:
    line = command(
        {**flags, "run_dir": str(tmp_path / "run"), "train_iters": 100000, "tensor_tracer_port": 0,
         "tensor_model_parallel_size": 2}, 2,
    )  # fmt: skip
    process = subprocess.Popen(line, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        while not (tmp_path / "run" / "hub.json").exists():
            assert process.poll() is None
        with connect(run_dir=tmp_path / "run") as run, run.control("Ada"):
            next(iter(run.steps(timeout=20)))
            answer = run.request("control.stop")
        assert answer["ranks"] == 2
        out, _ = process.communicate(timeout=20)
        assert process.returncode == 0
        assert json.loads(out.splitlines()[-1])["step"] == answer["step"]
    finally:
        process.kill()
        process.wait()


def test_a_replay_tells_the_plan_that_was_set_while_the_run_was_recorded(flags: Flags, tmp_path: Path) -> None:
    line = command(
        {**flags, "run_dir": str(tmp_path / "run"), "record": str(tmp_path), "train_iters": 100000,
         "tensor_tracer_port": 0, "tensor_tracer_wait": True}, 1,
    )  # fmt: skip
    with watched(line, tmp_path / "run") as run:
        assert run.facts is not None
        first = run.facts["plan"]
        with run.control("Ada") as control:
            next(iter(run.steps(timeout=20)))
            change = control.set_plan([{"point": "MLP1"}]).step
            next(record for record in run.records(point="MLP1", timeout=20) if record.plan > first["number"])
            run.request("control.stop")
    with replaying(tmp_path / "run.ttrec", "--paused") as replay:
        viewer = replay.viewer
        assert viewer.hello["result"]["run"]["plan"] == first
        claim(viewer)
        viewer.request("replay.seek", {"step": change})
        viewer.receive_until(lambda: len(viewer.named("plan")) == 1, "the second plan")
        assert [entry["point"] for entry in viewer.named("plan")[0]["plan"]["entries"]] == ["MLP1"]
        viewer.receive_until(lambda: bool(viewer.records), "its records")
        assert {step for step, _, _ in shown(viewer)} == {change}
        viewer.request("replay.seek", {"step": change - 1})
        viewer.receive_until(lambda: len(viewer.named("plan")) == 2, "the first plan")
        assert viewer.named("plan")[1]["plan"] == first


def test_a_recording_and_its_replay_know_the_prompts_that_were_kept(flags: Flags, tmp_path: Path) -> None:
    line = command(
        {**flags, "run_dir": str(tmp_path / "run"), "record": str(tmp_path), "train_iters": 100000,
         "monitor_interval": 1, "tensor_tracer_port": 0, "tensor_tracer_wait": True}, 1,
    )  # fmt: skip
    plan = {"entries": [{"point": "InputTokens"}]}
    with watched(line, tmp_path / "run") as run, run.control("Ada"):
        next(iter(run.steps(timeout=20)))
        change = run.request("prompt.keep", {"name": "mine", "text": "ab", "plan": plan})["step"]
        next(record for record in run.records(timeout=20) if record.prompt_set == 1)
        removed = run.request("prompt.remove", {"name": "mine"})["step"]
        run.request("control.stop")
    recording = open_recording(tmp_path / "run.ttrec")
    assert [(one["name"], one["removed"]) for one in recording.facts["prompt_sets"]] == [("mine", True)]
    kept = list(recording.records(point="InputTokens", prompt_set=1))
    assert {record.step for record in kept} == set(range(change, removed))
    assert all(record.values[0].reshape(-1).tolist() == [97, 98] for record in kept)
    with replaying(tmp_path / "run.ttrec", "--paused") as replay:
        viewer = replay.viewer
        assert viewer.hello["result"]["run"]["prompt_sets"] == []
        claim(viewer)
        for step, flags_of_sets in ((change, [False]), (change - 1, []), (removed, [True])):
            before = len(viewer.named("prompts"))
            viewer.request("replay.seek", {"step": step})
            viewer.receive_until(lambda before=before: len(viewer.named("prompts")) > before, "its prompts")
            sets = viewer.named("prompts")[-1]["prompt_sets"]
            assert [one.get("removed", False) for one in sets] == flags_of_sets
        for method, params in (("run", {}), ("keep", {"name": "a"})):
            assert error_code(viewer.request(f"prompt.{method}", {"text": "a"} | params)) == "replay"


def test_replay_and_export_are_commands_of_the_program() -> None:
    for name in ("replay", "export", "hub"):
        done = subprocess.run([str(binary()), name, "--help"], capture_output=True, text=True, timeout=10)
        assert done.returncode == 0, done.stderr
        assert "--" in done.stdout
