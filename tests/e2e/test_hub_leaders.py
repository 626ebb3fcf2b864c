"""A run whose pipeline stages have a leader each: their recorded sessions, played into a real hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_harness import FACTS, Hub, Peer, claim, running_hub, wait_until
from leader_sessions import LAYERS, RANKS, STEPS, hello, lead, play, points, session, value
from test_hub_history import ask_json, places, wait_for_frames
from test_hub_history import ask as ask_history
from test_hub_metrics import get, scrape
from test_hub_replay import replaying

from tensor_tracer import decode_records

pytestmark = pytest.mark.nightly(suite="kills")

BOTH = [{"stage": 0, "rank": 0, "connected": True}, {"stage": 1, "rank": 8, "connected": True}]
ONE_MISSING = [BOTH[0], BOTH[1] | {"connected": False}]
ALL = {(step, layer, entry) for step in range(1, STEPS + 1) for layer in range(1, 5) for entry in (0, 1)}


def seen(viewer: Peer) -> set[tuple[int, int, int]]:
    return {(r["step"], r["layer"], r["entry"]) for r in viewer.records}


def of_stage(stage: int, *steps: int) -> set[tuple[int, int, int]]:
    return {(step, layer, entry) for step, layer, entry in ALL if step in steps and layer in LAYERS[stage]}


def play_steps(leaders: list[Peer], *steps: int) -> None:
    for step in steps:
        for stage, leader in enumerate(leaders):
            play(leader, session(stage)[step])


def ready(hub: Hub) -> tuple[int, dict[str, Any]]:
    answer = get(hub, "/readyz")
    return answer.status, json.loads(answer.body)


def named(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    rows = {row["name"]: row for row in facts["points"]}
    assert len(rows) == len(facts["points"]), "each name has one row"
    return rows


def check_facts(facts: dict[str, Any]) -> None:
    rows = named(facts)
    assert set(rows) == {"HiddenStates", "MLPActivation", "Embedding", "Logits"}
    states, activation = rows["HiddenStates"], rows["MLPActivation"]
    assert (states["first_layer"], states["last_layer"], states["flag"]) == (1, 4, 7)
    assert (activation["first_layer"], activation["last_layer"]) == (1, 4)
    assert activation["flag"] == 17, "the number of stage 0"
    assert rows["Logits"]["flag"] == 33


@pytest.mark.smoke
def test_two_leaders_are_one_run(hub: Hub) -> None:
    early = hub.viewer()
    leaders = [lead(hub, 0), lead(hub, 1)]
    play_steps(leaders, *range(1, STEPS + 1))
    early.receive_until(lambda: len(early.records) == len(ALL), "all records")
    early.receive_until(lambda: len(early.named("step")) == STEPS, "all steps")
    assert seen(early) == ALL
    assert [p["parts"] for p in early.named("parts")] == [[BOTH[0], {"stage": 1, "connected": False}], BOTH]
    check_facts(early.named("run")[-1])
    assert [s["step"] for s in early.named("step")] == list(range(1, STEPS + 1))
    assert early.named("dropped") == []
    late = hub.viewer()
    assert late.hello["result"]["parts"] == BOTH
    check_facts(late.hello["result"]["run"])
    late.receive_until(lambda: len(late.records) == 8, "the latest of every key")
    assert seen(late) == of_stage(0, STEPS) | of_stage(1, STEPS)
    assert ready(hub) == (200, {"ready": True})
    told = scrape(hub)
    for stage in "01":
        assert told[f'leader_connected{{stage="{stage}"}}'] == 1
        assert told[f'leader_records_total{{stage="{stage}"}}'] == len(ALL) / 2
        assert told[f'leader_missed_records_total{{stage="{stage}"}}'] == 0
    for rank in RANKS.values():
        assert told[f'worker_heartbeat_age_seconds{{rank="{rank}"}}'] < 10
        assert told[f'worker_send_seconds_total{{rank="{rank}"}}'] == 0.5


def test_the_second_leader_may_come_first(hub: Hub) -> None:
    second = lead(hub, 1)
    viewer = hub.viewer()
    assert viewer.hello["result"]["run"] is None
    assert ready(hub)[1]["reason"] == "no_trainer"
    first = lead(hub, 0)
    viewer.receive_until(lambda: len(viewer.named("parts")) > 0, "the parts")
    assert viewer.named("parts")[-1]["parts"] == BOTH
    check_facts(viewer.named("run")[-1])
    play_steps([first, second], 1)
    viewer.receive_until(lambda: len(viewer.records) == 8, "records of both")


def test_control_goes_to_rank_0_alone(hub: Hub) -> None:
    first, second = lead(hub, 0), lead(hub, 1)
    viewer = hub.viewer()
    claim(viewer)
    number = viewer.start_request("control.pause")
    first.receive_until(lambda: len(first.requests) == 1, "the request")
    second.send({"id": first.requests[0]["id"], "result": {"step": 99, "ranks": 1}})
    second.notify("state", phase="paused", step=99)
    second.notify("step", step=99, loss=1.0)
    second.notify("log", level="info", message="from the second")
    viewer.receive_until(lambda: len(viewer.named("log")) == 1, "what any leader may say")
    first.send({"id": first.requests[0]["id"], "result": {"step": 1, "ranks": 2}})
    assert viewer.answer_to(number)["result"] == {"step": 1, "ranks": 2}
    second.drain(0.2)
    assert second.requests == [] and viewer.named("step") == []
    assert "paused" not in [s["phase"] for s in viewer.named("state")]


@pytest.mark.smoke
def test_a_lost_leader_is_a_missing_part_and_may_come_back(hub: Hub) -> None:
    leaders = [lead(hub, 0), lead(hub, 1)]
    viewer = hub.viewer()
    play_steps(leaders, 1)
    viewer.receive_until(lambda: len(viewer.records) == 8, "step 1")
    leaders[1].connection.close()
    viewer.receive_until(lambda: len(viewer.named("parts")) == 1, "the loss")
    assert viewer.named("parts") == [{"parts": ONE_MISSING}]
    status, why = ready(hub)
    assert (status, why["reason"]) == (503, "missing_part") and "stage 1 of 2 (rank 8)" in why["message"]
    assert scrape(hub)['leader_connected{stage="1"}'] == 0
    play_steps(leaders[:1], 2)
    viewer.receive_until(lambda: len(viewer.records) == 12, "the other stage goes on")
    late = hub.viewer()
    assert late.hello["result"]["parts"] == ONE_MISSING
    assert late.hello["result"]["state"]["phase"] == "training"
    check_facts(late.hello["result"]["run"])
    leaders[1] = lead(hub, 1)
    viewer.receive_until(lambda: viewer.named("parts")[-1]["parts"] == BOTH, "its return")
    play_steps(leaders, 3)
    viewer.receive_until(lambda: len(viewer.records) == 20, "step 3 of both")
    assert seen(viewer) == ALL - of_stage(0, 4) - of_stage(1, 2, 4)
    assert ready(hub)[0] == 200
    told = scrape(hub)
    assert told['leader_missed_records_total{stage="1"}'] == 4, "step 2, which it sent to nobody"
    assert told['leader_missed_records_total{stage="0"}'] == 0
    assert viewer.named("state") == [], "the run was never lost"


def test_drops_are_those_of_their_leader(hub: Hub) -> None:
    lead(hub, 0)
    second, viewer = lead(hub, 1), hub.viewer()
    second.notify("dropped", records=5, where="trainer")
    viewer.receive_until(lambda: len(viewer.named("dropped")) == 1, "the drops")
    told = scrape(hub)
    assert told['leader_dropped_records_total{stage="1"}'] == 5
    assert told['leader_dropped_records_total{stage="0"}'] == 0


def test_the_trainer_that_is_lost_ends_the_run_and_the_parts_stay(hub: Hub) -> None:
    first, second = lead(hub, 0), lead(hub, 1)
    viewer = hub.viewer()
    first.connection.close()
    viewer.receive_until(lambda: len(viewer.named("parts")) == 1, "the loss")
    assert viewer.named("state")[-1]["phase"] == "lost"
    play(second, session(1)[1])
    viewer.receive_until(lambda: len(viewer.records) == 4, "records of the other")
    first = lead(hub, 0)
    viewer.receive_until(lambda: viewer.named("parts")[-1]["parts"] == BOTH, "its return")
    check_facts(viewer.named("run")[-1])
    assert first.hello["result"]["session"] == "w3"


def test_one_that_never_comes(hub: Hub) -> None:
    first, viewer = lead(hub, 0), hub.viewer()
    play(first, session(0)[1])
    assert viewer.hello["result"]["parts"] == [BOTH[0], {"stage": 1, "connected": False}]
    assert "stage 1 of 2 is not connected" in ready(hub)[1]["message"]
    viewer.receive_until(lambda: len(viewer.named("log")) == 1, "the warning")
    assert viewer.named("log")[0] == {
        "level": "warning", "message": "stage 1 of 2 is not connected: no new records of its layers"
    }  # fmt: skip
    lead(hub, 1)
    viewer.receive_until(lambda: len(viewer.named("log")) == 2, "that it came")
    assert "stage 1 of 2 (rank 8) is connected" in viewer.named("log")[1]["message"]


def test_two_that_claim_the_same_part(hub: Hub) -> None:
    lead(hub, 0)
    second, viewer = lead(hub, 1), hub.viewer()
    other = lead(hub, 1, rank=12)
    assert other.hello["error"]["where"] == "stage"
    assert "stage 1 of 2 (rank 8) has a leader" in other.hello["error"]["message"]
    play(second, session(1)[1])
    viewer.receive_until(lambda: len(viewer.records) == 4, "the first still leads")
    again = lead(hub, 1)
    with pytest.raises(Exception, match="another worker of rank 8"):
        second.drain(5)
    play(again, session(1)[2])
    viewer.receive_until(lambda: len(viewer.records) == 8, "its new connection")
    assert viewer.hello["result"]["parts"] == BOTH
    again.connection.close()
    viewer.receive_until(lambda: viewer.named("parts")[-1]["parts"] == ONE_MISSING, "the loss")
    assert "result" in lead(hub, 1, rank=12).hello, "the part is free"


@pytest.mark.parametrize(
    ("changes", "where", "word"),
    [
        ({"stage": 2}, "stage", "less than stages"),
        ({"stages": 3}, "stages", "has 2 stages"),
        ({"rank": 0}, "rank", "stage 0"),
        ({"run": FACTS | {"id": "6f0c00000000abcd"}}, "run.id", FACTS["id"]),
        ({"run": FACTS | {"points": [{"name": "X", "flag": 16}]}}, "run.points", '"Embedding" and to "X"'),
        ({"stages": 257}, "stages", "1 to 256"),
    ],
)
def test_parts_that_do_not_fit_are_refused(hub: Hub, changes: dict[str, Any], where: str, word: str) -> None:
    lead(hub, 0)
    refused = lead(hub, 1, **changes).hello["error"]
    assert refused["code"] == "invalid_argument" and refused["where"] == where and word in refused["message"]
    assert hub.viewer().hello["result"]["parts"][1] == {"stage": 1, "connected": False}


def test_a_stage_needs_their_number(hub: Hub) -> None:
    peer = hub.connect("/worker")
    params = hello(1)
    del params["stages"]
    assert peer.request("hello", params)["error"]["where"] == "stages"


def test_a_point_is_asked_for_by_name_whatever_its_numbers(hub: Hub) -> None:
    leaders, viewer = [lead(hub, 0), lead(hub, 1)], hub.viewer()
    assert "result" in viewer.request("subscribe", {"points": ["MLPActivation"]})
    play_steps(leaders, 1)
    viewer.receive_until(lambda: len(viewer.records) == 4, "its records")
    viewer.drain(0.2)
    assert seen(viewer) == {(1, layer, 1) for layer in range(1, 5)}


def test_both_parts_are_recorded_and_replayed(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--record", str(tmp_path)) as hub:
        leaders = [lead(hub, 0), lead(hub, 1)]
        play_steps(leaders, *range(1, STEPS + 1))
        wait_for_frames(hub, len(ALL))
        _, _, body = ask_history(hub, "/history/records?point=MLPActivation")
        assert {(step, layer) for step, point, layer in places(body)} == {place[:2] for place in ALL}
        assert {point for _, point, _ in places(body)} == {17}
        found = {(r.step, r.layer): (r.point, r.pipeline_rank, float(r.values.flat[0])) for r in decode_records(body)}
        assert found[2, 4] == ("point 17", 1, np.float32(value(2, 4, 1)))
        kinds = [event["kind"] for event in ask_json(hub, "/history/events")]
        assert kinds.count("parts") == 2
    with replaying(tmp_path / "run.ttrec", "--paused") as replay:
        viewer = replay.viewer
        claim(viewer)
        viewer.request("control.step", {"count": STEPS})
        viewer.receive_until(lambda: len(seen(viewer)) == len(ALL), "all records")
        assert "parts" not in viewer.hello["result"], "no leader sends a recording"
        check_facts(viewer.hello["result"]["run"])
        assert seen(viewer) == ALL


def test_a_hub_that_is_restarted_keeps_the_points_of_all(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--record", str(tmp_path)) as hub:
        leaders = [lead(hub, 0), lead(hub, 1)]
        play_steps(leaders, 1)
        wait_for_frames(hub, 8)
    with running_hub(tmp_path / "run", "--record", str(tmp_path)) as hub:
        lead(hub, 0)
        late = hub.viewer()
        check_facts(late.hello["result"]["run"])
        assert late.hello["result"]["parts"][1] == {"stage": 1, "connected": False}
        lead(hub, 1)
        late.receive_until(lambda: len(late.named("parts")) == 1, "the second")
        check_facts(late.named("run")[-1])


def test_a_trainer_with_one_leader_is_as_before(hub: Hub) -> None:
    hub.worker(points=points(0))
    viewer = hub.viewer()
    assert "parts" not in viewer.hello["result"]
    wait_until(lambda: scrape(hub)['leader_connected{stage="0"}'] == 1, "the only stage")
    assert 'leader_connected{stage="1"}' not in scrape(hub)
