"""Prompts that a client types."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from tensor_tracer.messages import Boundary, Plan, boundary_of, plan_of
from tensor_tracer.record import Record


class PromptRequests(ABC):
    """The requests about prompts. They need the control."""

    @abstractmethod
    def request(
        self, method: str, params: Mapping[str, Any] | None = None, timeout: float | None = ...
    ) -> dict[str, Any]: ...

    @abstractmethod
    def _decoded(self, message: bytes) -> Iterator[Record]: ...

    def prompt(self, text: str, plan: Plan | None = None) -> dict[str, Any]:
        """Runs a text through the model at the next step boundary; nothing stays. "records" holds what the plan watches,
        each a list of Record: "off" without programs and, if programs are in force, "on" with them."""
        return self._with_records(self.request("prompt.run", {"text": text} | _given(plan), timeout=None))

    def keep_prompt(self, name: str, text: str, plan: Plan | None = None) -> Boundary:
        """Adds a prompt set of one text, and the plan's entries for it, from the boundary's step on."""
        return boundary_of(self.request("prompt.keep", {"name": name, "text": text} | _given(plan)))

    def remove_prompt(self, name: str) -> Boundary:
        """Ends a prompt set and its entries of the plan."""
        return boundary_of(self.request("prompt.remove", {"name": name}))

    def _with_records(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer with its records decoded, where it has some."""
        if "records" not in answer:
            return answer
        sides = answer["records"].items()
        return answer | {"records": {side: list(self._decoded(base64.b64decode(text))) for side, text in sides}}


def _given(plan: Plan | None) -> dict[str, Any]:
    return {"plan": plan_of(plan)} if plan else {}
