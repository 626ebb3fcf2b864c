"""The run directory: one live run at a time, private tokens, and what the hub does where it cannot be used."""

from __future__ import annotations

import errno
import os
import pty
import re
import resource
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from hub_harness import binary, sanitized, wait_until
from program import command, environment, tiny_flags, write_text
from recording_maker import Maker
from test_link import Trainer, alive, training


def test_a_second_live_run_is_refused(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with training(run_dir) as first:
        before, settings = first.hub_json(), (run_dir / "run.json").stat()
        second = Trainer(run_dir)
        error = second.said["error"]
        assert error["code"] == "run_dir_in_use" and error["where"] == str(run_dir)
        assert str(first.supervisor_pid()) in error["message"] and "--run-dir" in error["remedy"]
        assert second.process.wait(10) == 1
        assert first.hub_json() == before
        assert os.path.samestat((run_dir / "run.json").stat(), settings), "that of the first run"
        assert first.viewer().hello["result"]["session"] == "v1"


def test_a_hub_started_by_hand_leaves_a_live_run_alone(tmp_path: Path) -> None:
    with training(tmp_path) as trainer:
        before = trainer.hub_json()
        line = [str(binary()), "serve", "--run-dir", str(tmp_path), "--port", "0"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and str(tmp_path) in done.stderr
        assert trainer.hub_json() == before


def test_what_a_killed_run_leaves_does_not_block_the_next(tmp_path: Path) -> None:
    killed = Trainer(tmp_path)
    pids = [killed.supervisor_pid(), killed.hub_pid(), killed.process.pid]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    killed.process.wait()
    wait_until(lambda: not any(alive(pid) for pid in pids), "the end of the killed run")
    with training(tmp_path) as next_one:
        assert "error" not in next_one.said


@pytest.mark.parametrize("name", ["token", "worker_token", "viewer_token"])
def test_a_token_that_others_may_read_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("0123456789abcdef" * 4)
    (tmp_path / name).chmod(0o666)
    error = Trainer(tmp_path).said["error"]
    assert error["code"] == "invalid_secret" and error["where"] == str(tmp_path / name)
    assert "0666" in error["message"] and "delete the file" in error["remedy"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_token_of_another_user_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef" * 4)
    token.chmod(0o600)
    os.chown(token, 12345, -1)
    error = Trainer(tmp_path).said["error"]
    assert error["code"] == "invalid_secret" and "12345" in error["message"]


def test_a_hub_that_cannot_start_gives_its_reason(tmp_path: Path) -> None:
    (tmp_path / "hub.json").mkdir()
    error = Trainer(tmp_path).said["error"]
    assert error["where"] == str(tmp_path / "hub.json")
    assert "cannot be written" in error["message"] and "directory" in error["message"]


@pytest.mark.skipif(sanitized(), reason="the program has no build with a sanitizer")
def test_train_says_why_it_cannot_record(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    flags = tiny_flags(write_text(tmp_path / "text.txt")) | {"record": str(tmp_path / "file" / "deep"), "run_dir": str(tmp_path / "run")}
    done = subprocess.run(command(flags), env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert str(tmp_path / "file" / "deep") in done.stderr and "Not a directory" in done.stderr and "--record" in done.stderr


def limited(descriptors: int) -> tuple[str, ...]:
    return ("prlimit", f"--nofile={descriptors}:{descriptors}")


def test_a_hundred_descriptors_are_enough(tmp_path: Path) -> None:
    with training(tmp_path / "run", prefix=limited(100)) as trainer:
        trainer.wait_connected()
        assert trainer.viewer().hello["result"]["version"] == 1
        assert resource.prlimit(trainer.hub_pid(), resource.RLIMIT_NOFILE) == (100, 100)


def test_too_few_descriptors_are_named(tmp_path: Path) -> None:
    error = Trainer(tmp_path / "run", prefix=limited(7)).said["error"]
    assert "Too many open files" in error["message"] and "ulimit -n" in error["remedy"]


def refuses(port: int) -> bool:
    """A port without a listener does; one whose listener accepts nothing lets a client wait."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def test_the_port_refuses_once_the_run_directory_and_the_hub_are_gone(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path / "run")
    hub, supervisor = trainer.hub_pid(), trainer.supervisor_pid()
    shutil.rmtree(tmp_path / "run")
    os.kill(hub, signal.SIGKILL)
    try:
        wait_until(lambda: refuses(trainer.port), "the port refuses")
        wait_until(lambda: not alive(supervisor), "the supervisor's end")
        assert trainer.tell("viewer") == {"has_viewer": False}, "the run goes on"
    finally:
        trainer.process.kill()
        trainer.process.wait()


def test_the_request_to_end_a_run_leaves_its_hub(tmp_path: Path) -> None:
    """Slurm sends SIGUSR1 to all processes of a step. The hub shows how the run ends."""
    with training(tmp_path / "run") as trainer:
        processes = [trainer.hub_pid(), trainer.supervisor_pid()]
        for process in processes:
            os.kill(process, signal.SIGUSR1)
        assert trainer.tell("viewer") == {"has_viewer": False}
        assert not refuses(trainer.port) and all(alive(process) for process in processes)
        assert trainer.hub_pid() == processes[0], "it has not been started again"


def first_line(file: int) -> str:
    said = b""
    while b"\n" not in said:
        said += os.read(file, 4096)
    return said.decode()


@pytest.mark.parametrize("words", [["serve", "--run-dir", "."], ["replay", "run.ttrec"]], ids=lambda words: words[0])
@pytest.mark.parametrize("where", ["terminal", "pipe"])
def test_the_token_is_printed_to_a_terminal_alone(tmp_path: Path, words: list[str], where: str) -> None:
    Maker(tmp_path / "run.ttrec").close()
    ours, theirs = pty.openpty() if where == "terminal" else os.pipe()
    line = [str(binary()), *words, "--port", "0"]
    process = subprocess.Popen(line, cwd=tmp_path, stdout=theirs)
    said = first_line(ours)
    if where == "pipe":
        token = Path(tmp_path, re.search(r"\(token in (.*)\)", said)[1])
        assert token.read_text().strip() not in said and "#token" not in said
    else:
        assert re.search("#token=[0-9a-f]{64}\r?\n", said)
    process.terminate()
    assert process.wait(10) == 0
    os.close(ours)
    os.close(theirs)
