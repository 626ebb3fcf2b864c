"""What the hub keeps of a run: the recording, history over HTTP, and who may ask."""

from __future__ import annotations

import json
import resource
import socket
import sqlite3
import struct
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from hub_harness import (
    FACTS,
    RUN_ID,
    Hub,
    RawSocket,
    big_record,
    binary,
    claim,
    make_record,
    running_hub,
    wait_until,
)

POINTS = [{"name": "MLP1", "flag": 4}, {"name": "HiddenStates", "flag": 7}]
RUN = int(RUN_ID, 16)


def ask(hub: Hub, target: str, token: str | None = "") -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{hub.port}{target}")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token or hub.token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def ask_json(hub: Hub, target: str) -> Any:
    status, _, body = ask(hub, target)
    assert status == 200, body
    return json.loads(body)


def wait_for_frames(hub: Hub, count: int) -> None:
    def there() -> bool:
        status, _, body = ask(hub, "/history")
        return status == 200 and json.loads(body)["frames"] >= count

    wait_until(there, f"{count} frames on the disk")


def feed(hub: Hub, steps: range, layers: int = 3, size: int = 64) -> Any:
    """A trainer that has done these steps."""
    worker = hub.worker(points=POINTS)
    for step in steps:
        worker.notify("step", step=step, loss=4 - step / 100, grad_norm="NaN", consumed_tokens=7)
        records = [
            make_record(
                bytes([step % 256]) * size, run=RUN, step=step, sequence=step * 10 + layer, point=point,
                layer=layer, entry=entry,
            )  # fmt: skip
            for entry, point in enumerate((4, 7))
            for layer in range(1, layers + 1)
        ]
        worker.connection.send(b"".join(records))
    return worker


def places(body: bytes) -> list[tuple[int, int, int]]:
    """(step, point, layer) of every record."""
    out = []
    while body:
        size = struct.unpack_from("<Q", body, 88)[0]
        step = struct.unpack_from("<Q", body, 24)[0]
        point, layer = struct.unpack_from("<HH", body, 52)
        out.append((step, point, layer))
        body = body[128 + (size + 7) // 8 * 8 :]
    return out


def test_history_without_a_recording(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    feed(hub, range(1, 6))
    wait_for_frames(hub, 30)
    summary = ask_json(hub, "/history")
    assert summary["run"] == RUN_ID
    assert (summary["first_step"], summary["last_step"], summary["frames"]) == (1, 5, 30)
    steps = ask_json(hub, "/history/steps?first=2&last=3")
    assert [s["step"] for s in steps] == [2, 3]
    assert steps[0]["loss"] == 3.98
    assert steps[0]["grad_norm"] == "NaN"
    assert steps[0]["consumed_tokens"] == 7
    _, headers, body = ask(hub, "/history/records?point=HiddenStates&layers=2-3&first=2&last=3")
    assert places(body) == [(2, 7, 2), (2, 7, 3), (3, 7, 2), (3, 7, 3)]
    assert headers["TT-Records"] == "4"
    assert "TT-Next" not in headers
    assert places(ask(hub, "/history/records?entry=0&layers=1%2C3&last=1")[2]) == [(1, 4, 1), (1, 4, 3)]
    hub.stop()
    assert [file.name for file in hub.run_dir.glob("*.ttrec*")] == ["run.ttrec"], "the run is kept"
    kept = sqlite3.connect(hub.run_dir / "run.ttrec")
    assert kept.execute("SELECT count(*) FROM frames").fetchone() == (30,)
    assert kept.execute("SELECT count(*) FROM scalars WHERE name = 'loss'").fetchone() == (5,)
    kept.close()


def send_large(worker: Any, steps: range) -> None:
    """A record of 200 kB for each step."""
    for step in steps:
        worker.connection.send(make_record(bytes(200_000), run=RUN, step=step, sequence=step))


def test_a_run_is_bounded_until_somebody_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "run.ttrec"
    with running_hub(tmp_path, "--record-max-bytes", "2MB") as hub:
        worker, viewer, other = feed(hub, range(1, 2)), hub.viewer(), hub.viewer()
        facts = viewer.hello["result"]["run"]
        assert (facts["recording"], facts["recording_max_bytes"]) == (str(file), 2 << 20)
        send_large(worker, range(2, 40))
        wait_until(lambda: ask_json(hub, "/history")["last_step"] == 39, "the last record")
        before = ask_json(hub, "/history")
        assert before["first_frame_step"] > 30 and before["max_bytes"] == 2 << 20
        assert file.stat().st_size <= 2 << 20

        assert viewer.request("run.keep")["error"]["code"] == "not_controller"
        claim(viewer)
        assert viewer.request("run.keep")["result"] == {"max_bytes": 0}
        other.receive_until(lambda: any(told["max_bytes"] == 0 for told in other.named("recording")), "the event")
        send_large(worker, range(40, 80))
        wait_until(lambda: ask_json(hub, "/history")["last_step"] == 79, "the last record")
        after = ask_json(hub, "/history")
        assert after["first_frame_step"] == before["first_frame_step"] and after["max_bytes"] == 0
        assert hub.viewer().hello["result"]["run"]["recording_max_bytes"] == 0
        [line] = [event for event in ask_json(hub, "/history/events") if event["kind"] == "run.keep"]
        assert (line["who"], line["session"]) == ("Ada", viewer.hello["result"]["session"])
    with running_hub(tmp_path, "--record-max-bytes", "2MB") as again:
        assert again.viewer().hello["result"]["run"]["recording_max_bytes"] == 0
        send_large(again.worker(points=POINTS), range(80, 90))
        wait_until(lambda: ask_json(again, "/history")["last_step"] == 89, "the last record")
        assert ask_json(again, "/history")["first_frame_step"] == before["first_frame_step"]


def test_a_run_that_is_not_recorded_cannot_be_kept(tmp_path: Path) -> None:
    for name in ("run.ttrec", f"run-{RUN_ID}.ttrec"):
        (tmp_path / name).mkdir()
    with running_hub(tmp_path) as hub:
        viewer = hub.viewer()
        claim(viewer)
        assert viewer.request("run.keep")["error"]["code"] == "not_recorded"
        assert "recording" not in (hub.worker() and hub.viewer().hello["result"]["run"])


def test_with_the_history_off_traced_records_are_for_viewers_alone(tmp_path: Path) -> None:
    with running_hub(tmp_path, "--history", "off") as hub:
        worker = feed(hub, range(1, 3))
        worker.connection.send(make_record(run=RUN, step=2, prompt_set=1))
        wait_for_frames(hub, 1)
        worker.receive_until(lambda: worker.named("viewers") == [{"count": 0, "wanted": False}], "nobody")
        viewer = hub.viewer()
        worker.receive_until(lambda: worker.named("viewers")[-1] == {"count": 1, "wanted": False}, "one")
        claim(viewer)
        viewer.request("run.keep")
        worker.receive_until(lambda: worker.named("viewers")[-1] == {"count": 1, "wanted": True}, "the keeping")
        worker.connection.send(make_record(run=RUN, step=3))
        wait_for_frames(hub, 2)
        assert [step["step"] for step in ask_json(hub, "/history/steps")] == [1, 2]
    kept = sqlite3.connect(tmp_path / "run.ttrec")
    assert kept.execute("SELECT step, prompt_set FROM frames").fetchall() == [(2, 1), (3, 0)]


def test_history_is_read_in_pieces(hub: Hub) -> None:
    feed(hub, range(1, 21))
    wait_for_frames(hub, 120)
    whole = ask(hub, "/history/records")[2]
    pieces, after = [], ""
    while True:
        status, headers, body = ask(hub, f"/history/records?limit=1000{after}")
        assert status == 200
        assert len(body) <= 1000
        pieces.append(body)
        if "TT-Next" not in headers:
            break
        after = "&after=" + headers["TT-Next"]
    assert len(pieces) > 20
    assert b"".join(pieces) == whole
    assert places(whole) == sorted(places(whole), key=lambda place: place[0])


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("/history/records?point=Nothing", "Nothing"),
        ("/history/records?layers=x", "layers"),
        ("/history/records?layers=1-99999", "layers"),
        ("/history/records?first=-1", "first"),
        ("/history/records?limit=99999999999", "limit"),
        ("/history/records?after=5", "TT-Next"),
        ("/history/records?after=5.", "TT-Next"),
        ("/history/records?colour=red", "colour"),
        ("/history/steps?limit=abc", "limit"),
        ("/history/events?after=x", "after"),
        ("/history?first=1", "first"),
    ],
)
def test_wrong_queries_are_told_why(hub: Hub, target: str, word: str) -> None:
    feed(hub, range(1, 2))
    wait_for_frames(hub, 6)
    status, _, body = ask(hub, target)
    assert status == 400
    assert word in body.decode()


def test_a_slow_reader_gets_a_long_answer_whole(hub: Hub) -> None:
    feed(hub, range(1, 5), layers=3, size=1 << 18)
    wait_for_frames(hub, 24)
    request = f"GET /history/records?limit=67108864 HTTP/1.1\r\nHost: localhost:{hub.port}\r\n"
    request += f"Authorization: Bearer {hub.token}\r\nConnection: close\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", hub.port))
        connection.sendall(request.encode())
        time.sleep(6.5)  # longer than a request may take to come
        answer = b"".join(iter(lambda: connection.recv(1 << 20), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0]
    assert len(places(body)) == 24


def test_history_needs_the_token(hub: Hub) -> None:
    for path in ("/history", "/history/steps", "/history/events", "/history/records"):
        assert ask(hub, path, None)[0] == 401
        assert ask(hub, path, "0" * 64)[0] == 401
        assert ask(hub, path, hub.worker_token)[0] == 401
    assert ask_json(hub, "/history")["run"] is None
    assert ask(hub, "/history/steps")[0] == 404


def test_the_audit_trail_says_who_did_what(hub: Hub) -> None:
    worker = feed(hub, range(1, 3))
    viewer = hub.viewer()
    claim(viewer)
    asked = viewer.start_request("control.pause")
    worker.receive_until(lambda: bool(worker.requests), "the request")
    number = worker.requests.pop()["id"]
    worker.send({"id": number, "result": {"step": 2, "ranks": 4}})
    assert viewer.answer_to(asked)["result"]["step"] == 2
    viewer.request("control.release")

    def kinds() -> list[str]:
        return [event["kind"] for event in ask_json(hub, "/history/events")]

    wait_until(lambda: "control.free" in kinds(), "the trail")
    events = {event["kind"]: event for event in ask_json(hub, "/history/events")}
    assert events["control.claim"]["who"] == "Ada"
    pause = events["control.pause"]
    assert pause["session"] == viewer.hello["result"]["session"]
    assert (pause["who"], pause["step"]) == ("Ada", 2)
    assert pause["detail"]["result"] == {"step": 2, "ranks": 4}
    last = ask_json(hub, "/history/events")[-1]["id"]
    assert ask_json(hub, f"/history/events?after={last}") == []


def test_the_trail_begins_with_the_plan_that_a_trainer_brings(hub: Hub) -> None:
    plan = {"number": 7, "entries": [{"point": "MLP1"}]}
    feed(hub, range(3, 5)).notify("step", step=5)
    hub.worker(id="00000000000000b2", plan=plan)
    hub.worker(id="00000000000000b2", plan=None).notify("log", level="info", message="last")

    def trail() -> list[Any]:
        return list(ask_json(hub, "/history/events"))

    wait_until(lambda: [line["kind"] for line in trail()][-1:] == ["log"], "the last line")
    told = [(e["run"], e["step"], e["detail"]) for e in trail() if e["kind"] == "run"]
    other = "00000000000000b2"
    assert told == [
        (RUN_ID, 0, {"plan": FACTS["plan"], "interventions": [], "prompt_sets": []}),
        (other, 0, {"plan": plan, "interventions": [], "prompt_sets": []}),
        (other, 0, {"plan": None, "interventions": [], "prompt_sets": []}),
    ]
    assert trail()[-1]["run"] == other


def test_a_recording_is_an_sqlite_file_that_anybody_reads(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    with running_hub(tmp_path / "run", "--record", str(folder)) as hub:
        feed(hub, range(1, 4))
        wait_for_frames(hub, 18)
        live = sqlite3.connect(f"file:{folder}/run.ttrec?mode=ro", uri=True)
        assert live.execute("SELECT count(*) FROM frames").fetchone() == (18,)
        live.close()
    database = sqlite3.connect(folder / "run.ttrec")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert database.execute("SELECT id FROM runs").fetchall() == [(RUN_ID,)]
    rows = database.execute(
        "SELECT step, record FROM frames WHERE point = 7 AND layer = 2 ORDER BY step"
    ).fetchall()
    assert [(step, record[128:]) for step, record in rows] == [
        (step, bytes([step]) * 64) for step in (1, 2, 3)
    ]
    assert database.execute(
        "SELECT value FROM scalars WHERE name = 'grad_norm' AND step = 1"
    ).fetchone() == (None,)
    # Another run in the same folder does not touch it.
    database.execute("UPDATE runs SET id = '00000000000000ff'")
    database.commit()
    with running_hub(tmp_path / "run2", "--record", str(folder)):
        assert (folder / f"run-{RUN_ID}.ttrec").exists()
    assert database.execute("SELECT count(*) FROM frames").fetchone() == (18,)


def test_filters_of_a_recording(tmp_path: Path) -> None:
    flags = ("--record", str(tmp_path), "--record-points", "MLP1", "--record-layers", "1,3",
             "--record-every", "2")  # fmt: skip
    with running_hub(tmp_path / "run", *flags) as hub:
        feed(hub, range(1, 5))
        wait_for_frames(hub, 4)
        assert places(ask(hub, "/history/records")[2]) == [(2, 4, 1), (2, 4, 3), (4, 4, 1), (4, 4, 3)]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_restarted_hub_goes_on_with_its_history(tmp_path: Path, recorded: bool) -> None:
    flags = ("--record", str(tmp_path / "r")) if recorded else ()
    first = Hub(tmp_path, *flags)
    worker = feed(first, range(1, 4))
    wait_for_frames(first, 18)
    worker.connection.close()
    first.process.kill()
    first.process.wait()
    first.stop()
    with running_hub(tmp_path, *flags) as second:
        viewer = second.viewer()
        assert viewer.hello["result"]["run"]["id"] == RUN_ID
        assert viewer.hello["result"]["state"]["phase"] == "lost"
        viewer.receive_until(lambda: len(viewer.named("step")) == 3, "the old steps")
        assert viewer.named("step")[0]["grad_norm"] == "NaN"
        feed(second, range(4, 6))
        wait_for_frames(second, 30)
        assert ask_json(second, "/history")["last_step"] == 5


def test_a_full_disk_stops_the_recording_and_nothing_else(tmp_path: Path) -> None:
    limit = 2 << 20
    hub = Hub(tmp_path, "--record", str(tmp_path))
    try:
        # The kernel refuses to let any file of this process grow beyond it.
        resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        viewer = hub.viewer()
        worker = feed(hub, range(1, 2))
        wait_for_frames(hub, 6)
        for step in range(1, 200):
            worker.connection.send(big_record(50_000, step, step=step))
        viewer.receive_until(
            lambda: any("recording stopped" in log["message"] for log in viewer.named("log")),
            "the alarm",
        )
        sequence = 200
        worker.connection.send(big_record(64, sequence))
        viewer.receive_until(
            lambda: any(r["sequence"] == sequence for r in viewer.records), "later records"
        )
        assert json.loads(ask(hub, "/history")[2])["stopped"] is True
    finally:
        hub.stop()
    database = sqlite3.connect(tmp_path / "run.ttrec")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("SELECT count(*) FROM frames").fetchone()[0] >= 6


def test_a_window_bounds_what_is_unacknowledged(hub: Hub) -> None:
    viewer = hub.connect("/ws")
    viewer.hello = viewer.request("hello", {"versions": [1], "role": "viewer", "window": 2})
    worker = hub.worker()
    for sequence in range(1, 31):
        worker.connection.send(big_record(200_000, sequence, layer=sequence))
    viewer.receive_until(lambda: viewer.binary_messages == 2, "the window")
    viewer.drain(0.3)
    assert viewer.binary_messages == 2
    for taken in range(1, 40):
        if len(viewer.records) == 30:
            break
        viewer.notify("ack", messages=taken)
        viewer.receive_until(
            lambda: viewer.binary_messages == taken + 2 or len(viewer.records) == 30, "more"
        )
    assert len(viewer.records) == 30
    viewer.notify("ack", messages=10_000)
    viewer.receive_until(lambda: 0 in viewer.answers, "a refusal")
    assert viewer.answers.pop(0)["error"]["code"] == "invalid_request"


def test_a_controller_says_so_at_once(hub: Hub) -> None:
    first, second = hub.connect("/ws"), hub.connect("/ws")
    params = {"versions": [1], "role": "controller", "name": "Ada"}
    assert first.request("hello", params)["result"]["control"]["holder"]["name"] == "Ada"
    assert second.request("hello", params)["error"]["code"] == "busy"
    assert "result" in second.request("hello", params | {"role": "viewer"})


def test_subscriptions_by_point_layer_and_rate(hub: Hub) -> None:
    viewer = hub.viewer()
    worker = hub.worker(points=POINTS, id=FACTS["id"])
    wrong = viewer.request("subscribe", {"points": ["Nothing"]})
    assert wrong["error"]["where"] == "points"
    assert viewer.request("subscribe", {"points": ["MLP1"], "layers": "2-3", "rate": 2})["result"] == {}
    start = time.monotonic()
    for step in range(1, 16):
        for entry, point in enumerate((4, 7)):
            for layer in (1, 2, 3):
                worker.connection.send(make_record(run=RUN, step=step, entry=entry, point=point, layer=layer))
        time.sleep(0.1)
    viewer.drain(1.0)
    seconds = time.monotonic() - start
    assert {(r["layer"]) for r in viewer.records} == {2, 3}
    assert viewer.records[-1]["step"] == 15
    assert 2 * 3 <= len(viewer.records) <= 2 * (2 * seconds + 1)
    assert viewer.named("dropped") == []


def test_a_recording_ends_beside_the_goodbyes(tmp_path: Path) -> None:
    hub = Hub(tmp_path, "--record", str(tmp_path))
    feed(hub, range(1, 2))
    stalled = RawSocket(hub.port)
    stalled.upgrade("/ws", hub.token)  # and answers no close frame
    hub.stop()
    log = hub.log()
    assert log.index("recording_ends") < log.index("goodbyes_said")
    assert not (tmp_path / "run.ttrec-wal").exists()


def test_a_first_hub_that_cannot_record_ends(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    ended = subprocess.run(
        [str(binary()), "serve", "--run-dir", str(tmp_path), "--port", "0",
         "--record", str(tmp_path / "file")], capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert ended.returncode != 0 and "cannot be written" in ended.stderr
