"""A replay that moves to and fro: what was in force then, and what late viewers are told."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hub_harness import Hub, Peer, claim, error_code, make_record
from recording_maker import Maker
from test_hub_history import POINTS, RUN, wait_for_frames
from test_hub_replay import replaying, shown
from websockets.sync.client import connect

STEPS = 10
CHANGE = 6  # from here on plan 2 is in force
PLANS = {
    number: {"number": number, "entries": [{"point": name} for name in names]}
    for number, names in ((1, ["MLP1", "HiddenStates"]), (2, ["HiddenStates"]))
}


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten steps, a second apart, of two entries each; of the sixth on of another plan with one."""
    folder = tmp_path_factory.mktemp("changed")
    hub = Hub(folder / "run", "--record", str(folder))
    worker = hub.worker(points=POINTS, plan=PLANS[1])
    for step in range(1, STEPS + 1):
        plan = PLANS[2 if step >= CHANGE else 1]
        if step == CHANGE:
            worker.notify("plan", plan=plan, step=step)
        for entry in range(len(plan["entries"])):
            fields = dict(run=RUN, step=step, sequence=10 * step + entry, entry=entry, plan=plan["number"])
            worker.connection.send(make_record(**fields))
        worker.notify("step", step=step, loss=1.0)
    wait_for_frames(hub, 2 * (CHANGE - 1) + STEPS + 1 - CHANGE)
    worker.connection.close()
    hub.worker(points=POINTS, plan=PLANS[2])
    hub.stop()
    file = folder / "run.ttrec"
    with sqlite3.connect(file) as database:
        database.execute("UPDATE scalars SET time_ns = step * 1000000000")
    database.close()
    return file


def late_viewer(replay: SimpleNamespace) -> Peer:
    opening = connect(
        replay.address.replace("http", "ws") + "ws",
        additional_headers={"Authorization": f"Bearer {replay.token}"},
    )
    viewer = Peer(opening.__enter__())
    viewer.hello = viewer.request("hello", {"versions": [1], "role": "viewer"})
    viewer.drain(0.3)
    return viewer


def plans_told(viewer: Peer) -> list[tuple[int, int]]:
    return [(told["plan"]["number"], told["step"]) for told in viewer.named("plan")]


def test_the_plan_in_force_is_told_as_time_passes_and_after_a_seek(changed: Path) -> None:
    with replaying(changed, "--paused") as replay:
        viewer = replay.viewer
        assert viewer.hello["result"]["run"]["plan"] == PLANS[1]
        claim(viewer)
        viewer.request("control.step", {"count": CHANGE - 1})
        viewer.request("ping")
        assert plans_told(viewer) == []
        viewer.request("control.step")
        viewer.receive_until(lambda: plans_told(viewer) == [(2, CHANGE)], "plan 2")
        assert viewer.named("plan")[-1]["plan"] == PLANS[2]
        viewer.request("replay.seek", {"step": 3})
        viewer.receive_until(lambda: len(plans_told(viewer)) == 2, "plan 1")
        assert viewer.named("plan")[-1]["plan"] == PLANS[1]
        viewer.request("replay.seek", {"step": 4})
        viewer.request("replay.seek", {"step": STEPS})
        viewer.receive_until(lambda: len(plans_told(viewer)) >= 3, "plan 2 again")
        assert plans_told(viewer) == [(2, CHANGE), (1, 0), (2, CHANGE)]


@pytest.mark.nightly(suite="history")
def test_a_step_of_many_megabytes_reaches_a_reading_viewer_whole(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "large.ttrec", PLANS[2])
    maker.add_scalars(1, loss=1.0)
    for layer in range(1, 33):
        maker.add("HiddenStates", 1, "f32", np.full((1, 64, 4096), layer, np.float32), layer=layer)
    with replaying(maker.close(), "--paused") as replay:
        viewer = replay.viewer
        claim(viewer)
        viewer.request("control.step")
        viewer.receive_until(lambda: len(viewer.records) >= 32, "every layer", timeout=30)
        assert not viewer.named("dropped")


def test_a_seek_shows_records_of_the_plan_in_force_alone(changed: Path) -> None:
    with replaying(changed, "--paused") as replay:
        viewer = replay.viewer
        claim(viewer)
        viewer.request("replay.seek", {"step": CHANGE + 1})
        viewer.receive_until(lambda: len(viewer.records) >= 1, "a record")
        viewer.drain(0.3)
        assert shown(viewer) == [(CHANGE + 1, 0, 1)]
        viewer.request("replay.seek", {"step": 3})
        viewer.receive_until(lambda: len(viewer.records) >= 3, "two records")
        assert shown(viewer)[1:] == [(3, 0, 1), (3, 1, 1)]


def test_late_viewers_see_the_past_of_the_step_that_is_shown(changed: Path) -> None:
    def sees(viewer: Peer, step: int, plan: int) -> None:
        assert viewer.hello["result"]["run"]["plan"] == PLANS[plan]
        assert [told["step"] for told in viewer.named("step")] == list(range(1, step + 1))
        assert {told for told, _, _ in shown(viewer)} == ({step} if step > 0 else set())

    with replaying(changed, "--paused") as replay:
        viewer = replay.viewer
        claim(viewer)
        viewer.request("replay.seek", {"step": STEPS})
        sees(late_viewer(replay), STEPS, 2)
        viewer.request("replay.seek", {"step": 3})
        sees(late_viewer(replay), 3, 1)
        viewer.request("control.step", {"count": STEPS})
        sees(late_viewer(replay), STEPS, 2)
        viewer.request("replay.speed", {"speed": 0.1})  # ten seconds from one step to the next
        viewer.request("control.continue")
        viewer.request("control.pause")
        step = viewer.named("state")[-1]["step"]
        assert step <= 1
        sees(late_viewer(replay), step, 1)


def test_seeks_that_come_together_are_all_answered_and_the_last_is_shown(changed: Path) -> None:
    with replaying(changed, "--paused") as replay:
        viewer = replay.viewer
        claim(viewer)
        steps = [1 + at % (CHANGE - 1) for at in range(30)] + [STEPS]
        asked = [viewer.start_request("replay.seek", {"step": step}) for step in steps]
        assert [viewer.answer_to(number)["result"]["step"] for number in asked] == steps
        viewer.receive_until(lambda: shown(viewer)[-1:] == [(STEPS, 0, 1)], "the last")
        assert len(viewer.records) < 2 * 30 + 1


@pytest.mark.parametrize("method", ["plan.check", "replay.speed"])
def test_requests_do_not_hold_up_the_playback(changed: Path, method: str) -> None:
    with replaying(changed, "--paused", "--speed", "2") as replay:
        viewer = replay.viewer
        claim(viewer)
        viewer.request("control.continue")
        end = time.monotonic() + 30
        asked = 0
        while max((state["step"] for state in viewer.named("state")), default=0) < 3:
            assert time.monotonic() < end, "it stands still"
            asked += 1
            viewer.request(method, {"speed": 2 + asked % 2 / 10} if method == "replay.speed" else {})
            time.sleep(0.02)


@pytest.fixture()
def broken(changed: Path, tmp_path: Path) -> tuple[Path, Callable[[], None]]:
    """A copy and what breaks it while it is played."""
    file = tmp_path / "broken.ttrec"
    shutil.copy(changed, file)

    def break_it() -> None:
        with sqlite3.connect(file) as database:
            database.execute("DROP TABLE frames")
        database.close()

    return file, break_it


def error_told(viewer: Peer) -> list[dict[str, Any]]:
    return [told for told in viewer.named("log") if told["level"] == "error"]


def test_a_recording_that_cannot_be_read_any_more_pauses_with_an_alarm(
    broken: tuple[Path, Callable[[], None]],
) -> None:
    file, break_it = broken
    with replaying(file, "--paused") as replay:
        viewer = replay.viewer
        claim(viewer)
        break_it()
        viewer.request("control.continue")
        viewer.receive_until(lambda: bool(error_told(viewer)), "the alarm")
        viewer.receive_until(lambda: viewer.named("state")[-1]["paused"], "the pause")
        assert "frames" in error_told(viewer)[-1]["message"]
        assert error_code(viewer.request("replay.seek", {"step": 3})) == "internal"
        assert error_code(viewer.request("control.step")) == "internal"
        assert viewer.request("replay.speed", {"speed": 2})["result"]["ranks"] == 0
