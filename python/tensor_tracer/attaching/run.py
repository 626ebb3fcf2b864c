"""A run of somebody else's trainer that Tensor Tracer watches and steers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from tensor_tracer.attaching import facts as about
from tensor_tracer.attaching import megatron
from tensor_tracer.attaching.extension import called
from tensor_tracer.attaching.groups import Groups
from tensor_tracer.attaching.hooks import SiteHooks
from tensor_tracer.attaching.layouts import Layouts
from tensor_tracer.attaching.learning import Learner
from tensor_tracer.attaching.names import Names
from tensor_tracer.attaching.plans import expand
from tensor_tracer.attaching.table import (
    Batch, Site, describe, find_layers, make_sites, name_sites, settle_layouts, tokens_row,
)  # fmt: skip
from tensor_tracer.attaching.tokens import find_tokens, text_size
from tensor_tracer.errors import TensorTracerError


class RunStopped(Exception):
    """A viewer stopped the run, or its plan ended it. Leave the loop of the steps."""


class AttachedRun:
    """What tensor_tracer.attach() returns. Every rank calls the same methods in the same order.

    The first step is not traced: the tracer learns the model's places from it.
    Thread: the thread that runs the step.
    """

    def __init__(
        self, root: nn.Module, native: Any, groups: Groups, layouts: Layouts, plan: Any,
        names: Names, first_step: int, told: dict[str, str],
    ) -> None:  # fmt: skip
        self._root, self._native, self._groups, self._layouts = root, native, groups, layouts
        self._plan, self._names, self._told = plan, names, told
        self._step = first_step - 1  # the last step that has begun
        self._is_in_step = self._has_ended = self._has_learned = False
        self._may_continue: bool | None = None  # of the next step; None: not asked yet
        self._micro_batch = self._evaluated = 0  # forwards of the step; forwards after it without a backward
        self._begin = 0.0
        self._tracer_seconds = 0.0
        self._numbers: dict[str, Any] | None = None  # of the last step, not sent yet
        self._forward: Any = None
        self._learner: Learner | None = None
        self._learned: tuple[Learner, Batch] | None = None
        self._hooks = SiteHooks([], {}, self._warn)
        self._sites: list[Site] = []
        self._given_tokens: Tensor | None = None
        hub = native.hub()
        self._hub: dict[str, Any] = json.loads(hub) if hub else {}
        self._handles = [
            root.register_forward_pre_hook(self._before_forward, with_kwargs=True, prepend=True),
            root.register_forward_hook(self._after_forward),
        ]

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
            self._forward = self._hooks.forward = None  # the other ranks may be gone
            self._is_in_step = False
            raise
        self.end_step()

    def begin_step(self, tokens: Tensor | None = None) -> None:
        """The begin of step(), for trainers with callbacks."""
        self._require_running()
        if self._is_in_step:
            raise TensorTracerError("invalid_state", f"step {self._step} has not ended", "step", "call end_step first")
        self._end_forward()
        self._send_numbers()
        if not self.may_continue():
            raise RunStopped(f"the run was stopped after step {self._step}")
        self._may_continue = None
        self._step += 1
        self._is_in_step = True
        self._micro_batch = self._evaluated = 0
        self._given_tokens = tokens.detach().to(torch.int64) if tokens is not None else None
        self._begin = time.perf_counter()

    def may_continue(self) -> bool:
        """Waits while the run is paused, and takes new plans and programs. False: a viewer has stopped the run, and
        begin_step() would raise RunStopped. Between steps only. Collective over all ranks."""
        if self._may_continue is None:
            self._end_forward()
            self._may_continue = not self._has_learned or bool(self._native.before_step(self._step + 1))
        return self._may_continue

    def end_step(self) -> None:
        """The end of step(). Collective over all ranks."""
        self._require_running()
        self._end_forward()
        self._is_in_step = False
        seconds = time.perf_counter() - self._begin
        self._numbers = {"step": self._step, "step_ms": seconds * 1e3}
        if self._has_learned:
            tracer = self._native.tracer_seconds()
            self._numbers["tracer_ms"] = (tracer - self._tracer_seconds) * 1e3
            self._tracer_seconds = tracer
            self._native.end_step(self._step)
        elif self._learned is not None:
            self._use(*self._learned)

    def log(self, **numbers: float | Tensor) -> None:
        """Numbers of the last step: `loss`, `lr`, `grad_norm`, `valid_loss`, `tokens_per_second`. Those of global
        rank 0 are shown."""
        if not self._hub:
            return
        sent = {name: float(value) for name, value in numbers.items()}
        self._numbers = (self._numbers or {"step": max(self._step, 1)}) | sent
        self._send_numbers()

    def points(self) -> list[dict[str, Any]]:
        """The places of the model, with layout and source of the layout. A `problem` says why a tensor of a module
        is no place. Empty before the first step has ended."""
        return [
            {
                "path": f"layers[{site.layer}].{site.path}" if site.layer else site.path,
                "name": site.name, "module": site.seen.path, "layer": site.layer, "shape": list(site.seen.shape),
                "layout": str(site.layout), "source": site.layout.source, "problem": site.problem,
            }
            for site in self._sites
        ]  # fmt: skip

    def intervene(self, program: str | dict[str, Any], name: str = "program") -> dict[str, Any] | None:
        """Puts a program in force from the next step on. Returns its description, on global rank 0."""
        if not self._has_learned:
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
        self._end_forward()
        self._send_numbers()
        self._has_ended = True
        for handle in self._handles:
            handle.remove()
        self._hooks.remove()
        self._hooks.forward = None
        if self._learner is not None:
            self._learner.stop()
        self._native.finish(max(self._step, 0))
        self._native = None
        self._groups.destroy()
        forget(self._root)

    def finish_sending(self) -> None:
        """Sends the queued messages and ends the hub. For the end of the process, without detach()."""
        if self._has_ended:
            return
        self._has_ended = True
        self._send_numbers()
        self._native.finish(max(self._step, 0))

    # --- the passes ---

    def _before_forward(self, _root: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._end_forward()
        is_eval = not torch.is_grad_enabled()
        if self._is_captured_in_graph():
            return
        if self._has_ended or (not self._is_in_step and not is_eval):
            return
        tokens = find_tokens(args, kwargs)
        if tokens is None:
            tokens = self._given_tokens
        if not self._has_learned:
            if is_eval:
                return
            self._micro_batch += 1
            if self._learned is None:
                self._learner = Learner(self._root, self._layouts)
                self._learner.start(tokens)
            return
        if tokens is None:
            tokens = torch.zeros(self._batch.rows, self._batch.tokens, dtype=torch.int64)
        self._open(tokens, is_eval)

    def _is_captured_in_graph(self) -> bool:
        """Kernels of ours in a CUDA graph would write into memory of another pass when the graph is replayed."""
        is_captured = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        if is_captured:
            self._warn("a CUDA graph records the model: its replays call no modules, so they are not traced")
        return is_captured

    def _open(self, tokens: Tensor, is_eval: bool) -> None:
        micro_batch = 0 if is_eval else self._micro_batch
        rows = tokens.shape[0]
        first_row = (micro_batch * self._groups.data_size + self._groups.data_index) * rows
        scope = [max(self._step, 1), micro_batch, first_row, self._evaluated if is_eval else 0]
        forward = self._native.begin(scope, is_eval, tokens)
        if is_eval:
            self._evaluated += 1
        else:
            self._micro_batch += 1
        if forward.is_idle():
            self._hooks.remove()
            return
        self._forward = forward
        self._hooks.arm(forward)

    def _after_forward(self, _root: nn.Module, _args: Any, output: Any) -> None:
        if self._learner is not None:
            self._learner.finish(output)
            self._learned = self._learner, _batch_of(self._learner)
            self._learner = None
        if self._forward is not None:
            self._forward.end_forward()

    def _end_forward(self) -> None:
        forward, self._forward, self._hooks.forward = self._forward, None, None
        if forward is not None:
            forward.end()

    def _use(self, learner: Learner, batch: Batch) -> None:
        """Makes the place table of what was learned, on every rank. Collective over all ranks."""
        layers = find_layers(self._root, learner.seen)
        modules = {number: self._root.get_submodule(path) for path, number in layers.items()}
        batch = replace(batch, is_sequence_first=megatron.is_sequence_first(list(modules.values())))
        ranks = len(self._groups.tensor_ranks)
        sites = make_sites(learner.seen, layers, batch, ranks)
        seen = [(site.seen.shape, site.seen.bits, site.seen.is_constant) for site in sites]
        warnings = settle_layouts(sites, self._groups.gather(seen)) if ranks > 1 else []
        vocabulary = text_size(self._root)
        places = name_sites(sites, layers, self._names, vocabulary)
        self._sites, self._batch = sites, batch
        states = [site for site in places if site.name == "HiddenStates"]
        hidden_size = int(states[0].row["features"]) if states else max((s.row["features"] for s in places), default=1)
        model = about.model_facts(self._root, len(layers), hidden_size, batch.tokens, vocabulary, ranks)
        description = self._describe(places, model, batch)
        called(self._native.learn, json.dumps(description), self._plan_text(places))
        self._hooks = SiteHooks([None, *places], modules, self._warn)
        self._has_learned = True
        self._learned = None
        self._native.send_event("state", json.dumps({"phase": "training", "step": self._step}))
        for warning in warnings + [f"it is not known what the module passes on: {one}" for one in learner.failures]:
            self._warn(warning)

    def _plan_text(self, places: list[Site]) -> str:
        """The first plan for the library; empty: the default plan."""
        if self._plan is None:
            return ""
        names = [(site.name, site.full_path) for site in places]
        return json.dumps(expand(self._plan, list(dict.fromkeys(names))))

    def _describe(self, places: list[Site], model: dict[str, Any], batch: Batch) -> dict[str, Any]:
        head_size = about.head_size(self._root, model)
        dtype = str(places[0].seen.dtype).removeprefix("torch.") if places else "float32"
        sites = [tokens_row(), *(describe(site, head_size) for site in places)]
        names = [str(site["name"]) for site in sites]
        states = [index for index, name in enumerate(names) if name == "HiddenStates"]
        micro_batches = max(self._micro_batch, 1)
        return {
            "places": {
                "num_layers": model["num_layers"], "batch": batch.rows, "sequence": batch.tokens, "dtype": dtype,
                "sites": sites,
                "layer_input": names.index("Embedding") if "Embedding" in names else 0,
                "layer_output": states[0] if states else 0,
            },
            "device": str(places[0].seen.device) if places else "cpu",
            "step": {
                "micro_batches": micro_batches, "micro_batch_size": batch.rows, "seq_length": batch.tokens,
                "hidden_size": model["hidden_size"], "head_size": max(head_size, 1), "dtype": dtype,
            },
            "facts": {
                "model": model, "micro_batch_size": batch.rows, "tokenizer": {"kind": self._told["tokenizer"]},
                "global_batch_size": batch.rows * micro_batches * self._groups.data_size,
                "configuration": {"trainer": self._told["trainer"], "model": type(self._root).__name__},
            },
        }  # fmt: skip

    # --- messages ---

    def _send_numbers(self) -> None:
        if self._numbers is not None and self._hub and self._has_learned:
            self._native.send_event("step", json.dumps(self._numbers))
        self._numbers = None

    def _warn(self, message: str) -> None:
        print(f"tensor_tracer: warning: {message}", file=sys.stderr)
        if self._native is not None:
            self._native.send_event("log", json.dumps({"level": "warning", "message": message}))

    def _require_running(self) -> None:
        if self._has_ended:
            raise TensorTracerError("invalid_state", "the run is detached", "step", "attach again")


_attached: dict[int, AttachedRun] = {}


def remember(root: nn.Module, run: AttachedRun) -> None:
    _attached[id(root)] = run


def forget(root: nn.Module) -> None:
    _attached.pop(id(root), None)


def is_attached(root: nn.Module) -> bool:
    return id(root) in _attached


def _batch_of(learner: Learner) -> Batch:
    if learner.tokens is not None:
        return Batch(learner.tokens.shape[0], learner.tokens.shape[1])
    for seen in learner.seen:
        if len(seen.shape) == 3:
            return Batch(seen.shape[0], seen.shape[1])
    return Batch(1, 1)
