"""Plans that name places by a pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tensor_tracer.errors import TensorTracerError


def expand(plan: Mapping[str, Any], names: Sequence[tuple[str, str, bool]]) -> dict[str, Any]:
    """The plan with an entry for each place that a `point` with `*` matches; for gradients, for each that has one.
    `names`: name and path of each place, and whether it has a gradient."""
    entries: list[Any] = []
    for entry in plan.get("entries", []):
        point = entry.get("point") if isinstance(entry, Mapping) else None
        if not isinstance(point, str) or "*" not in point:
            entries.append(entry)
            continue
        pattern = re.compile(".*".join(map(re.escape, point.split("*"))))
        needs_gradient = entry.get("direction") == "gradient"
        found = [
            name for name, path, has_gradient in names
            if (pattern.fullmatch(name) or pattern.fullmatch(path)) and (has_gradient or not needs_gradient)
        ]  # fmt: skip
        if not found:
            raise TensorTracerError("invalid_argument", f"no place has a name like {point!r}", "plan", "see run.points()")
        entries += [{**entry, "point": name} for name in found]
    return {**plan, "entries": entries}
