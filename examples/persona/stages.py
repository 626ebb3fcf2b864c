"""Stages with files of results. A stage whose file is there, with the same inputs and outputs, is not run again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Found = Mapping[str, Json]  # results by the names of stages


@dataclasses.dataclass(frozen=True)
class Outcome:
    results: Json
    files: Sequence[Path] = ()  # or folders of files, that later stages read
    told: str = ""  # for the line on the terminal


@dataclasses.dataclass(frozen=True)
class Stage:
    """`needs`: stages whose results and files it reads. `settings`: all else that decides its results. `seconds`: an
    estimate for two CPUs."""

    name: str
    needs: tuple[str, ...]
    settings: Json
    seconds: float
    work: Callable[[Found], Outcome]


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_json(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class Workflow:
    """Runs stages in their order. Their files are in `folder`/stages; `tell` gets lines for the terminal."""

    def __init__(self, folder: Path, stages: Sequence[Stage], tell: Callable[[str], None]) -> None:
        self._folder, self._stages, self._tell = folder, stages, tell
        self._results: dict[str, Json] = {}
        self._digests: dict[str, str] = {}
        self._spent = self._estimated = 0.0  # seconds of the stages that ran now

    def run(self) -> dict[str, Json]:
        """The results of all stages."""
        (self._folder / "stages").mkdir(parents=True, exist_ok=True)
        for number, stage in enumerate(self._stages):
            inputs = self._inputs(stage)
            known = self._read(stage, inputs)
            if known is None:
                self._tell(f"{self._label(number)} runs; {self._left(number)}")
                known = self._work(stage, inputs, number)
            else:
                self._tell(f"{self._label(number)} is there")
            self._results[stage.name] = known["results"]
            self._digests[stage.name] = sha256_of_json([known["results"], known["files"]])
        return self._results

    def _label(self, number: int) -> str:
        return f"[{number + 1:2}/{len(self._stages)}] {self._stages[number].name}"

    def _path(self, stage: Stage) -> Path:
        return self._folder / "stages" / f"{stage.name}.json"

    def _inputs(self, stage: Stage) -> str:
        return sha256_of_json([stage.settings, {name: self._digests[name] for name in stage.needs}])

    def _read(self, stage: Stage, inputs: str) -> Json | None:
        """What its file holds; None if the stage has to run."""
        try:
            known = json.loads(self._path(stage).read_text(encoding="utf-8"))
            is_same = known["inputs"] == inputs and known["files"] == self._hashes(map(Path, known["files"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return known if is_same else None

    def _hashes(self, files: Any) -> dict[str, str]:
        """By their names in the folder."""
        return {str(file): sha256_of_file(self._folder / file) for file in files}

    def _work(self, stage: Stage, inputs: str, number: int) -> Json:
        begin = time.monotonic()
        self._path(stage).unlink(missing_ok=True)
        outcome = stage.work(self._results)
        seconds = time.monotonic() - begin
        self._spent += seconds
        self._estimated += stage.seconds
        files = [file for path in outcome.files for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
        known = {"inputs": inputs, "seconds": round(seconds, 1), "results": outcome.results,
                 "files": self._hashes(file.relative_to(self._folder) for file in files if file.is_file())}  # fmt: skip
        # Through JSON, so that the digest is the one of a later start.
        known = json.loads(json.dumps(known))
        self._write(self._path(stage), known)
        self._tell(f"{self._label(number)}: {seconds:.0f} s{'; ' if outcome.told else ''}{outcome.told}")
        return dict(known)

    @staticmethod
    def _write(path: Path, known: Json) -> None:
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(partial, path)

    def _left(self, number: int) -> str:
        """Stages that are there already are counted, too: they are not known yet."""
        estimate = sum(stage.seconds for stage in self._stages[number:])
        if self._estimated > 0:
            estimate *= self._spent / self._estimated
        return f"at most {max(1, round(estimate / 60))} minutes are left"
