"""Runs the project's scripts on small trees made for one test."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

Check = Callable[[str, dict[str, str]], subprocess.CompletedProcess[str]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """check(script, {path: content}) writes the tree and runs the script on it."""

    def run(script: str, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        program = [str(SCRIPTS / script)]
        if script.endswith(".py"):
            program.insert(0, sys.executable)
        return subprocess.run([*program, "--root", str(tmp_path)], capture_output=True, text=True)

    return run
