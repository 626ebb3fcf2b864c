"""The adapters are attributes of the package, and are imported with their first use."""

from __future__ import annotations

from pathlib import Path

import pytest
from attach_adapters import callbacks
from forked_ranks import run_ranks
from test_attach_safety import environment

pytestmark = [pytest.mark.nightly(suite="attach"), pytest.mark.smoke]


def test_the_callbacks_need_no_import(tmp_path: Path) -> None:
    (found,) = run_ranks(callbacks, 1, tmp_path, env=environment(tmp_path))
    assert found["early"] == []
    assert "TrainerCallback" in found["hf"] and "Callback" in found["lightning"]
