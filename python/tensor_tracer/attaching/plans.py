"""Plans that name places by a pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tensor_tracer.errors import TensorTracerError

kMaxEntries = 64  # as of the library


def expand(plan: Mapping[str, Any], names: Sequence[tuple[str, str, bool]]) -> dict[str, Any]:
    """The plan with an entry for each place that a `point` with `*` matches. `names`: name and path of each place, and
    whether its gradient is traced; an entry of gradients leaves the others out."""
    entries: list[Any] = []
    patterns: dict[str, None] = {}
    for entry in plan.get("entries", []):
        point = entry.get("point") if isinstance(entry, Mapping) else None
        if not isinstance(point, str) or "*" not in point:
            entries.append(entry)
            continue
        pattern = re.compile(".*".join(map(re.escape, point.split("*"))))
        found = [one for one in names if pattern.fullmatch(one[0]) or pattern.fullmatch(one[1])]
        if not found:
            raise TensorTracerError("invalid_argument", f"no place has a name like {point!r}", "plan", "see run.points()")
        patterns[repr(point)] = None
        is_value = entry.get("direction") != "gradient"
        entries += [{**entry, "point": name} for name, _, has_gradient in found if is_value or has_gradient]
    if patterns and len(entries) > kMaxEntries:
        message = f"with a place for each match of {' and '.join(patterns)}, the plan has {len(entries)} entries"
        remedy = f"match fewer places: a plan has at most {kMaxEntries} entries"
        raise TensorTracerError("invalid_argument", message, "plan", remedy)
    return {**plan, "entries": entries}
