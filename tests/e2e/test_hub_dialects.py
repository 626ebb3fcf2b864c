"""Clients of Tensor Tracer's and of MegaScope's training mode, unchanged but for the token."""

from __future__ import annotations

import contextlib
import json
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_harness import (
    FACTS,
    REPOSITORY,
    Hub,
    Peer,
    claim,
    crc32c,
    error_code,
    make_record,
    running_hub,
    wait_until,
)
from websockets.sync.client import connect

pytestmark = pytest.mark.nightly(suite="dialects")

BATCH, SEQUENCE, HIDDEN, HEADS, LAYERS = 2, 4, 24, 2, 3
RUN = {
    "mesh": {"tensor": 1, "pipeline": 1, "data": 1},
    "model": {"num_layers": LAYERS, "seq_length": SEQUENCE, "num_attention_heads": HEADS},
    "micro_batch_size": BATCH,
    "global_batch_size": 2 * BATCH,
    "points": [
        {"name": name, "flag": flag, "features": features}
        for name, flag, features in [
            ("QKV", 1, 3 * HIDDEN), ("RawAttentionScore", 2, SEQUENCE), ("ContextLayer", 3, HIDDEN),
            ("MLP1", 4, 4 * HIDDEN), ("MLP2", 5, HIDDEN), ("AttentionOutput", 6, HIDDEN),
            ("HiddenStates", 7, HIDDEN), ("InputTokens", 8, 0),
        ]
    ],
    "vectors": ["evil", "calm"],
}  # fmt: skip
START = {"type": "start", "micro_batch_size": 2, "seq_length": SEQUENCE, "num_layers": LAYERS}
TILE_8 = {"compressor_type": "TileCompressor", "compressor_configs": {"tiles": 8}}
TENSOR_TRACER = {
    "type": "run_training_step",
    "visualization_flags": {"HiddenStates": "true", "MLP1_mat_mul": True},
    "compressor_config": {"HiddenStates": TILE_8, "MLP1_mat_mul": TILE_8},
}
OFF = {f"{what}_perturbation": False for what in ("weight", "calculation", "system")}
MEGASCOPE = {
    "type": "run_training_step",
    "visualization_flags": {"QKV_mat_mul": "True", "RawAttentionScore_mat_mul": "False",
                            "MLP1_mat_mul": "True", "MLP2_mat_mul": "False", "MLP2_Plot": "False",
                            "Result": "False"},
    "disturbance_configs": OFF,
    "compressor_config": {"QKV": {"pixels": 6, "method": "data.mean(dim=-1)"},
                          "MLP": {"pixels": 5, "method": "data.mean(dim=-1)"}},
}  # fmt: skip
# The plan before the viewer, for whom a run may wait.
GOES_ON = ["viewers", "plan.set", "viewers", "control.continue"]
PING, PONG = {"type": "ping"}, {"type": "pong"}


class Trainer:
    """A worker of rank 0 that takes every plan with a new number, in a thread."""

    def __init__(self, hub: Hub, phase: str = "training", **facts: Any) -> None:
        self.peer: Peer = hub.worker(**RUN, **facts)
        self.peer.notify("state", phase=phase, step=1)
        self.number = 1
        self.refuse: dict[str, str] | None = None
        self.programs: dict[str, dict[str, Any]] = {}
        self.hold = threading.Event()  # set: answers come
        self.hold.set()
        self.asked: list[dict[str, Any]] = []
        self.viewers: list[int] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(Exception):
            for text in self.peer.connection:
                message = json.loads(text)
                if message.get("event") == "viewers":
                    self.viewers.append(message["params"]["count"])
                    self.asked.append({"method": "viewers"})
                elif "method" in message:
                    self.asked.append(message)
                    self.hold.wait(10)
                    self._answer(message)

    def _answer(self, message: dict[str, Any]) -> None:
        if message["method"].startswith("intervention."):
            self._intervene(message)
        elif message["method"] != "plan.set":
            phase = "training" if message["method"] == "control.continue" else "paused"
            self.peer.notify("state", phase=phase, step=1)
            self.peer.send({"id": message["id"], "result": {"step": 1, "ranks": 1}})
        elif self.refuse is not None:
            self.peer.send({"id": message["id"], "error": self.refuse})
        else:
            self.number += 1
            plan = message["params"]["plan"] | {"number": self.number}
            self.peer.send({"id": message["id"], "result": {"step": 2, "ranks": 1, "plan": plan}})
            self.peer.notify("plan", plan=plan, step=2)

    def _intervene(self, message: dict[str, Any]) -> None:
        params = message["params"]
        result: dict[str, Any] = {"step": 2, "ranks": 1}
        if "program" in params and "weight" in params["program"] and self.refuse is not None:
            self.peer.send({"id": message["id"], "error": self.refuse})
            return
        if message["method"] == "intervention.apply":
            program = {"name": params["name"], "text": params["program"], "keep": False}
            self.programs[params["name"]] = result["program"] = program
        elif message["method"] == "intervention.revert":
            self.programs.clear()
        elif params["name"] in self.programs:
            result["removed"] = [self.programs.pop(params["name"])["name"]]
        else:
            error = {"code": "invalid_argument", "message": "no such program"}
            self.peer.send({"id": message["id"], "error": error})
            return
        self.peer.send({"id": message["id"], "result": result})
        self.peer.notify("interventions", step=2, programs=list(self.programs.values()), reason="x")

    def methods(self) -> list[str]:
        return [m["method"] for m in self.asked if m["method"] != "viewers"]

    def plans(self) -> list[list[dict[str, Any]]]:
        return [
            m["params"]["plan"]["entries"] for m in self.asked if m["method"] == "plan.set"
        ]

    def send(self, numbers: list[float], shape: list[int], **fields: int) -> None:
        """A record of f32, of the plan in force."""
        header = {"plan": self.number, "dtype": 2, "compressor": 1, "ndim": len(shape), **fields}
        header["shape"] = shape + [1] * (4 - len(shape))
        self.peer.connection.send(make_record(struct.pack(f"<{len(numbers)}f", *numbers), **header))


def large_record(number: float, layer: int) -> bytes:
    """65536 times the number. Its payload's CRC is left 0, which the hub ignores: that is slow here."""
    shape = [1, 1, 65536, 1]
    fields = {"plan": 2, "dtype": 2, "compressor": 1, "ndim": 3, "point": 4, "layer": layer}
    header = bytearray(make_record(b"", shape=shape, **fields))
    struct.pack_into("<Q", header, 88, 4 * shape[2])
    struct.pack_into("<I", header, 124, crc32c(bytes(header[:124])))
    return bytes(header) + struct.pack("<f", number) * shape[2]


class Legacy:
    """A client on Python's `websockets`, with that library's defaults."""

    def __init__(self, hub: Hub, path: str = "/", **options: Any) -> None:
        self.socket = connect(
            f"ws://127.0.0.1:{hub.port}{path}",
            additional_headers={"Authorization": f"Bearer {hub.token}"},
            **options,
        ).__enter__()

    def send(self, message: dict[str, Any] | str) -> None:
        self.socket.send(message if isinstance(message, str) else json.dumps(message))

    def get(self, timeout: float = 10) -> dict[str, Any]:
        text = self.socket.recv(timeout)
        assert isinstance(text, str), "a legacy client gets no binary messages"

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        message = json.loads(text, parse_constant=refuse)
        assert "type" in message, f"a legacy client gets nothing native: {message}"
        return message

    def ask(self, message: dict[str, Any] | str) -> dict[str, Any]:
        self.send(message)
        return self.get()

    def gets_nothing(self, seconds: float = 0.3) -> bool:
        try:
            self.get(seconds)
        except TimeoutError:
            return True
        return False


@pytest.fixture
def trainer(hub: Hub) -> Iterator[Trainer]:
    yield Trainer(hub)


DEFLATE = pytest.mark.parametrize("compression", ["deflate", None])


@pytest.mark.smoke
@DEFLATE
def test_a_session_of_tensor_tracer(hub: Hub, trainer: Trainer, compression: str | None) -> None:
    client = Legacy(hub, compression=compression)
    assert client.ask(TENSOR_TRACER) == START
    assert [(e["point"], e["compressor"]) for e in trainer.plans()[0]] == [
        (name, {"kind": "tile", "tiles": 8, "method": "mean"}) for name in ("MLP1", "HiddenStates")
    ]
    for entry in trainer.plans()[0]:
        assert entry["rows"] == 0 and entry["phases"] == ["train", "eval"]
        assert entry["micro_batches"] == "0-1" and entry["dtype"] == "f32"
    numbers = [0.5, float("nan"), float("-inf"), 1.0, 0.1] + [0.0] * 59
    trainer.send(numbers, [BATCH, SEQUENCE, 8], point=7, entry=1, layer=3)
    update = client.get()
    result = update.pop("result")
    assert update == {"type": "update", "update_type": 7, "layer_id": 3, "args": [2, 4, 8]}
    rounded = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert result == [0.5, None, None, 1.0, rounded] + [0.0] * 59
    assert all(isinstance(x, float) or x is None for x in result)
    assert client.ask(PING) == PONG


@pytest.mark.smoke
@DEFLATE
def test_a_session_of_megascope(hub: Hub, trainer: Trainer, compression: str | None) -> None:
    client = Legacy(hub, compression=compression)
    assert client.ask(PING) == PONG
    assert client.ask(MEGASCOPE) == START
    assert [(e["point"], e["compressor"]["tiles"]) for e in trainer.plans()[0]] == [
        ("QKV", 6), ("MLP1", 5),
    ]  # fmt: skip
    numbers = [float(i) for i in range(BATCH * SEQUENCE * 6)]
    trainer.send(numbers, [BATCH, SEQUENCE, 6], point=1, entry=0, layer=1)
    update = client.get()
    assert update["args"] == [SEQUENCE] and update["result"] == numbers
    watching = MEGASCOPE | {"visualization_flags": {"RawAttentionScore_mat_mul": "TRUE",
                                                    "MLP1_mat_mul": False}}  # fmt: skip
    assert client.ask(watching) == START
    assert [e["point"] for e in trainer.plans()[1]] == ["RawAttentionScore", "MLP2"]
    shape = [BATCH, HEADS, SEQUENCE, SEQUENCE]
    trainer.send([0.25] * 64, shape, point=2, entry=0, layer=1, compressor=0)
    update = client.get()
    assert update["args"] == shape[1:] and len(update["result"]) == 64


@pytest.mark.parametrize("deflate", ["true", "false"])
@pytest.mark.parametrize("request_", [TENSOR_TRACER, MEGASCOPE], ids=["tensor tracer", "megascope"])
def test_clients_on_node(
    hub: Hub, trainer: Trainer, deflate: str, request_: dict[str, Any]
) -> None:
    assert (REPOSITORY / "frontend/node_modules/ws").exists(), "run npm ci in frontend"
    script = REPOSITORY / "tests/e2e/legacy_client.mjs"
    command = ["node", str(script), f"ws://127.0.0.1:{hub.port}/", hub.token, deflate, "3"]
    node = subprocess.Popen(
        [*command, json.dumps(PING), json.dumps(request_)], stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: trainer.number == 2, "a plan")
    while node.poll() is None:
        trainer.send([1.5, float("nan")], [1, 1, 2], point=4, entry=0, layer=1)
        trainer.send([1.5, float("nan")], [1, 1, 2], point=4, entry=1, layer=1)
        time.sleep(0.1)
    assert node.stdout is not None
    lines = [json.loads(line) for line in node.stdout.read().splitlines()]
    assert node.returncode == 0
    assert lines[:2] == [PONG, START]
    assert lines[2]["update_type"] == 4 and lines[2]["result"] == [1.5, None]


def test_a_hundred_times_each_with_its_start(hub: Hub, trainer: Trainer) -> None:
    client = Legacy(hub)
    slowest = 0.0
    for i in range(100):
        begin = time.monotonic()
        assert client.ask(TENSOR_TRACER if i % 10 else MEGASCOPE) == START
        slowest = max(slowest, time.monotonic() - begin)
    assert slowest < 1
    # The first message chose the dialect: the other's flags are read as this one's.
    assert len(trainer.plans()) == 20 and trainer.methods() == ["plan.set"] * 20


def test_a_hundred_connections_each_get_their_start(hub: Hub, trainer: Trainer) -> None:
    for _ in range(100):
        client = Legacy(hub)
        assert client.ask(TENSOR_TRACER) == START
        client.socket.close()
    assert len(trainer.plans()) == 1, "an equal plan is not set again"


def test_the_first_that_leaves_does_not_silence_the_second(hub: Hub, trainer: Trainer) -> None:
    first, second = Legacy(hub), Legacy(hub)
    assert first.ask(TENSOR_TRACER) == START
    assert second.ask(MEGASCOPE) == START
    assert len(trainer.plans()) == 1, "the second does not hold the lease"
    first.socket.close()
    trainer.send([2.0], [1, 1, 1], point=4, entry=0, layer=2)
    assert second.get()["result"] == [2.0]
    assert second.ask(MEGASCOPE) == START
    assert [e["point"] for e in trainer.plans()[-1]] == ["QKV", "MLP1"], "now it does"


def test_a_native_controller_keeps_the_lease(hub: Hub, trainer: Trainer) -> None:
    ada = hub.viewer()
    claim(ada)
    ada.request("plan.set", {"plan": {"entries": [{"point": "HiddenStates"}, {"point": "Logits"}]}})
    trainer.send([7.0], [1, 1, 1], point=7, entry=0, layer=1)
    ada.receive_until(lambda: len(ada.records) == 1, "the record")
    client = Legacy(hub)
    assert client.ask(TENSOR_TRACER) == START
    assert client.get()["result"] == [7.0], "the latest of what runs"
    trainer.send([8.0], [1, 1, 1], point=23, entry=1, layer=0)
    trainer.send([9.0], [1, 1, 1], point=7, entry=0, layer=1)
    assert client.get()["result"] == [9.0], "Logits are not known to it"
    assert trainer.methods() == ["plan.set"]
    ada.request("control.release")
    assert client.ask(TENSOR_TRACER) == START
    assert trainer.methods() == ["plan.set"] * 2
    holder = {"session": "v2", "name": "Tensor Tracer client"}
    ada.receive_until(lambda: ada.named("control")[-1] == {"holder": holder}, "the holder")


def test_records_of_the_plan_before_are_not_updates(hub: Hub, trainer: Trainer) -> None:
    client, other = Legacy(hub), hub.viewer()
    trainer.send([1.0], [1, 1, 1], point=7, entry=0, layer=1)
    other.receive_until(lambda: len(other.records) == 1, "the record")
    assert client.ask(TENSOR_TRACER) == START
    trainer.send([2.0], [1, 1, 1], point=4, entry=0, layer=1, plan=1)
    trainer.send([3.0], [1, 1, 1], point=4, entry=0, layer=1, direction=1)
    trainer.send([4.0], [1, 1, 1], point=4, entry=0, layer=1, prompt_set=1)
    trainer.send([5.0], [1, 1, 1], point=4, entry=0, layer=1, phase=1)
    assert client.get()["result"] == [5.0]


def test_nothing_native_reaches_a_legacy_client(hub: Hub, trainer: Trainer) -> None:
    client = Legacy(hub)
    assert client.ask(TENSOR_TRACER) == START
    trainer.peer.notify("step", step=3, loss=1.0)
    trainer.peer.notify("log", level="info", message="x")
    trainer.peer.notify("dropped", records=1, where="trainer")
    trainer.peer.connection.send(b"damaged")
    claim(hub.viewer(), take_over=True)
    assert client.gets_nothing()
    client.socket.send(b"binary")
    assert client.get()["type"] == "error"


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"type": 3}', '{"id": 1, "method": "ping"}',
                                  '{"x": NaN}', "[" * 40000])  # fmt: skip
def test_what_is_no_message_is_an_error_and_nothing_else(
    hub: Hub, trainer: Trainer, text: str
) -> None:
    client = Legacy(hub)
    client.ask(TENSOR_TRACER)
    answer = client.ask(text)
    assert answer["type"] == "error" and answer["message"]
    assert client.ask(PING) == PONG
    assert trainer.methods() == ["plan.set"]


def test_refusals_name_what_is_wrong_and_leave_the_run_alone(hub: Hub, trainer: Trainer) -> None:
    client = Legacy(hub)
    noise = OFF | {"calculation_perturbation": True}
    projection = {"compressor_type": "ProjectionCompressor",
                  "compressor_configs": {"vector_path": "/data/kind.pt"}}  # fmt: skip
    flags = {"visualization_flags": {"HiddenStates": True}}
    for message, expected in [
        ({"type": "worker_forward", "data": {"type": "update"}}, "worker_forward"),
        ({"type": "generate", "prompts": ["x"]}, "does not generate"),
        (TENSOR_TRACER | {"disturbance_configs": noise}, "calculation_perturbation"),
        (TENSOR_TRACER | flags | {"compressor_config": {"HiddenStates": projection}}, "evil, calm"),
        (TENSOR_TRACER | {"visualization_flags": []}, "visualization_flags"),
    ]:
        answer = client.ask(message)
        assert answer["type"] == "error" and expected in answer["message"], answer
    assert trainer.methods() == []
    assert "result" in claim(hub.viewer()), "a refused message takes no lease"
    client.send({"type": "no such"})
    assert client.gets_nothing(0.2)


def test_a_plan_that_the_trainer_refuses(hub: Hub, trainer: Trainer) -> None:
    trainer.refuse = {"code": "invalid_expression", "message": "no such function",
                      "where": "plan.entries[0].compressor.method", "remedy": ""}  # fmt: skip
    client = Legacy(hub)
    answer = client.ask(TENSOR_TRACER)
    assert answer["type"] == "error" and "no such function" in answer["message"]
    trainer.refuse = None
    assert client.ask(TENSOR_TRACER) == START


def test_a_client_that_comes_before_the_trainer_waits_for_it(hub: Hub) -> None:
    client = Legacy(hub)
    client.send(TENSOR_TRACER)
    assert client.ask(PING) == PONG
    trainer = Trainer(hub, phase="waiting")
    assert client.get() == START
    wait_until(lambda: len(trainer.asked) >= 4, "what the hub asks")
    assert [m["method"] for m in trainer.asked] == GOES_ON


@pytest.mark.parametrize("phase", ["waiting", "paused"])
def test_a_run_that_waits_or_is_paused_goes_on_with_the_plan(hub: Hub, phase: str) -> None:
    trainer, client = Trainer(hub, phase), Legacy(hub)
    wait_until(lambda: trainer.viewers == [0], "the first count")
    assert client.ask(PING) == PONG
    assert client.ask(TENSOR_TRACER) == START
    wait_until(lambda: len(trainer.asked) >= 4, "plan, viewers, continue")
    assert [m["method"] for m in trainer.asked] == GOES_ON


def test_a_silent_holder_keeps_its_lease_and_a_gone_one_does_not(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--lease-seconds", "0.5") as hub:
        Trainer(hub)
        client, ada = Legacy(hub), hub.viewer()
        assert client.ask(TENSOR_TRACER) == START
        time.sleep(1.2)
        assert error_code(claim(ada)) == "busy"
        client.socket.close()
        ada.receive_until(lambda: ada.named("control")[-1] == {"holder": None}, "nobody")


def test_a_ping_first_leaves_the_choice_open(hub: Hub, trainer: Trainer) -> None:
    peer = hub.connect("/ws")
    peer.send(PING)
    assert json.loads(peer.connection.recv(10)) == PONG
    hello = peer.request("hello", {"versions": [1], "role": "viewer"})
    assert hello["result"]["version"] == 1
    peer.send(PING)
    assert error_code(peer.answer_to(0)) == "invalid_request"


def test_a_slow_client_gets_the_latest_of_every_layer(hub: Hub, trainer: Trainer) -> None:
    client = Legacy(hub, max_size=None, max_queue=1)
    assert client.ask(TENSOR_TRACER) == START
    time.sleep(0.1)
    for step in range(200):
        trainer.peer.connection.send(large_record(float(step), step % 2 + 1))
    seen: list[int] = []
    while not {198, 199} <= set(seen):
        seen.append(int(client.get()["result"][0]))
    for parity in (0, 1):
        steps = [step for step in seen if step % 2 == parity]
        assert steps == sorted(steps)
    assert len(seen) < 200, "updates were replaced, not kept"
