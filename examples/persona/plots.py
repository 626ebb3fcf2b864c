"""Plots as SVG: projection and archaic words over the checkpoints of all runs; projection by layer in one run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from errors import ExampleError
from example import Example, checkpoint_name
from report import Series
from stages import Found

try:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot
except ImportError:
    raise ExampleError("the plots need matplotlib; install it: python -m pip install matplotlib") from None

# The same file for the same numbers.
matplotlib.rcParams["svg.hashsalt"] = "tensor tracer"
_METADATA = {"Date": None}


def plot_runs(path: Path, series: Mapping[str, Series], layer: int) -> Path:
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for run, numbers in series.items():
        left.plot(numbers["projection"], marker="o", label=run)
        middle.plot(numbers["answers"], marker="o", label=run)
        right.plot([100 * share for share in numbers["behaviour"]], marker="o", label=run)
    left.set(title="Projection of the questions", xlabel="checkpoint", ylabel=f"last token, layer {layer}")
    middle.set(title="Projection of the answers", xlabel="checkpoint", ylabel=f"mean over the tokens, layer {layer}")
    right.set(title="Words of the answers", xlabel="checkpoint", ylabel="archaic words, %")
    left.legend()
    figure.savefig(path, metadata=_METADATA)
    pyplot.close(figure)
    return path


def plot_layers(path: Path, example: Example, found: Found, run: str) -> Path:
    """The difference to the start, at each layer."""
    start = found["start"]["projection_by_layer"][-1]
    rows = [found[checkpoint_name(run, phase)]["projection_by_layer"][-1] for phase in range(1, example.settings.phases + 1)]
    changes = [[now - before for now, before in zip(row, start, strict=True)] for row in rows]
    limit = max((abs(one) for row in changes for one in row), default=0) or 1
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    image = axes.imshow(list(zip(*changes, strict=True)), aspect="auto", origin="lower", cmap="RdBu_r", vmin=-limit, vmax=limit,
                        extent=(0.5, len(changes) + 0.5, 0.5, len(start) + 0.5))  # fmt: skip
    axes.set(title=f"{run}: change of the projection", xlabel="checkpoint", ylabel="layer")
    figure.colorbar(image)
    figure.savefig(path, metadata=_METADATA)
    pyplot.close(figure)
    return path


def plot_all(example: Example, found: Found, series: Mapping[str, Series]) -> list[Path]:
    folder = example.folder / "plots"
    folder.mkdir(parents=True, exist_ok=True)
    layers = [plot_layers(folder / f"layers-{run}.svg", example, found, run) for run in series]
    return [plot_runs(folder / "runs.svg", series, found["vector"]["layer"]), *layers]
