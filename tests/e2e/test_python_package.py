"""The package as `pip install ./python` makes it, and its types."""

from __future__ import annotations

import ast
import graphlib
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hub_harness import REPOSITORY
from recording_maker import Maker

pytestmark = pytest.mark.nightly(suite="export")

PROGRAM = "import sys, tensor_tracer as tt; print(*tt.open_recording(sys.argv[1]).scalars('loss')[1], tt.__file__)"


def run(*command: object, cwd: Path) -> str:
    """What the command prints; no module of this checkout is in its way."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy: pip writes beside what it installs."""
    return Path(shutil.copytree(REPOSITORY / "python", tmp_path / "python", ignore=shutil.ignore_patterns("__pycache__")))


def test_a_clean_environment_gets_pure_python(source: Path, tmp_path: Path) -> None:
    maker = Maker(tmp_path / "run.ttrec")
    maker.add("HiddenStates", 1, "f32", np.zeros(2))
    maker.add_scalars(1, loss=2.5)
    recording = maker.close()
    venv.create(tmp_path / "clean", with_pip=True)
    python = tmp_path / "clean" / "bin" / "python"
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = os.environ.get("TT_PIP_OPTIONS", "").split()
    run(*pip, "wheel", *options, "--no-deps", source, cwd=tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    modules = {str(path.relative_to(REPOSITORY / "python")) for path in (REPOSITORY / "python").glob("tensor_tracer/**/*.py")}
    assert modules | {"tensor_tracer/py.typed"} <= set(zipfile.ZipFile(wheel).namelist())
    run(*pip, "install", *options, f"{wheel}[safetensors]", cwd=tmp_path)
    loss, place = run(python, "-c", PROGRAM, recording, cwd=tmp_path).split()
    assert loss == "2.5" and str(tmp_path / "clean") in place
    for form in ("npz", "csv", "safetensors"):
        run(python, "-m", "tensor_tracer", "export", recording, "--to", form, "--output", tmp_path / form, cwd=tmp_path)
        assert (tmp_path / form).stat().st_size > 0


@pytest.mark.smoke
def test_its_types_are_strict(source: Path) -> None:
    run(sys.executable, "-m", "mypy", "--strict", "tensor_tracer", cwd=source)


@pytest.mark.smoke
def test_its_modules_import_in_no_circle() -> None:
    modules = {path: ".".join(path.relative_to(REPOSITORY / "python").with_suffix("").parts)
               for path in (REPOSITORY / "python").glob("tensor_tracer/**/*.py") if path.stem != "__init__"}  # fmt: skip
    imports: dict[str, set[str]] = {}
    for path, name in modules.items():
        found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        parts = {f"{node.module}.{alias.name}" for node in found for alias in node.names}
        imports[name] = ({node.module or "" for node in found} | parts) & set(modules.values())
    assert imports["tensor_tracer.run"] and list(graphlib.TopologicalSorter(imports).static_order())
