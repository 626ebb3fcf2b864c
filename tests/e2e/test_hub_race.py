"""Two controllers race a thousand times (SEC-8): one lease at a time, one change each time."""

from __future__ import annotations

import os
import threading
from typing import Any

from hub_harness import Hub, Peer, error_code

RACES = int(os.environ.get("TT_RACES", "1000"))
RACES_OF_A_PAIR = 50  # few enough messages of each client for any limit on their rate


class Trainer:
    """A fake one: answers each request once, in a thread of its own."""

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
    """Claims and changes the plan in one breath, whether it has won or not."""

    def __init__(self, peer: Peer, name: str) -> None:
        self.peer, self.name = peer, name

    def race(self, number: int, start: threading.Barrier, out: dict[str, list]) -> None:
        start.wait()
        claimed = self.peer.start_request("control.claim", {"name": self.name})
        plan = {"race": number, "by": self.name}
        changed = self.peer.start_request("plan.set", {"plan": plan})
        out[self.name] = [self.peer.answer_to(claimed), self.peer.answer_to(changed)]


def race_once(pair: list[Racer], number: int) -> str:
    """The winner's name."""
    start, out = threading.Barrier(2), {}
    other = threading.Thread(target=pair[1].race, args=(number, start, out), daemon=True)
    other.start()
    pair[0].race(number, start, out)
    other.join(10)
    winners = [racer for racer in pair if "result" in out[racer.name][0]]
    assert len(winners) == 1, out
    (winner,) = winners
    (loser,) = [racer for racer in pair if racer is not winner]
    assert error_code(out[loser.name][0]) == "busy"
    assert error_code(out[loser.name][1]) == "not_controller"
    plan = {"race": number, "by": winner.name}
    assert out[winner.name][1]["result"] == {"step": number, "ranks": 1, "plan": plan}
    assert winner.peer.request("control.release")["result"] == {}
    return winner.name


def test_two_controllers_race(hub: Hub) -> None:
    trainer, audience = Trainer(hub), hub.viewer()
    winners: list[str] = []
    pair: list[Racer] = []
    while len(winners) < RACES:
        if len(winners) % RACES_OF_A_PAIR == 0:
            for racer in pair:
                racer.peer.connection.close()
            pair = [Racer(hub.viewer(), name) for name in ("Ada", "Bob")]
        winners.append(race_once(pair, len(winners) + 1))
    trainer.stop()
    expected = [{"race": at, "by": name} for at, name in enumerate(winners, 1)]
    assert trainer.applied == expected, "each winner's change once, nobody else's"
    assert len(set(winners)) == 2, "one of the two never won: that was no race"

    audience.receive_until(lambda: len(audience.named("control")) == 2 * RACES, "every change")
    holders = [told["holder"] and told["holder"]["name"] for told in audience.named("control")]
    assert holders[0::2] == winners and set(holders[1::2]) == {None}
