"""What a loop over records asks for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, SupportsInt

import numpy as np

from tensor_tracer.record import Record

Ranges = str | SupportsInt | Iterable[SupportsInt]  # "1-4,8", 3 or range(1, 5)
Points = str | Iterable[str]
Pairs = list[tuple[int, int]]  # first and last of each range


def pairs_of(value: Ranges | None, what: str) -> Pairs | None:
    """None is all."""
    if value is None:
        return None
    if not isinstance(value, str):
        # An array is SupportsInt, but holds many numbers. NumPy takes no set.
        numbers = np.ravel(np.asarray(value if isinstance(value, SupportsInt) else list(value)))
        value = ",".join(str(int(n)) for n in numbers)
    pairs: Pairs = []
    for part in value.split(",") if value else ():
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError(f'{what}: {part!r} is no range; write "1-4,8"')
        if pairs and first == pairs[-1][1] + 1:
            first = pairs.pop()[0]
        pairs.append((first, last))
    return pairs


class Selection(NamedTuple):
    """What a loop asked for; None is all."""

    points: list[str] | None
    layers: Pairs | None
    entry: int | None

    def takes(self, record: Record) -> bool:
        return (
            (self.points is None or record.point in self.points)
            and (self.entry is None or record.entry == self.entry)
            and (self.layers is None or any(a <= record.layer <= b for a, b in self.layers))
        )

    def members(self, rate: float | None) -> dict[str, Any]:
        """Of a subscription."""
        layers = None if self.layers is None else ",".join(f"{a}-{b}" for a, b in self.layers)
        entries = None if self.entry is None else [self.entry]
        members = {"entries": entries, "points": self.points, "layers": layers, "rate": rate}
        return {name: value for name, value in members.items() if value is not None}


def select(
    point: Points | None, layers: Ranges | None, entry: int | None, known: Mapping[int, str]
) -> Selection:
    names = None if point is None else [point] if isinstance(point, str) else list(point)
    for name in (name for name in names or () if name not in known.values()):
        near = difflib.get_close_matches(name, known.values(), 1) or list(known.values())
        raise ValueError(f"point: there is no {name!r}; there is {', '.join(near)}")
    return Selection(names, pairs_of(layers, "layers"), entry)
