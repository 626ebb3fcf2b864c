"""One controller at a time, and what it asks of the trainer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hub_harness import FACTS, Hub, claim, error_code, make_record, running_hub
from websockets.exceptions import ConnectionClosed


def test_lease_and_take_over(hub: Hub) -> None:
    worker, ada, bob = hub.worker(), hub.viewer(), hub.viewer()
    for method, params in [("control.pause", None), ("plan.set", {"plan": {}}),
                           ("control.release", None), ("control.step", {"count": 1})]:  # fmt: skip
        assert error_code(ada.request(method, params)) == "not_controller"
    assert claim(ada)["result"] == {"lease_seconds": 30.0}
    holder = {"session": ada.hello["result"]["session"], "name": "Ada"}
    bob.receive_until(lambda: bob.named("control") == [{"holder": holder}], "the holder")
    assert error_code(claim(bob)) == "busy"
    assert error_code(bob.request("control.pause")) == "not_controller"
    assert "result" in claim(bob, take_over=True, name="Bob")
    ada.receive_until(lambda: ada.named("control")[-1]["holder"]["name"] == "Bob", "Bob")
    assert error_code(ada.request("control.pause")) == "not_controller"
    assert bob.request("control.release")["result"] == {}
    ada.receive_until(lambda: ada.named("control")[-1:] == [{"holder": None}], "nobody")
    worker.drain(0.2)
    assert worker.requests == [], "nothing was paused, so nothing is continued"


def test_only_one_of_many_racing_claims_wins(hub: Hub) -> None:
    viewers = [hub.viewer() for _ in range(8)]
    for _ in range(20):
        numbers = [v.start_request("control.claim", {"name": "x"}) for v in viewers]
        answers = [v.answer_to(n) for v, n in zip(viewers, numbers, strict=True)]
        winners = [i for i, a in enumerate(answers) if "result" in a]
        assert len(winners) == 1
        viewers[winners[0]].request("control.release")


def test_forwarding_rewrites_ids_and_brings_answers_back(hub: Hub) -> None:
    worker, viewer = hub.worker(), hub.viewer()
    claim(viewer)
    for _ in range(3):
        viewer.request("ping")  # so that the viewer's ids and the hub's differ
    asked = [
        ("control.pause", None),
        ("plan.set", {"plan": {"entries": [{"point": "QKV"}]}}),
        ("control.step", {"count": 2}),
    ]
    numbers = [viewer.start_request(method, params) for method, params in asked]
    worker.receive_until(lambda: len(worker.requests) == 3, "the requests")
    assert [(r["method"], r["params"] or None) for r in worker.requests] == asked
    assert len({r["id"] for r in worker.requests}) == 3
    for request in reversed(worker.requests):
        worker.send({"id": request["id"], "result": {"step": 12, "did": request["method"]}})
        worker.send({"id": request["id"], "result": {"twice": True}})
    for number, (method, _) in zip(numbers, asked, strict=True):
        assert viewer.answer_to(number) == {"id": number, "result": {"step": 12, "did": method}}
    number = viewer.start_request("plan.set", {"plan": {}})
    worker.receive_until(lambda: len(worker.requests) == 4, "the request")
    error = {"code": "invalid_argument", "message": "no", "where": "plan", "remedy": "yes"}
    worker.send({"id": worker.requests[-1]["id"], "error": error})
    assert viewer.answer_to(number)["error"] == error
    assert error_code(viewer.request("control.step", {"cuont": 1})) == "invalid_argument"


def test_requests_without_a_trainer_or_with_one_that_leaves(hub: Hub) -> None:
    viewer = hub.viewer()
    claim(viewer)
    assert error_code(viewer.request("control.pause")) == "no_trainer"
    worker = hub.worker()
    worker.notify("state", phase="training", step=5)
    number = viewer.start_request("control.pause")
    worker.receive_until(lambda: bool(worker.requests), "the request")
    worker.connection.close()
    assert error_code(viewer.answer_to(number)) == "no_trainer"
    lost = {"phase": "lost", "step": 5}
    viewer.receive_until(lambda: viewer.named("state")[-1:] == [lost], "lost")


def test_a_finished_run_is_not_lost(hub: Hub) -> None:
    worker, viewer = hub.worker(), hub.viewer()
    worker.notify("state", phase="finished", step=9)
    worker.connection.close()
    viewer.drain(0.3)
    assert viewer.named("state")[-1] == {"phase": "finished", "step": 9}


def test_the_leases_end_ends_the_pause(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--lease-seconds", "0.6") as hub:
        worker, ada, bob = hub.worker(), hub.viewer(), hub.viewer()
        claim(ada)
        number = ada.start_request("control.pause")
        worker.receive_until(lambda: len(worker.requests) == 1, "the pause")
        worker.send({"id": worker.requests[0]["id"], "result": {"step": 1, "ranks": 1}})
        worker.notify("state", phase="paused", step=1)
        ada.answer_to(number)
        for _ in range(5):  # 1 s of messages: longer than the lease
            time.sleep(0.2)
            ada.request("ping")
        worker.drain(0.05)
        assert len(worker.requests) == 1
        last = time.monotonic()
        worker.receive_until(lambda: len(worker.requests) == 2, "the pause's end")
        assert 0.4 < time.monotonic() - last < 1.5
        assert worker.requests[1]["method"] == "control.continue"
        bob.receive_until(lambda: bob.named("control")[-1:] == [{"holder": None}], "nobody")
        assert "result" in claim(bob)


def test_release_ends_the_pause_and_a_gone_holder_can_be_replaced(hub: Hub) -> None:
    worker, ada, bob = hub.worker(), hub.viewer(), hub.viewer()
    claim(ada)
    ada.start_request("control.pause")
    ada.request("control.release")
    worker.receive_until(lambda: len(worker.requests) == 2, "pause and continue")
    assert [r["method"] for r in worker.requests] == ["control.pause", "control.continue"]
    claim(ada)
    ada.connection.close()
    time.sleep(0.2)
    assert "result" in claim(bob)


def test_a_second_rank_0_replaces_the_first_and_other_ranks_only_send(hub: Hub) -> None:
    old, viewer = hub.worker(), hub.viewer()
    other = hub.connect("/worker")
    hello = {"versions": [1], "role": "worker", "rank": 4, "run": FACTS | {"id": "no"}}
    other.request("hello", hello)
    other.notify("state", phase="paused", step=99)
    other.connection.send(make_record(sequence=1, pipeline_rank=1))
    viewer.receive_until(lambda: len(viewer.records) == 1, "the other leader's record")
    new = hub.worker()
    claim(viewer)
    viewer.start_request("control.pause")
    new.receive_until(lambda: len(new.requests) == 1, "the request")
    with pytest.raises(ConnectionClosed):
        old.drain(2)
    assert all(state["step"] != 99 for state in viewer.named("state"))
    assert other.requests == []
