"""The Python client when its connection ends and another one takes its place."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensor_tracer
from fake_hub import FakeHub
from hub_harness import FACTS, Hub, in_background, make_record, wait_until
from tensor_tracer import ConnectionLost, HubError, Run, connect


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


@pytest.fixture
def dying(tmp_path: Path) -> Iterator[Hub]:
    """A hub that may be killed."""
    hub = Hub(tmp_path / "run")
    try:
        yield hub
    finally:
        hub.stop()


def reconnected(run: Run, times: int = 1) -> None:
    wait_until(lambda: run.reconnects == times, "the reconnect")


@contextlib.contextmanager
def restarted(hub: Hub) -> Iterator[Hub]:
    """One in the place of this, which is killed."""
    os.kill(hub.process.pid, signal.SIGKILL)
    hub.stop()
    back = Hub(hub.run_dir, port=hub.port)
    try:
        yield back
    finally:
        back.stop()


def steps_of(run: Run) -> list[int]:
    """Of all that the hub has sent so far."""
    run.request("ping")
    return [step["step"] for step in run.steps(timeout=0)]


# When the hub is looked for


def test_reconnect_survives_the_death_of_the_hub(dying: Hub, caplog: pytest.LogCaptureFixture) -> None:
    with connect(run_dir=dying.run_dir, window=None, reconnect=True) as run:
        worker = dying.worker()
        for step in (1, 2):
            worker.notify("step", step=step)
            worker.connection.send(make_record(step=step, sequence=step))
        records, steps = run.records(timeout=10), run.steps(timeout=10)
        assert [next(records).step, next(records).step, next(steps)["step"], next(steps)["step"]] == [1, 2] * 2
        with restarted(dying) as back:
            worker = back.worker()
            for step in (2, 3):  # the trainer's last words, once more, and new ones
                worker.notify("step", step=step)
                worker.connection.send(make_record(step=step, sequence=step))
            assert next(records).step == 3 and next(steps)["step"] == 3
            assert run.reconnects == 1 and "connecting again" in caplog.text


@pytest.mark.parametrize("phase", ["training", "lost"])
def test_a_hub_that_is_started_again_is_waited_for(phase: str, fake: FakeHub) -> None:
    with connect(fake.url, reconnect=True) as run:
        fake.tell("state", phase=phase, step=3)
        run.request("ping")
        if phase == "lost":
            fake.hang_up()  # the hub died, the trainer may look for the next one
        else:
            fake.viewer.close(1001)
        reconnected(run)
        run.request("ping")


def test_a_hub_that_does_not_come_back_is_given_up() -> None:
    with FakeHub() as fake:
        run = connect(fake.url, reconnect=0.5)
    with run, pytest.raises(ConnectionLost, match="within 0.5 s; the run may have ended"):
        list(run.steps())


# Steps, and where the run stands


def test_the_newest_step_is_known_at_once_and_does_not_go_back(fake: FakeHub) -> None:
    """The trainer says its state only when its phase changes."""
    fake.past = [1, 2, 3]
    fake.hello["state"] = {"phase": "training", "step": 0}
    with connect(fake.url, reconnect=True) as run:
        assert run.state == ("training", 3)
        fake.tell("step", step=4)
        fake.tell("state", phase="evaluating", step=4)
        fake.tell("step", step=5)
        run.request("ping")
        assert run.state == ("evaluating", 5)
        fake.hang_up()
        reconnected(run)
        assert run.state == ("training", 5)
        fake.tell("run", **FACTS | {"id": "00000000000000ef"})
        fake.tell("state", phase="training", step=0)
        fake.tell("step", step=1)
        assert steps_of(run) == [1, 2, 3, 4, 5, 1] and run.state == ("training", 1)


def test_a_hub_that_was_started_again_repeats_no_step(dying: Hub) -> None:
    """It takes them from its file, where 0.0 has become 0, as many as that had got."""
    worker = dying.worker()
    for step in range(1, 2101):
        worker.notify("step", step=step, loss=0.0)
    worker.request("ping")
    with connect(run_dir=dying.run_dir, reconnect=True) as run:
        wait_until(lambda: run.get("/history")["last_step"] == 2100, "the commit")
        worker.notify("step", step=2101, loss=0.0)
        worker.request("ping")
        assert steps_of(run) == list(range(101, 2102))
        with restarted(dying) as back:
            reconnected(run)
            back.worker().notify("step", step=2102, loss=0.0)
            assert next(run.steps(timeout=10))["step"] == 2102
            assert steps_of(run) == [] and run.state.step == 2102


@pytest.mark.parametrize("phase", ["training", "replay"])
def test_what_a_reconnect_says_again_comes_once(phase: str, fake: FakeHub) -> None:
    fake.hello["state"] = {"phase": phase, "step": 3}
    fake.past = [1, 2, 3]
    with connect(fake.url, reconnect=True) as run:
        assert steps_of(run) == [1, 2, 3]
        fake.past = [2, 3, 4]
        fake.hang_up()
        reconnected(run)
        for step in (4, 5):  # the trainer's last words, once more
            fake.tell("step", step=step)
        assert steps_of(run) == ([4, 5] if phase == "training" else [4, 4, 5])


def test_a_replay_that_is_played_again_says_its_steps_again(fake: FakeHub) -> None:
    fake.hello["state"] = {"phase": "replay", "step": 2}
    fake.past = [1, 2, 3, 1, 2]
    with connect(fake.url, reconnect=True) as run:
        assert run.state == ("replay", 2)
        for step in (3, 1):
            fake.tell("step", step=step)
        fake.tell("state", phase="replay", step=1)
        assert steps_of(run) == [1, 2, 3, 1, 2, 3, 1] and run.state.step == 1
        fake.hang_up()
        reconnected(run)
        fake.tell("step", step=3)
        assert steps_of(run) == [3]


# Control, subscription and credit


def test_control_is_claimed_again(dying: Hub) -> None:
    dying.worker()
    with connect(run_dir=dying.run_dir, reconnect=True) as run, contextlib.ExitStack() as hubs:
        with run.control("Ada") as control:
            worker = hubs.enter_context(restarted(dying)).worker()
            reconnected(run)

            def answer() -> None:
                worker.receive_until(lambda: bool(worker.requests), "a request")
                worker.send({"id": worker.requests[0]["id"], "result": {"step": 7, "ranks": 2}})

            with in_background(lambda over: answer()):
                assert control.pause() == (7, 2, None)
            assert run.holder is not None and run.holder["name"] == "Ada"
        wait_until(lambda: run.holder is None, "the end of the control")


ADA = {"session": "v1", "name": "Ada"}
BOB = {"session": "v2", "name": "Bob"}


@pytest.mark.parametrize("holder", [ADA, BOB], ids=["the session that ended", "another"])
def test_control_that_another_holds_is_not_taken(
    holder: dict[str, str], fake: FakeHub, caplog: pytest.LogCaptureFixture
) -> None:
    fake.answers = {"control.claim": {"lease_seconds": 30}}
    with connect(fake.url, reconnect=True) as run:
        control = run.control("Ada")
        fake.tell("control", holder=ADA)
        run.request("ping")
        fake.hello |= {"session": "v3", "control": {"holder": holder}}
        fake.answers["control.pause"] = {"code": "not_controller", "message": "claim control first"}
        if holder == BOB:
            fake.answers["control.claim"] = {"code": "busy", "message": "Bob controls the run"}
        fake.hang_up()
        reconnected(run)
        claims = [{"name": "Ada", "take_over": taken} for taken in (False, holder == ADA)]
        assert fake.named("control.claim") == claims
        assert ("Bob controls the run" in caplog.text) == (holder == BOB)
        with pytest.raises(HubError, match=f"{holder['name']} has the control; claim control first"):
            control.pause()


def test_control_that_was_given_back_is_not_claimed_again(fake: FakeHub) -> None:
    with connect(fake.url, reconnect=True) as run:
        with run.control("Ada"):
            fake.tell("control", holder=ADA)
            run.request("ping")
        fake.hang_up()
        reconnected(run)
        assert len(fake.named("control.claim")) == 1


def test_a_hub_that_knows_no_points_yet_is_asked_again(fake: FakeHub) -> None:
    wanted = {"points": ["MLP1"], "rate": 5}
    with connect(fake.url, reconnect=True) as run:
        run.records("MLP1", rate=5)
        fake.hello["run"] = None
        fake.answers["subscribe"] = {"code": "invalid_argument", "message": "no trainer has sent its points"}
        fake.hang_up()
        reconnected(run)
        assert FACTS.items() <= run.facts.items(), "those of before are better than none"
        fake.answers.clear()
        fake.tell("run", **FACTS)
        wait_until(lambda: fake.named("subscribe") == [wanted] * 3, "the third subscription")


def test_credit_starts_anew_after_a_reconnect(fake: FakeHub) -> None:
    with connect(fake.url, window=2, reconnect=True) as run:
        for step in (1, 2, 3):
            fake.viewer.send(make_record(step=step, sequence=step))
        run.request("ping")
        fake.hang_up()
        reconnected(run)
        for step in (3, 4):
            fake.viewer.send(make_record(step=step, sequence=step))
        assert [r.step for r in run.records(timeout=0.5)] == [1, 2, 3, 4], "3 came twice"
        run.request("ping")
        assert fake.named("ack")[-1] == {"messages": 2}


def test_an_acknowledgement_is_for_its_connection(fake: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = time.sleep

    def sleep_long(seconds: float) -> None:
        if seconds == tensor_tracer.run._ACK_SECONDS:
            monkeypatch.undo()
            fake.hang_up()
            reconnected(run)
        sleep(seconds)

    with connect(fake.url, window=1, reconnect=True) as run:
        monkeypatch.setattr(time, "sleep", sleep_long)
        fake.viewer.send(make_record(step=1, sequence=1))
        records = run.records(timeout=5)
        assert next(records).step == 1
        run.request("ping")
        assert fake.named("ack") == []
        fake.viewer.send(make_record(step=2, sequence=2))
        assert next(records).step == 2
        run.request("ping")
        assert fake.named("ack") == [{"messages": 1}]


def test_what_is_taken_as_the_connection_ends_earns_no_credit_on_the_next(
    fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Run._next

    def take_slowly(run: Run, queue: object, timeout: float | None) -> object:
        taken = take(run, queue, timeout)
        if taken is not None and run.reconnects == 0:
            fake.hang_up()
            reconnected(run)
        return taken

    monkeypatch.setattr(Run, "_next", take_slowly)
    with connect(fake.url, window=1, reconnect=True) as run:
        fake.viewer.send(make_record(step=1, sequence=1))
        records = run.records(timeout=5)
        assert next(records).step == 1
        fake.viewer.send(make_record(step=2, sequence=2))
        assert next(records).step == 2
        run.request("ping")
        assert fake.named("ack") == [{"messages": 1}]
