"""Exported TensorBoard events, read by TensorBoard's own readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording_maker import START_NS, Maker
from tensor_tracer.export.command import main

STEPS = (3, 4, 9)
RANGE = {"point": "HiddenStates", "compressor": {"kind": "stats", "range": [-1, 3], "bins": 4}}
POWERS = {"point": "MLP1", "compressor": {"kind": "stats"}}


def stats_of(values: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """A `stats` record of numbers that are all finite."""
    moments = [values.size, values.mean(), values.std(ddof=1), values.min(), values.max(), np.linalg.norm(values),
               (values == 0).mean(), 0, 0, 0]  # fmt: skip
    return np.concatenate([moments, bins])


def numbers_of_step(step: int) -> np.ndarray:
    return np.random.default_rng(step).normal(1, 0.7, 500)


def powers_of(values: np.ndarray) -> np.ndarray:
    exponents = np.clip(np.floor(np.log2(np.abs(values[values != 0]))), -32, 15).astype(int)
    return np.bincount(exponents + 32, minlength=48)


@pytest.fixture
def events(tmp_path: Path) -> Any:
    """TensorBoard's EventAccumulator of an exported recording."""
    maker = Maker(tmp_path / "run.ttrec", {"number": 1, "entries": [RANGE, POWERS]})
    for step in STEPS:
        values = numbers_of_step(step)
        inside = np.histogram(np.clip(values, -1, 2.999), 4, (-1, 3))[0]
        maker.add("HiddenStates", step, "f64", stats_of(values, inside), "stats", layer=2)
        maker.add("MLP1", step, "f64", stats_of(values, powers_of(values)), "stats", layer=1, entry=1)
        maker.add_scalars(step, loss=5 / step, lr=1e-3)
    output = tmp_path / "logs"
    assert main([str(maker.close()), "--to", "tensorboard", "--output", str(output)]) == 0
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(output), size_guidance={"histograms": 0, "scalars": 0})
    accumulator.Reload()
    return accumulator


def test_scalars_have_their_steps_and_times(events: Any) -> None:
    loss = events.Scalars("loss")
    assert [(one.step, one.wall_time) for one in loss] == [(n, (START_NS + n * 10**9) / 1e9) for n in STEPS]
    assert [one.value for one in loss] == [np.float32(5 / step) for step in STEPS]
    std = events.Scalars("HiddenStates/layer_2/stats/std")
    assert [one.value for one in std] == [np.float32(numbers_of_step(n).std(ddof=1)) for n in STEPS]


def test_a_histogram_has_the_bins_of_the_record(events: Any) -> None:
    for step, event in zip(STEPS, events.Histograms("HiddenStates/layer_2/stats/histogram"), strict=True):
        found, values = event.histogram_value, numbers_of_step(step)
        assert event.step == step
        assert (found.min, found.max, list(found.bucket_limit)) == (-1, 3, [0, 1, 2, 3])
        assert list(found.bucket) == list(np.histogram(np.clip(values, -1, 2.999), 4, (-1, 3))[0])
        assert found.num == values.size
        np.testing.assert_allclose([found.sum, found.sum_squares], [values.sum(), (values**2).sum()])


def test_a_histogram_of_magnitudes_has_powers_of_two(events: Any) -> None:
    for step, event in zip(STEPS, events.Histograms("MLP1/layer_1/stats/magnitudes"), strict=True):
        found, values = event.histogram_value, numbers_of_step(step)
        assert event.step == step and found.num == values.size
        edges = np.array([found.min, *found.bucket_limit])
        np.testing.assert_array_equal(edges, 2.0 ** np.arange(-32, 17))
        np.testing.assert_array_equal(found.bucket, np.histogram(np.abs(values), edges)[0])


def test_the_page_of_tensorboard_gets_the_same_bins(events: Any, tmp_path: Path) -> None:
    """By the reader of its plugins, which draws what it makes of a histogram."""
    from tensorboard.backend.event_processing import plugin_event_accumulator
    from tensorboard.util import tensor_util

    accumulator = plugin_event_accumulator.EventAccumulator(str(tmp_path / "logs"))
    accumulator.Reload()
    [first, *_] = accumulator.Tensors("HiddenStates/layer_2/stats/histogram")
    left, right, count = tensor_util.make_ndarray(first.tensor_proto).T
    assert (left.tolist(), right.tolist()) == ([-1, 0, 1, 2], [0, 1, 2, 3])
    assert count.sum() == 500 and first.step == STEPS[0]
