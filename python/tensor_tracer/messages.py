"""Requests, answers and notifications: docs/protocol.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tensor_tracer.errors import HubError, TensorTracerError

Program = str | Path | Mapping[str, Any]  # the text, a .tti file, or the JSON form
Plan = Mapping[str, Any] | Iterable[Mapping[str, Any]]  # whole, or its entries

_MAX_REQUEST_BYTES = 65_536  # the hub closes the connection of a viewer that sends more


class State(NamedTuple):
    """The phase of the run, and its newest step."""

    phase: str  # starting, waiting, training, paused, evaluating, finished, stopped, lost
    step: int


class Boundary(NamedTuple):
    """The step after which a request took effect, and the number of ranks. For a plan and for interventions, it is
    the first step with the change."""

    step: int
    ranks: int
    plan: dict[str, Any] | None = None


def hub_error(error: Mapping[str, Any]) -> HubError:
    return HubError(*(str(error.get(part) or "") for part in ("code", "message", "where", "remedy")))


def encode_request(number: int, method: str, params: Mapping[str, Any] | None) -> str:
    """Raises TensorTracerError."""
    request = {"id": number, "method": method} | ({} if params is None else {"params": params})
    try:
        text = json.dumps(request, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError) as error:
        remedy = "give finite numbers, texts, lists and dicts"
        raise TensorTracerError("invalid_argument", f"JSON cannot hold this request: {error}", method, remedy) from error
    if size > _MAX_REQUEST_BYTES:
        message = f"the request has {size} bytes, and the hub takes at most {_MAX_REQUEST_BYTES}"
        raise TensorTracerError("too_large", message, method, "give a shorter text or fewer entries")
    return text


def numbers(params: Mapping[str, Any]) -> dict[str, Any]:
    """With the numbers that JSON cannot write."""
    named = ("NaN", "Infinity", "-Infinity")
    return {k: float(v) if isinstance(v, str) and v in named else v for k, v in params.items()}


def boundary_of(result: Mapping[str, Any]) -> Boundary:
    return Boundary(result["step"], result["ranks"], result.get("plan"))


def plan_of(plan: Plan) -> Mapping[str, Any]:
    return plan if isinstance(plan, Mapping) else {"entries": list(plan)}


def program_of(program: Program) -> str | dict[str, Any]:
    if isinstance(program, Path):
        return program.read_text(encoding="utf-8")
    return program if isinstance(program, str) else dict(program)
