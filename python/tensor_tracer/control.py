"""The control of a live run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tensor_tracer.errors import TensorTracerError
from tensor_tracer.messages import Boundary, Plan, boundary_of, plan_of


class Request(Protocol):
    """`Run.request`."""

    def __call__(
        self, method: str, params: Mapping[str, Any] | None = None, timeout: float | None = ...
    ) -> dict[str, Any]: ...


class Control:
    """The control of a run, from `Run.control`: held until the block ends, which ends a pause. `request` asks the hub,
    `on_release` is called before the control is given back."""

    def __init__(self, request: Request, on_release: Callable[[], None]) -> None:
        self._request, self._on_release = request, on_release

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(TensorTracerError):  # taken over, or the run is gone
            self.release()

    def release(self) -> None:
        self._on_release()
        self._request("control.release")

    def pause(self) -> Boundary:
        """The boundary's step was the last before the pause."""
        return self._ask("control.pause")

    def resume(self) -> Boundary:
        return self._ask("control.continue")

    def step(self, count: int = 1) -> Boundary:
        """Does so many steps and pauses; returns when they are done."""
        return boundary_of(self._request("control.step", {"count": count}, timeout=None))

    def set_plan(self, plan: Plan) -> Boundary:
        """In force from the boundary's step on, as `plan` of the boundary."""
        return self._ask("plan.set", {"plan": plan_of(plan)})

    def stop(self) -> Boundary:
        """The run ends after the current step."""
        return self._ask("control.stop")

    def _ask(self, method: str, params: Mapping[str, Any] | None = None) -> Boundary:
        return boundary_of(self._request(method, params))
