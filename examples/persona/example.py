"""What all stages share: sizes, model, folders."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from chat import QUESTIONS, ChatForm
from commands import Commands
from settings import Settings

VECTOR = "archaic"  # its name in programs and plans


@dataclasses.dataclass(frozen=True)
class Example:
    """`pairs`: a file of pairs; None: the Bibles. `port`: of the page of each run; 0: the next free one from
    8765."""

    settings: Settings
    folder: Path
    model: Path
    form: ChatForm  # of the model
    pairs: Path | None
    commands: Commands
    port: int = 0

    @property
    def vector(self) -> Path:
        return self.folder / f"{VECTOR}.safetensors"

    @property
    def questions(self) -> list[str]:
        """As the model gets them."""
        return [self.form.prompt(question) for question in QUESTIONS[: self.settings.questions]]

    def data(self, name: str) -> Path:
        return self.folder / "data" / f"{name}.jsonl"

    def phase_data(self, run: str, phase: int) -> Path:
        """The runs differ in their data only if these were screened."""
        return self.data(f"{'screened' if run == 'screened' else 'phase'}-{phase}")

    def adapters(self, checkpoint: str) -> Path:
        return self.folder / "adapters" / checkpoint

    def run_dir(self, checkpoint: str) -> Path:
        return self.folder / "runs" / checkpoint

    def answers(self, checkpoint: str) -> Path:
        return self.folder / "answers" / f"{checkpoint}.jsonl"

    def model_words(self) -> list[object]:
        return ["--hf-model", self.model, "--threads", self.settings.threads]


def checkpoint_name(run: str, phase: int) -> str:
    """Of a stage, its adapters, its run and its answers. Phase 0 is the model before all runs."""
    return f"{run}-{phase}" if phase else "start"


def emptied(folder: Path) -> Path:
    """Without what a stage that did not end left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
