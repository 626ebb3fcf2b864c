"""Starts `tensor-tracer`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from errors import ExampleError

REPOSITORY = Path(__file__).resolve().parents[2]
_LINES = 12  # of a log, in an error


def find_program(given: Path | None) -> Path:
    """`given`; else the program of this checkout, or of PATH."""
    folder = REPOSITORY / os.environ.get("TT_BIN_DIR", "build/release/bin")
    for path in (given, folder / "tensor-tracer", shutil.which("tensor-tracer")):
        if path is not None and Path(path).is_file():
            return Path(path).resolve()
        if path is not None and path == given:
            raise ExampleError(f"--program: there is no file {given}; give the program tensor-tracer")
    raise ExampleError("the program tensor-tracer is not built; run: scripts/setup.sh --for demo")


class Commands:
    """`logs`: a folder for what each command writes, in files with the names of stage and command."""

    def __init__(self, program: Path, logs: Path) -> None:
        self._program, self._logs = program, logs

    def run(self, stage: str, *words: object) -> str:
        """What the command wrote to its standard output. Raises ExampleError if it fails."""
        self._logs.mkdir(parents=True, exist_ok=True)
        line = [str(self._program), *map(str, words)]
        output, errors = (self._logs / f"{stage}-{words[0]}.{kind}.log" for kind in ("out", "err"))
        with output.open("w", encoding="utf-8") as out, errors.open("w", encoding="utf-8") as err:
            err.write(" ".join(line) + "\n")
            err.flush()
            done = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False)
        if done.returncode != 0:
            last = "\n".join(errors.read_text(encoding="utf-8").splitlines()[-_LINES:])
            raise ExampleError(f"tensor-tracer {words[0]} ended with exit code {done.returncode}; see {output}:\n{last}")
        return output.read_text(encoding="utf-8")
