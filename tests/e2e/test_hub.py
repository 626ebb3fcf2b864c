"""What viewers and trainers get through the hub: docs/protocol.md, message by message."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from hub_harness import (
    FACTS,
    Hub,
    Peer,
    RawSocket,
    big_record,
    error_code,
    make_record,
    running_hub,
    sanitized,
    split_records,
    wait_until,
)
from hub_vitals import resident_bytes
from websockets.exceptions import ConnectionClosed

KIB, MIB = 1024, 1024 * 1024


def test_hello_of_a_viewer_before_and_after_the_trainer(hub: Hub) -> None:
    early = hub.viewer()
    result = early.hello["result"]
    assert result["version"] == 1 and result["session"].startswith("v")
    assert result["run"] is None and result["state"]["phase"] == "starting"
    assert result["control"] == {"holder": None}

    worker = hub.worker()
    facts = FACTS | {"recording": str(hub.run_dir / "run.ttrec"), "recording_max_bytes": 256 << 20}
    early.receive_until(lambda: early.named("run") == [facts], "the run's facts")
    worker.notify("state", phase="training", step=3)
    early.receive_until(lambda: early.named("state") == [{"phase": "training", "step": 3}], "state")
    late = hub.viewer().hello["result"]
    assert late["run"] == facts and late["state"] == {"phase": "training", "step": 3}
    assert late["session"] != result["session"]


def test_nothing_is_sent_before_hello(hub: Hub) -> None:
    silent, worker = hub.connect(), hub.worker()
    worker.notify("step", step=1)
    worker.connection.send(make_record())
    silent.drain(0.3)
    assert not silent.events and not silent.records
    assert error_code(silent.request("ping")) == "invalid_request"
    hello = {"versions": [1], "role": "worker"}
    assert error_code(silent.request("hello", hello)) == "invalid_argument"
    assert silent.request("hello", {"versions": [2, 1], "role": "viewer"})["result"]["version"] == 1


def test_unknown_version_is_answered_and_closed(hub: Hub) -> None:
    raw = RawSocket(hub.port)
    raw.upgrade("/ws", hub.token)
    hello = {"id": 4, "method": "hello", "params": {"versions": [2, 9], "role": "viewer"}}
    raw.send_frame(1, json.dumps(hello).encode())
    answer = json.loads(raw.receive_frame()[1])
    assert answer["id"] == 4 and error_code(answer) == "unsupported_version"
    assert raw.receive_close_code() == 1001


def test_ping_unknown_method_and_unknown_members(hub: Hub) -> None:
    viewer = hub.viewer()
    assert viewer.request("ping")["result"] == {}
    assert error_code(viewer.request("no.such")) == "unknown_method"
    assert error_code(viewer.request("ping", {"x": 1})) == "invalid_argument"
    assert error_code(viewer.request("control.claim", {"nam": "x"})) == "invalid_argument"
    assert error_code(viewer.request("control.claim", {"name": "x" * 65})) == "invalid_argument"
    assert error_code(viewer.request("hello", {"versions": [1], "role": "viewer"})) != ""
    viewer.send({"id": 77, "method": "ping", "more": 1})
    assert error_code(viewer.answer_to(77)) == "invalid_request"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"id":1}', '{"event":"x"}', '{"id":1,"result":{}}', "[" * 40000,
     '{"a":' * 33 + "1" + "}" * 33, '"\\ud800"', "\x00"],
)  # fmt: skip
def test_what_is_no_request_is_answered_with_an_error(hub: Hub, text: str) -> None:
    viewer = hub.viewer()
    viewer.connection.send(text)
    viewer.receive_until(lambda: bool(viewer.answers), "an answer")
    (answer,) = viewer.answers.values()
    assert error_code(answer) in ("invalid_request", "too_large")
    viewer.answers.clear()
    assert viewer.request("ping")["result"] == {}


@pytest.mark.parametrize(
    ("name", "code"), [("unmasked", 1002), ("huge", 1009), ("not utf-8", 1007), ("reserved", 1002)]
)
def test_frames_against_the_rules_end_that_connection_only(hub: Hub, name: str, code: int) -> None:
    other = hub.viewer()
    raw = RawSocket(hub.port)
    raw.upgrade("/ws", hub.token)
    match name:
        case "unmasked":
            raw.send_frame(1, b"{}", mask=False)
        case "huge":
            raw.send_frame(1, b" " * (64 * KIB + 1))
        case "not utf-8":
            raw.send_frame(1, b'"\xff\xfe"')
        case "reserved":
            raw.send_frame(3, b"")
    assert raw.receive_close_code() in (code, None)
    assert other.request("ping")["result"] == {}


def test_a_text_of_64_kib_in_many_fragments_is_read(hub: Hub) -> None:
    raw = RawSocket(hub.port)
    raw.upgrade("/ws", hub.token)
    text = json.dumps({"id": 9, "method": "hello", "params": {"versions": [1], "role": "viewer"}})
    text = text.ljust(64 * KIB)
    raw.send_frame(1, text[:1].encode(), fin=False)
    for at in range(1, len(text), 16):
        raw.send_frame(0, text[at : at + 16].encode(), fin=at + 16 >= len(text))
    assert json.loads(raw.receive_frame()[1])["id"] == 9


def test_two_viewers_get_everything_in_order(hub: Hub) -> None:
    worker, viewers = hub.worker(), [hub.viewer(), hub.viewer()]
    for step in range(1, 51):
        worker.notify("step", step=step, loss="NaN")
        worker.connection.send(
            make_record(sequence=2 * step - 1, step=step, entry=0)
            + make_record(sequence=2 * step, step=step, entry=1)
        )
    for viewer in viewers:
        viewer.receive_until(lambda v=viewer: len(v.records) == 100, "all records")
        assert [r["sequence"] for r in viewer.records] == list(range(1, 101))
        assert [s["step"] for s in viewer.named("step")] == list(range(1, 51))
        assert not viewer.named("dropped")


def test_records_of_one_message_travel_together(hub: Hub) -> None:
    worker, viewer = hub.worker(), hub.viewer()
    worker.connection.send(b"".join(make_record(sequence=i, layer=i) for i in range(1, 101)))
    viewer.receive_until(lambda: len(viewer.records) == 100, "all records")
    assert viewer.binary_messages <= 2


def test_subscribe_narrows_and_widens(hub: Hub) -> None:
    worker, viewer = hub.worker(), hub.viewer()
    both = make_record(entry=0, layer=1) + make_record(entry=1, layer=1)
    assert viewer.request("subscribe", {"entries": [1]})["result"] == {}
    worker.connection.send(both)
    viewer.drain(0.3)
    assert [r["entry"] for r in viewer.records] == [1]
    assert viewer.request("subscribe", {"entries": []})["result"] == {}
    worker.connection.send(both)
    viewer.drain(0.3)
    assert len(viewer.records) == 1
    assert viewer.request("subscribe")["result"] == {}
    viewer.receive_until(lambda: len(viewer.records) == 3, "the latest records")
    for bad in ["some", [-1], [1.5], ["1"], [2**32], list(range(257)), {"0": 1}]:
        assert error_code(viewer.request("subscribe", {"entries": bad})) == "invalid_argument"


def test_late_viewer_gets_2000_steps_and_the_latest_record_of_every_key(hub: Hub) -> None:
    worker = hub.worker()
    for step in range(1, 2101):
        worker.notify("step", step=step)
    for step in (1, 2):
        worker.connection.send(
            b"".join(make_record(sequence=10 * step + n, step=step, layer=n) for n in range(1, 5))
        )
    worker.request("ping")  # answered when all of it has been taken in
    first = hub.viewer()
    first.receive_until(lambda: len(first.records) == 4, "the latest records")
    start = time.monotonic()
    late = hub.viewer()
    late.receive_until(lambda: len(late.records) == 4 and len(late.named("step")) == 2000, "all")
    assert time.monotonic() - start < 1
    assert [s["step"] for s in late.named("step")] == list(range(101, 2101))
    assert [r["sequence"] for r in late.records] == [21, 22, 23, 24]


def test_late_viewer_gets_more_than_a_queue_holds(hub: Hub) -> None:
    worker = hub.worker()
    for layer in range(1, 13):
        worker.connection.send(big_record(2 * MIB, layer, layer=layer))
    worker.request("ping")
    first = hub.viewer()
    first.receive_until(lambda: len(first.records) == 12, "24 MiB")
    assert not first.named("dropped")


def test_a_new_plan_forgets_the_records_of_the_old_one(hub: Hub) -> None:
    worker, viewer = hub.worker(), hub.viewer()
    worker.connection.send(make_record(plan=1, entry=3) + make_record(plan=2, entry=0))
    worker.notify("plan", plan={"number": 2, "entries": []}, step=2)
    viewer.receive_until(lambda: bool(viewer.named("plan")), "plan")
    late = hub.viewer()
    late.receive_until(lambda: bool(late.records), "a record")
    late.drain(0.2)
    assert [r["entry"] for r in late.records] == [0]
    assert late.hello["result"]["run"]["plan"]["number"] == 2


def test_a_stalled_viewer_gets_drops_and_others_everything(hub: Hub) -> None:
    worker, healthy = hub.worker(), hub.viewer()
    stalled = RawSocket(hub.port, receive_buffer=4 * KIB)
    stalled.upgrade("/ws", hub.token)
    hello = {"id": 1, "method": "hello", "params": {"versions": [1], "role": "viewer"}}
    stalled.send_frame(1, json.dumps(hello).encode())
    memory_before = resident_bytes(hub)
    delays = []
    for sequence in range(1, 101):
        sent = time.monotonic()
        worker.connection.send(big_record(256 * KIB, sequence, step=sequence, layer=sequence % 4))
        healthy.receive_until(lambda s=sequence: len(healthy.records) == s, "a record")
        delays.append(time.monotonic() - sent)
    assert not healthy.named("dropped")
    assert sorted(delays)[95] < 0.2
    # The stalled viewer's queue, and what waits for the disk; a sanitizer keeps freed memory a while.
    assert resident_bytes(hub) - memory_before < (160 if sanitized() else 16 + 32) * MIB

    # It reads again: drops are told, the latest of every key arrive.
    dropped, layers = 0, {}
    while len(layers) < 4 or min(layers.values()) < 97:
        opcode, payload = stalled.receive_frame()
        if opcode == 1 and json.loads(payload).get("event") == "dropped":
            told = json.loads(payload)["params"]
            assert told["where"] == "viewer"
            dropped += told["records"]
        elif opcode == 2:
            for record in split_records(payload):
                assert record["step"] > layers.get(record["layer"], 0), "a key went backwards"
                layers[record["layer"]] = record["step"]
    assert dropped >= 50


def test_a_client_that_never_reads_its_texts_is_disconnected(hub: Hub) -> None:
    worker = hub.worker()
    stalled = RawSocket(hub.port, receive_buffer=4 * KIB)
    stalled.upgrade("/ws", hub.token)
    hello = {"id": 1, "method": "hello", "params": {"versions": [1], "role": "viewer"}}
    stalled.send_frame(1, json.dumps(hello).encode())
    for _ in range(300):
        worker.notify("log", level="info", message="x" * 48 * KIB)
    wait_until(lambda: "v1 left" in hub.log(), "the stalled viewer's end")


def test_a_silent_peer_is_cut_off(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--idle-seconds", "1") as hub:
        alive = hub.viewer()
        dead = RawSocket(hub.port)
        dead.upgrade("/ws", hub.token)
        dead.send_frame(1, b'{"id":1,"method":"hello","params":{"versions":[1],"role":"viewer"}}')
        assert dead.is_closed_within(4)
        assert alive.request("ping")["result"] == {}  # its library answers pings


def test_workers_are_told_the_number_of_viewers(hub: Hub) -> None:
    worker = hub.worker()
    viewer = hub.viewer()
    hub.connect()  # no hello: does not count
    worker.receive_until(lambda: worker.named("viewers")[-1:] == [{"count": 1, "wanted": True}], "one")
    viewer.connection.close()
    worker.receive_until(lambda: worker.named("viewers")[-1:] == [{"count": 0, "wanted": True}], "none")


def test_damaged_records_are_reported_and_the_good_ones_before_pass(hub: Hub) -> None:
    worker, viewer = hub.worker(), hub.viewer()
    damaged = bytearray(make_record(sequence=2))
    damaged[30] ^= 1
    worker.connection.send(make_record(sequence=1) + bytes(damaged))
    viewer.receive_until(lambda: bool(viewer.named("log")), "the report")
    viewer.receive_until(lambda: len(viewer.records) == 1, "the good one")
    worker.connection.send(make_record(sequence=3))
    viewer.receive_until(lambda: len(viewer.records) == 2, "later ones")


def test_viewers_cannot_send_records_or_events(hub: Hub) -> None:
    viewer, other = hub.viewer(), hub.viewer()
    viewer.connection.send(make_record())
    assert error_code(viewer.answer_to(0)) == "invalid_request"
    viewer.notify("state", phase="finished", step=1)
    assert error_code(viewer.answer_to(0)) == "invalid_request"
    other.drain(0.3)
    assert not other.records and not other.events


def test_sigterm_says_goodbye_within_2_seconds(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "run")
    viewers = [hub.viewer() for _ in range(3)]
    stalled = RawSocket(hub.port, receive_buffer=4 * KIB)
    stalled.upgrade("/ws", hub.token)
    half_open = RawSocket(hub.port)
    hub.worker()
    codes: list[int] = []

    def listen(viewer: Peer) -> None:
        with pytest.raises(ConnectionClosed) as closed:
            viewer.drain(5)
        assert closed.value.rcvd is not None
        codes.append(closed.value.rcvd.code)

    threads = [threading.Thread(target=listen, args=(viewer,)) for viewer in viewers]
    for thread in threads:
        thread.start()
    assert hub.stop() < 2
    assert hub.process.returncode == 0
    for thread in threads:
        thread.join()
    assert codes == [1001] * 3
    assert half_open.is_closed_within(1)


def test_a_message_of_many_megabytes_reaches_a_reading_viewer_whole(hub: Hub) -> None:
    viewer = hub.viewer()
    worker = hub.worker()
    viewer.receive_until(lambda: bool(viewer.named("run")), "the run")
    for step in (1, 2):
        layers = [big_record(200_000, step * 100 + n, step=step, layer=n) for n in range(100)]
        worker.connection.send(b"".join(layers))
        viewer.receive_until(
            lambda step=step: len(viewer.records) == step * 100, "every layer", timeout=60
        )
    assert not viewer.named("dropped")
