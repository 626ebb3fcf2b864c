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
    """The control of a run, from `Run.control`. The end of the block releases it and ends a pause. `request` sends a
    request to the hub; `on_release` is called before the control is released."""

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
        """Pauses the run. The step of the boundary is the last step before the pause."""
        return self._ask("control.pause")

    def resume(self) -> Boundary:
        return self._ask("control.continue")

    def step(self, count: int = 1) -> Boundary:
        """Runs this number of steps, then pauses. Returns after the last of them."""
        return boundary_of(self._request("control.step", {"count": count}, timeout=None))

    def set_plan(self, plan: Plan) -> Boundary:
        """Sets the trace plan. It is in force from the step of the boundary on; `plan` of the boundary is the plan."""
        return self._ask("plan.set", {"plan": plan_of(plan)})

    def checkpoint(self) -> Boundary:
        """Saves a checkpoint of the state after the step of the boundary. The run goes on while ranks write it. A run
        without `--save` raises a HubError with the code `no_checkpoints`."""
        return self._ask("checkpoint.save")

    def stop(self) -> Boundary:
        """Ends the run after the current step."""
        return self._ask("control.stop")

    def _ask(self, method: str, params: Mapping[str, Any] | None = None) -> Boundary:
        return boundary_of(self._request(method, params))
