"""Every run is kept: `tensor-tracer runs`, and what is left when everything is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_harness import HubOfRun, Peer, running_hub, wait_until
from hub_harness import binary as hub_binary
from program import Flags, binary, command, environment, step_log, tiny_flags, write_text
from test_hub_metrics import scrape

MAX_LOST = 1.0  # seconds


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    text = write_text(tmp_path_factory.mktemp("data") / "text.txt")
    return {**tiny_flags(text), "log_format": "json", "eval_interval": 0}


def runs(folder: Path, *words: str, code: int = 0) -> str:
    """What `tensor-tracer runs` prints in this folder."""
    done = subprocess.run([str(binary()), "runs", *words], cwd=folder, capture_output=True, text=True, timeout=30)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def listed(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(runs(folder, "--json"))
    return found


def run_to_its_end(flags: Flags, folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run(command(flags), cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return step_log(done.stdout)


def losses_of(file: str) -> list[tuple[int, float, int]]:
    database = sqlite3.connect(file)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = database.execute("SELECT step, value, time_ns FROM scalars WHERE name = 'loss' ORDER BY step").fetchall()
    database.close()
    return found


def wait_for_end(folder: Path) -> None:
    """The hub ends a little later than the run."""
    end = time.monotonic() + 20
    while any((path / "run.ttrec-wal").exists() for path in (folder / "runs").iterdir()):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_without_a_page_is_kept_and_listed(flags: Flags, tmp_path: Path) -> None:
    steps = run_to_its_end({**flags, "train_iters": 4, "run_name": "first try"}, tmp_path)
    wait_for_end(tmp_path)
    [run] = listed(tmp_path)
    assert (run["name"], run["state"], run["step"], run["train_iters"]) == ("first try", "finished", 4, 4)
    assert run["loss"] == steps[-1]["loss"] and run["kept"] is False and run["bytes"] > 1000
    assert [loss for _, loss, _ in losses_of(str(tmp_path / run["recording"]))] == [step["loss"] for step in steps]
    table = runs(tmp_path)
    assert run["id"] in table and "first try" in table and "4/4" in table and "1 run, " in table

    assert run["id"] in runs(tmp_path, "keep", run["id"][:6])
    assert listed(tmp_path)[0]["kept"] is True
    assert "is kept" in runs(tmp_path, "remove", run["id"], code=2)
    assert "removed" in runs(tmp_path, "remove", "--kept", run["id"])
    assert listed(tmp_path) == [] and not list((tmp_path / "runs").iterdir())
    assert "no run" in runs(tmp_path, "remove", run["id"], code=2)
    assert "--runs-dir" in runs(tmp_path / "runs", code=2)


def recorded(folder: Path) -> sqlite3.Connection:
    """The recording of the folder's only run, which has ended."""
    wait_for_end(folder)
    [run] = listed(folder)
    return sqlite3.connect(folder / run["recording"])


def test_without_a_page_the_recording_takes_what_options_ask_for(flags: Flags, tmp_path: Path) -> None:
    (tmp_path / "probes.txt").write_text("ab\ncde\n")
    plan = {"entries": [{"point": "MLP1"}, {"point": "HiddenStates", "prompts": "probes"}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    prompts = {"monitor_prompts": "probes.txt", "monitor_interval": 2, "tensor_tracer_plan": "plan.json"}
    asked: dict[str, tuple[Flags, set[tuple[str, int]]]] = {
        "nothing": ({}, set()),
        "prompts": ({**prompts, "history": "off"}, {("HiddenStates", 1)}),
        "plan": (prompts, {("HiddenStates", 1), ("MLP1", 0)}),
        "history": ({"history": "on"}, {("InputTokens", 0), ("HiddenStates", 0)}),
        "points": ({"record_points": "InputTokens"}, {("InputTokens", 0)}),
    }
    for name, (options, expected) in asked.items():
        folder = tmp_path / name
        folder.mkdir()
        given = {flag: str(tmp_path / value) if str(value).endswith((".txt", ".json")) else value
                 for flag, value in options.items()}  # fmt: skip
        run_to_its_end({**flags, **given, "train_iters": 4}, folder)
        found = recorded(folder).execute("SELECT DISTINCT name, prompt_set FROM frames JOIN points"
                                         " ON points.flag = frames.point AND points.run = frames.run")  # fmt: skip
        assert set(found.fetchall()) == expected, name


def test_without_a_page_alarms_fire_and_the_spike_recorder_writes(flags: Flags, tmp_path: Path) -> None:
    above = {"test": "above", "value": 0}
    alarms = [{"name": "any loss", "scalar": "loss"} | above,
              {"name": "any norm", "point": "HiddenStates", "statistic": "rms"} | above]  # fmt: skip
    (tmp_path / "alarms.json").write_text(json.dumps(alarms))
    plan = {"entries": [{"point": "HiddenStates", "compressor": {"kind": "stats"}}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (tmp_path / "notify.sh").write_text("#!/bin/sh\ncat >> told.txt\n")
    (tmp_path / "notify.sh").chmod(0o700)
    run_to_its_end({**flags, "train_iters": 200, "alarms": "alarms.json", "tensor_tracer_plan": "plan.json",
                    "alarm_command": "./notify.sh", "spike_recorder": 3}, tmp_path)  # fmt: skip
    kinds = [kind for (kind,) in recorded(tmp_path).execute("SELECT kind FROM events")]
    assert kinds.count("alarm") == 4 and "spike" in kinds, "set and fired"
    told = [json.loads(line) for line in (tmp_path / "told.txt").read_text().splitlines()]
    assert {(one["change"], one["alarm"]["name"]) for one in told} == {("fired", "any loss"), ("fired", "any norm")}
    [spike] = (tmp_path / "runs").glob("*/spike-*.ttrec")
    assert sqlite3.connect(spike).execute("SELECT count(*) FROM frames").fetchone()[0] > 0


def test_the_list_names_a_recording_in_another_folder(flags: Flags, tmp_path: Path) -> None:
    run_to_its_end({**flags, "train_iters": 2, "record": "kept"}, tmp_path)
    run_to_its_end({**flags, "train_iters": 2}, tmp_path)
    lines = [line for line in runs(tmp_path).splitlines() if "/2" in line]
    assert sorted(f"{tmp_path}/kept/run.ttrec" in line for line in lines) == [False, True]


def test_a_run_names_the_runs_that_take_more_than_10_gb(flags: Flags, tmp_path: Path) -> None:
    short = {**flags, "train_iters": 2}
    run_to_its_end(short, tmp_path)
    wait_for_end(tmp_path)
    [old] = listed(tmp_path)
    os.truncate(tmp_path / old["recording"], 11 << 30)  # sparse: it takes no space of the disk
    second = subprocess.run(command(short), cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    assert second.returncode == 0 and len(step_log(second.stdout)) == 2
    [notice] = [line for line in second.stderr.splitlines() if "to remove them" in line]
    assert f"the runs in {tmp_path / 'runs'} have 11" in notice and f"{old['id']} (" in notice
    wait_for_end(tmp_path)
    assert len(listed(tmp_path)) == 2, "nothing is removed without a command"
    advised = notice.split("to remove them: tensor-tracer runs ")[1].split()
    assert f"removed {old['id']}" in runs(tmp_path, *advised)
    third = subprocess.run(command(short), cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    assert third.returncode == 0 and "to remove them" not in third.stderr


def test_a_run_whose_folder_cannot_be_written_goes_on(flags: Flags, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("no folder")
    done = subprocess.run(command({**flags, "train_iters": 2}), cwd=tmp_path, env=environment(), capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0 and len(step_log(done.stdout)) == 2
    assert "this run is not kept" in done.stderr


def processes_in(folder: Path) -> list[int]:
    """The run's process, its supervisor and its hub."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(folder) and b"tensor-tracer" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_after_kill_9_of_everything_the_loss_curve_is_left(flags: Flags, tmp_path: Path) -> None:
    process = subprocess.Popen(command({**flags, "train_iters": 1_000_000}), cwd=tmp_path, env=environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    assert process.stdout is not None
    begin = time.monotonic()
    while time.monotonic() < begin + 4:
        process.stdout.readline()
    [running] = listed(tmp_path)
    assert running["state"] == "running" and running["step"] > 0
    assert "is running" in runs(tmp_path, "remove", running["id"], code=2)
    doomed = processes_in(tmp_path)
    assert len(doomed) == 3, "trainer, supervisor, hub"
    for number in (signal.SIGSTOP, signal.SIGKILL):  # first, so that nobody sees another one die
        for one in doomed:
            os.kill(one, number)
    killed_ns = time.time_ns()
    process.wait()
    process.stdout.close()
    [lost] = listed(tmp_path)
    losses = losses_of(str(tmp_path / lost["recording"]))
    assert lost["state"] == "lost" and lost["step"] == losses[-1][0] and lost["loss"] == losses[-1][1]
    assert [step for step, _, _ in losses] == list(range(1, len(losses) + 1))
    pauses = [after[2] - before[2] for before, after in zip(losses, losses[1:], strict=False)]
    assert (killed_ns - losses[-1][2] - max(pauses)) / 1e9 <= MAX_LOST


def test_the_list_of_a_hub_that_runs(tmp_path: Path) -> None:
    """Also of one that was started by hand, and by the hub's own program."""
    with running_hub(tmp_path / "runs" / "a") as hub:
        worker = hub.worker()
        worker.notify("state", phase="training", step=1)
        worker.notify("step", step=1, loss="NaN")
        end = time.monotonic() + 20
        while not (found := listed(tmp_path)) or found[0]["step"] == 0:
            assert time.monotonic() < end
        assert (found[0]["state"], found[0]["loss"]) == ("running", "NaN")
        assert "kept" in runs(tmp_path, "keep", found[0]["id"])
        done = subprocess.run([str(hub_binary()), "runs", "--json", "--runs-dir", str(tmp_path / "runs")],
                              capture_output=True, text=True, check=True)  # fmt: skip
        assert json.loads(done.stdout)[0]["kept"] is True
    assert [run["state"] for run in listed(tmp_path)] == ["lost"]


@contextlib.contextmanager
def watched_by_nobody(flags: Flags, folder: Path) -> Iterator[HubOfRun]:
    """The hub of a run of two ranks with a page, which waits for no viewer."""
    line = command({**flags, "train_iters": 1_000_000, "tensor_tracer_port": 0, "run_dir": str(folder),
                    "tensor_model_parallel_size": 2}, 2)  # fmt: skip
    process = subprocess.Popen(line, env=environment(), stdout=subprocess.DEVNULL)
    try:
        wait_until((folder / "open.html").exists, "the hub", 60)
        yield HubOfRun(folder)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def steps_with(hub: HubOfRun, more: int) -> list[dict[str, Any]]:
    """The params of the steps of a time in which the run does so many more."""
    before = len(ask(hub, "/history/steps?limit=100000"))
    wait_until(lambda: len(ask(hub, "/history/steps?limit=100000")) >= before + more, "more steps", 60)
    found: list[dict[str, Any]] = ask(hub, "/history/steps?limit=100000")[before:]
    return found


def ask(hub: HubOfRun, target: str) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{hub.port}{target}")
    request.add_header("Authorization", f"Bearer {hub.token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        assert error.code == 404, error  # no trainer yet
        return []


def viewer_of(hub: HubOfRun, **subscription: Any) -> Peer:
    """A viewer that never asks for more than this."""
    viewer = hub.connect("/ws")
    viewer.request("hello", {"versions": [1], "role": "viewer", "watch": False})
    assert viewer.request("subscribe", subscription)["result"] == {}
    return viewer


def test_with_the_history_off_a_viewer_of_one_point_makes_one_entry_run(flags: Flags, tmp_path: Path) -> None:
    plan = {"entries": [{"point": "MLP1"}, {"point": "HiddenStates"}, {"point": "QKV"},
                        {"point": "MLP1", "compressor": {"kind": "top_tokens", "columns": [1]}}]}  # fmt: skip
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    shown = {**flags, "history": "off", "tensor_tracer_plan": str(tmp_path / "plan.json")}
    with watched_by_nobody(shown, tmp_path / "run") as hub:
        steps_with(hub, 3)
        viewer = viewer_of(hub, points=["HiddenStates"])
        viewer.receive_until(lambda: len(viewer.records) > 20, "records", 60)
        assert {record["entry"] for record in viewer.records} == {1}
        # The first records of a later viewer are those that the hub has already.
        late = viewer_of(hub)
        late.receive_until(lambda: len(late.records) >= 3, "the latest records", 60)
        assert {record["entry"] for record in late.records[:2]} <= {1, 3}, "the list of top tokens is always kept"
        late.receive_until(lambda: {record["entry"] for record in late.records} == {0, 1, 2, 3}, "all entries", 60)


def test_with_the_history_off_nothing_is_traced_that_nobody_looks_at(flags: Flags, tmp_path: Path) -> None:
    with watched_by_nobody({**flags, "history": "off"}, tmp_path / "off") as hub:
        alone = steps_with(hub, 8)
        assert scrape(hub)["records_received_total"] == 0
        assert {(step["tracer_ms"], step["gather_ms"], step["encode_ms"]) for step in alone} == {(0, 0, 0)}
        viewer = hub.viewer()
        viewer.receive_until(lambda: len(viewer.records) > 20, "records", 60)
        viewer.connection.close()
        wait_until(lambda: scrape(hub)["viewers"] == 0, "the viewer's end")
        steps_with(hub, 3)  # steps that had begun
        received = scrape(hub)["records_received_total"]
        assert {step["tracer_ms"] for step in steps_with(hub, 5)} == {0}
        assert scrape(hub)["records_received_total"] == received > 20
        assert ask(hub, "/history")["frames"] == 0
    with watched_by_nobody(flags, tmp_path / "on") as hub:
        assert min(step["tracer_ms"] for step in steps_with(hub, 8)) > 0
        assert scrape(hub)["records_received_total"] > 20
