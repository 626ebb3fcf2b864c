"""A run of somebody else's trainer that Tensor Tracer watches and steers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tensor_tracer.attaching.chunks import Chunk
from tensor_tracer.attaching.extension import called
from tensor_tracer.attaching.groups import Groups
from tensor_tracer.attaching.layouts import Layouts
from tensor_tracer.attaching.names import Names
from tensor_tracer.attaching.numbers import StageNumbers
from tensor_tracer.attaching.parts import Part
from tensor_tracer.attaching.plans import expand
from tensor_tracer.attaching.stages import Table, make_table
from tensor_tracer.attaching.table import Site
from tensor_tracer.errors import TensorTracerError


class RunStopped(Exception):
    """A viewer stopped the run, or its plan ended it. Leave the loop of the steps."""


class AttachedRun:
    """What tensor_tracer.attach() returns. Every rank calls the same methods in the same order. `parts`: of the model,
    by the number of the virtual pipeline stage.

    The first step is not traced: the tracer learns the model's places from it.
    Thread: the thread that runs the step.
    """

    def __init__(
        self, parts: Mapping[int, Part], native: Any, groups: Groups, layouts: Layouts, plan: Any,
        names: Names, first_step: int, told: dict[str, str],
    ) -> None:  # fmt: skip
        self._native, self._groups = native, groups
        self._plan, self._names, self._told = plan, names, told
        self._step = first_step - 1  # the last step that has begun
        self._is_in_step = self._has_ended = False
        self._may_continue: bool | None = None  # of the next step; None: not asked yet
        self._begin = 0.0
        self._tracer_seconds = 0.0
        self._numbers: dict[str, Any] | None = None  # of the last step, not sent yet
        self._table: Table | None = None  # None: the places are not known yet
        self._given_tokens: Tensor | None = None
        hub = native.hub()
        self._hub: dict[str, Any] = json.loads(hub) if hub else {}
        last = groups.gather_stages(dict.fromkeys(parts, groups.rank))[-1]
        self._far = StageNumbers(groups, last, self._send_far)
        self._chunks = [Chunk(part, stage, layouts, self, self._warn) for stage, part in parts.items()]
        _attached.update({id(part.root): self for part in parts.values()})

    # --- what a script calls ---

    @property
    def url(self) -> str:
        """The page's address without its token; empty on other ranks than global rank 0."""
        return str(self._hub.get("url", ""))

    @property
    def run_dir(self) -> str:
        """The run's directory, for tensor_tracer.connect(); empty on other ranks than global rank 0."""
        return str(self._hub.get("token_path", "")).removesuffix("/token")

    @property
    def addresses(self) -> dict[str, Any]:
        """Of the hub, with the token; empty on other ranks than global rank 0."""
        return dict(self._hub)

    @contextmanager
    def step(self, tokens: Tensor | None = None) -> Iterator[None]:
        """Surrounds one step of the optimizer. `tokens`: int64 [batch, sequence], if the model does not get them.
        Raises RunStopped if a viewer has stopped the run. Collective over all ranks."""
        self.begin_step(tokens)
        try:
            yield
        except BaseException:
            for chunk in self._chunks:
                chunk.drop_passes()  # the other ranks may be gone
            self._is_in_step = False
            raise
        self.end_step()

    def begin_step(self, tokens: Tensor | None = None) -> None:
        """The begin of step(), for trainers with callbacks."""
        self._require_running()
        if self._is_in_step:
            raise TensorTracerError("invalid_state", f"step {self._step} has not ended", "step", "call end_step first")
        self._end_passes()
        self._send_numbers()
        self._far.exchange()
        if not self.may_continue():
            raise RunStopped(f"the run was stopped after step {self._step}")
        self._may_continue = None
        self._step += 1
        self._is_in_step = True
        for chunk in self._chunks:
            chunk.begin_step()
        self._given_tokens = tokens.detach().to("cpu", torch.int64) if tokens is not None else None
        self._begin = time.perf_counter()

    def may_continue(self) -> bool:
        """Waits while the run is paused, and takes new plans and programs. False: a viewer has stopped the run, and
        begin_step() would raise RunStopped. Between steps only. Collective over all ranks."""
        if self._may_continue is None:
            self._end_passes()
            self._may_continue = not self.has_learned or bool(self._native.before_step(self._step + 1))
        return self._may_continue

    def end_step(self) -> None:
        """The end of step(). Collective over all ranks."""
        self._require_running()
        self._end_passes()
        self._is_in_step = False
        seconds = time.perf_counter() - self._begin
        self._numbers = {"step": self._step, "step_ms": seconds * 1e3}
        if self.has_learned:
            tracer = self._native.tracer_seconds()
            self._numbers["tracer_ms"] = (tracer - self._tracer_seconds) * 1e3
            self._tracer_seconds = tracer
            self._native.end_step(self._step)
        elif self._chunks[0].learned is not None:
            self._use(make_table(self._chunks, self._groups, self._names, self._told))

    def log(self, **numbers: float | Tensor | None) -> None:
        """Numbers of the last step: `loss`, `lr`, `grad_norm`, `valid_loss`, `tokens_per_second`. Those of global
        rank 0 are shown, and one step later those of the last stage of its pipeline. None: this rank has no number."""
        if not self._hub and not self._far.is_source:
            return
        sent = {name: float(value) for name, value in numbers.items() if value is not None}
        if self._far.is_source:
            self._far.log(max(self._step, 1), sent)
            return
        self._numbers = (self._numbers or {"step": max(self._step, 1)}) | sent
        self._send_numbers()

    def points(self) -> list[dict[str, Any]]:
        """The places of the model, with layout and source of the layout. A `problem` says why a tensor of a module
        is no place. Empty before the first step has ended."""
        return [
            {
                "path": f"layers[{site.layer}].{site.path}" if site.layer else site.path,
                "name": site.name, "module": site.seen.path, "layer": site.layer, "stage": site.stage, "shape": list(site.seen.shape),
                "layout": str(site.layout), "source": site.layout.source, "problem": site.problem,
            }
            for site in (self._table.sites if self._table is not None else [])
        ]  # fmt: skip

    def intervene(self, program: str | dict[str, Any], name: str = "program") -> dict[str, Any] | None:
        """Puts a program in force from the next step on. Returns its description, on global rank 0."""
        if not self.has_learned:
            raise TensorTracerError(
                "invalid_state", "the places of the model are not known yet", "intervene",
                "call it after the first step",
            )  # fmt: skip
        if self._groups.rank != 0:
            return None
        text = json.dumps({"name": name, "program": program})
        answer: dict[str, Any] = json.loads(called(self._native.apply_program, text, self._step + 1))
        return answer

    def detach(self) -> None:
        """Removes every hook, ends the hub, and destroys the process groups of the tracer. Collective over all ranks."""
        if self._has_ended:
            return
        self._end_passes()
        self._send_numbers()
        self._far.exchange()
        self._far.wait()
        self._has_ended = True
        for chunk in self._chunks:
            chunk.remove()
            _attached.pop(id(chunk.root), None)
        self._native.finish(max(self._step, 0), True)
        self._native = None
        self._groups.destroy()

    def finish_sending(self) -> None:
        """Sends the queued messages and ends the hub. For the end of the process, without detach()."""
        if self._has_ended:
            return
        self._has_ended = True
        self._send_numbers()
        self._native.finish(max(self._step, 0), False)

    # --- the passes of the chunks ---

    @property
    def has_learned(self) -> bool:
        return self._table is not None

    def takes(self, is_eval: bool) -> bool:
        if self._has_ended or (not self._is_in_step and not is_eval):
            return False
        return self.has_learned or not is_eval

    def given_tokens(self, micro_batch: int) -> Tensor | None:
        """Those of the micro-batch, if the script gave the tokens of all of them."""
        given = self._given_tokens
        if given is None or self._table is None or given.shape[0] <= (rows := self._table.batch.rows):
            return given
        return given[micro_batch * rows : (micro_batch + 1) * rows]

    def begin(self, chunk: Chunk, tokens: Tensor | None, shape: tuple[int, ...], is_eval: bool) -> Any:
        assert self._table is not None
        batch, has_text = self._table.batch, tokens is not None
        if tokens is None:
            rows = shape[1 if batch.is_sequence_first else 0] if len(shape) == 3 else batch.rows
            tokens = torch.zeros(rows, batch.tokens, dtype=torch.int64)
        micro_batch = 0 if is_eval else chunk.micro_batch
        first_row = (micro_batch * self._groups.data_size + self._groups.data_index) * tokens.shape[0]
        scope = [max(self._step, 1), micro_batch, first_row, chunk.evaluated if is_eval else 0, chunk.stage]
        forward = self._native.begin(scope, is_eval, tokens, has_text)
        return None if forward.is_idle() else forward

    def _end_passes(self) -> None:
        for chunk in self._chunks:
            chunk.end_passes()

    def _use(self, table: Table) -> None:
        """Traces the places from now on. Collective over all ranks."""
        called(self._native.learn, json.dumps(table.description), self._plan_text(table.places))
        for chunk in self._chunks:
            sites = [site if site.stage == chunk.stage else None for site in table.places]
            chunk.use([None, *sites], table.layers[chunk.stage])
        self._table = table
        self._native.send_event("state", json.dumps({"phase": "training", "step": self._step}))
        for warning in table.warnings:
            self._warn(warning)

    def _plan_text(self, places: list[Site]) -> str:
        """The first plan for the library; empty: the default plan."""
        if self._plan is None:
            return ""
        names = [(site.name, site.full_path) for site in places]
        return json.dumps(expand(self._plan, list(dict.fromkeys(names))))

    # --- messages ---

    def _send_numbers(self) -> None:
        if self._numbers is not None and self._hub and self.has_learned:
            self._native.send_event("step", json.dumps(self._numbers))
        self._numbers = None

    def _send_far(self, numbers: dict[str, float]) -> None:
        if self._hub and self.has_learned:
            self._native.send_event("step", json.dumps(numbers))

    def _warn(self, message: str) -> None:
        print(f"tensor_tracer: warning: {message}", file=sys.stderr)
        if self._native is not None:
            self._native.send_event("log", json.dumps({"level": "warning", "message": message}))

    def _require_running(self) -> None:
        if self._has_ended:
            raise TensorTracerError("invalid_state", "the run is detached", "step", "attach again")


_attached: dict[int, AttachedRun] = {}


def is_attached(root: nn.Module) -> bool:
    return id(root) in _attached

