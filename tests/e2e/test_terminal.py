"""What a person at a terminal meets: the progress bar, and the browser that `--open` starts."""

from __future__ import annotations

import os
import pty
import re
import stat
import subprocess
from pathlib import Path

import pytest
from program import Flags, command, environment, tiny_flags, write_text
from viewer import RequestError, live_run

STEPS = 12


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    data = write_text(tmp_path_factory.mktemp("data") / "text.txt")
    return {**tiny_flags(data), "train_iters": STEPS, "eval_interval": 6, "eval_iters": 1}


def on_a_terminal(line: list[str], env: dict[str, str]) -> str:
    """All that the program writes to a separate terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env=env) as program:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            written += part
        os.close(ours)
        assert program.wait(timeout=30) == 0
    return written.decode()


def test_a_terminal_has_one_line_that_moves(flags: Flags) -> None:
    written = on_a_terminal(command(flags), environment())
    moved = re.findall(r"\r\x1b\[2K\S+ (\d+)/(\d+)  loss [\d.]+  [\d,]+ tokens/s  [^\r]*? left", written)
    assert [int(step) for step, _ in moved] == list(range(1, STEPS + 1))
    assert {int(steps) for _, steps in moved} == {STEPS}
    assert re.findall(r"\x1b\[2Kstep +(\d+)/12  [^\r]*valid loss [\d.]+[^\r]*\r\n", written) == ["6", "12"]


def test_a_terminal_is_told_the_token(flags: Flags, tmp_path: Path) -> None:
    """Unless it is asked not to be."""
    served = {**flags, "tensor_tracer_port": 0, "run_dir": str(tmp_path / "run")}
    written = on_a_terminal(command(served), environment())
    token = (tmp_path / "run" / "token").read_text().strip()
    assert f"#token={token}" in written
    assert token not in on_a_terminal(command({**served, "no_print_url": True}), environment())


@pytest.mark.nightly(suite="runs")
@pytest.mark.parametrize("asked", [None, True])
def test_without_a_terminal_the_bar_is_there_only_if_asked_for(asked: bool | None, flags: Flags) -> None:
    line = command(flags if asked is None else {**flags, "progress_bar": "on"})
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=30, check=True)
    assert ("\x1b" in done.stdout) == bool(asked)
    if not asked:
        assert sum(line.startswith("step ") for line in done.stdout.splitlines()) == STEPS


def test_the_terminal_names_who_changed_the_run(flags: Flags, tmp_path: Path) -> None:
    """Each change with its step, as its answer states it; what was refused changed nothing."""
    ends_late = {**flags, "train_iters": 100_000, "eval_interval": 0}
    with live_run(ends_late, tmp_path, 1) as run, run.viewer() as viewer:
        viewer.request("control.claim", {"name": "Ada"})
        paused = viewer.request("control.pause")["step"]
        with pytest.raises(RequestError):
            viewer.request("plan.set", {"plan": {"entries": [{"point": "Nothing"}]}})
        planned = viewer.request("plan.set", {"plan": {"entries": []}})["step"]
        program = {"name": "steer", "program": "layers[1].output *= 1.5"}
        applied = viewer.request("intervention.apply", program)["step"]
        viewer.request("control.release")  # ends the pause and the program
        viewer.wait_for(lambda: max(viewer.steps(), default=0) > paused + 3, "more steps")
        viewer.request("control.claim", {"name": "Bob"})
        stepped = viewer.request("control.step", {"count": 2})["step"]
        viewer.request("alarms.set", {"name": "spike", "scalar": "loss", "test": "above", "value": 99})
        viewer.request("alarms.remove", {"name": "spike"})
        viewer.request("run.keep")
        with run.viewer() as other:
            other.request("control.claim", {"name": "Eve", "take_over": True})
            stopped = other.request("control.stop")["step"]
            assert run.process.wait(20) == 0
        output = run.output()
    lines = [line.removeprefix("page   ") for line in output.splitlines() if re.match("page   (?!http)", line)]
    assert lines == [
        f"paused by Ada after step {paused}",
        f"plan set by Ada, from step {planned} on",
        f'program "steer" applied by Ada, from step {applied} on',
        f"the programs without `keep` removed by the hub, from step {applied} on",
        f"continued by the hub after step {paused}",
        f"stepped by Bob up to step {stepped}",
        'alarm "spike" set by Bob',
        'alarm "spike" removed by Bob',
        "kept by Bob: all traced data is recorded from now on",
        "control taken over from Bob by Eve",
        f"stopped by Eve after step {stopped}",
    ]


def test_each_line_of_a_step_says_how_long_the_run_still_takes(flags: Flags) -> None:
    many = {**flags, "train_iters": 12, "eval_interval": 0}
    done = subprocess.run(command(many), env=environment(), capture_output=True, text=True, timeout=60, check=True)
    left = re.findall(r"^step +(\d+)/12  .*  (\d+):(\d\d) left$", done.stdout, re.M)
    assert [int(step) for step, _, _ in left] == list(range(1, 13))
    assert left[-1][1:] == ("0", "00")


def test_open_starts_the_browser_with_a_file_that_only_its_owner_reads(flags: Flags, tmp_path: Path) -> None:
    """The token is in the file, not in anybody's list of processes."""
    tools, seen = tmp_path / "tools", tmp_path / "seen"
    tools.mkdir()
    browser = tools / "xdg-open"
    browser.write_text(f'#!/bin/sh\nstat -c %a "$1" > {seen}.mode\ncp "$1" {seen}.page\necho "$1" > {seen}\n')
    browser.chmod(stat.S_IRWXU)
    folder = tmp_path / "run"
    line = command({**flags, "tensor_tracer_port": 0, "run_dir": str(folder), "tensor_tracer_open": True})
    env = environment() | {"PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=60, check=True)
    given = seen.read_text().strip()
    token = (folder / "token").read_text().strip()
    page = Path(f"{seen}.page").read_text()
    assert Path(f"{seen}.mode").read_text().strip() == "600"
    assert Path(given).parent == folder and token not in given
    assert re.search(rf"http://127\.0\.0\.1:\d+/#[^\"' ]*{re.escape(token)}", page)
    assert token not in done.stdout + done.stderr


@pytest.mark.nightly(suite="runs")
def test_without_a_browser_the_address_is_left(flags: Flags, tmp_path: Path) -> None:
    line = command({**flags, "tensor_tracer_port": 0, "run_dir": str(tmp_path / "run"), "tensor_tracer_open": True})
    env = environment() | {"PATH": str(tmp_path)}
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert "page   http://127.0.0.1:" in done.stdout
