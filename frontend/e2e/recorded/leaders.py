"""Plays the recorded sessions of two leaders (tests/e2e/leader_sessions.py) into a real hub, as a test of the page says.

The first argument is the hub's folder; the others are flags of the hub. Prints the hub's address, then reads a command
in JSON from each line of the standard input and answers with a line of JSON. leaders.ts starts it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "e2e"))
from hub_harness import Hub, Peer  # noqa: E402
from leader_sessions import hello, lead, records  # noqa: E402

MODEL = {"num_layers": 4, "hidden_size": 4, "num_attention_heads": 1, "vocab_size": 256, "seq_length": 1}


class Player:
    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.leaders: dict[int, Peer] = {}

    def lead(self, stage: int) -> None:
        """The leader of the stage joins."""
        self.leaders[stage] = lead(self.hub, stage, run=hello(stage)["run"] | {"model": MODEL})

    def leave(self, stage: int) -> None:
        self.leaders.pop(stage).connection.close()

    def records(self, stage: int, step: int) -> None:
        self.leaders[stage].connection.send(records(stage, step))

    def notify(self, stage: int, event: str, params: dict[str, Any]) -> None:
        self.leaders[stage].notify(event, **params)

    def next_request(self) -> dict[str, Any]:
        """The next request that rank 0 has to answer."""
        leader = self.leaders[0]
        leader.receive_until(lambda: len(leader.requests) > 0, "a request")
        return leader.requests.pop(0)

    def answer(self, answer: dict[str, Any]) -> None:
        self.leaders[0].send(answer)


def main() -> None:
    hub = Hub(Path(sys.argv[1]), *sys.argv[2:])
    try:
        print(f"http://127.0.0.1:{hub.port}/", flush=True)
        player = Player(hub)
        for line in sys.stdin:
            name, *values = json.loads(line)
            print(json.dumps(getattr(player, name)(*values)), flush=True)
    finally:
        hub.stop()


if __name__ == "__main__":
    main()
