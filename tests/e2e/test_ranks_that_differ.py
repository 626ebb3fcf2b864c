"""Ranks on machines that hold other files, or that somebody started with other options."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from program import Flags, command, environment, tiny_flags, write_text


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    return tiny_flags(write_text(tmp_path_factory.mktemp("data") / "text.txt")) | {"train_iters": 2}


def run(flags: Flags, of_rank_1: dict[str, Any]) -> tuple[int, list[str]]:
    """Exit code, and what our two ranks print to standard error."""
    line = ["mpirun", "--oversubscribe", "-np", "1", *command(flags), ":", "-np", "1", *command({**flags, **of_rank_1})]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, [text for text in done.stderr.splitlines() if text.startswith("tensor-tracer:")]


@pytest.mark.parametrize("what", ["more text", "other text", "options", "rate", "prompts", "nothing"])
def test_ranks_that_were_given_different_things_do_not_train(what: str, flags: Flags, tmp_path: Path) -> None:
    text = Path(flags["data_path"]).read_bytes()
    (tmp_path / "more text").write_bytes(text + b".")
    (tmp_path / "other text").write_bytes(text.swapcase())
    (tmp_path / "two.txt").write_text("one\ntwo\n")
    (tmp_path / "three.txt").write_text("one\ntwo\nthree\n")
    prompts = {"monitor_prompts": tmp_path / "two.txt", "tensor_tracer_port": 0, "run_dir": tmp_path / "run"}
    changes, flag, differs = {
        "more text": ({"data_path": tmp_path / what}, "--data-path", "training text"),
        "other text": ({"data_path": tmp_path / what}, "--data-path", "training text"),
        "options": ({"train_iters": 3}, "tensor-tracer train", "options"),
        "rate": ({"lr": 2e-3}, "tensor-tracer train", "options"),
        "prompts": ({"monitor_prompts": tmp_path / "three.txt"}, "--monitor-prompts", "prompts"),
        "nothing": ({"threads": 1, "run_name": "of another name"}, "", ""),
    }[what]
    code, ours = run(flags | prompts, changes)
    if what == "nothing":
        assert (code, ours) == (0, [])
        return
    [line] = ours
    assert code == 2
    assert line.startswith(f"tensor-tracer: {flag}: rank 1 has other {differs} than rank 0; give all ranks the same")


def test_what_one_rank_alone_finds_is_told_by_it(flags: Flags) -> None:
    code, ours = run(flags, {"data_path": "no/such/file"})
    assert code == 2
    assert len(ours) == 1 and re.match(r'tensor-tracer: rank 1: --data-path: "no/such/file" does not exist', ours[0])
