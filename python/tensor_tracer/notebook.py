"""How things look in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any


def table(caption: str, rows: Mapping[str, Any]) -> str:
    """Two columns; everything is escaped, for names come from outside."""
    lines = (
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    head = f'<caption style="text-align:left"><b>{escape(caption)}</b></caption>'
    return f"<table>{head}{''.join(lines)}</table>"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def about(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a run's facts say about its model, and about the factors in the gradients of an attached run."""
    told = {name: facts.get(name) for name in ("model", "gradients")}
    rows = {
        name: ", ".join(f"{key} {value}" for key, value in known.items())
        for name, known in told.items() if isinstance(known, Mapping)
    }  # fmt: skip
    return {"model": ""} | rows
