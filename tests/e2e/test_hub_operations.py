"""What an operator sees of a hub: readiness, logs, and the way in through ssh."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_harness import (RUN_ID, Hub, Peer, RawSocket, claim, make_record, running_hub,
                         wait_until)
from test_hub_access import ask
from test_hub_metrics import STEP, get
from websockets.sync.client import connect


def test_ready_while_the_trainer_speaks(tmp_path: Path) -> None:
    def state() -> tuple[int, str]:
        answer = get(hub, "/readyz")
        return answer.status, json.loads(answer.body).get("reason", "")

    with running_hub(tmp_path / "run", "--ready-timeout", "0.5") as hub:
        assert state() == (503, "no_trainer")
        worker = hub.worker()
        worker.notify("state", phase="training", step=1)
        assert state() == (200, "")
        wait_until(lambda: state() == (503, "silent"), "silence", timeout=2)
        worker.notify("log", level="info", message="another thread lives")
        time.sleep(0.1)
        assert state() == (503, "silent"), "a hung step"
        worker.notify("step", **STEP)
        wait_until(lambda: state() == (200, ""), "a step")
        worker.notify("state", phase="paused", step=2)
        time.sleep(0.7)
        assert state() == (200, "")
        worker.connection.close()
        wait_until(lambda: state() == (503, "no_trainer"), "the worker's end")
        assert ask(hub, "GET /healthz").status == 200


def test_the_log_is_json_lines(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "run")
    worker, other = hub.worker(), hub.connect("/worker")
    viewers = [hub.viewer() for _ in range(5)]
    worker.notify("state", phase="training", step=41)
    worker.notify("step", **(STEP | {"step": 42}))
    viewers[0].receive_until(lambda: bool(viewers[0].named("step")), "the step")
    claim(viewers[0])
    other.request("hello", {"versions": [1], "role": "worker", "rank": 3, "run": {}})
    other.connection.send(make_record()[:100])
    viewers[0].receive_until(lambda: bool(viewers[0].named("log")), "the damage")
    hub.stop()
    lines = [json.loads(line) for line in hub.log().splitlines()]
    for line in lines:
        assert line["run"] == RUN_ID and line["level"] in ("info", "warning", "error")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"])
    events = [line["event"] for line in lines]
    assert {"serving", "client_joined", "trainer_joined", "control_taken", "hub_ends"} <= set(events)
    about = {line["event"]: (line.get("rank"), line.get("step")) for line in lines}
    assert about["serving"] == (None, None) and about["trainer_joined"] == (0, None)
    assert about["control_taken"] == (None, 42) and about["damaged_record"] == (3, 42)
    joined = [line for line in lines if line["event"] == "client_joined"]
    left_out = sum(line.get("left_out", 0) for line in joined)
    written = sum(line["message"].startswith("client_joined") for line in joined)
    assert written < 7 and written + left_out == 7, joined


def test_the_log_for_people(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--log-format", "text") as hub:
        assert re.match(r"\S+Z info serving: port \d+", hub.log())


TELL_TALES = ["hub.json", "hub.log"]


def test_no_token_is_anywhere_but_in_its_file(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run") as hub:
        worker = hub.worker()
        worker.notify("step", **STEP)
        viewer = hub.viewer()
        claim(viewer)
        secrets = [hub.token, hub.viewer_token, hub.worker_token]
        for secret in secrets:
            ask(hub, f"GET /nothing?token={secret}")
            ask(hub, f"GET /worker?token={secret}")
            ask(hub, f"GET /ws?token={secret}x")
            ask(hub, "POST /auth", body=json.dumps({"token": f"{secret}x"}))
            ask(hub, "GET /ws", f"Origin: http://evil.example/#{secret}\r\n")
        process = Path(f"/proc/{hub.process.pid}")
        texts = {name: (hub.run_dir / name).read_bytes() for name in TELL_TALES}
        texts |= {name: (process / name).read_bytes() for name in ["cmdline", "environ", "comm"]}
        texts |= {path: get(hub, path).body for path in ["/metrics", "/readyz", "/healthz"]}
        texts["events"] = json.dumps([worker.events, viewer.events, viewer.hello]).encode()
        for where, text in texts.items():
            for secret in secrets:
                assert secret.encode() not in text, where
        own = {"token", "viewer_token", "worker_token"}
        holders = {f.name for f in hub.run_dir.iterdir() if hub.token.encode() in f.read_bytes()}
        assert holders == {"token"} and own <= {f.name for f in hub.run_dir.iterdir()}


def test_the_way_in_is_printed_where_the_user_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_SUBMIT_HOST", "login1")
    with running_hub(tmp_path / "run") as hub:
        assert hub.process.stdout is not None
        said = hub.process.stdout.readline()
        forward = f"{hub.port}:127.0.0.1:{hub.port}"
        assert said == f"from your own machine: ssh -L {forward} -J login1 {socket.gethostname()}\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def started(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, f"ended: {process.args}"
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def running(command: list[str], port: int, log: Path) -> Iterator[None]:
    """A process that listens on `port`."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: started(port, process), f"{command[0]}: {log.read_text()}")
        yield
    finally:
        process.kill()  # ssh overlooks a SIGTERM that comes just before it waits for its sockets
        process.wait(10)


@contextlib.contextmanager
def running_sshd(folder: Path) -> Iterator[list[str]]:
    """A real sshd of our own on loopback; the options with which ssh reaches it."""
    sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
    assert sshd, "sshd is missing: install openssh-server"
    folder.mkdir(mode=0o700)
    port = free_port()
    for name in ["host", "user"]:
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with running([sshd, "-D", "-e", "-f", f"{folder}/config"], port, folder / "sshd.log"):
        yield ["-p", str(port), "-i", f"{folder}/user", "-F", "none", "-o", "BatchMode=yes",
               "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder}/known",
               "-l", getpass.getuser()]  # fmt: skip


def test_the_printed_command_works_through_a_real_sshd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 5000 10.0.0.2 22")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with running_hub(tmp_path / "run") as hub, running_sshd(tmp_path / "ssh") as options:
        assert hub.process.stdout is not None
        printed = shlex.split(hub.process.stdout.readline().partition(": ")[2])
        assert printed[:2] == ["ssh", "-L"] and len(printed) == 4
        # Another port on this side, as where 8765 is taken there; the machine's name is its own.
        local = free_port()
        forward = printed[2].replace(f"{hub.port}:", f"{local}:", 1)
        command = ["ssh", "-N", *options, "-L", forward, "127.0.0.1"]
        with running(command, local, tmp_path / "ssh.log"):
            for name in ["localhost", "127.0.0.1"]:
                page = f"http://{name}:{local}"
                url = f"ws://{name}:{local}/ws?token={hub.token}"
                with connect(url, origin=page, compression=None) as opened:
                    hello = {"versions": [1], "role": "viewer"}
                    assert "result" in Peer(opened).request("hello", hello)
            foreign = RawSocket(local).http(
                f"GET /readyz?token={hub.token} HTTP/1.1\r\nHost: localhost:{local}\r\n"
                f"Origin: http://localhost:{hub.port}\r\n\r\n".encode()
            )
            assert foreign.status == 403, "the hub's own port is another origin on this side"
