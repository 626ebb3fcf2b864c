"""Records as one array with named dims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tensor_tracer.columns import FIELDS, Columns
from tensor_tracer.compressors import MORE_STATISTICS, STATISTICS, dims_of, names_of
from tensor_tracer.errors import missing_package
from tensor_tracer.facts import RunFacts
from tensor_tracer.record import Array, Record
from tensor_tracer.tokens import TokenTexts

if TYPE_CHECKING:
    import xarray

_ALIKE = ("point", "compressor", "direction", "phase", "prompt_set", "dtype")


class _Axes(NamedTuple):
    """The dims of the whole array with their coordinates; those of a record are the last ones."""

    outer: dict[str, list[int]]  # step, layer, and others that tell records apart
    rows: list[int]  # of the global batch or the prompt set; empty: the records have none
    dims: tuple[str, ...]  # of a record
    shape: tuple[int, ...]  # of a record, without its rows


def to_xarray(columns: Columns, facts: RunFacts, texts: TokenTexts) -> xarray.DataArray:
    """The records of one entry, one direction and one phase as an array [step, layer, token, feature].

    Attention has [step, layer, head, token, key], statistics have [step, layer, feature]. More dims: "row" if there are
    several rows; "micro_batch" or "data_rank" if records of one step and layer differ in it; "part" (value, column) for
    top-k records. A step or layer without a record is NaN. If a step was run twice, the array holds the later record.
    Coordinates: "token" is the position, "token_text" the text, if it is known; "feature" has the names of vectors
    and statistics. The attribute "layout" says how tensor-parallel ranks share the values; "rank-local": the array has
    those of tensor rank 0 only. Raises ValueError if the records do not fit together.
    """
    try:
        import xarray
    except ImportError:
        raise missing_package("xarray", "to_xarray") from None
    _refuse_mixed(columns)
    if columns["compressor"][0] == "stats":
        rows = [_one_row(own) for own in columns["values"]]
        columns = columns | {"values": rows, "shape": [own.shape for own in rows]}
    axes = _axes_of(columns, facts)
    values = _filled(columns, axes)
    dims = [*axes.outer, *axes.dims]
    coordinates: dict[str, Any] = {name: (name, known) for name, known in axes.outer.items()}
    coordinates |= _inner_coordinates(columns, facts, axes)
    if (text := _text_coordinate(columns, texts, axes)) is not None:
        coordinates["token_text"] = text
    attributes = {name: columns[name][0] for name in ("run", *_ALIKE)}
    attributes["prompt_set"] = facts.prompt_set(int(columns["prompt_set"][0]))
    attributes["layout"] = facts.layout(attributes["point"])
    array = xarray.DataArray(values, coordinates, dims, str(columns["point"][0]), attributes)
    return array.squeeze("row") if len(axes.rows) == 1 else array


def _refuse_mixed(columns: Columns) -> None:
    if not len(columns["step"]):
        raise ValueError("to_xarray: there are no records")
    for name in _ALIKE:
        if len(different := sorted(set(columns[name]))) > 1:
            told = ", ".join(map(str, different))
            raise ValueError(f"to_xarray: the records differ in {name}: {told}; choose one of them")


def _one_row(statistics: Array) -> Array:
    """The numbers of a `stats` record as names_of() has them. Records of an earlier version have no second row: its
    numbers are NaN."""
    rows = statistics.reshape(-1, statistics.shape[-1])
    more = rows[1, : len(MORE_STATISTICS)] if len(rows) > 1 else np.full(len(MORE_STATISTICS), np.nan, rows.dtype)
    return np.concatenate([rows[0, : len(STATISTICS)], more, rows[0, len(STATISTICS) :]])


def _axes_of(columns: Columns, facts: RunFacts) -> _Axes:
    dims = dims_of(columns["point"][0], columns["compressor"][0], len(columns["shape"][0]), facts)
    row = dims.index("row") if "row" in dims else None
    shapes = {tuple(n for dim, n in enumerate(shape) if dim != row) for shape in columns["shape"]}
    if len(shapes) > 1:
        told = ", ".join(map(str, sorted(shapes)))
        raise ValueError(f"to_xarray: the records have several shapes: {told}; choose with entry= or steps=")
    rows = {
        first + n
        for first, shape in zip(columns["first_row"], columns["shape"], strict=True)
        for n in range(shape[row] if row is not None else 0)
    }
    outer = {name: sorted(set(columns[name])) for name in ("step", *_telling(columns), "layer")}
    return _Axes({name: list(map(int, known)) for name, known in outer.items()}, sorted(map(int, rows)), dims, shapes.pop())


def _telling(columns: Columns) -> list[str]:
    """What more than step, layer and row tells records apart."""
    places = list(zip(columns["step"], columns["layer"], columns["first_row"], strict=True))
    found = []
    for name in ("micro_batch", "data_rank"):
        values = defaultdict(set)
        for place, value in zip(places, columns[name], strict=True):
            values[place].add(value)
        found += [name] if any(len(several) > 1 for several in values.values()) else []
    return found


def _filled(columns: Columns, axes: _Axes) -> Array:
    row = axes.dims.index("row") if "row" in axes.dims else None
    inner = list(axes.shape)
    if row is not None:
        inner.insert(row, len(axes.rows))
    places = [{value: at for at, value in enumerate(known)} for known in axes.outer.values()]
    shape = (*(len(place) for place in places), *inner)
    dtype = columns["values"][0].dtype
    values = np.full(shape, np.nan if dtype.kind == "f" else 0, dtype)
    is_there = np.zeros(shape[: len(places)] + ((len(axes.rows),) if row is not None else ()), bool)
    row_of = {value: at for at, value in enumerate(axes.rows)}
    outer = zip(*(columns[name] for name in axes.outer), strict=True)
    for where, first_row, own in zip(outer, columns["first_row"], columns["values"], strict=True):
        at: tuple[Any, ...] = tuple(place[value] for place, value in zip(places, where, strict=True))
        if row is None:
            values[at], is_there[at] = own, True
            continue
        begin = row_of[first_row] if own.shape[row] else 0
        block = slice(begin, begin + own.shape[row])
        values[(*at, *[slice(None)] * row, block)] = own
        is_there[(*at, block)] = True
    if dtype.kind != "f" and not is_there.all():
        values = values.astype(np.float64)
        values[_spread(~is_there, values, len(places), row)] = np.nan
    return values


def _spread(missing: Array, values: Array, outer: int, row: int | None) -> Array:
    """The mask for every number, of one for every record's row."""
    extents = list(missing.shape[:outer]) + [1] * (values.ndim - outer)
    if row is not None:
        extents[outer + row] = missing.shape[-1]
    return np.broadcast_to(missing.reshape(extents), values.shape)


def _inner_coordinates(columns: Columns, facts: RunFacts, axes: _Axes) -> dict[str, Any]:
    plan, entry = int(columns["plan"][0]), int(columns["entry"][0])
    point, compressor, vectors = columns["point"][0], columns["compressor"][0], facts.vectors(plan, entry)
    found: dict[str, Any] = {"row": ("row", axes.rows)} if axes.rows else {}
    for dim, extent in zip((dim for dim in axes.dims if dim != "row"), axes.shape, strict=True):
        if dim == "token":
            first = facts.first_token(plan, entry)
            found[dim] = (dim, range(first, first + extent))
        elif names := names_of(dim, extent, point, compressor, vectors):
            found[dim] = (dim, names)
    return found


def _text_coordinate(columns: Columns, texts: TokenTexts, axes: _Axes) -> tuple[list[str], Array] | None:
    """[row, token] of prompts, which stay the same; else for every step."""
    if "row" not in axes.dims or "token" not in axes.dims:
        return None
    is_prompt = bool(columns["prompt_set"][0])
    outer = [] if is_prompt else [name for name in axes.outer if name != "layer"]
    tokens = dict(zip((dim for dim in axes.dims if dim != "row"), axes.shape, strict=True))["token"]
    found = np.full((*(len(axes.outer[name]) for name in outer), len(axes.rows), tokens), "", object)
    if not is_prompt:
        texts.prepare(min(axes.outer["step"]), max(axes.outer["step"]))
    seen, known = set(), False
    for number, place in enumerate(_places(columns, outer)):
        if place in seen:
            continue
        seen.add(place)
        lines = texts.token_texts(Record(**{name: columns[name][number] for name in FIELDS}, payload=b""))
        known = known or lines is not None
        begin = axes.rows.index(place[-1])
        at = tuple(axes.outer[name].index(value) for name, value in zip(outer, place[:-1], strict=True))
        for n, line in enumerate(lines or ()):
            found[(*at, begin + n)] = line
    return ([*outer, "row", "token"], found) if known else None


def _places(columns: Columns, outer: list[str]) -> Iterable[tuple[int, ...]]:
    """Which text a record has, and its first row."""
    return zip(*(map(int, columns[name]) for name in [*outer, "first_row"]), strict=True)
