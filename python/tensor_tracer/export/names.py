"""What arrays are called."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tensor_tracer.export.frames import Frames, Scalars, Series
from tensor_tracer.facts import RunFacts
from tensor_tracer.record import DIRECTIONS, PHASES


def one_word(text: str) -> str:
    """Names come from outside, and end up as paths in an archive and groups of a page."""
    return re.sub(r"[\x00-\x1f\x7f/\\]", "_", text)


def _plain_words(series: Series, names: RunFacts) -> list[tuple[str, str]]:
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


def name_series(series: Sequence[Series], names: RunFacts) -> list[tuple[str, str]]:
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

    run_id: str
    frames: Frames
    names: RunFacts
    series: list[Series]
    series_names: list[tuple[str, str]]
    scalars: Scalars
