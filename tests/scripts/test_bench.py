"""scripts/bench.sh on a machine that lacks what it needs."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import SCRIPTS


ALWAYS = ("torch", "typing_extensions", "numpy", "websockets")
OF_MODELS = (*ALWAYS, "safetensors", "transformers", "peft")


def bench(python: Path, subject: str = "train") -> subprocess.CompletedProcess[str]:
    line = [str(SCRIPTS / "bench.sh"), subject, "--help"]
    return subprocess.run(line, env=os.environ | {"TT_PYTHON": str(python)}, capture_output=True, text=True)


@pytest.mark.parametrize(("subject", "needed", "found"), [
    ("train", ALWAYS, "torch"), ("train", ALWAYS, "torch typing_extensions"), ("models", OF_MODELS, " ".join(ALWAYS))])
def test_missing_modules_are_named_with_the_remedy(
    tmp_path: Path, subject: str, needed: tuple[str, ...], found: str
) -> None:
    """As after the set-up of the demo, where torch is there and what it imports is not."""
    for module in found.split():
        (tmp_path / f"{module}.py").touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec /usr/bin/env python3 -S "$@"\n')
    python.chmod(0o755)
    done = bench(python, subject)
    wanted = [m for m in needed if m not in found.split()]
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"bench.sh: missing: {' '.join(wanted)}; run scripts/setup.sh --for test\n"


def test_a_missing_interpreter_is_named(tmp_path: Path) -> None:
    done = bench(tmp_path / "python")
    assert done.returncode == 1 and f"missing: {tmp_path / 'python'}; run" in done.stderr
