"""What all oracle tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from attached_training import DEVICE
from observed_runs import Runs
from program import tiny_flags, write_text

torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All ranks share one device, where NCCL does not work. Data parallelism does, with gloo."""
    for item in items if DEVICE != "cpu" else []:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        is_sharded = any(one in ("tp", "fsdp", "fsdp1", "pipeline") for one in parameters)
        if is_sharded or item.get_closest_marker("cpu_only") is not None:
            item.add_marker(pytest.mark.skip(reason="NCCL needs a device for each rank"))


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
