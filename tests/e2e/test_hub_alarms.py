"""Alarms of a real hub: compared with NumPy, kept in the recording and over kills, calls of webhook and command."""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_harness import (RUN_ID, Hub, HubOfRun, Peer, binary, claim, error_code, make_record, running_hub, wait_until)
from test_hub_metrics import scrape
from test_hub_replay import replaying
from test_recording_end import supervised

SPIKE = {"name": "spike", "scalar": "loss", "test": "sigma", "k": 4, "window": 50}
HIGH = {"name": "high", "scalar": "loss", "test": "above", "value": 5}


def send_losses(worker: Peer, losses: list[float], first: int = 1) -> None:
    for step, loss in enumerate(losses, first):
        worker.notify("step", step=step, loss=loss if math.isfinite(loss) else "NaN")


def changes(viewer: Peer) -> list[tuple[str, str, int]]:
    return [(e["alarm"]["name"], e["change"], e["step"]) for e in viewer.named("alarm") if "step" in e]


def wait_for(viewer: Peer, expected: list[tuple[str, str, int]]) -> None:
    viewer.receive_until(lambda: len(changes(viewer)) >= len(expected), f"alarms {expected}")
    assert changes(viewer) == expected


def controller(hub: Hub, *alarms: dict[str, Any]) -> Peer:
    viewer = hub.viewer()
    claim(viewer)
    for alarm in alarms:
        assert "result" in (answer := viewer.request("alarms.set", alarm)), answer
    return viewer


def expected_of_sigma(losses: np.ndarray, k: float, window: int) -> list[tuple[str, int]]:
    """The rule of docs/alarms.md with NumPy."""
    inside: list[float] = []
    outside: list[float] = []
    firing, told = False, []
    for step, loss in enumerate(losses, 1):
        if len(inside) < window and np.isfinite(loss):
            inside.append(loss)
            continue
        base = np.array(inside)
        is_outside = not np.isfinite(loss) or abs(loss - base.mean()) > k * base.std(ddof=1)
        if is_outside and np.isfinite(loss):
            outside.append(loss)
            if len(outside) == window:
                inside, outside = outside, []
        elif not is_outside:
            outside = []
            inside = [*inside[1:], loss]
        if is_outside != firing:
            told.append(("fired" if is_outside else "cleared", step))
        firing = is_outside
    return told


def expected_of_slope(losses: np.ndarray, limit: float, window: int) -> list[tuple[str, int]]:
    firing, told = False, []
    for step in range(window, len(losses) + 1):
        is_outside = np.polyfit(np.arange(window), losses[step - window : step], 1)[0] > limit
        if is_outside != firing:
            told.append(("fired" if is_outside else "cleared", step))
        firing = bool(is_outside)
    return told


def test_detectors_agree_with_numpy(hub: Hub) -> None:
    random = np.random.default_rng(7)
    losses = 3 + 2 * np.exp(-np.arange(600) / 80) + 0.05 * random.standard_normal(600)
    losses[200] += 1
    losses[300:304] += 2
    losses[350] = np.nan
    losses[400:480] += 1.5  # a new level, longer than the window
    losses = losses.round(4)
    worker = hub.worker()
    rising = {"name": "rising", "scalar": "loss", "test": "rising", "value": 0.02, "window": 20}
    viewer = controller(hub, SPIKE, rising)
    send_losses(worker, losses.tolist())
    finite = np.delete(losses, 350)  # the slope's line has no NaN
    viewer.receive_until(lambda: len(viewer.named("step")) == 600, "all steps")
    seen = changes(viewer)
    spikes = [(change, step) for name, change, step in seen if name == "spike"]
    assert spikes == expected_of_sigma(losses, 4, 50)
    assert ("fired", 201) in spikes and ("fired", 401) in spikes and ("cleared", 451) in spikes
    slopes = [(change, step) for name, change, step in seen if name == "rising"]
    up_to_nan = [(c, s) for c, s in expected_of_slope(finite, 0.02, 20) if s <= 350]
    assert [(c, s) for c, s in slopes if s <= 350] == up_to_nan and up_to_nan


def test_alarms_are_in_the_recording_and_in_its_replay(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--record", str(tmp_path)) as hub:
        worker = hub.worker()
        viewer = controller(hub, HIGH)
        send_losses(worker, [4, 6, 7, 3, 2])
        wait_for(viewer, [("high", "fired", 2), ("high", "cleared", 4)])
    file = tmp_path / "run.ttrec"
    with sqlite3.connect(file) as database:
        rows = database.execute("SELECT step, who, detail FROM events WHERE kind = 'alarm' ORDER BY id").fetchall()
    details = [json.loads(row[2]) for row in rows]
    assert [(d["change"], r[0]) for d, r in zip(details, rows)] == [("set", 0), ("fired", 2), ("cleared", 4)]
    assert rows[0][1] == "Ada" and details[1]["value"] == 6
    with replaying(file, "--speed", "100", "--paused") as replay:
        shown = replay.viewer
        claim(shown)
        shown.request("control.continue")
        wait_for(shown, [("high", "fired", 2), ("high", "cleared", 4)])
        shown.request("replay.seek", {"step": 3})
        shown.receive_until(lambda: shown.named("alarms")[-1:] != [] and shown.named("alarms")[-1]["step"] == 3, "the seek")
        assert [a["state"] for a in shown.named("alarms")[-1]["alarms"]] == ["firing"]
        assert shown.request("alarms.list")["result"]["alarms"][0]["state"] == "firing"
        assert error_code(shown.request("alarms.set", HIGH)) == "replay"


def test_metrics_and_log_tell_of_it(hub: Hub) -> None:
    worker = hub.worker()
    viewer = controller(hub, HIGH, {**SPIKE, "name": 'a"\n'})
    send_losses(worker, [6])
    wait_for(viewer, [("high", "fired", 1)])
    metrics = scrape(hub)
    assert metrics['alarm_firing{alarm="high"}'] == 1 and metrics['alarm_firing{alarm="a" "}'] == 0
    assert metrics["alarms_fired_total"] == 1 and metrics["alarm_calls_failed_total"] == 0
    lines = [json.loads(line) for line in hub.log().splitlines()]
    assert [line["message"] for line in lines if line["event"] == "alarm_fired"] == [
        "alarm_fired: alarm high: loss is above 5 at step 1: 6"
    ]


def test_a_killed_hub_keeps_its_alarms(tmp_path: Path) -> None:
    with supervised(tmp_path):
        wait_until(lambda: (tmp_path / "hub.json").is_file(), "the hub")
        hub = HubOfRun(tmp_path)
        worker = hub.worker()
        viewer = controller(hub, HIGH)
        send_losses(worker, [6])
        wait_for(viewer, [("high", "fired", 1)])
        wait_until(lambda: '"firing":[0]' in (tmp_path / "alarms.json").read_text(), "the file")
        old = hub.pid()
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: hub.pid() != old, "the next hub")
        worker, viewer = hub.worker(), hub.viewer()
        assert [(a["name"], a["state"]) for a in viewer.hello["result"]["alarms"]] == [("high", "firing")]
        send_losses(worker, [7, 3], 2)
        wait_for(viewer, [("high", "cleared", 3)])


class Receiver(ThreadingHTTPServer):
    """Takes POSTs; `status` is its answer."""

    def __init__(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.bodies.append((self.path, self.headers["Content-Type"], json.loads(body)))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[tuple[str, str, dict[str, Any]]] = []
        self.status = 204


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_webhook_gets_the_alarm(tmp_path: Path, receiver: Receiver) -> None:
    url = f"http://127.0.0.1:{receiver.server_port}/alarms?of=me"
    with running_hub(tmp_path / "run", "--alarm-webhook", url) as hub:
        worker = hub.worker()
        controller(hub, HIGH)
        send_losses(worker, [6, 3])
        wait_until(lambda: len(receiver.bodies) == 2, "the webhook")
        path, kind, body = receiver.bodies[0]
        assert (path, kind) == ("/alarms?of=me", "application/json")
        assert (body["run"], body["change"], body["step"], body["value"]) == (RUN_ID, "fired", 1, 6)
        assert body["alarm"]["name"] == "high"
        assert receiver.bodies[1][2]["change"] == "cleared"
        receiver.status = 500
        send_losses(worker, [6], 3)
        wait_until(lambda: scrape(hub)["alarm_calls_failed_total"] == 1, "the failure")
        assert "the answer is status 500" in hub.log()


def test_a_command_that_hangs_delays_nobody(tmp_path: Path) -> None:
    """The command gets JSON on its input; the hub serves on while it hangs, and ends in time."""
    script = tmp_path / "notify.py"
    script.write_text(
        "import sys, time\nopen(sys.argv[1], 'a').write(sys.stdin.read())\ntime.sleep(1000)\n"
    )
    out = tmp_path / "out"
    hub = Hub(tmp_path / "run", "--alarm-command", sys.executable, str(script), str(out))
    try:
        worker = hub.worker()
        viewer = controller(hub, HIGH)
        send_losses(worker, [6])
        wait_until(lambda: out.is_file() and out.read_text().endswith("\n"), "the command")
        assert json.loads(out.read_text())["message"] == "alarm high: loss is above 5 at step 1: 6"
        begin = time.monotonic()
        viewer.request("ping")
        assert time.monotonic() - begin < 5
    finally:
        assert hub.stop() < 5
    left = subprocess.run(["pgrep", "-f", str(script)], capture_output=True, text=True, check=False)
    assert left.stdout == ""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--alarm-webhook", "https://example.org/x"], "use --alarm-command with curl"),
        (["--alarm-command", "no-such-program"], "there is no program no-such-program in PATH"),
        (["--alarms", "ALARMS"], "alarm 1: test: must be one of above, "),
        (["--alarms", "TWICE"], "alarm 2: name: an alarm before it has this name"),
        (["--alarm-pause-timeout", "0"], "--alarm-pause-timeout"),
    ],
)
def test_a_wrong_option_is_told_at_the_start(tmp_path: Path, flags: list[str], message: str) -> None:
    (tmp_path / "alarms.json").write_text(json.dumps([{**HIGH, "test": "abov"}]))
    (tmp_path / "twice.json").write_text(json.dumps([HIGH, HIGH]))
    files = {"ALARMS": str(tmp_path / "alarms.json"), "TWICE": str(tmp_path / "twice.json")}
    given = [files.get(flag, flag) for flag in flags]
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    command = [str(binary()), "serve", "--run-dir", str(run_dir), "--port", "0", *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_alarms_of_a_file_need_no_viewer(tmp_path: Path, receiver: Receiver) -> None:
    file = tmp_path / "alarms.json"
    file.write_text(json.dumps([HIGH, {"name": "broken", "scalar": "grad_norm", "test": "nonfinite"}]))
    url = f"http://127.0.0.1:{receiver.server_port}/"
    with running_hub(tmp_path / "run", "--alarms", str(file), "--alarm-webhook", url) as hub:
        worker = hub.worker()
        worker.notify("step", step=1, loss=6, grad_norm="NaN")
        wait_until(lambda: len(receiver.bodies) == 2, "both alarms")
        assert sorted(body["alarm"]["name"] for _, _, body in receiver.bodies) == ["broken", "high"]
        assert {body["value"] for _, _, body in receiver.bodies} == {"NaN", 6}


def test_the_spike_recorder_keeps_the_steps_before_an_alarm(tmp_path: Path) -> None:
    """The recording of the last steps, read with SQLite and shown by a replay."""
    with running_hub(tmp_path / "run", "--spike-recorder", "5") as hub:
        worker = hub.worker()
        viewer = controller(hub, HIGH)
        for step in range(1, 21):
            worker.connection.send(make_record(step=step, sequence=2 * step))
            worker.connection.send(make_record(step=step, sequence=2 * step + 1, layer=2))
            worker.notify("step", step=step, loss=6.0 if step == 12 else 3.0)
        viewer.receive_until(lambda: viewer.named("log") != [], "the spike recorder")
        file = tmp_path / "run" / "spike-12.ttrec"
        assert viewer.named("log") == [
            {"level": "info", "message": f"the spike recorder has kept the steps 8 to 12: tensor-tracer replay {file}"}
        ]
        worker.receive_until(lambda: len(worker.named("alarm")) == 2, "the trainer's notice")
    assert file.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(file) as database:
        frames = database.execute("SELECT step, layer FROM frames ORDER BY step, layer").fetchall()
    assert frames == [(step, layer) for step in range(8, 13) for layer in (1, 2)]
    with replaying(file, "--speed", "100", "--paused") as replay:
        claim(replay.viewer)
        replay.viewer.request("control.continue")
        replay.viewer.receive_until(lambda: len(replay.viewer.named("step")) == 5, "its steps")
        assert [s["loss"] for s in replay.viewer.named("step")] == [3, 3, 3, 3, 6]


def test_a_spike_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    (run_dir / "spike-1.ttrec").mkdir(parents=True)
    with running_hub(run_dir, "--spike-recorder", "5") as hub:
        worker = hub.worker()
        viewer = controller(hub, HIGH)
        send_losses(worker, [6])
        viewer.receive_until(lambda: viewer.named("log") != [], "the report")
        assert viewer.named("log")[0]["level"] == "error"
        assert "could not keep the steps 1 to 1" in viewer.named("log")[0]["message"]
