"""Sessions of the two leaders of a run with two pipeline stages: all that each says to a hub, in order."""

from __future__ import annotations

import json
import struct
from typing import Any

from hub_harness import FACTS, RECORD, RUN_ID, Hub, Peer, encode_record

STEPS, LAYERS = 4, {0: (1, 2), 1: (3, 4)}
RANKS = {0: 0, 1: 8}
ENTRIES = ["HiddenStates", "MLPActivation"]
PLAN = {"number": 1, "entries": [{"point": name} for name in ENTRIES]}
NUMBERS = {0: {"HiddenStates": 7, "MLPActivation": 17, "Embedding": 16},
           1: {"HiddenStates": 7, "MLPActivation": 32, "Logits": 33}}  # fmt: skip


def points(stage: int) -> list[dict[str, Any]]:
    first, last = LAYERS[stage]
    outside = ("Embedding", "Logits")
    return [
        {"name": name, "flag": number, "first_layer": 0 if name in outside else first,
         "last_layer": 0 if name in outside else last, "features": 4,
         "dims": ["batch", "sequence", "features"]}
        for name, number in NUMBERS[stage].items()
    ]  # fmt: skip


def value(step: int, layer: int, entry: int) -> float:
    return step + layer / 10 + entry / 100


def hello(stage: int) -> dict[str, Any]:
    run = FACTS | {"points": points(stage), "plan": PLAN, "mesh": {"tensor": 4, "pipeline": 2, "data": 2}}
    return {"versions": [1], "role": "worker", "client": "test", "rank": RANKS[stage],
            "stage": stage, "stages": 2, "run": run}  # fmt: skip


def records(stage: int, step: int) -> bytes:
    """Those of one step in one message, as a pass has them."""
    message = b""
    for entry, name in enumerate(ENTRIES):
        for layer in LAYERS[stage]:
            sequence = (step - 1) * 4 + entry * 2 + layer - LAYERS[stage][0] + 1
            header = RECORD | {
                "run": int(RUN_ID, 16), "step": step, "entry": entry, "layer": layer, "point": NUMBERS[stage][name], "dtype": 2,
                "ndim": 3, "shape": [1, 1, 4, 1], "features": 4, "pipeline_rank": stage, "sequence": sequence,
            }  # fmt: skip
            message += encode_record(header, struct.pack("<4f", *[value(step, layer, entry)] * 4))[0]
    return message


def session(stage: int) -> list[list[str | bytes]]:
    """What the stage's leader says: after its hello, then in each step."""
    def event(name: str, **params: Any) -> str:
        return json.dumps({"event": name, "params": params})

    begin: list[str | bytes] = [event("state", phase="training", step=0)] if stage == 0 else []
    told: list[list[str | bytes]] = [begin]
    for step in range(1, STEPS + 1):
        said: list[str | bytes] = [records(stage, step), event("link", send_seconds=0.5, queue_bytes=0)]
        told.append([*said, event("step", step=step, loss=1 / step)] if stage == 0 else said)
    return told


def lead(hub: Hub, of: int, **changes: Any) -> Peer:
    """The leader of this stage, which has said hello."""
    peer = hub.connect("/worker")
    peer.hello = peer.request("hello", hello(of) | changes)
    if "result" in peer.hello:
        play(peer, session(of)[0])
    return peer


def play(peer: Peer, messages: list[str | bytes]) -> None:
    for message in messages:
        peer.connection.send(message)
