"""How well the projections on the rows of a direction vector tell two sides of texts apart. The definitions are those of
`tensor-tracer vector extract` (src/vectors/extraction.cpp), and a test compares the numbers of both."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Separation:
    """By row. `texts`: that were compared, of each side. None: there is no number."""

    texts: tuple[int, int]
    auc: list[float | None]
    pairs_above: list[float | None]  # empty: the texts are no pairs
    best_layer: int | None


def area_under_curve(positive: Tensor, negative: Tensor) -> float | None:
    """The probability that a positive number is above a negative one, of all combinations; equal ones count one half."""
    if len(positive) == 0 or len(negative) == 0:
        return None
    difference = positive[:, None] - negative
    return float((difference.gt(0).double() + 0.5 * difference.eq(0)).mean())


def effect_size(positive: Tensor, negative: Tensor) -> float:
    """The difference of the means by the pooled standard deviation (Cohen's d); 0: it has no meaning."""
    count = len(positive) + len(negative) - 2
    squares = (positive - positive.mean()).square().sum() + (negative - negative.mean()).square().sum()
    if len(positive) < 2 or len(negative) < 2 or squares == 0:
        return 0.0
    return float((positive.mean() - negative.mean()) / (squares / count).sqrt())


def separation_of(positive: Tensor, negative: Tensor, are_pairs: bool) -> Separation:
    """`positive`, `negative`: float64 [texts, rows]; NaN: there is no projection. The first, third, … text of each side
    choose the layer, and the others are compared."""
    rows = range(positive.shape[1])
    scores: dict[int, tuple[float, float]] = {}
    compared = []
    for row in rows:
        chosen_by, others = (_known(positive[half::2, row], negative[half::2, row], are_pairs) for half in (0, 1))
        compared.append(others)
        area = area_under_curve(*chosen_by)
        if area is not None and 0 < row < rows[-1]:
            scores[row] = area, effect_size(*chosen_by)
    texts = len(compared[-1][0]), len(compared[-1][1])
    above = [_share_above(*sides) for sides in compared] if are_pairs else []
    best = max(scores, key=lambda row: scores[row], default=None)
    return Separation(texts, [area_under_curve(*sides) for sides in compared], above, best)


def _known(positive: Tensor, negative: Tensor, are_pairs: bool) -> tuple[Tensor, Tensor]:
    """Without NaN; of pairs, without both numbers."""
    if are_pairs:
        known = ~(positive.isnan() | negative.isnan())
        return positive[known], negative[known]
    return positive[~positive.isnan()], negative[~negative.isnan()]


def _share_above(positive: Tensor, negative: Tensor) -> float | None:
    return float((positive > negative).double().mean()) if len(positive) else None
