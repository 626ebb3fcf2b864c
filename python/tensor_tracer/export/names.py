"""What arrays are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tensor_tracer.export.frames import Frames, Scalars, Series
from tensor_tracer.facts import RunFacts
from tensor_tracer.readings import Mean
from tensor_tracer.record import DIRECTIONS, PHASES


def one_word(text: str, keep: str = "") -> str:
    """Names come from outside, and end up as paths in an archive and groups of a page. `keep`: "/" may stay."""
    return "".join("_" if (c in "/\\" or c < " " or c == "\x7f") and c not in keep else c for c in text)


Words = list[tuple[str, str]]  # such as ("layers", "3"), ("gradient", "")


def words_of(
    point: str, layer: int, direction: str, phase: str, prompts: str, compressor: str, is_rank_local: bool = False
) -> Words:
    """The words of a name. `prompts`: the name of the prompt set, "" for the run's own data. `is_rank_local`: as of
    RunFacts."""
    words = [(one_word(point), "")]
    if layer:
        words.append(("layers", str(layer)))
    if direction != "value":
        words.append((direction, ""))
    if phase != "train":
        words.append((phase, ""))
    if prompts:
        words.append(("prompts", one_word(prompts)))
    if compressor not in ("none", "tile"):
        words.append((compressor, ""))
    if is_rank_local:
        words.append(("rank_local", ""))
    return words


def words_of_mean(mean: Mean) -> Words:
    """The usual scale has no word."""
    words = words_of(mean.point, mean.layer, "value", "eval", mean.prompts, "projection")
    return [*words, (one_word(mean.mean_over), ""), *([(one_word(mean.scale), "")] if mean.scale != "normalized" else [])]


def tag_of(words: Words) -> str:
    """As TensorBoard and others group tags, by the part before a slash: "HiddenStates/layer_3/gradient"."""
    return "/".join(
        (word.replace("layers", "layer") if n else word) + (f"_{value}" if value else "")
        for n, (word, value) in enumerate(words)
    )


def _plain_words(series: Series, names: RunFacts) -> Words:
    direction = DIRECTIONS.get(series.direction, "gradient")
    phase, prompts = PHASES.get(series.phase, "eval"), names.prompt_set(series.prompt_set)
    point, compressor = names.point(series.point), series.compressor_name
    return words_of(point, series.layer, direction, phase, prompts, compressor, names.is_rank_local(point))


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
    return [(".".join(f"{word}.{value}" if value else word for word, value in its), tag_of(its)) for its in words]


class Source(NamedTuple):
    """What is exported."""

    run_id: str
    frames: Frames
    names: RunFacts
    series: list[Series]
    series_names: list[tuple[str, str]]
    scalars: Scalars
