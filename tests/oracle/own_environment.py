"""Virtual environments with the packages that a test needs beside those of .venv."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

from program import REPOSITORY, environment


def make_environment(name: str, *more: str) -> Path:
    """The interpreter of an environment in build/<name>. It has the packages of scripts/requirements-<name>.txt and those
    of this interpreter. `more`: options of pip, such as --no-deps."""
    requirements = REPOSITORY / f"scripts/requirements-{name}.txt"
    home = REPOSITORY / "build" / name / f"python{sysconfig.get_python_version()}"
    complete = home / "complete"
    home.parent.mkdir(parents=True, exist_ok=True)
    with open(home.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes of tests may need it
        if not complete.exists() or complete.read_text() != requirements.read_text():
            install(home, requirements, *more)
            complete.write_text(requirements.read_text())
    return home / "bin/python"


def install(home: Path, requirements: Path, *more: str) -> None:
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    (packages / "base.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    options = os.environ.get("TT_PIP_OPTIONS", "").split()
    pip = [str(home / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *more]
    subprocess.run([*pip, *options, "-r", str(requirements)], check=True, timeout=300)


def run_in_environment(name: str, script: str, *words: object) -> None:
    """Runs a script of this folder with the interpreter of make_environment(name)."""
    line = [str(make_environment(name)), "-W", "ignore", str(Path(__file__).with_name(script)), *map(str, words)]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
