"""Plans that name places by a pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tensor_tracer.errors import TensorTracerError

kMaxEntries = 64  # as of the library


def expand(
    plan: Mapping[str, Any], names: Sequence[tuple[str, str, bool]], absent: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """The plan with an entry for each place that a `point` with `*` matches, and messages on the entries that are left
    out, because the model has the tensor, but it is no place. `names`: name and path of each place, and whether its
    gradient is traced; an entry of gradients leaves the others out. `absent`: why a tensor is no place, by each of its
    names. Raises TensorTracerError."""
    entries: list[Any] = []
    messages: list[str] = []
    patterns: dict[str, None] = {}
    for number, entry in enumerate(plan.get("entries", [])):
        point = entry.get("point") if isinstance(entry, Mapping) else None
        if not isinstance(point, str):
            entries.append(entry)
            continue
        pattern = re.compile(".*".join(map(re.escape, point.split("*"))))
        found = [one for one in names if pattern.fullmatch(one[0]) or pattern.fullmatch(one[1])]
        problem = "" if found else next((why for name, why in absent.items() if pattern.fullmatch(name)), "")
        if problem:
            messages.append(f"plan entry {number} ({point}) is left out: {problem}")
            continue
        if "*" not in point:
            entries.append(entry)
            continue
        if not found:
            raise TensorTracerError("invalid_argument", f"no place has a name like {point!r}", "plan", "see run.points()")
        patterns[repr(point)] = None
        is_value = entry.get("direction") != "gradient"
        entries += [{**entry, "point": name} for name, _, has_gradient in found if is_value or has_gradient]
    if patterns and len(entries) > kMaxEntries:
        message = f"with a place for each match of {' and '.join(patterns)}, the plan has {len(entries)} entries"
        remedy = f"match fewer places: a plan has at most {kMaxEntries} entries"
        raise TensorTracerError("invalid_argument", message, "plan", remedy)
    return {**plan, "entries": entries}, messages
