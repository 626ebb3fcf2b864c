"""Recordings: docs/recording.md."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensor_tracer import notebook
from tensor_tracer.columns import Columns, columns_of, fast_columns, joined
from tensor_tracer.compressors import COMPRESSORS
from tensor_tracer.errors import RecordError, TensorTracerError, missing_package
from tensor_tracer.facts import RunFacts
from tensor_tracer.plots import plot_scalars
from tensor_tracer.record import DIRECTIONS, PHASES, Record, decode_records
from tensor_tracer.recording_file import open_database, plans_of
from tensor_tracer.records import Records
from tensor_tracer.selection import Kind, Names, Pairs, Ranges, Selection, Sets, pairs_of, refuse_several, select
from tensor_tracer.tokens import TokenTexts

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas

_MAX_RANGES = 100  # in one condition: SQLite takes no more than 1,000 parts
_READ_AT_ONCE = 5_000  # records
_CACHE_KIB = 65_536  # SQLite's own 2 MiB are few of a recording's large pages
# Frames that have the same of these may be compared, as far as the plan says so.
_KIND = "plan, entry, point, compressor, direction, prompt_set"


class Recording:
    """One run of a recording, from `open_recording`. The run may still write the file."""

    def __init__(self, path: Path, run: str | None, check: bool) -> None:
        self._path, self._check = str(path), check
        with self._reading():
            self._file = open_database(path.resolve(strict=True))
            self._file.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            runs = {row[1]: row for row in self._file.execute("SELECT run, id, facts FROM runs")}
            if not runs:
                remedy = "wait for the first step of the run, or open another recording of its folder"
                raise RecordError("which_run", "no run is in it yet", self._path, remedy)
            if (run or len(runs) != 1) and run not in runs:
                names = ", ".join(runs)
                raise RecordError("which_run", f"the runs in it: {names}", self._path, 'name one: run="…"')
            self._run, name, facts = runs[run or next(iter(runs))]
            self.run = "".join(name)
            self.facts: dict[str, Any] = dict(json.loads(facts))
            rows = self._file.execute("SELECT flag, name FROM points WHERE run = ?", [self._run])
            self._points = {int(flag): "".join(name) for flag, name in rows}
            self._known, self._last_event = RunFacts(self.facts), 0
            self._texts = TokenTexts(lambda: self._known, self._input_tokens)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Anything that is wrong with the file is a RecordError."""
        try:
            yield
        except TensorTracerError as error:
            if self._path in error.where:
                raise
            where = f"{self._path}: {error.where}" if error.where else self._path
            raise RecordError(error.code, error.message, where, error.remedy) from error
        except (sqlite3.Error, ValueError, TypeError, OverflowError, RecursionError) as error:
            remedy = "check it with `sqlite3 FILE 'PRAGMA integrity_check'`"
            raise RecordError("not_a_recording", str(error), self._path, remedy) from error

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def records(
        self, point: Names | None = None, layers: Ranges | None = None, steps: Ranges | None = None,
        entry: Ranges | None = None, *, compressor: Names | None = None, prompt_set: Sets | None = None,
        phase: Names | None = None, direction: Names | None = None,
    ) -> Records:  # fmt: skip
        """Selects records, in the order of steps. `prompt_set`: names, or 0 for the run's own data. Raises ValueError if
        several entries of the trace plan match a named point, because their numbers have different meanings;
        `entry="all"` allows this."""
        chosen = select(self._known, point, layers, entry, compressor, prompt_set, phase, direction, self._points)
        condition = self._condition(chosen, pairs_of(steps, "steps"))
        self._learn_plans()
        if not chosen.may_mix:
            refuse_several(self._kinds(condition))
        # An open query would hold the log of a run that still writes, and sort all that it finds.
        with self._reading():
            query = f"SELECT id FROM frames WHERE {condition} ORDER BY step, id"
            found = array("q", (number for (number,) in self._file.execute(query, [self._run])))
        title = f"{chosen}, of run {self.run}"
        return Records(found, self._load, self._load_columns, self._texts, self._known, title)

    def _condition(self, chosen: Selection, steps: Pairs | None) -> str:
        def codes(names: Sequence[object] | None, of: dict[int, str]) -> Pairs | None:
            return None if names is None else [(code, code) for code, name in of.items() if name in names]

        sets = chosen.prompt_sets
        wanted = {
            "point": codes(chosen.points, self._points), "layer": chosen.layers, "step": steps, "entry": chosen.entries,
            "compressor": codes(chosen.compressors, COMPRESSORS), "phase": codes(chosen.phases, PHASES),
            "direction": codes(chosen.directions, DIRECTIONS),
            "prompt_set": None if sets is None else [(number, number) for number in sets],
        }  # fmt: skip
        parts = [self._between(name, pairs) for name, pairs in wanted.items() if pairs is not None]
        return " AND ".join(["run = ?", *parts])

    def _between(self, column: str, pairs: Pairs) -> str:
        if len(pairs) <= _MAX_RANGES:
            return f"({' OR '.join(f'{column} BETWEEN {a} AND {b}' for a, b in pairs) or 0})"
        chosen = {n for first, last in pairs for n in range(first, last + 1)}
        self._file.create_function(f"is_{column}", 1, chosen.__contains__, deterministic=True)
        return f"is_{column}({column})"

    def _kinds(self, condition: str) -> list[Kind]:
        """Those of the first plan first."""
        with self._reading():
            found = self._file.execute(f"SELECT DISTINCT {_KIND} FROM frames WHERE {condition}", [self._run])
            return [
                Kind(
                    self._points.get(point, ""), entry, COMPRESSORS.get(code, f"compressor {code}"),
                    DIRECTIONS.get(direction, ""), self._known.prompt_set(prompts), self._known.meaning(plan, entry),
                )
                for plan, entry, point, code, direction, prompts in sorted(found)
            ]  # fmt: skip

    def _learn_plans(self) -> None:
        """The run may still change its plan."""
        with self._reading():
            for number, plan in plans_of(self._file, self._run, self._last_event):
                self._last_event = number
                self._known.add_plan(plan)

    def _load(self, numbers: Sequence[int]) -> Iterator[Record]:
        for number in numbers:
            with self._reading():
                # None where the bound on the file's bytes took it meanwhile.
                rows = self._file.execute("SELECT record FROM frames WHERE id = ?", [number]).fetchall()
                found = [one for (data,) in rows for one in self._decoded(data)]
            yield from found

    def _decoded(self, data: bytes) -> Iterator[Record]:
        return decode_records(data, self._check, self._points, self._texts)

    def _load_columns(self, numbers: Sequence[int]) -> Columns:
        parts = []
        for begin in range(0, len(numbers), _READ_AT_ONCE):
            wanted = list(numbers[begin : begin + _READ_AT_ONCE])
            with self._reading():
                query = f"SELECT id, record FROM frames WHERE id IN ({', '.join(map(str, wanted))})"
                found = dict(self._file.execute(query))
                blobs = [found[number] for number in wanted if number in found]
                part = fast_columns(blobs, self._check, self._points)
                parts.append(part or columns_of(one for data in blobs for one in self._decoded(data)))
        return joined(parts)

    def _input_tokens(self, first: int, last: int) -> Records:
        known = [name for name in self._points.values() if name == "InputTokens"]
        return self.records(known, steps=f"{first}-{last}", entry="all", prompt_set=0)

    def scalars(self, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Steps and values of a scalar. A recording near its size limit may lack some steps."""
        query = "SELECT step, value FROM scalars WHERE run = ? AND name = ? ORDER BY step"
        with self._reading():
            rows = self._file.execute(query, [self._run, name]).fetchall()
            steps = np.array([step for step, _ in rows], np.int64)
            values = np.array([value for _, value in rows], np.float64)
        if not rows:
            raise ValueError(f"scalars: there is no {name!r}; there is {', '.join(self.scalar_names())}")
        return steps, values

    def scalar_names(self) -> list[str]:
        query = "SELECT DISTINCT name FROM scalars WHERE run = ? ORDER BY name"
        with self._reading():
            return ["".join(name) for (name,) in self._file.execute(query, [self._run])]

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The audit trail: control, interventions, drops, log. `kind`: "control.pause", or
        "control" for all kinds that begin with it."""
        names = ("time_ns", "step", "kind", "session", "who", "detail")
        chosen = "run = ?1 AND (?2 IS NULL OR kind = ?2 OR kind LIKE ?2 || '.%')"
        query = f"SELECT {', '.join(names)} FROM events WHERE {chosen} ORDER BY id"
        with self._reading():
            found = self._file.execute(query, [self._run, kind])
            rows = (dict(zip(names, row, strict=True)) for row in found)
            return [row | {"detail": json.loads(row["detail"] or "null")} for row in rows]

    def to_pandas(self) -> pandas.DataFrame:
        """The scalars, one column each. `records(…).to_pandas()` gives records."""
        try:
            import pandas
        except ImportError:
            raise missing_package("pandas", "to_pandas") from None
        series = {name: self.scalars(name) for name in self.scalar_names()}
        columns = {name: pandas.Series(values, steps) for name, (steps, values) in series.items()}
        return pandas.DataFrame(columns).rename_axis("step")

    def plot(self, *names: str, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Plots scalars over the steps; default: the loss."""
        return plot_scalars({name: self.scalars(name) for name in names or ["loss"]}, ax)

    def __repr__(self) -> str:
        return f"<Recording {self._path} of run {self.run} {self.facts.get('name', '')!r}>"

    def _repr_html_(self) -> str:
        with self._reading():
            query = "SELECT min(step), max(step), count(*) FROM frames WHERE run = ?"
            first, last, frames = self._file.execute(query, [self._run]).fetchone()
            query = "SELECT point, compressor, count(*) FROM frames WHERE run = ? GROUP BY 1, 2 ORDER BY 3 DESC"
            kinds = self._file.execute(query, [self._run]).fetchall()
            rows: dict[str, Any] = {"scalars": ", ".join(self.scalar_names())}
            rows["records"] = f"{frames:,}" + (f" of steps {first} to {last}" if frames else "")
            for point, code, number in kinds:
                name = f"{self._points.get(point, point)}, {COMPRESSORS.get(code, code)}"
                rows[name] = notebook.count(number, "record")
        return notebook.table(repr(self), notebook.about(self.facts) | rows)


def open_recording(path: str | Path, run: str | None = None, check: bool = True) -> Recording:
    """Opens a recording (run.ttrec). `run`: the id, if the file holds several runs. Raises FileNotFoundError and
    RecordError."""
    return Recording(Path(path), run, check)
