"""A recorded run on the same page: no trainer, the hub itself says what the file holds."""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hub_harness import RUN_ID, Hub, Peer, binary, claim, error_code, running_hub, wait_until
from recording_maker import Maker
from test_hub_history import ask_json, feed, wait_for_frames
from websockets.sync.client import connect


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty steps, ten milliseconds apart, of two points and three layers."""
    folder = tmp_path_factory.mktemp("recording")
    hub = Hub(folder / "run", "--record", str(folder))
    worker = None
    for step in range(1, 21):
        if worker is not None:
            worker.connection.close()
        worker = feed(hub, range(step, step + 1))
        time.sleep(0.01)
    wait_for_frames(hub, 120)
    hub.stop()
    return folder / "run.ttrec"


@contextlib.contextmanager
def replaying(file: Path, *flags: str) -> Iterator[SimpleNamespace]:
    process = subprocess.Popen(
        [str(binary()), "replay", str(file), "--port", "0", "--print-url", *flags], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address, _, token = process.stdout.readline().strip().partition("#token=")
        opening = connect(
            address.replace("http", "ws") + "ws",
            additional_headers={"Authorization": f"Bearer {token}"},
            max_size=None,
        )
        viewer = Peer(opening.__enter__())
        viewer.hello = viewer.request("hello", {"versions": [1], "role": "viewer"})
        yield SimpleNamespace(viewer=viewer, address=address, token=token)
        assert process.poll() is None, "the hub died"
    finally:
        process.terminate()
        assert process.wait(5) == 0
        assert process.stdout is not None
        process.stdout.close()


def shown(viewer: Peer) -> list[tuple[int, int, int]]:
    return [(r["step"], r["entry"], r["layer"]) for r in viewer.records]


def test_it_plays_to_the_end(recording: Path) -> None:
    with replaying(recording, "--speed", "100") as replay:
        viewer = replay.viewer
        assert viewer.hello["result"]["run"]["id"] == RUN_ID
        viewer.receive_until(
            lambda: any(s["step"] == 20 and s["paused"] for s in viewer.named("state")), "the end"
        )
        state = viewer.named("state")[-1]
        assert (state["phase"], state["first_step"], state["last_step"]) == ("replay", 1, 20)
        assert viewer.named("step")[-1]["loss"] == pytest.approx(3.8)
        last = [(20, entry, layer) for entry in (0, 1) for layer in (1, 2, 3)]
        viewer.receive_until(
            lambda: sorted(place for place in shown(viewer) if place[0] == 20) == last, "its records"
        )


def test_seek_step_speed_and_once_more(recording: Path) -> None:
    with replaying(recording, "--paused") as replay:
        viewer = replay.viewer
        assert error_code(viewer.request("replay.seek", {"step": 7})) == "not_controller"
        claim(viewer)
        assert viewer.request("replay.seek", {"step": 7})["result"] == {"step": 7, "ranks": 0}
        viewer.receive_until(lambda: len(viewer.records) == 6, "the maps of step 7")
        assert {step for step, _, _ in shown(viewer)} == {7}
        assert viewer.request("control.step", {"count": 2})["result"]["step"] == 9
        viewer.receive_until(lambda: len(viewer.records) == 18, "steps 8 and 9")
        assert viewer.request("replay.seek", {"step": 3})["result"]["step"] == 3
        viewer.receive_until(lambda: shown(viewer)[-1][0] == 3, "step 3")
        assert viewer.request("replay.seek", {"step": 0})["result"]["step"] == 0
        assert viewer.request("replay.seek", {"step": 999})["result"]["step"] == 20
        assert viewer.request("replay.speed", {"speed": 50})["result"]["step"] == 20
        viewer.request("control.continue")
        viewer.receive_until(lambda: viewer.named("state")[-1]["step"] < 20, "the beginning")
        viewer.receive_until(lambda: viewer.named("state")[-1]["step"] == 20, "the end again")
        assert viewer.named("state")[-1]["speed"] == 50


def test_what_a_recording_cannot_do_is_refused(recording: Path, tmp_path: Path) -> None:
    with replaying(recording, "--paused") as replay:
        viewer = replay.viewer
        claim(viewer)
        assert error_code(viewer.request("plan.set", {"plan": {"entries": []}})) == "replay"
        assert error_code(viewer.request("control.stop")) == "replay"
        for params in ({"step": -1}, {"step": "x"}, {}):
            assert error_code(viewer.request("replay.seek", params)) == "invalid_argument"
        for speed in (0, 101, "fast"):
            assert error_code(viewer.request("replay.speed", {"speed": speed})) == "invalid_argument"
        for count in (0, 1_000_001):
            assert error_code(viewer.request("control.step", {"count": count})) == "invalid_argument"
    wrong = tmp_path / "wrong.ttrec"
    wrong.write_text("x" * 1000)
    for words in ([str(wrong)], [str(recording), "--run", "00000000000000aa"]):
        ended = subprocess.run(
            [str(binary()), "replay", *words, "--port", "0"], capture_output=True, text=True, timeout=10
        )
        assert ended.returncode != 0
        assert words[0] in ended.stderr


def test_history_is_that_of_the_file(recording: Path) -> None:
    with replaying(recording, "--paused") as replay:

        def asked(path: str) -> Any:
            request = urllib.request.Request(replay.address + path)
            request.add_header("Authorization", f"Bearer {replay.token}")
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)

        assert [row["step"] for row in asked("history/steps?first=5&last=6")] == [5, 6]
        summary = asked("history")
        assert (summary["frames"], summary["dropped"], summary["stopped"]) == (120, 0, False)
        with contextlib.closing(sqlite3.connect(recording)) as database:
            pages, free, size = (
                database.execute(f"PRAGMA {what}").fetchone()[0]
                for what in ("page_count", "freelist_count", "page_size")
            )
        assert summary["bytes"] == (pages - free) * size > 0


@pytest.fixture(scope="module")
def long_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 steps; the trainer connects once more, with a program that was put in force at step 50."""
    folder = tmp_path_factory.mktemp("long")
    hub = Hub(folder / "run", "--record", str(folder))
    steer = {"name": "steer", "text": "…"}
    for steps, programs in ((range(1, 51), []), (range(51, 151), [steer])):
        worker = hub.worker(interventions=programs)
        for step in steps:
            worker.notify("step", step=step, loss=1.0)
        assert worker.request("ping")["result"] == {}  # the next trainer cuts this one off
    told = {"step": 50, "programs": [steer], "reason": "request"}
    worker.notify("interventions", **told)
    worker.notify("applied", step=150, programs=[])
    wait_for_last = f"http://127.0.0.1:{hub.port}/history"
    request = urllib.request.Request(wait_for_last, headers={"Authorization": f"Bearer {hub.token}"})

    def all_is_there() -> bool:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer).get("last_step") == 150

    wait_until(all_is_there, "step 150")
    hub.stop()
    return folder / "run.ttrec"


def test_many_steps_at_once_are_jumped_over(long_recording: Path) -> None:
    with replaying(long_recording, "--paused") as replay:
        viewer = replay.viewer
        claim(viewer)
        assert viewer.request("control.step", {"count": 140})["result"]["step"] == 140
        assert viewer.request("control.step", {"count": 2})["result"]["step"] == 142
        viewer.receive_until(lambda: len(viewer.named("step")) >= 2, "two steps")
        assert [step["step"] for step in viewer.named("step")] == [141, 142]


def test_a_replay_begins_with_the_programs_that_the_run_began_with(long_recording: Path) -> None:
    with replaying(long_recording, "--paused") as replay:
        viewer = replay.viewer
        assert viewer.hello["result"]["run"]["interventions"] == []
        claim(viewer)

        def in_force_at(step: int) -> list[str]:
            said = len(viewer.named("interventions"))
            viewer.request("replay.seek", {"step": step})
            viewer.receive_until(lambda: len(viewer.named("interventions")) > said, "the programs")
            return [program["name"] for program in viewer.named("interventions")[-1]["programs"]]

        assert in_force_at(20) == []
        assert in_force_at(60) == ["steer"]


@pytest.mark.parametrize("facts", ["{damaged", "[]", '{"model": {"num_layers": 1000000000}}'])
@pytest.mark.parametrize("how", ["replay", "compare"])
def test_a_recording_whose_facts_are_damaged_is_refused(tmp_path: Path, recording: Path, how: str, facts: str) -> None:
    path = Maker(tmp_path / "damaged.ttrec").close()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE runs SET facts = ?", [facts])
        database.commit()
    words = [str(path)] if how == "replay" else [str(recording), "--compare", str(path)]
    done = subprocess.run([str(binary()), "replay", *words, "--port", "0"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert str(path) in done.stderr and "damaged" in done.stderr


def test_what_another_command_line_would_help_ends_with_2(recording: Path, tmp_path: Path) -> None:
    def ends(*line: str) -> str:
        done = subprocess.run([str(binary()), *line], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    assert "there is no run 00000000000000aa" in ends("replay", str(recording), "--run", "00000000000000aa", "--port", "0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert port in ends("replay", str(recording), "--port", port)
    run = ("serve", "--run-dir", str(tmp_path), "--run-id", RUN_ID, "--port", "0")
    assert "cannot be written" in ends(*run, "--record", "/proc/none")


def test_responses_to_prompts_are_passed_on_and_stay_in_the_trail(tmp_path: Path) -> None:
    told = {"prompt_set": 1, "prompt": 0, "text": " Paris.", "token_ids": [216, 36], "finish_reason": "stop"}
    with running_hub(tmp_path / "run", "--record", str(tmp_path)) as hub:
        viewer, worker = hub.viewer(), feed(hub, range(1, 3))
        worker.notify("response", step=2, **told)
        viewer.receive_until(lambda: viewer.named("response") == [{"step": 2, **told}], "the response")
        wait_until(lambda: ask_json(hub, "/history/events?kind=response") != [], "the trail")
        [line] = ask_json(hub, "/history/events?kind=response")
        assert (line["run"], line["step"], line["detail"]) == (RUN_ID, 2, {"step": 2, **told})
        wait_for_frames(hub, 12)
    with replaying(tmp_path / "run.ttrec", "--paused") as replay:
        claim(replay.viewer)
        replay.viewer.request("control.step", {"count": 2})
        replay.viewer.receive_until(lambda: replay.viewer.named("response") != [], "the response of the step")
        assert replay.viewer.named("response") == [{"step": 2, **told}]
