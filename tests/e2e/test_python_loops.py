"""The Python client's loops and requests: what they wait for, what they drop, and when they end."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensor_tracer
from fake_hub import TOKEN, FakeHub
from hub_harness import REPOSITORY, Hub, make_record, wait_until
from tensor_tracer import ConnectionLost, Control, Recording, Run, TensorTracerError, connect

README = REPOSITORY / "python" / "README.md"


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


def hear(run: Run) -> None:
    """Until everything that the hub has sent so far is here."""
    run.request("ping")


# What fills the window


@pytest.mark.parametrize("taken", [0, 1], ids=["none taken", "one taken, not yet acknowledged"])
def test_saved_comes_though_nobody_takes_the_records(taken: int, hub: Hub) -> None:
    window = 4
    steps = range(1, 3 * window + 1)
    worker = hub.worker()
    with connect(run_dir=hub.run_dir, window=window) as run:
        for step in steps:
            worker.connection.send(make_record(step=step, sequence=step))
            # A waiting one gives way to a newer one of the same layer.
            worker.notify("saved", step=step, program="p", name="n", layer=step, shape=[], values=[step])
            worker.request("ping")
            if step == 1:
                assert len(list(zip(range(taken), run.records(timeout=5), strict=False))) == taken
        saved = [each["step"] for _, each in zip(steps, run.saved(timeout=5), strict=False)]
        assert saved == list(steps)
        dropped = run.dropped["client"]
        assert dropped >= window - taken and run.dropped == {"client": dropped}
        assert dropped + len(list(run.records(timeout=0.5))) == len(steps) - taken


def test_applied_drops_what_fills_the_window_and_says_so_to_the_hub(fake: FakeHub) -> None:
    with connect(fake.url, window=4) as run:
        damaged = make_record(sequence=4)[:-1]
        for message in (make_record(sequence=1) + make_record(sequence=2), make_record(sequence=3),
                        make_record(sequence=4) + damaged, b"no record"):  # fmt: skip
            fake.viewer.send(message)
        assert list(run.applied(timeout=0.3)) == []
        hear(run)
        assert fake.named("ack") == [{"messages": 4}] and run.dropped == {"client": 4}


def test_a_loop_over_records_keeps_them(fake: FakeHub) -> None:
    with connect(fake.url, window=2) as run:
        for step in range(1, 6):
            fake.viewer.send(make_record(step=step, sequence=step))
        records = run.records(timeout=1)
        assert next(records).step == 1
        assert list(run.saved(timeout=0.3)) == []
        assert [record.step for record in records] == [2, 3, 4, 5] and not run.dropped


def test_what_came_before_the_end_is_kept(fake: FakeHub) -> None:
    with connect(fake.url, window=2) as run:
        for step in (1, 2, 3):
            fake.viewer.send(make_record(step=step, sequence=step))
        fake.viewer.close(1001)
        wait_until(lambda: not run._thread.is_alive(), "the end")
        assert list(run.saved()) == []
        assert [record.step for record in run.records()] == [1, 2, 3]


@pytest.mark.parametrize("loop", ["saved", "applied"])
def test_what_no_loop_takes_in_time_is_counted(
    loop: str, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_tracer.run, "_MAX_SAVED", 2)
    monkeypatch.setattr(tensor_tracer.run, "_MAX_STEPS", 2)
    with connect(fake.url) as run:
        for step in range(1, 6):
            fake.tell(loop, step=step, shape=[], values=[step])
        hear(run)
        assert run.dropped_events == {"client": 3} and not run.dropped
        assert [each["step"] for each in getattr(run, loop)(timeout=0)] == [4, 5]


def test_events_that_did_not_get_here_are_counted(fake: FakeHub) -> None:
    with connect(fake.url) as run:
        fake.tell("dropped", records=0, where="viewer", entries={}, events=3)
        fake.tell("dropped", records=2, where="trainer", events=1)
        hear(run)
        assert run.dropped == {"trainer": 2} and run.dropped_events == {"viewer": 3, "trainer": 1}


# Ends


def test_a_run_whose_trainer_was_killed_ends(fake: FakeHub) -> None:
    with connect(fake.url, reconnect=True) as run:
        fake.tell("state", phase="lost", step=3)
        hear(run)
        fake.viewer.close(1001)
        assert list(run.steps(timeout=5)) == [] and run.reconnects == 0
        with pytest.raises(ConnectionLost):
            run.request("ping")


def test_many_steps_of_the_trainer_take_as_long_as_they_take(
    fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.silent = {"control.step"}
    fake.answers = {"control.claim": {"lease_seconds": 30}}
    monkeypatch.setattr(Run.request, "__defaults__", (None, 0.2))

    def answer() -> None:
        wait_until(lambda: bool(fake.named("control.step")), "the request")
        time.sleep(0.5)
        [number] = [m["id"] for m in list(fake.got) if m.get("method") == "control.step"]
        fake.viewer.send(json.dumps({"id": number, "result": {"step": 1003, "ranks": 2}}))

    with connect(fake.url) as run, run.control("Ada") as control:
        trainer = threading.Thread(target=answer)
        trainer.start()
        assert control.step(1000) == (1003, 2, None)
        trainer.join()


# Addresses and answers


def test_an_address_needs_no_scheme(fake: FakeHub) -> None:
    fake.pages = {"/history": lambda query: (b"{}", {})}
    with connect(f"127.0.0.1:{fake.port}", token=TOKEN) as run:
        assert run.get("/history") == {}


@pytest.mark.parametrize("address", [
    "", "abc:def", "http://127.0.0.1:99999/", "http://127.0.0.1:abc/", "ftp://127.0.0.1:1/", "http:///", "http://h:0/",
])  # fmt: skip
def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"connect: {address!r} is no address; write http://HOST:PORT/")):
        connect(address)


def test_a_token_with_a_line_break_is_not_repeated(fake: FakeHub) -> None:
    with connect(fake.url, token=f" {TOKEN}\n") as run:
        assert run.facts
        with pytest.raises(ValueError, match=r"get: 'history' is no path; write \"/history\""):
            run.get("history")
    with pytest.raises(ValueError, match="the token has a character that no token has") as refused:
        connect(fake.url, token="secret\nword")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("params", "code"), [
    ({"value": math.nan}, "invalid_argument"), ({"value": -math.inf}, "invalid_argument"),
    ({"text": "\ud800"}, "invalid_argument"), ({"value": np.float32(1)}, "invalid_argument"),
    ({"text": "ä" * 33_000}, "too_large"),
])  # fmt: skip
def test_a_request_that_the_hub_cannot_take_is_not_sent(params: dict[str, Any], code: str, fake: FakeHub) -> None:
    with connect(fake.url) as run:
        with pytest.raises(TensorTracerError, match="intervention.set: ") as refused:
            run.request("intervention.set", params)
        assert refused.value.code == code and refused.value.remedy
        assert run.request("ping", {"text": "ä" * 32_000}) == {}
        assert fake.named("intervention.set") == []


def test_a_hub_that_dies_within_an_answer(fake: FakeHub) -> None:
    fake.pages = {"/history": lambda query: (b'{"run": ', {"Content-Length": "1000"})}
    with connect(fake.url) as run, pytest.raises(ConnectionLost, match="unreachable"):
        run.get("/history")


def test_the_readme_names_what_there_is() -> None:
    named = set(re.findall(r"\b(run|control|recording)\.(\w+)\(", README.read_text(encoding="utf-8")))
    owners = {"run": Run, "control": Control, "recording": Recording}
    assert {owner for owner, _ in named} == set(owners)
    assert [f"{owner}.{name}" for owner, name in sorted(named) if not hasattr(owners[owner], name)] == []
