"""What the numbers of records, and what arrays are called."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tensor_tracer.record import DIRECTIONS, PHASES

from tensor_tracer_export.frames import Frames, Scalars, Series
from tensor_tracer_export.json_values import list_of, member, natural, parsed, text_of


class RunNames:
    """What a run's facts, which may be anything, call the numbers in its records. What they do not name
    is named by its number."""

    def __init__(self, facts: Any) -> None:
        self.points: dict[str, int] = {}
        self.dims: dict[int, list[str]] = {}
        for point in list_of(facts, "points"):
            flag, name = natural(member(point, "flag")), text_of(point, "name")
            if flag is not None and flag <= 0xFFFF and name:
                self.points[name] = flag
                self.dims[flag] = [dim if isinstance(dim, str) else "" for dim in list_of(point, "dims")]
        self._names = {flag: name for name, flag in self.points.items()}
        self._sets = list_of(facts, "prompt_sets")
        kind = member(member(facts, "tokenizer"), "kind")
        self._has_bytes = kind == "byte" or member(facts, "tokenizer") is None

    def point(self, flag: int) -> str:
        return self._names.get(flag, f"point_{flag}")

    def prompt_set(self, number: int) -> str:
        """"" for 0, the run's own data."""
        name = text_of(self._sets[number - 1], "name") if 0 < number <= len(self._sets) else ""
        return name or (str(number) if number else "")

    def prompt_lengths(self, number: int) -> list[int]:
        """The tokens of each of its prompts, which records fill up to the longest; empty: not known."""
        known = self._has_bytes and 0 < number <= len(self._sets)
        prompts = list_of(self._sets[number - 1], "prompts") if known else []
        return [len(prompt.encode()) for prompt in prompts if isinstance(prompt, str)]


def plans_of(database: sqlite3.Connection, run: int, facts: Any) -> dict[int, Any]:
    """The trace plans that were in force, by number: that of the facts, and those of events."""
    query = "SELECT detail FROM events WHERE run = ? AND kind IN ('plan', 'run') ORDER BY id"
    holders = [facts, *(parsed(detail) for (detail,) in database.execute(query, [run]))]
    plans = [member(holder, "plan") for holder in holders]
    return {plan["number"]: plan for plan in plans if natural(member(plan, "number")) is not None}


def one_word(text: str) -> str:
    """Names come from outside, and end up as paths in an archive and groups of a page."""
    return re.sub(r"[\x00-\x1f\x7f/\\]", "_", text)


def _plain_words(series: Series, names: RunNames) -> list[tuple[str, str]]:
    words = [(one_word(names.point(series.point)), "")]
    if series.layer:
        words.append(("layers", str(series.layer)))
    if series.direction:
        words.append((DIRECTIONS.get(series.direction, "gradient"), ""))
    if series.phase:
        words.append((PHASES.get(series.phase, "eval"), ""))
    if series.prompt_set:
        words.append(("prompts", one_word(names.prompt_set(series.prompt_set))))
    if series.compressor_name not in ("none", "tile"):
        words.append((series.compressor_name, ""))
    return words


# What may tell series of one plain name apart, and the word for it.
_TRAITS: tuple[tuple[str, Callable[[Series], object]], ...] = (
    ("flag", lambda s: s.point),
    ("set", lambda s: s.prompt_set),
    ("entry", lambda s: s.entry),
    ("data", lambda s: s.data_rank),
    ("", lambda s: s.compressor_name),
    ("", lambda s: s.wire),
    ("", lambda s: "x".join(map(str, s.shape)) or "scalar"),
)


def name_series(series: Sequence[Series], names: RunNames) -> list[tuple[str, str]]:
    """One name for each series, none of them twice: as an array "HiddenStates.layers.3.gradient", in
    TensorBoard, which groups by what stands before a slash, "HiddenStates/layer_3/gradient"."""
    words = [_plain_words(one, names) for one in series]
    alike = defaultdict(list)
    for index, its in enumerate(words):
        alike[tuple(its)].append(index)
    for group in alike.values():
        for word, trait in _TRAITS:
            values = [str(trait(series[index])) for index in group]
            if len(set(values)) > 1:
                for index, value in zip(group, values, strict=True):
                    words[index].append((word, value) if word else (value, ""))
    return [
        (
            ".".join(f"{word}.{value}" if value else word for word, value in its),
            "/".join(f"{word.replace('layers', 'layer') if n else word}" + (f"_{value}" if value else "")
                     for n, (word, value) in enumerate(its)),
        )
        for its in words
    ]  # fmt: skip


class Source(NamedTuple):
    """What is exported."""

    database: sqlite3.Connection
    run: int
    run_id: str
    facts: Any
    frames: Frames
    names: RunNames
    series: list[Series]
    series_names: list[tuple[str, str]]
    scalars: Scalars
