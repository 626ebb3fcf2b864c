"""A slider of the page, moved a thousand times while the run trains: on one rank, and on meshes."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import pytest
from test_control import claim
from test_intervention_control import SMALL, applied, apply
from viewer import Viewer, live_run

NIGHTLY = pytest.mark.nightly(suite="meshes")

LONG = os.environ.get("TT_ALL_MESHES") == "1"  # else the small meshes have fewer moves
SCALE = 1 / 1024  # exact in every dtype
# What is read below the write comes from the shards of all tensor ranks, each of which wrote its own
# number: smallest and largest are equal only if all had the same.
ALPHA = (
    "alpha = param(0.0, min=0.0, max=1000.0)\n"
    f"layers[1].mlp.activation = 0.0 * layers[1].mlp.activation + {SCALE} * alpha\n"
    'save(layers[1].mlp.activation.amin(), "low")\n'
    'save(layers[1].mlp.activation.amax(), "high")'
)


def move(viewer: Viewer, moves: int) -> tuple[dict[int, float], list[float]]:
    """The value that counts for each step that was named, and how long every answer took."""
    named: dict[int, float] = {}
    latencies = []
    for value in range(1, moves + 1):
        begin = time.monotonic()
        params = {"name": "a", "parameter": "alpha", "value": float(value)}
        answer = viewer.request("intervention.set", params)
        latencies.append(time.monotonic() - begin)
        assert answer["value"] == value
        named[answer["step"]] = float(value)  # of several for one step the last counts
        time.sleep(max(0.0, 0.011 - latencies[-1]))  # 100 messages a second are allowed
    return named, latencies


def values(viewer: Viewer) -> dict[int, set[float]]:
    """What all replicas saved in all of their micro-batches, by step."""
    found: dict[int, set[float]] = {}
    for one in viewer.named("saved"):
        found.setdefault(one["step"], set()).add(float(one["values"][0]) / SCALE)
    return found


@pytest.mark.parametrize(
    ("mesh", "moves"),
    [
        pytest.param((1, 1), 1000 if LONG else 200, marks=NIGHTLY),
        pytest.param((2, 1), 1000 if LONG else 200, marks=NIGHTLY),
        pytest.param((2, 2), 1000, marks=NIGHTLY),
    ],
)
def test_a_slider_moved_a_thousand_times(
    mesh: tuple[int, int], moves: int, flags, tmp_path: Path, record_property
) -> None:
    """Every acknowledged value is in force at the step that was named, on all ranks; no step is lost."""
    ranks = mesh[0] * mesh[1]
    changes = SMALL | {"tensor_model_parallel_size": mesh[0]}
    with live_run(flags | changes, tmp_path, ranks) as run, run.viewer() as viewer:
        claim(viewer)
        begin = apply(viewer, "a", ALPHA)["step"]
        named, latencies = move(viewer, moves)
        last = max(named)
        viewer.wait_for(lambda: max(viewer.steps()) > last + 1, "the last value's step")
    found = values(viewer)
    assert {at: found[at] for at in named} == {at: {value} for at, value in named.items()}
    counts = applied(viewer, "a")
    for at in range(begin, last + 1):
        one = counts[at]
        assert one["ranks"] == one["of_ranks"] == ranks, (at, one)
        assert (one["waiting"], one["failed"]) == (0, 0), (at, one)
        assert len(found[at]) == 1, "ranks or replicas had different values"
    assert viewer.steps() == list(range(viewer.steps()[0], viewer.steps()[-1] + 1)), "a step is lost"
    assert not viewer.named("dropped")
    took = statistics.median(one["step_ms"] for one in viewer.named("step") if one["step"] >= begin)
    median, worst = statistics.median(latencies) * 1e3, max(latencies) * 1e3
    record_property("slider_latency_ms", f"median {median:.1f}, worst {worst:.1f}, a step {took:.1f}")
    print(f"slider {mesh}: median {median:.1f} ms, worst {worst:.1f} ms, a step takes {took:.1f} ms")
    assert median <= took + 20
