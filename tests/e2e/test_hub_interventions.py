"""Programs that change the run: who may ask, what late viewers see, and what ends with the lease."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest
from hub_harness import Hub, Peer, claim, error_code, running_hub, wait_until
from test_hub_history import ask, ask_json, feed, wait_for_frames
from test_hub_replay import replaying

TEXT = 'h = layers[2].output\nlayers[2].output = h + 2.0 * vector("evil")[2]'
STEER = {"name": "steer", "text": TEXT, "parameters": [], "since": 3, "keep": False}
KEPT = STEER | {"name": "kept", "keep": True}
APPLY = {"name": "steer", "program": TEXT, "parameters": {}, "ttl": 500, "keep": False}
# As much as one save may send: each number as long as JSON writes it.
MAX_NUMBERS, LONGEST_NUMBER = 65_536, -1.2345678901234567e-300


def take(worker: Peer, count: int = 1) -> list[dict[str, Any]]:
    """The next so many requests."""
    worker.receive_until(lambda: len(worker.requests) >= count, f"{count} requests")
    taken, worker.requests = worker.requests, []
    assert len(taken) == count, taken
    return taken


def tell(worker: Peer, *programs: dict[str, Any], step: int = 3, reason: str = "apply") -> None:
    worker.notify("interventions", step=step, programs=list(programs), reason=reason)


def in_force(hub: Hub) -> list[dict[str, Any]]:
    return hub.viewer().hello["result"]["run"].get("interventions", [])


def test_they_reach_the_trainer_and_the_answer_comes_back(hub: Hub) -> None:
    worker, viewer = hub.worker(), hub.viewer()
    claim(viewer)
    for method, params in [
        ("intervention.apply", APPLY),
        ("intervention.set", {"name": "steer", "parameter": "alpha", "value": 2.5}),
        ("intervention.preview", {"program": {"version": 1, "nodes": []}, "parameters": {"a": 1}}),
        ("intervention.preview", {"program": TEXT, "plan": {"entries": []}}),
        ("intervention.remove", {"name": "steer"}),
        ("intervention.remove", {}),
        ("intervention.check", {"program": TEXT}),
    ]:
        number = viewer.start_request(method, params)
        request = take(worker)[0]
        assert (request["method"], request["params"]) == (method, params)
        result = {"step": 3, "ranks": 2} | ({"records": {"off": "AA=="}} if "plan" in params else {})
        worker.send({"id": request["id"], "result": result})
        assert viewer.answer_to(number)["result"] == result
        assert error_code(viewer.request(method, params | {"x": 1})) == "invalid_argument"
    assert error_code(viewer.request("intervention.revert")) == "unknown_method"
    # Nothing that asks only is in the trail.
    wait_until(lambda: len(trail(hub)) == 6, "the audit trail")
    assert {line["who"] for line in trail(hub)} == {"Ada"}
    assert all(line["detail"]["result"] == {"step": 3, "ranks": 2} for line in trail(hub))
    assert trail(hub)[0]["detail"] == {
        "params": APPLY, "result": {"step": 3, "ranks": 2}, "step": 3,
    }  # fmt: skip


def trail(hub: Hub) -> list[dict[str, Any]]:
    lines = ask_json(hub, "/history/events")
    return [line for line in lines if line["kind"].startswith("intervention.")]


def test_only_the_holder_changes_and_who_controls_may_check(hub: Hub) -> None:
    worker, viewer, watcher = hub.worker(), hub.viewer(), hub.viewer(hub.viewer_token)
    assert error_code(viewer.request("intervention.apply", APPLY)) == "not_controller"
    assert error_code(viewer.request("intervention.remove")) == "not_controller"
    assert error_code(watcher.request("intervention.check", {"program": TEXT})) == "not_allowed"
    number = viewer.start_request("intervention.check", {"program": TEXT})
    refusal = {"code": "invalid_expression", "message": "1:1 h\n    ^", "where": "program", "remedy": ""}
    worker.send({"id": take(worker)[0]["id"], "error": refusal})
    assert viewer.answer_to(number)["error"] == refusal


@pytest.mark.parametrize("character", ["\n", '"', "é", "😀"])
def test_the_longest_program_fits(hub: Hub, character: str) -> None:
    """16,384 bytes, and the answer with the text of every line as nodes."""
    worker, viewer = hub.worker(), hub.viewer()
    program = character * (16_384 // len(character.encode()))
    number = viewer.start_request("intervention.check", {"program": program})
    request = take(worker)[0]
    assert request["params"]["program"] == program
    answer = {"text": program, "graph": {"nodes": [{"id": str(i)} for i in range(40_000)]}}
    worker.send({"id": request["id"], "result": answer})
    assert viewer.answer_to(number)["result"] == answer


def test_late_viewers_and_a_hub_that_was_away_know_what_is_in_force(hub: Hub) -> None:
    worker, viewer = hub.worker(), hub.viewer()
    assert in_force(hub) == []
    tell(worker, STEER, KEPT)
    viewer.receive_until(lambda: bool(viewer.named("interventions")), "the event")
    assert viewer.named("interventions")[0]["programs"] == [STEER, KEPT]
    assert in_force(hub) == [STEER, KEPT]
    tell(worker, KEPT, reason="remove")
    viewer.receive_until(lambda: len(viewer.named("interventions")) == 2, "the event")
    assert in_force(hub) == [KEPT]
    worker.connection.close()
    hub.worker(interventions=[KEPT, STEER])
    viewer.receive_until(lambda: bool(viewer.named("run")), "the facts")
    assert viewer.named("run")[-1]["interventions"] == [KEPT, STEER]


def test_the_leases_end_reverts_what_is_not_kept(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--lease-seconds", "0.6") as hub:
        worker, ada, bob = hub.worker(), hub.viewer(), hub.viewer()
        claim(ada)
        tell(worker, STEER, KEPT)
        claim(bob, take_over=True)
        ada.request("ping")
        assert worker.requests == [], "a take-over reverts nothing"
        bob.connection.close()
        start = time.monotonic()
        request = take(worker)[0]
        assert (request["method"], request["params"]) == ("intervention.revert", {})
        assert 0.3 < time.monotonic() - start < 2
        worker.send({"id": request["id"], "result": {"step": 9, "ranks": 2, "removed": ["steer"]}})
        tell(worker, KEPT, step=9, reason="lease")
        claim(ada)
        ada.request("control.release")
        worker.drain(1)
        assert worker.requests == [], "what is kept stays"
        wait_until(lambda: len(trail(hub)) == 1, "the trail")
        line = trail(hub)[0]
        assert (line["kind"], line["step"], line["who"]) == ("intervention.revert", 9, "")


def test_a_restarted_hub_reverts_what_nobodys_lease_covers(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--lease-seconds", "0.4") as hub:
        worker = hub.worker(interventions=[KEPT, STEER])
        assert take(worker)[0]["method"] == "intervention.revert"
        tell(worker, KEPT, reason="lease")
        worker.drain(1.2)
        assert worker.requests == []


def test_what_programs_did_is_passed_on_counted_and_kept(hub: Hub) -> None:
    worker, viewer = hub.worker(), hub.viewer()
    tell(worker, STEER, KEPT)
    for step in range(3, 43):
        acted = {"name": "steer", "forwards": 4, "positions": 256, "writes": []}
        worker.notify("applied", step=step, programs=[acted])
        worker.notify("saved", step=step, program="steer", name="norm", layer=2, values=[1.5, "NaN"])
    viewer.receive_until(lambda: len(viewer.named("saved")) == 40, "the saved numbers")
    assert [params["step"] for params in viewer.named("applied")] == list(range(3, 43))
    assert viewer.named("saved")[0]["values"] == [1.5, "NaN"]
    wait_until(lambda: len(ask_json(hub, "/history/events?kind=saved")) == 40, "the history")
    saved = ask_json(hub, "/history/events?kind=saved&limit=2")
    assert [line["step"] for line in saved] == [3, 4]
    assert len(ask_json(hub, f"/history/events?kind=applied&after={saved[-1]['id']}")) >= 38
    kinds = [line["kind"] for line in ask_json(hub, "/history/events")]
    assert "interventions" in kinds and not {"applied", "saved"} & set(kinds)
    metrics = metrics_of(hub)
    assert metrics["tensor_tracer_interventions_active"] == 2
    assert metrics["tensor_tracer_interventions_applications_total"] == 160
    assert metrics["tensor_tracer_interventions_positions_total"] == 40 * 256


def metrics_of(hub: Hub) -> dict[str, float]:
    lines = ask(hub, "/metrics")[2].decode().splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in samples}


def test_the_most_that_a_save_sends_does_not_cut_off_a_slow_viewer(hub: Hub) -> None:
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    narrow.connect(("127.0.0.1", hub.port))
    worker, slow = hub.worker(), hub.viewer(sock=narrow, max_queue=1)
    numbers = [LONGEST_NUMBER] * MAX_NUMBERS
    for step in range(1, 21):
        worker.notify("saved", step=step, program="p", name="n", shape=[MAX_NUMBERS], values=numbers)
    worker.request("ping")  # the hub has taken them
    assert slow.request("ping")["result"] == {}, "it is still there"
    slow.receive_until(lambda: slow.named("saved")[-1:] != []
                       and slow.named("saved")[-1]["step"] == 20, "the newest")  # fmt: skip
    got = [params["step"] for params in slow.named("saved")]
    assert got == sorted(got)
    missed = sum(params.get("events", 0) for params in slow.named("dropped"))
    assert len(got) + missed == 20
    assert missed > 0, "is this viewer slow?"
    assert slow.named("saved")[-1]["values"][0] == LONGEST_NUMBER


def test_a_replay_tells_them_again_and_refuses_to_change_them(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "run", "--record", str(tmp_path))
    try:
        worker = feed(hub, range(1, 3))
        tell(worker, STEER, step=3)
        worker.notify("saved", step=3, program="steer", name="norm", values=[1.5])
        worker.notify("applied", step=3, programs=[{"name": "steer", "forwards": 4}])
        worker.notify("step", step=3, loss=1.0)
        tell(worker, step=4, reason="remove")
        worker.notify("step", step=4, loss=1.0)
        wait_for_frames(hub, 12)
        wait_until(lambda: len(ask_json(hub, "/history/steps")) == 4, "the steps")
    finally:
        hub.stop()
    with replaying(tmp_path / "run.ttrec", "--paused") as replay:
        viewer = replay.viewer
        claim(viewer)
        viewer.request("control.step", {"count": 4})
        viewer.receive_until(lambda: bool(viewer.named("applied")), "what the programs did")
        told = [e["event"] for e in viewer.events if e["event"] in ("step", "interventions")]
        assert told == ["step", "step", "interventions", "step", "interventions", "step"]
        assert [len(p["programs"]) for p in viewer.named("interventions")] == [1, 0]
        assert viewer.named("saved")[0]["values"] == [1.5]
        for step, names in ((3, ["steer"]), (1, [])):
            viewer.events.clear()
            viewer.request("replay.seek", {"step": step})
            viewer.receive_until(lambda: bool(viewer.named("interventions")), "what was in force")
            assert [p["name"] for p in viewer.named("interventions")[-1]["programs"]] == names
        for method, params in [("apply", APPLY), ("remove", {}), ("check", {"program": TEXT})]:
            assert error_code(viewer.request(f"intervention.{method}", params)) == "replay"
