"""Statistics of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float]


def ranks(numbers: Numbers) -> NDArray[np.float64]:
    """From 1; equal numbers have the mean of their ranks."""
    values = np.asarray(numbers, np.float64)
    below = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    return np.asarray(below + (equal + 1) / 2, np.float64)


def spearman(one: Numbers, other: Numbers) -> float | None:
    """Correlation of the ranks; None if all numbers of a side are equal."""
    a, b = (side - side.mean() for side in (ranks(one), ranks(other)))
    length = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / length if length > 0 else None


def area_under_curve(positive: Numbers, negative: Numbers) -> float:
    """The probability that a positive number is larger than a negative one; equal ones count one half."""
    above = np.asarray(positive)[:, None] - np.asarray(negative)[None, :]
    return float(((above > 0) + 0.5 * (above == 0)).mean())
