"""Numbers for other tools: the named numbers and histograms that a record holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensor_tracer.compressors import EXPONENT_BINS, LOWEST_EXPONENT, MORE_STATISTICS, STATISTICS
from tensor_tracer.facts import RunFacts
from tensor_tracer.json_values import list_of, member
from tensor_tracer.messages import numbers
from tensor_tracer.record import Record


class Reading(NamedTuple):
    """One number of a record; `name` is "rms", the name of a vector, or "layers.1.mlp.weight/update_ratio"."""

    name: str
    value: float


class Bins(NamedTuple):
    """The histogram of a `stats` record. Bin n counts the numbers from limits[n] to limits[n + 1]."""

    name: str
    limits: list[float]  # one more than `counts`
    counts: list[float]
    total: float  # sum of the numbers; 0: not known
    sum_squares: float


class Mean(NamedTuple):
    """Of one vector at one layer, over all prompts of a set."""

    point: str
    layer: int  # 0: a point without layers
    prompts: str
    mean_over: str  # of the plan's entry
    scale: str  # normalized, raw or cosine
    readings: list[Reading]  # the value, the baseline and the difference from it, as far as it has them


def means_of(event: dict[str, Any]) -> Iterator[Mean]:
    """Those of a `projections` event."""
    for series in event["series"]:
        vector, columns = series["vector"], [series[name] for name in ("layers", "values", "baseline", "change")]
        prompts, mean_over, scale = (str(series[name]) for name in ("prompts", "mean_over", "scale"))
        for layer, value, baseline, change in zip(*columns, strict=True):
            told = numbers({f"{vector}": value, f"{vector}/baseline": baseline, f"{vector}/change": change})
            found = [Reading(name, float(number)) for name, number in told.items() if isinstance(number, int | float)]
            if found:
                yield Mean(str(series["point"]), int(layer), prompts, mean_over, scale, found)


def has_readings(point: str, compressor: str, mean_over: str = "") -> bool:
    """Whether records of this point and compressor hold readings. A record of a projection with `mean_over` has a part
    of the prompts: `projections` events have the means."""
    is_projection = compressor == "projection" and not mean_over
    return compressor == "stats" or is_projection or (point == "Updates" and compressor == "none")


def readings_of(record: Record, facts: RunFacts) -> list[Reading | Bins]:
    """Of statistics each number and the histogram; of a projection without `mean_over` each vector's mean over the tokens;
    of the point Updates each parameter's numbers. Other records have none."""
    if record.compressor == "stats":
        return list(_statistics(record, facts))
    if record.compressor == "projection":
        return list(_projections(record, facts))
    return list(_updates(record, facts)) if has_readings(record.point, record.compressor) else []


def _statistics(record: Record, facts: RunFacts) -> Iterator[Reading | Bins]:
    values = record.values.astype(np.float64)
    rows: list[list[float]] = values.reshape(-1, values.shape[-1]).tolist() if values.size else [[]]
    stats, more = rows[0], rows[1] if len(rows) > 1 else []
    counts = stats[len(STATISTICS) :]
    if len(stats) < len(STATISTICS):
        return
    named = dict(zip(STATISTICS, stats, strict=False))
    for name, number in (*named.items(), *zip(MORE_STATISTICS, more, strict=False)):
        yield Reading(name, number)
    # Only the plan states the range of the bins.
    compressor = member(facts.entry(record.plan, record.entry), "compressor")
    ends = list_of(compressor, "range")
    if len(ends) == 2 and all(isinstance(end, int | float) for end in ends) and counts:
        finite = named["count"] - named["nan"] - named["pos_inf"] - named["neg_inf"]
        total = named["mean"] * finite if finite > 0 else 0
        limits = np.linspace(ends[0], ends[1], len(counts) + 1).tolist()
        yield Bins("histogram", limits, counts, total, named["norm"] ** 2)
    elif isinstance(compressor, dict) and "range" not in compressor and len(counts) == EXPONENT_BINS:
        # Of the numbers without their signs, so their sum is not known.
        limits = [2.0 ** (LOWEST_EXPONENT + n) for n in range(len(counts) + 1)]
        yield Bins("magnitudes", limits, counts, 0, named["norm"] ** 2)


def _projections(record: Record, facts: RunFacts) -> Iterator[Reading]:
    """The mean over a row's tokens, then over the rows: each row counts the same, whatever its length.
    Padding after a shorter prompt does not count."""
    has_responses = member(facts.entry(record.plan, record.entry), "responses") is True
    if facts.mean_over(record.plan, record.entry) or len(record.shape) != 3 or has_responses:
        return  # events have the means over prompts; the lengths of responses are not known
    values = record.values.astype(np.float64)
    lengths, first_token = facts.prompt_lengths(record.prompt_set), facts.first_token(record.plan, record.entry)
    means: list[npt.NDArray[np.float64]] = []
    for row, tokens in enumerate(values, record.first_row):
        own = tokens if row >= len(lengths) else tokens[: max(lengths[row] - first_token, 0)]
        if len(own):
            means.append(own.mean(axis=0))
    vectors = facts.vectors(record.plan, record.entry)
    for index, of_rows in enumerate(np.transpose(means) if means else ()):
        yield Reading(vectors[index] if index < len(vectors) else f"vector_{index}", float(np.mean(of_rows)))


def _updates(record: Record, facts: RunFacts) -> Iterator[Reading]:
    rows: Sequence[Sequence[float]] = record.values.reshape(-1, record.shape[-1]).tolist() if record.shape else []
    # An entry that takes some of the parameters counts them from its first one.
    first = facts.first_token(record.plan, record.entry)
    parameters, columns = facts.parameters_of(record.point)[first:], facts.columns_of(record.point)
    for row, found in enumerate(rows):
        parameter = parameters[row] if row < len(parameters) else f"parameter_{first + row}"
        for column, number in enumerate(found):
            yield Reading(f"{parameter}/{columns[column] if column < len(columns) else f'column_{column}'}", number)
