"""Virtual environments with packages that only some tests need, beside the packages of the interpreter that runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

from program import REPOSITORY


def python_with(requirements: Path, folder: str, *options: str) -> Path:
    """The interpreter of an environment in build/`folder`, which is kept. `options`: of `pip install`."""
    name = f"{requirements.read_text().split()[-1]}-python{sysconfig.get_python_version()}"
    home = REPOSITORY / "build" / folder / name
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True, symlinks=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
        (packages / "base.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        pip = [str(home / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *options]
        pip += os.environ.get("TT_PIP_OPTIONS", "").split()
        subprocess.run([*pip, "-r", str(requirements)], check=True, timeout=300)
        (home / "complete").touch()
    return home / "bin/python"
