"""The trainer's side: a hub started, supervised and left by a C++ stand-in (link_probe.cpp)."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_harness import RUN_ID, Peer, RawSocket, binary, claim, wait_until, write_run_file
from websockets.sync.client import connect


class Trainer:
    """One link_probe and the hub that it started."""

    def __init__(
        self,
        run_dir: Path,
        port: int = 0,
        queue_bytes: int = 64 << 20,
        pause_ms: int = 30000,
        environment: dict[str, str] | None = None,
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.run_dir = run_dir
        command = [*prefix, str(binary("link_probe")), str(binary()), str(run_dir), str(port),
                   str(queue_bytes), str(pause_ms)]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.said = self._read()
        self.port: int = self.said.get("port", 0)

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def tell(self, command: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._read()

    def hub_json(self) -> dict[str, Any]:
        return json.loads((self.run_dir / "hub.json").read_text())

    def hub_pid(self) -> int:
        return int(self.hub_json()["pid"])

    def supervisor_pid(self) -> int:
        return parent_of(self.hub_pid())

    def viewer(self) -> Peer:
        token = (self.run_dir / "token").read_text().strip()
        opening = connect(
            f"ws://127.0.0.1:{self.port}/ws",
            additional_headers={"Authorization": f"Bearer {token}"},
            max_size=None,
            compression=None,
        )
        peer = Peer(opening.__enter__())
        peer.hello = peer.request("hello", {"versions": [1], "role": "viewer"})
        return peer

    def wait_connected(self) -> None:
        wait_until(lambda: self.log().count("is the trainer") > 0, "the trainer's connection")

    def log(self) -> str:
        return (self.run_dir / "hub.log").read_text()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter: gone between open and read
        return False


def port_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def training(run_dir: Path, **options: Any) -> Iterator[Trainer]:
    """A trainer; whatever happens to it, hub and supervisor are gone 2 s after it."""
    trainer = Trainer(run_dir, **options)
    pids = [trainer.hub_pid(), trainer.supervisor_pid()]
    try:
        yield trainer
        with contextlib.suppress(FileNotFoundError):
            pids += [trainer.hub_pid()]
    finally:
        trainer.process.kill()
        trainer.process.wait()
        wait_until(lambda: not any(alive(pid) for pid in pids), "the end of the hub", 2.5)
        assert not port_open(trainer.port)


def test_start_writes_the_run_directory(tmp_path: Path) -> None:
    with training(tmp_path / "deep" / "run") as trainer:
        run_dir = trainer.run_dir
        facts = trainer.hub_json()
        assert facts["run_id"] == RUN_ID and facts["port"] == trainer.port
        assert facts["url"] == trainer.said["url"] == f"http://127.0.0.1:{trainer.port}/"
        assert facts["host"] == socket.gethostname()
        token = (run_dir / "token").read_text().strip()
        assert f"{facts['url']}#token={token}" in Path(trainer.said["open"]).read_text()
        assert stat.S_IMODE(os.stat(run_dir).st_mode) == 0o700
        for name in ["token", "viewer_token", "worker_token", "open.html", "run.json", "hub.json", "hub.log"]:
            assert stat.S_IMODE(os.stat(run_dir / name).st_mode) == 0o600, name
        for pid in [trainer.hub_pid(), trainer.supervisor_pid()]:
            for name in ["cmdline", "environ"]:
                assert token not in Path(f"/proc/{pid}/{name}").read_text()
        assert token not in trainer.log()


def count_fds(pid: int, start: str) -> int:
    """Descriptors of a process whose targets begin so; some may be closed meanwhile."""
    count = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(descriptor).startswith(start)
    return count


def test_the_hub_is_on_its_own(tmp_path: Path) -> None:
    """Own session, no inherited descriptor, all CPUs, nothing of the launcher's environment."""
    environment = os.environ | {"OMPI_COMM_WORLD_RANK": "0", "PMIX_RANK": "0", "KEPT": "1"}
    inherited, other_end = os.pipe()
    os.set_inheritable(inherited, True)
    try:
        with training(
            tmp_path / "run", environment=environment, prefix=("taskset", "-c", "0")
        ) as trainer:
            for pid in [trainer.hub_pid(), trainer.supervisor_pid()]:
                assert os.getsid(pid) == trainer.supervisor_pid() != os.getsid(0)
                variables = Path(f"/proc/{pid}/environ").read_text()
                assert "OMPI_" not in variables and "PMIX_" not in variables and "KEPT" in variables
                assert os.sched_getaffinity(pid) == os.sched_getaffinity(0)
                wait_until(lambda pid=pid: count_fds(pid, "pipe:") <= 2, "the ready pipe's end")
                assert count_fds(pid, "/dev/null") == 1
            assert os.sched_getaffinity(trainer.process.pid) == {0}
    finally:
        os.close(inherited)
        os.close(other_end)


def test_port_in_use_is_told_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        start = time.monotonic()
        trainer = Trainer(tmp_path / "run", port=port)
        assert time.monotonic() - start < 2
        error = trainer.said["error"]
        assert error["code"] == "port_in_use" and str(port) in error["message"]
        assert error["where"] == "--tensor-tracer-port"
        assert error["remedy"] == "give --tensor-tracer-port 0 or another port"
        assert trainer.process.wait(2) == 1


def refused(run_dir: Path) -> dict[str, Any]:
    """The error that a supervisor tells the program which started it."""
    ready_read, ready_write = os.pipe()
    alive_read, alive_write = os.pipe()
    with open(ready_read) as ready:
        hub = subprocess.Popen(
            [str(binary()), "supervise", "--run-dir", str(run_dir),
             "--alive-fd", str(alive_read), "--ready-fd", str(ready_write)],
            pass_fds=(alive_read, ready_write), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(ready_write)
        error = json.loads(ready.readline())["error"]
        assert hub.wait(10) == 2
    os.close(alive_read)
    os.close(alive_write)
    return error


def test_a_wrong_origin_is_told_to_who_started_the_hub(tmp_path: Path) -> None:
    write_run_file(tmp_path, allow_origin=["*"])
    error = refused(tmp_path)
    assert error["code"] == "invalid_argument" and error["where"] == "--allow-origin"


@pytest.mark.parametrize(("text", "message"), [
    (None, "was not readable (missing?)"), ("[]", "the file is not one JSON object"),
    ('{"version": 2}', "--version: 2 is a version that this program does not know"),
    ('{"prot": 1}', 'unknown key "prot"'), ('{"port": "x"}', "--port = x"),
    ('{"port": 70000}', "--port: 70000 is not in [0, 65535]"),
])  # fmt: skip
def test_a_run_file_that_cannot_be_used_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    error = refused(tmp_path)
    assert error["where"] == str(tmp_path / "run.json") and message in error["message"]
    assert "start the run again" in error["remedy"]
    [line] = [json.loads(line) for line in (tmp_path / "hub.log").read_text().splitlines()]
    assert line["event"] == "failed" and str(tmp_path / "run.json") in line["message"]


def test_a_hub_that_comes_back_has_the_settings_of_its_run(tmp_path: Path) -> None:
    with training(tmp_path / "run") as trainer:
        settings = json.loads((trainer.run_dir / "run.json").read_text())
        assert settings["version"] == 1 and settings["run_id"] == RUN_ID and settings["auth"] == "token"
        for name in ["token", "viewer_token", "worker_token"]:
            assert (trainer.run_dir / name).read_text().strip() not in str(settings)
        before = trainer.hub_pid()
        (trainer.run_dir / "run.json").write_text(json.dumps(settings | {"auth": "none"}))
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: trainer.hub_pid() != before, "the next hub")
        with connect(f"ws://127.0.0.1:{trainer.port}/ws") as opened:
            hello = Peer(opened).request("hello", {"versions": [1], "role": "viewer"})
        assert hello["result"]["may_control"] is True, "no token is needed any more"


def test_a_restarted_hub_serves_whatever_it_cannot_write(tmp_path: Path) -> None:
    with training(tmp_path / "run") as trainer:
        trainer.wait_connected()
        (trainer.run_dir / "run.ttrec").unlink()
        # As on a full disk: no file of the supervisor's later children may get longer.
        resource.prlimit(trainer.supervisor_pid(), resource.RLIMIT_FSIZE, (0, 0))
        os.kill(trainer.hub_pid(), signal.SIGKILL)
        wait_until(lambda: not alive(trainer.hub_pid()), "the hub's end")

        viewer = trainer.viewer()  # the supervisor holds the listening sockets

        def told(name: str) -> bool:
            return any(name in log["message"] for log in viewer.named("log"))

        viewer.receive_until(lambda: told("/hub.json") and told("/run.ttrec"), "both alarms")
        viewer.receive_until(
            lambda: viewer.hello["result"]["run"] is not None or bool(viewer.named("run")),
            "the trainer",
        )


def test_port_0_takes_the_next_free_one(tmp_path: Path) -> None:
    with training(tmp_path / "a") as first, training(tmp_path / "b") as second:
        assert 8765 <= first.port < second.port <= 8865


def test_events_records_and_requests_pass(tmp_path: Path) -> None:
    with training(tmp_path / "run") as trainer:
        trainer.wait_connected()
        assert trainer.tell("viewer") == {"has_viewer": False}
        viewer = trainer.viewer()
        wait_until(lambda: trainer.tell("viewer")["has_viewer"], "has_viewer")
        trainer.tell('event step {"step": 1, "loss": 2.5}')
        trainer.tell("records 3 1000")
        viewer.receive_until(lambda: len(viewer.records) == 3, "records")
        assert viewer.named("step") == [{"step": 1, "loss": 2.5}]

        claim(viewer)
        paused = viewer.start_request("control.pause")
        said = trainer.tell("wait 5000")
        assert [r["method"] for r in said["requests"]] == ["control.pause"]
        assert said["waited_ms"] < 1000
        assert viewer.answer_to(paused)["result"] == {"step": 12, "ranks": 2}
        stepped = viewer.start_request("control.step", {"count": 3})
        assert trainer.tell("wait 5000")["requests"][0]["params"] == {"count": 3}
        assert viewer.answer_to(stepped)["error"]["message"] == "not now"
        assert trainer.tell("wait 150")["waited_ms"] >= 140
        viewer.connection.close()
        wait_until(lambda: not trainer.tell("viewer")["has_viewer"], "no viewer")


def test_a_killed_hub_comes_back_and_the_run_goes_on(tmp_path: Path) -> None:
    with training(tmp_path / "run") as trainer:
        trainer.wait_connected()
        trainer.tell('event state {"phase": "training", "step": 5}')
        trainer.tell('event plan {"plan": {"number": 7}, "step": 5}')
        trainer.tell('event interventions {"programs": [{"name": "a", "keep": true}], "step": 5}')
        trainer.tell("records 1 100")
        first = trainer.viewer()
        first.receive_until(lambda: len(first.records) == 1, "a record")
        token = (trainer.run_dir / "token").read_text()
        for round_number in range(3):
            old = trainer.hub_pid()
            os.kill(old, signal.SIGKILL)
            wait_until(lambda o=old: trainer.hub_pid() != o, "another hub", 5)
            assert trainer.hub_json()["port"] == trainer.port
            assert (trainer.run_dir / "token").read_text() == token
            trainer.tell("records 1 100")
            again = trainer.viewer()
            again.receive_until(lambda p=again: len(p.records) >= 1, "a record")
            assert again.records[-1]["sequence"] == 2 + round_number, "sequence numbers go on"
            again.receive_until(
                lambda p=again: (p.hello["result"]["state"]["phase"] == "training"
                                 or {"phase": "training", "step": 5} in p.named("state")),
                "the state, told again",
            )  # fmt: skip
            run = (again.named("run") or [again.hello["result"]["run"]])[-1]
            assert run["plan"] == {"number": 7}
            assert run["interventions"] == [{"name": "a", "keep": True}]


def test_kill_of_the_trainer_ends_hub_and_port(tmp_path: Path) -> None:
    for end in [signal.SIGKILL, signal.SIGTERM]:
        trainer = Trainer(tmp_path / f"run{end}")
        trainer.wait_connected()
        viewer = trainer.viewer()
        pids = [trainer.hub_pid(), trainer.supervisor_pid()]
        trainer.process.send_signal(end)
        trainer.process.wait()
        wait_until(lambda p=pids: not any(alive(pid) for pid in p), "the end of all", 2)
        assert not port_open(trainer.port)
        with contextlib.suppress(Exception):
            viewer.drain(1)
        assert viewer.named("state")[-1]["phase"] == "lost"


def test_a_hung_hub_ends_with_the_run_too(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path / "run")
    pids = [trainer.hub_pid(), trainer.supervisor_pid()]
    os.kill(pids[0], signal.SIGSTOP)
    trainer.process.kill()
    trainer.process.wait()
    wait_until(lambda: not any(alive(pid) for pid in pids), "the end of all", 2)


def test_a_dead_supervisor_takes_its_hub_along(tmp_path: Path) -> None:
    with training(tmp_path / "run") as trainer:
        hub, supervisor = trainer.hub_pid(), trainer.supervisor_pid()
        os.kill(supervisor, signal.SIGKILL)
        wait_until(lambda: not alive(hub), "the end of the hub", 2.5)
        assert trainer.tell("records 1 100")["dropped"] == 0  # the run does not notice


def test_finish_flushes_what_is_queued(tmp_path: Path) -> None:
    with training(tmp_path / "run") as trainer:
        trainer.wait_connected()
        viewer = trainer.viewer()
        trainer.tell("records 80 10000")
        trainer.tell('event state {"phase": "finished", "step": 9}')
        assert trainer.tell("finish")["took_ms"] < 1300
        viewer.receive_until(
            lambda: len(viewer.records) == 80 and bool(viewer.named("state")), "all of it"
        )
        assert viewer.named("state")[-1]["phase"] == "finished"


MESSAGES = 60  # of 50 kB: a viewer that takes one each 50 ms is busy for 3 s


def slow_viewer(trainer: Trainer) -> RawSocket:
    """A viewer to which the hub has sent next to nothing when the run ends."""
    viewer = RawSocket(trainer.port, receive_buffer=4096)
    viewer.upgrade("/ws", (trainer.run_dir / "token").read_text().strip())
    hello = {"versions": [1], "role": "viewer", "client": "slow"}
    viewer.send_frame(1, json.dumps({"id": 1, "method": "hello", "params": hello}).encode())
    assert json.loads(viewer.receive_frame()[1])["id"] == 1
    for number in range(MESSAGES):
        message = f"{number} " + 50_000 * "x"
        trainer.tell("event log " + json.dumps({"level": "info", "message": message}))
    trainer.tell("finish")
    assert trainer.process.wait(2) == 0
    return viewer


def seen_slowly(viewer: RawSocket) -> Iterator[str]:
    """The numbers of the messages, up to the hub's close frame."""
    while (frame := viewer.receive_frame())[0] == 1:
        time.sleep(0.05)
        event = json.loads(frame[1])
        if event["event"] == "log":
            yield event["params"]["message"].split()[0]
    assert frame[0] == 8, "the hub says goodbye"


def test_a_slow_viewer_sees_the_run_to_its_end(tmp_path: Path) -> None:
    with training(tmp_path / "run") as trainer:
        viewer, start = slow_viewer(trainer), time.monotonic()
        assert list(seen_slowly(viewer)) == [str(number) for number in range(MESSAGES)]
        assert time.monotonic() - start > 2, "it was not slow"


def test_a_signal_ends_the_wait_for_a_slow_viewer(tmp_path: Path) -> None:
    with training(tmp_path / "run") as trainer:
        hub, supervisor = trainer.hub_pid(), trainer.supervisor_pid()
        seen, viewer = 0, slow_viewer(trainer)
        with contextlib.suppress(EOFError, ConnectionError):
            for _ in seen_slowly(viewer):
                seen += 1
                if seen == 10:
                    os.kill(supervisor, signal.SIGTERM)
        assert 10 <= seen < MESSAGES, "it was cut off"
        wait_until(lambda: not alive(hub), "the end of the hub", 2)


def test_a_stopped_hub_costs_the_trainer_nothing(tmp_path: Path) -> None:
    with training(tmp_path / "run", queue_bytes=1 << 20) as trainer:
        trainer.wait_connected()
        viewer = trainer.viewer()
        trainer.tell("records 1 1000")
        viewer.receive_until(lambda: len(viewer.records) == 1, "a record")
        os.kill(trainer.hub_pid(), signal.SIGSTOP)
        said = trainer.tell("records 2000 10000")
        assert said["longest_ms"] < 50
        trainer.tell('event log {"level": "info", "message": "kept"}')
        said = trainer.tell("records 2000 10000")
        assert said["longest_ms"] < 50 and said["dropped"] > 1000
        os.kill(trainer.hub_pid(), signal.SIGCONT)
        viewer.receive_until(
            lambda: bool(viewer.records) and viewer.records[-1]["sequence"] == 4001, "the newest"
        )
        assert {"level": "info", "message": "kept"} in viewer.named("log")
        told = sum(d["records"] for d in viewer.named("dropped") if d["where"] == "trainer")
        assert told == trainer.tell("records 0 0")["dropped"] >= said["dropped"]
        at_viewer = sum(d["records"] for d in viewer.named("dropped") if d["where"] == "viewer")
        assert len(viewer.records) + told + at_viewer == 4001


def test_finish_is_quick_when_the_hub_is_stopped(tmp_path: Path) -> None:
    with training(tmp_path / "run") as trainer:
        trainer.wait_connected()
        os.kill(trainer.hub_pid(), signal.SIGSTOP)
        trainer.tell("records 2000 10000")
        assert trainer.tell("finish")["took_ms"] < 1500
        assert trainer.process.wait(2) == 0


def test_a_pause_ends_when_contact_is_lost_for_too_long(tmp_path: Path) -> None:
    with training(tmp_path / "run", pause_ms=800) as trainer:
        trainer.wait_connected()
        wait_until(lambda: trainer.tell("wait 0")["requests"] == [], "nothing to do")
        os.kill(trainer.supervisor_pid(), signal.SIGKILL)
        wait_until(lambda: not port_open(trainer.port), "the hub's end")
        said = trainer.tell("wait 5000")
        assert said["requests"] == [
            {"id": 0, "method": method, "params": {}}
            for method in ("intervention.revert", "control.continue")
        ]
        assert 300 < said["waited_ms"] < 1500
        assert trainer.tell("wait 100")["requests"] == [], "once only"


def test_the_end_of_the_run_keeps_a_clean_exit(tmp_path: Path) -> None:
    with training(tmp_path / "run") as trainer:
        hub = trainer.hub_pid()
        start = time.monotonic()
        trainer.tell("end_run")
        wait_until(lambda: not alive(hub), "the hub's end", 2)
        assert time.monotonic() - start < 2
        assert "the hub ends: draining" in trainer.log()


@pytest.mark.parametrize("linger", [False, True])
def test_linger(tmp_path: Path, linger: bool) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    alive_read, alive_write = os.pipe()
    ready_read, ready_write = os.pipe()
    write_run_file(run_dir, linger=linger)
    supervisor = subprocess.Popen(
        [str(binary()), "supervise", "--run-dir", str(run_dir),
         "--alive-fd", str(alive_read), "--ready-fd", str(ready_write)],
        pass_fds=[alive_read, ready_write],
    )  # fmt: skip
    os.close(alive_read)
    os.close(ready_write)
    with open(ready_read) as ready:
        port = json.loads(ready.readline())["port"]
    os.close(alive_write)
    time.sleep(1.5)
    assert port_open(port) == linger
    if linger:
        supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(2) == 0
    assert not port_open(port)
