"""How `tensor-tracer export` starts Python, and the packages that Python lacks."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hub_harness import REPOSITORY, binary
from recording_maker import Maker

pytestmark = pytest.mark.nightly(suite="export")

PACKAGE = REPOSITORY / "python" / "tensor_tracer"
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
STANDARD_MODULES = ("argparse", "csv", "importlib", "runpy", "sqlite3", "zipfile")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    maker = Maker(tmp_path / "run.ttrec")
    maker.add("HiddenStates", 1, "f32", np.zeros(2), layer=1)
    maker.add_scalars(1, loss=2.0)
    return maker.close()


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder whose modules end the process that imports them."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    for name in ("tensor_tracer", "numpy", *STANDARD_MODULES):
        (folder / f"{name}.py").write_text(f"raise SystemExit('foreign {name}')")
    return folder


def run_program(
    program: Path, *words: object, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`program export`, and no PYTHONPATH but that of `environment`."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([str(program), "export", *map(str, words)], env=variables | {"PATH": PATH} | environment,
                          cwd=cwd, capture_output=True, text=True, timeout=120)  # fmt: skip


def hide(folder: Path, package: str, error: str) -> Path:
    """A folder for PYTHONPATH whose `package` raises `error`."""
    folder.mkdir()
    (folder / f"{package}.py").write_text(f"raise {error}")
    return folder


@pytest.mark.smoke
def test_a_wrong_choice_ends_with_2(recording: Path, tmp_path: Path) -> None:
    done = run_program(binary("tensor-tracer"), recording, "--to", "npz", "--output", tmp_path / "out",
                       "--point", "HidenStates")  # fmt: skip
    assert done.returncode == 2 and "did you mean HiddenStates?" in done.stderr


@pytest.mark.smoke
def test_modules_of_the_current_folder_are_not_run(recording: Path, foreign: Path, tmp_path: Path) -> None:
    words = (recording, "--to", "npz", "--output", tmp_path / "out.npz")
    done = run_program(binary("tensor-tracer"), *words, cwd=foreign)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["scalars.loss"] == [2.0]


def test_a_copied_program_takes_the_installed_package(recording: Path, foreign: Path, tmp_path: Path) -> None:
    program = Path(shutil.copy(binary("tensor-tracer"), tmp_path / "tensor-tracer"))
    words = (recording, "--to", "npz", "--output", tmp_path / "out.npz")
    bare = tmp_path / "bare" / "python3"  # the same Python without what is installed
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    missing = run_program(program, *words, cwd=foreign, PATH=f"{bare.parent}:{PATH}")
    assert missing.returncode == 2 and len(missing.stderr.splitlines()) == 1
    assert "-m pip install CHECKOUT/python" in missing.stderr
    installed = [PACKAGE.parent, *(path for path in sys.path if path.endswith("site-packages"))]
    done = run_program(program, *words, cwd=foreign, PATH=f"{bare.parent}:{PATH}",
                       PYTHONPATH=":".join(map(str, installed)))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.npz").exists()
    none = run_program(program, *words, PATH=str(tmp_path))
    assert none.returncode == 2 and "install Python 3.10 or newer" in none.stderr


def test_a_missing_numpy_is_named(recording: Path, tmp_path: Path) -> None:
    hidden = hide(tmp_path / "hidden", "numpy", "ImportError('no numpy')")
    done = run_program(binary("tensor-tracer"), recording, "--to", "csv", "--output", tmp_path / "out",
                       PYTHONPATH=str(hidden))  # fmt: skip
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "-m pip install numpy" in done.stderr


@pytest.mark.parametrize(("form", "package", "error"), [
    ("tensorboard", "tensorboardX", "ModuleNotFoundError('no module')"),
    ("tensorboard", "tensorboardX", "TypeError('Descriptors cannot be created\\nmore')"),
    ("safetensors", "safetensors", "ModuleNotFoundError('no module')"),
])  # fmt: skip
def test_a_missing_package_is_named_and_no_folder_made(
    recording: Path, tmp_path: Path, form: str, package: str, error: str
) -> None:
    hidden = hide(tmp_path / "hidden", package, error)
    done = run_program(binary("tensor-tracer"), recording, "--to", form, "--output", tmp_path / "out",
                       PYTHONPATH=str(hidden))  # fmt: skip
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert f"-m pip install --upgrade {package}" in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_old_safetensors_is_named(recording: Path, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "safetensors.py").write_text("__version__ = '0.7.0'")
    done = run_program(binary("tensor-tracer"), recording, "--to", "safetensors", "--output", tmp_path / "out",
                       PYTHONPATH=str(tmp_path / "old"))  # fmt: skip
    assert done.returncode == 2 and "version 0.7.0 is too old" in done.stderr


def test_an_old_python_is_told(recording: Path, tmp_path: Path) -> None:
    ast.parse((PACKAGE / "__main__.py").read_text(), feature_version=(3, 7))
    script = "import runpy, sys; sys.version_info = (3, 9, 18); runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    command = [sys.executable, "-c", script, str(PACKAGE), "export", str(recording), "--to", "csv", "--output",
               str(tmp_path / "out")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "install Python 3.10 or newer" in done.stderr
