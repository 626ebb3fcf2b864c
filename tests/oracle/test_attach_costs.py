"""scripts/bench.sh attach: the opponents compute the numbers of our records, and CPU time is counted where it is used."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import attach_costs as scenarios
import numpy as np
import pytest
import torch
from forked_ranks import run_ranks
from tensor_tracer.record import Record
from test_attach_safety import environment, records

pytestmark = pytest.mark.nightly(suite="attach")

LINEARS = 4 * scenarios.SIZE["n_layer"] + 1
WORDS = "count mean std least most norm zeros nans positive negative".split()


def attached(folder: Path) -> dict[str, Any]:
    return {"port": None, "run_dir": str(folder / "run"), "record": str(folder / "record")}


def last_records(folder: Path, places: list[dict[str, Any]]) -> dict[tuple[str, str], Record]:
    """Of the last step, by path of the module and direction."""
    modules = {(place["name"], place["layer"]): place["module"] for place in places}
    found = [one for one in records(folder) if one.step == scenarios.STEPS]
    return {(modules[one.point, one.layer], one.direction): one for one in found}


def watched(folder: Path, kind: str) -> tuple[dict[tuple[str, str], Record], scenarios.Numbers]:
    numbers, places = run_ranks(scenarios.watched, 1, folder, attached(folder), kind, env=environment(folder))[0]
    found = last_records(folder, places)
    assert len(found) == len(numbers) == 2 * LINEARS and found.keys() == numbers.keys()
    return found, numbers


def test_plain_hooks_compute_the_numbers_of_the_records(tmp_path: Path) -> None:
    found, numbers = watched(tmp_path, "hooks")
    for key, record in found.items():
        np.testing.assert_allclose(numbers[key].numpy(), record.values, rtol=2e-4, atol=1e-9, err_msg=str(key))


def test_megatrons_metrics_are_among_them(tmp_path: Path) -> None:
    found, numbers = watched(tmp_path, "megatron")
    for key, record in found.items():
        (_, _, _, _, most, norm, *_), (_, _, _, mean_of_lines, _, _, mean_of_columns, *_) = record.values
        expected = [norm, most, mean_of_lines, mean_of_columns]
        np.testing.assert_allclose(numbers[key].numpy(), expected, rtol=2e-4, err_msg=str(key))


def unusual(*numbers: float) -> torch.Tensor:
    """[2, 3, 5], with these numbers among them."""
    found = torch.linspace(-2.5, 7, 30)
    found[: len(numbers)] = torch.tensor(numbers)
    return found.view(2, 3, 5)


@pytest.mark.parametrize(
    "numbers",
    [unusual(0.0, -0.0, 1e-45, 1e-38, 1e-12, 3e4, -7e4), unusual(math.nan, math.inf, -math.inf, math.inf, 0.0)],
    ids=["finite", "not finite"],
)
def test_hooks_agree_about_unusual_numbers(numbers: torch.Tensor, tmp_path: Path) -> None:
    made = run_ranks(scenarios.odd, 1, tmp_path, attached(tmp_path), numbers, env=environment(tmp_path))[0]
    (record,) = (one for one in records(tmp_path) if one.step == 2)
    assert record.values[0, WORDS.index("zeros")] > 0
    np.testing.assert_allclose(made.numpy(), record.values, rtol=2e-4)


def test_cpu_time_is_counted_where_it_is_used(tmp_path: Path) -> None:
    on, off = run_ranks(scenarios.burnt, 1, tmp_path, env=environment(tmp_path))[0]
    steps = scenarios.STEPS
    assert on["steps"] == off["steps"] == steps
    assert on["hooks"] >= steps * scenarios.HOOK and on["calls"] >= steps * scenarios.CALL
    assert sum(on["threads"].values()) >= steps * scenarios.THREAD
    assert on["processes"] >= steps * scenarios.PROCESS
    counted = on["hooks"] + on["calls"] + sum(on["threads"].values())
    assert counted <= on["ranks"] - steps * scenarios.TRAINER, "the trainer's own hook is counted"
    assert off["ranks"] >= steps * scenarios.TRAINER
    assert (off["hooks"], off["threads"], off["processes"], off["gradients"]) == (0, {}, 0, 0)
