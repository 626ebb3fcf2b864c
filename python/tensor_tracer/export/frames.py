"""What of a recording is exported: frames that stack to arrays, and scalars."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from tensor_tracer.compressors import COMPRESSORS
from tensor_tracer.errors import RecordError
from tensor_tracer.json_values import natural, parsed
from tensor_tracer.record import DTYPES, Record, decode_records
from tensor_tracer.recording_file import not_a_recording


MAX_STEP = 2**63 - 1


class Selection(NamedTuple):
    """Which frames are taken; None is all. Points without layers are not asked for theirs."""

    run: int
    first_step: int
    last_step: int
    points: set[int] | None
    layers: set[int] | None

    def takes(self, point: int, layer: int) -> bool:
        is_layer = layer == 0 or self.layers is None or layer in self.layers
        return is_layer and (self.points is None or point in self.points)

    def condition(self) -> tuple[str, list[int]]:
        sql, values = "run = ? AND step BETWEEN ? AND ?", [self.run, self.first_step, self.last_step]
        for text, chosen in (("point IN ({})", self.points), ("layer IN (0, {})", self.layers)):
            if chosen is not None:  # up to 65,536 numbers, more than SQLite has variables
                sql += " AND " + text.format(", ".join(map(str, sorted(chosen))))
        return sql, values


_KEY = ("point", "layer", "direction", "phase", "prompt_set", "compressor", "dtype", "entry",
        "data_rank", "shape")  # fmt: skip


class Series(NamedTuple):
    """Frames that are alike but for their step, so that they stack to one array: members of _KEY,
    then how many there are, and whether one has a number that is not 0, or there are several plans."""

    point: int
    layer: int
    direction: int
    phase: int
    prompt_set: int
    compressor: int
    dtype: int
    entry: int
    data_rank: int
    shape_text: str
    records: int
    micro_batches: bool
    first_rows: bool
    plans: bool

    @property
    def shape(self) -> tuple[int, ...]:
        extents = parsed(self.shape_text)
        if isinstance(extents, list) and len(extents) <= 4 and all(natural(one) is not None for one in extents):
            return tuple(extents)
        raise not_a_recording(f'a frame\'s shape is "{self.shape_text}", not a list of numbers')

    @property
    def wire(self) -> str:
        """"f32"; "dtype_9" where it is not known."""
        return DTYPES.get(self.dtype, f"dtype_{self.dtype}")

    @property
    def compressor_name(self) -> str:
        return COMPRESSORS.get(self.compressor, f"compressor_{self.compressor}")


class Place(NamedTuple):
    """Where a frame belongs in its series."""

    id: int
    step: int
    micro_batch: int
    first_row: int
    plan: int


class Scalars(NamedTuple):
    """One row for each step, one column for each name; None where a step has no such scalar."""

    steps: list[int]
    times: list[int]
    columns: dict[str, list[float | None]]


class Frames:
    """The frames and scalars of a selection, in the one state that the recording had at the first call."""

    def __init__(self, database: sqlite3.Connection, selection: Selection) -> None:
        self._database, self.selection = database, selection
        database.execute("BEGIN")

    def series(self) -> list[Series]:
        """By the members of _KEY in their order."""
        condition, values = self.selection.condition()
        order = ", ".join(str(number + 1) for number in range(len(_KEY)))
        query = (
            f"SELECT {', '.join(_KEY)}, count(*), max(micro_batch) > 0, max(first_row) > 0, "
            f"min(plan) < max(plan) FROM frames WHERE {condition} GROUP BY {order} ORDER BY {order}"
        )
        found = [Series(*row) for row in self._database.execute(query, values)]
        for series in found:
            for name, number in zip(_KEY[:-1], series, strict=False):
                if type(number) is not int:
                    raise not_a_recording(f'a frame\'s {name} is "{number}", not a number')
        return found

    def places(self, series: Series) -> Iterator[Place]:
        """By step, then as written."""
        selection, alike = self.selection, " AND ".join(f"{name} = ?" for name in _KEY)
        query = (
            "SELECT id, step, micro_batch, first_row, plan FROM frames "
            f"WHERE run = ? AND step BETWEEN ? AND ? AND {alike} ORDER BY step, id"
        )
        values = [selection.run, selection.first_step, selection.last_step, *series[: len(_KEY)]]
        for place in map(Place._make, self._database.execute(query, values)):
            if any(type(number) is not int for number in place):
                raise _damaged(place, "a column is not a number")
            yield place

    def records(self, series: Series) -> Iterator[Record]:
        """The same frames, with their payloads checked."""
        for place in self.places(series):
            query = "SELECT record FROM frames WHERE id = ?"
            [(data,)] = self._database.execute(query, [place.id]).fetchall()
            try:
                records = list(decode_records(data)) if isinstance(data, bytes) else []
            except RecordError as error:
                raise _damaged(place, error.message) from error
            if len(records) != 1:
                raise _damaged(place, f"it has {len(records)} records instead of one")
            dtype = DTYPES.get(series.dtype, f"dtype {series.dtype}")
            if (records[0].dtype, records[0].shape) != (dtype, series.shape):
                raise _damaged(place, "its columns say another dtype or shape than its record")
            yield records[0]

    def plans(self, series: Series) -> set[int]:
        """The numbers of the trace plans that asked for it."""
        return {place.plan for place in self.places(series)}

    def projections(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Step, time and content of the `projections` events, of all points and layers."""
        query = (
            "SELECT step, time_ns, detail FROM events "
            "WHERE run = ? AND kind = 'projections' AND step BETWEEN ? AND ? ORDER BY step, id"
        )
        selection = self.selection
        values = [selection.run, selection.first_step, selection.last_step]
        for step, time, detail in self._database.execute(query, values):
            event = parsed(detail)
            if type(step) is not int or type(time) is not int or not isinstance(event, dict):
                raise not_a_recording(f"the projections of step {step} are damaged")
            yield step, time, event

    def scalars(self) -> Scalars:
        selection = self.selection
        query = (
            "SELECT step, name, value, time_ns FROM scalars "
            "WHERE run = ? AND step BETWEEN ? AND ? ORDER BY step, name"
        )
        values = [selection.run, selection.first_step, selection.last_step]
        found = Scalars([], [], defaultdict(list))
        for step, name, value, time in self._database.execute(query, values):
            if type(step) is not int or type(time) is not int or not isinstance(value, (float, int, type(None))):
                raise not_a_recording(f'the scalar {name} of step {step} is damaged: value "{value}", time "{time}"')
            if not found.steps or found.steps[-1] != step:
                found.steps.append(step)
                found.times.append(time)
            column = found.columns[name]
            column += [None] * (len(found.steps) - 1 - len(column))
            column.append(math.nan if value is None else value)  # SQLite keeps no NaN
        for column in found.columns.values():
            column += [None] * (len(found.steps) - len(column))
        return found._replace(columns=dict(sorted(found.columns.items())))


def _damaged(place: Place, why: str) -> RecordError:
    text = f"frame {place.id} of step {place.step} is damaged: {why}"
    remedy = "export the steps before it and those after it, each with --steps"
    return RecordError("invalid_record", text, "", remedy)
