from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_harness import Hub, running_hub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub of its own; the test fails if it dies."""
    with running_hub(tmp_path / "run") as running:
        yield running
