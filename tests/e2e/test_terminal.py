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

STEPS = 12


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    data = write_text(tmp_path_factory.mktemp("data") / "text.txt")
    return {**tiny_flags(data), "train_iters": STEPS, "eval_interval": 6, "eval_iters": 1}


def on_a_terminal(line: list[str], env: dict[str, str]) -> str:
    """All that the program writes to a terminal of its own."""
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
