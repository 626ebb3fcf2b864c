"""Exported TensorBoard events, read by TensorBoard's own readers."""

from __future__ import annotations

import json
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
    return exported(maker.close(), tmp_path)


def exported(recording: Path, folder: Path, *options: str) -> Any:
    output = folder / "logs"
    assert main([str(recording), "--to", "tensorboard", "--output", str(output), *options]) == 0
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


MEAN = {"point": "HiddenStates", "prompts": "probes", "mean_over": "last-prompt",
        "compressor": {"kind": "projection", "vectors": ["evil"]}}  # fmt: skip
TOKENS = {name: value for name, value in MEAN.items() if name != "mean_over"}
MEAN_TAG = "HiddenStates/layer_1/eval/prompts_probes/projection/last-prompt/evil"
OTHER_TAG = MEAN_TAG.replace("HiddenStates/layer_1", "MLP1/layer_3")


def series(**members: Any) -> dict[str, Any]:
    """Of a `projections` event."""
    return {"point": "HiddenStates", "vector": "evil", "prompts": "probes", "mean_over": "last-prompt",
            "scale": "normalized", "layers": [1], "values": [1.5], "baseline": [1.0], "change": [0.5]} | members  # fmt: skip


def means(path: Path, *told: dict[str, Any]) -> Path:
    """A recording with two prompts in two micro-batches: each record has the mean of one prompt."""
    maker = Maker(path / "run.ttrec", {"number": 1, "entries": [MEAN, TOKENS]})
    for step in STEPS:
        for row, number in enumerate((9.0, -6.0)):
            place = {"layer": 1, "phase": 1, "prompt_set": 1, "first_row": row, "micro_batch": row}
            maker.add("HiddenStates", step, "f32", np.full((1, 1, 1), number), "projection", **place)
        maker.add("HiddenStates", step, "f32", np.full((2, 3, 1), 4.0), "projection", layer=1, phase=1, prompt_set=1, entry=1)
        maker.add_scalars(step, loss=1.0)
        maker.add_projections(step, json.dumps({"step": step, "series": [*told]}))
    return maker.close()


def test_means_over_prompts_are_those_of_the_run(tmp_path: Path) -> None:
    """With the tags of `follow`, and without the records, which have a part of the prompts."""
    events = exported(means(tmp_path, series(), series(scale="cosine", values=["NaN"], baseline=[None], change=[None])), tmp_path)
    tokens = "HiddenStates/layer_1/eval/prompts_probes/projection/evil"
    raw = MEAN_TAG.replace("/evil", "/cosine/evil")
    assert events.Tags()["scalars"] == ["loss", tokens, MEAN_TAG, f"{MEAN_TAG}/baseline", f"{MEAN_TAG}/change", raw]
    told = [(one.step, one.wall_time, one.value) for one in events.Scalars(MEAN_TAG)]
    assert told == [(n, (START_NS + n * 10**9) / 1e9, 1.5) for n in STEPS]
    assert [one.value for one in events.Scalars(f"{MEAN_TAG}/change")] == [0.5, 0.5, 0.5]
    assert np.isnan([one.value for one in events.Scalars(raw)]).all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--point", "HiddenStates", "--layers", "1"], {MEAN_TAG: [*STEPS]}),
        (["--layers", "3"], {OTHER_TAG: [*STEPS]}),
        (["--steps", "4-8"], {MEAN_TAG: [4], OTHER_TAG: [4]}),
    ],
)
def test_means_are_of_the_chosen_points_layers_and_steps(
    tmp_path: Path, options: list[str], expected: dict[str, list[int]]
) -> None:
    events = exported(means(tmp_path, series(), series(point="MLP1", layers=[3])), tmp_path, *options)
    found = {tag: [one.step for one in events.Scalars(tag)] for tag in (MEAN_TAG, OTHER_TAG) if tag in events.Tags()["scalars"]}
    assert found == expected


@pytest.mark.parametrize("detail", ["{", "[]", "{}", '{"series": [1]}', '{"series": [{"vector": "evil"}]}'])
def test_damaged_means_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], detail: str) -> None:
    maker = Maker(tmp_path / "run.ttrec", {"number": 1, "entries": [MEAN]})
    maker.add_scalars(3, loss=1.0)
    maker.add_projections(3, detail)
    assert main([str(maker.close()), "--to", "tensorboard", "--output", str(tmp_path / "logs")]) == 2
    assert "the projections of step 3 are damaged" in capsys.readouterr().err
    assert not list((tmp_path / "logs").iterdir())
