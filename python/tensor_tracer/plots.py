"""Pictures, by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensor_tracer.errors import missing_package
from tensor_tracer.record import Array

if TYPE_CHECKING:
    import matplotlib.axes
    import xarray

_MAX_TICKS = 64  # tokens whose text is written beside a map
_USUAL_STATISTIC = "std"


def _axes(ax: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise missing_package("matplotlib", "plot") from None
    return pyplot.subplots()[1] if ax is None else ax


def plot_scalars(series: Mapping[str, tuple[Array, Array]], ax: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    """Plots the scalars with these names over the steps."""
    ax = _axes(ax)
    for name, (steps, values) in series.items():
        ax.plot(steps, values, label=name)
    ax.set_xlabel("step")
    ax.legend()
    return ax


def plot_array(array: xarray.DataArray, feature: str | None, ax: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    """Plots a map, if there is one record with tokens and features or keys. Otherwise plots a curve over the steps for
    each layer: of the feature with this name (a statistic or a vector), or of the mean of all numbers."""
    ax = _axes(ax)
    if "feature" in array.coords and array.coords["feature"].dtype.kind in "OUT":
        names = array.coords["feature"].values.tolist()
        chosen = feature or (_USUAL_STATISTIC if _USUAL_STATISTIC in names else names[0])
        if chosen not in names:
            raise ValueError(f"feature: there is no {chosen!r}; there is {', '.join(names)}")
        array = array.sel(feature=chosen)
    elif feature is not None:
        raise ValueError(f"feature: those of {array.name} have no names")
    point = f"{array.name}, {array.attrs['compressor']}" + (f", {array.coords['feature'].item()}" if _is_named(array) else "")
    point += ", tensor rank 0 only" * (array.attrs["layout"] == "rank-local")
    is_one = array.sizes["step"] == array.sizes["layer"] == 1
    if is_one and array.squeeze().ndim == 2 and "token" in array.dims:
        _draw_map(array.squeeze(), ax)
        ax.set_title(f"{point}, step {array.step.item()}, layer {array.layer.item()}")
        return ax
    means = array.mean([dim for dim in array.dims if dim not in ("step", "layer")])
    for layer in means.layer.values:
        ax.plot(means.step, means.sel(layer=layer), label=f"layer {layer}")
    ax.set_xlabel("step")
    ax.set_title(point)
    ax.legend()
    return ax


def _is_named(array: xarray.DataArray) -> bool:
    return "feature" in array.coords and array.coords["feature"].ndim == 0


def _draw_map(array: xarray.DataArray, ax: matplotlib.axes.Axes) -> None:
    across = next(str(dim) for dim in array.dims if dim != "token")
    picture: Any = ax.imshow(array.transpose("token", across), aspect="auto", interpolation="nearest")
    ax.figure.colorbar(picture, ax=ax)
    ax.set_xlabel(across)
    ax.set_ylabel("token")
    if "token_text" in array.coords and array.sizes["token"] <= _MAX_TICKS:
        texts = array.coords["token_text"].values.ravel().tolist()
        ax.set_yticks(range(len(texts)), [text if text.isprintable() else repr(text)[1:-1] for text in texts])
