"""What all oracle tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from observed_runs import Runs
from program import tiny_flags, write_text

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small text file to train on."""
    return write_text(tmp_path_factory.mktemp("data") / "text.txt")


@pytest.fixture(scope="session")
def flags(data: Path) -> dict[str, str | int | float | bool]:
    """Flags of the tiny GPT-2 shaped run; tests copy and change them."""
    return tiny_flags(data)


@pytest.fixture(scope="session")
def runs(flags, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs with interventions, started as they are asked for."""
    return Runs(flags, tmp_path_factory.mktemp("interventions"))
