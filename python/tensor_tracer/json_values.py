"""JSON of a run's facts and events, which may be anything."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: Any) -> Any:
    """The value of a column of JSON; None where the column is damaged."""
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # refuses half of a surrogate pair
    except (ValueError, TypeError, RecursionError):
        return None
    return value


def member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def list_of(value: Any, name: str) -> list[Any]:
    found = member(value, name)
    return found if isinstance(found, list) else []


def text_of(value: Any, name: str) -> str:
    found = member(value, name)
    return found if isinstance(found, str) else ""


def natural(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
