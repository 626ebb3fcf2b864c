"""Two controllers race a thousand times (SEC-8): one lease at a time, one change each time, and on a real
run a line of the audit trail for each change, whose step is that of every rank."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hub_harness import Hub, Peer, claim, error_code
from run_harness import started, two_ranks

pytestmark = pytest.mark.nightly(suite="attacks")

Change = Callable[[str], tuple[str, dict[str, Any]]]  # method and params, by the name of who asks
RACES = int(os.environ.get("TT_RACES", "1000"))
RACES_OF_A_PAIR = 50  # few enough messages of each client for any limit on their rate


class Trainer:
    """A fake one: answers each request once, in a separate thread."""

    def __init__(self, hub: Hub) -> None:
        self.peer = hub.worker()
        self.applied: list[dict[str, Any]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._over.is_set():
            self.peer.drain(0.002)
            while self.peer.requests:
                request = self.peer.requests.pop(0)
                assert request["method"] == "plan.set"
                self.applied.append(request["params"]["plan"])
                result = {"step": len(self.applied), "ranks": 1, "plan": request["params"]["plan"]}
                self.peer.send({"id": request["id"], "result": result})

    def stop(self) -> None:
        self._over.set()
        self._thread.join(10)


class Racer:
    """Claims and changes the run in one breath, whether it has won or not."""

    def __init__(self, peer: Peer, name: str) -> None:
        self.peer, self.name = peer, name

    def race(self, change: Change, start: threading.Barrier, out: dict[str, list]) -> None:
        start.wait()
        claimed = self.peer.start_request("control.claim", {"name": self.name})
        changed = self.peer.start_request(*change(self.name))
        out[self.name] = [self.peer.answer_to(claimed), self.peer.answer_to(changed)]


def race_once(pair: list[Racer], change: Change) -> tuple[str, dict[str, Any]]:
    """The winner's name, and what its change was answered with."""
    start, out = threading.Barrier(2), {}
    threads = [threading.Thread(target=racer.race, args=(change, start, out), daemon=True) for racer in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    winners = [racer for racer in pair if "result" in out[racer.name][0]]
    assert len(winners) == 1, out
    (winner,) = winners
    (loser,) = [racer for racer in pair if racer is not winner]
    assert error_code(out[loser.name][0]) == "busy"
    assert error_code(out[loser.name][1]) == "not_controller"
    assert winner.peer.request("control.release")["result"] == {}
    return winner.name, out[winner.name][1]["result"]


def race_often(hub: Hub, races: int, change: Callable[[int], Change]) -> list[tuple[str, dict[str, Any]]]:
    """What `race_once` gave, by number from 1; both have won some."""
    ended: list[tuple[str, dict[str, Any]]] = []
    pair: list[Racer] = []
    while len(ended) < races:
        if len(ended) % RACES_OF_A_PAIR == 0:
            for racer in pair:
                racer.peer.connection.close()
            pair = [Racer(hub.viewer(), name) for name in ("Ada", "Bob")]
        pair.reverse()  # who starts last has a little less to wait for
        ended.append(race_once(pair, change(len(ended) + 1)))
    assert len({name for name, _ in ended}) == 2, "one of the two never won: that was no race"
    return ended


def change_of_plan(number: int) -> Change:
    return lambda name: ("plan.set", {"plan": {"race": number, "by": name}})


@pytest.mark.parametrize("races", [pytest.param(50, marks=pytest.mark.smoke), RACES])
def test_two_controllers_race(races: int, hub: Hub) -> None:
    trainer, audience = Trainer(hub), hub.viewer()
    ended = race_often(hub, races, change_of_plan)
    trainer.stop()
    winners = [name for name, _ in ended]
    plans = [{"race": at, "by": name} for at, name in enumerate(winners, 1)]
    assert trainer.applied == plans, "each winner's change once, nobody else's"
    answers = [{"step": at, "ranks": 1, "plan": plan} for at, plan in enumerate(plans, 1)]
    assert [answer for _, answer in ended] == answers

    audience.receive_until(lambda: len(audience.named("control")) == 2 * races, "every change")
    holders = [told["holder"] and told["holder"]["name"] for told in audience.named("control")]
    assert holders[0::2] == winners and set(holders[1::2]) == {None}


# Both ranks write their own heads; the program ends by itself.
PROGRAM, STEPS = "layers[2].attention.query *= 1.001", 2


def program_of(number: int) -> Change:
    return lambda name: ("intervention.apply", {"name": f"{number} {name}", "program": PROGRAM,
                                                "ttl": STEPS, "keep": True})  # fmt: skip


def test_two_controllers_race_for_a_run_of_two_ranks(tmp_path: Path) -> None:
    recorded = two_ranks(tmp_path) | {"record": str(tmp_path)}
    with started(recorded, tmp_path) as (run, hub, first):
        ended = race_often(hub, max(20, RACES // 10), program_of)
        last = ended[-1][1]["step"] + STEPS
        first.receive_until(lambda: first.named("step")[-1]["step"] > last, "the last one's end")
        assert "result" in claim(first) and "result" in first.request("control.stop")
        run.wait()
    database = sqlite3.connect(tmp_path / "run.ttrec")
    events = [(kind, who, step, json.loads(detail)) for kind, who, step, detail in database.execute(
        "SELECT kind, who, step, detail FROM events ORDER BY id")]  # fmt: skip
    check_trail(events, ended)


def check_trail(events: list[tuple[str, str, int, Any]], ended: list[tuple[str, dict[str, Any]]]) -> None:
    """One line for each change, and every rank did it at the step that stands there."""
    names = [f"{at} {name}" for at, (name, _) in enumerate(ended, 1)]
    lines = [event for event in events if event[0] == "intervention.apply"]
    assert [(who, detail["params"]["name"]) for _, who, _, detail in lines] == [
        (winner, name) for (winner, _), name in zip(ended, names, strict=True)
    ]
    begun = {name: step for name, (_, _, step, _) in zip(names, lines, strict=True)}
    assert list(begun.values()) == [answer["step"] for _, answer in ended]
    assert {answer["ranks"] for _, answer in ended} == {2}
    acted: dict[str, list[int]] = {name: [] for name in names}
    for kind, _, step, detail in events:
        for program in detail["programs"] if kind == "applied" else []:
            assert (program["ranks"], program["of_ranks"]) == (2, 2), program
            acted[program["name"]].append(step)
    assert acted == {name: list(range(step, step + STEPS)) for name, step in begun.items()}
    held = [kind for kind, *_ in events if kind in ("control.claim", "control.release")]
    assert held == ["control.claim", "control.release"] * len(ended) + ["control.claim"], "one at a time"
