from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Running the program and viewing it is done as the oracles do it.
sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))
sys.path.insert(0, str(Path(__file__).parents[2] / "clients" / "python"))

from hub_harness import Hub, running_hub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub of its own; the test fails if it dies."""
    with running_hub(tmp_path / "run") as running:
        yield running


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One hub for all tests of a file, each on connections of its own."""
    with running_hub(tmp_path_factory.mktemp("hub") / "run") as running:
        yield running
