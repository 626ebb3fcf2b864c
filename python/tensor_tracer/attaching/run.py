"""A run of somebody else's trainer that Tensor Tracer watches and steers."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from tensor_tracer.attaching import facts as about
from tensor_tracer.attaching import megatron
from tensor_tracer.attaching.agreement import agree, share
from tensor_tracer.attaching.extension import called
from tensor_tracer.attaching.groups import Groups
from tensor_tracer.attaching.head import Head, offer, with_lenses, withdraw
from tensor_tracer.attaching.hooks import SiteHooks
from tensor_tracer.attaching.hub_child import HubChild
from tensor_tracer.attaching.layouts import Layouts
from tensor_tracer.attaching.learning import Learner
from tensor_tracer.attaching.names import Names
from tensor_tracer.attaching.plans import expand
from tensor_tracer.attaching.table import (
    Batch, LayerList, Learned, Site, describe, find_layers, make_sites, name_sites, settle_layouts, tokens_row,
)  # fmt: skip
from tensor_tracer.attaching.tokens import find_tokens, text_size
from tensor_tracer.attaching.updates import UpdateWatch
from tensor_tracer.errors import TensorTracerError
from tensor_tracer.sinks.followers import Followers
from tensor_tracer.sinks.settings import Settings


_kNoForward = (
    "no forward of the model was seen in step {}: nothing is traced. A model that is compiled after attach() calls no "
    "hooks: compile before, and only its layers"
)
_kMissing = (
    "no values of {}, from step {} on: these modules did not run. If the model was edited or compiled, call detach() "
    "and attach() again"
)
_kNoUpdate = "no record of Updates in step {}: the optimizer that is watched made no step on some rank"
_kGraph = "a CUDA graph records the model: its replays call no modules, so they are not traced"
_kEdited = "layers were added, removed or replaced: call detach() and attach() again to trace the new ones"


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
        self._hooks = SiteHooks([], {}, self._warn, None)
        self._layers = LayerList(root, {})
        self._sites: list[Site] = []
        self._given_tokens: Tensor | None = None
        self._updates: UpdateWatch | None = None
        self._head = 0  # the number of the head that programs call; 0: the model has none
        self._step_seen = False  # a step has begun
        self._off = ""  # why the tracer switched itself off
        self._told_once: set[str] = set()
        self._has_report = False  # the step has ended, and its programs have not reported
        hub = native.hub()
        self._hub: dict[str, Any] = json.loads(hub) if hub else {}
        self._followers: Followers | None = None
        self._hub_child = HubChild(self._hub.get("pid", 0))
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

    def follow(self, sinks: Sequence[str | Settings]) -> None:
        """Global rank 0 sends the run's numbers to other tools until its end. Once for a run."""
        if self._hub:
            self._followers = Followers(sinks, self.run_dir, self._warn)

    @contextmanager
    def step(self, tokens: Tensor | None = None) -> Iterator[None]:
        """Surrounds one step of the optimizer. `tokens`: int64 [batch, sequence], if the model does not get them.
        Raises RunStopped if a viewer has stopped the run. Collective over all ranks. After an exception the next
        step may follow; what the step traced is dropped."""
        self.begin_step(tokens)
        try:
            yield
        except BaseException as error:
            self._drop_pass(error)
            raise
        self.end_step()

    def begin_step(self, tokens: Tensor | None = None) -> None:
        """The begin of step(), for trainers with callbacks."""
        self._require_running()
        if self._is_in_step:
            raise TensorTracerError("invalid_state", f"step {self._step} has not ended", "step", "call end_step first")
        self._end_forward()
        self._send_numbers()
        self._look_around()
        if not self.may_continue():
            raise RunStopped(f"the run was stopped after step {self._step}")
        self._may_continue = None
        self._step += 1
        self._is_in_step = self._step_seen = True
        self._micro_batch = self._evaluated = 0
        self._given_tokens = tokens.detach().to(torch.int64) if tokens is not None else None
        self._begin = time.perf_counter()

    def may_continue(self) -> bool:
        """Waits while the run is paused, and takes new plans and programs. False: a viewer has stopped the run, and
        begin_step() would raise RunStopped. Between steps only. Collective over all ranks."""
        if self._may_continue is None:
            self._end_forward()
            self._may_continue = True
            if self._has_learned:
                with self._guarded("the exchange of the ranks between two steps"):
                    self._report()
                    self._may_continue = bool(self._native.before_step(self._step + 1))
        return self._may_continue

    def end_step(self) -> None:
        """The end of step(). Collective over all ranks in the first steps, until the model has run on each rank."""
        self._require_running()
        self._end_forward()
        self._is_in_step = False
        if self._off:
            return
        seconds = time.perf_counter() - self._begin
        self._numbers = {"step": self._step, "step_ms": seconds * 1e3}
        if self._micro_batch == 0:
            self._warn_once(_kNoForward.format(self._step), _kNoForward)
        if self._has_learned:
            tracer = self._native.tracer_seconds()
            self._numbers["tracer_ms"] = (tracer - self._tracer_seconds) * 1e3
            self._tracer_seconds = tracer
            self._has_report = True
        else:
            with self._guarded("learning the model's places"):
                self._learn()
        if self._followers is not None:
            self._followers.check()

    def log(self, **numbers: float | Tensor) -> None:
        """Numbers of the last step: `loss`, `lr`, `grad_norm`, `valid_loss`, `tokens_per_second`. Those of global
        rank 0 are shown."""
        if not self._hub:
            return
        sent = {
            name: float(value.detach() if isinstance(value, Tensor) else value) for name, value in numbers.items()
        }
        self._numbers = (self._numbers or {"step": max(self._step, 1)}) | sent
        self._send_numbers()

    def points(self) -> list[dict[str, Any]]:
        """The places of the model, with layout and source of the layout. A `problem` says why a tensor of a module
        is no place, a `gradient_problem` why its gradient is not traced. Empty before the first step has ended."""
        return [
            {
                "path": site.at, "name": site.name, "module": site.seen.path, "layer": site.layer, "shape": list(site.seen.shape),
                "layout": str(site.layout), "source": site.layout.source, "problem": site.problem,
                "gradient_problem": site.layout.gradient_problem,
            }
            for site in self._sites
        ]  # fmt: skip

    def watch_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Makes the place Updates: norms of weights, gradients, updates and Adam's moments of each parameter. Before the
        first step, on every rank. Raises TensorTracerError."""
        self._require_running()
        if self._step_seen or self._updates is not None:
            message = "the first step has begun" if self._step_seen else "the run watches an optimizer"
            raise TensorTracerError("invalid_state", message, "watch_optimizer", "call it once, right after attach()")
        self._updates = UpdateWatch(optimizer, self._root, self._groups, self._updates_are_due)

    def intervene(self, program: str | dict[str, Any], name: str = "program") -> dict[str, Any] | None:
        """Puts a program in force from the next step on. Returns its description, on global rank 0; the calls of
        other ranks do nothing."""
        if not self._has_learned and not self._off:
            raise TensorTracerError(
                "invalid_state", "the places of the model are not known yet", "intervene",
                "call it after the first step",
            )  # fmt: skip
        if self._off:
            raise TensorTracerError("invalid_state", f"the tracer is off: {self._off}", "intervene", "attach again")
        if self._groups.rank != 0:
            return None
        text = json.dumps({"name": name, "program": program})
        answer: dict[str, Any] = json.loads(called(self._native.apply_program, text, self._step + 1))
        return answer

    def detach(self) -> None:
        """Removes every hook, ends the hub, and destroys the process groups of the tracer. On every rank."""
        if self._has_ended:
            return
        self._end_forward()
        if self._has_report and not self._off:
            with self._guarded("the report of the programs"):
                self._report()
        self._send_numbers()
        self._has_ended = True
        self._wait_for_sinks()
        self._release()
        self._hub_child.wait()
        forget(self._root)
        if self._followers is not None:
            self._followers.finish()

    def finish_sending(self) -> None:
        """Sends the queued messages and ends the hub. For the end of the process, without detach()."""
        if self._has_ended or self._off:
            return
        self._has_ended = True
        self._send_numbers()
        self._wait_for_sinks()
        self._native.finish(max(self._step, 0))
        self._native = None
        if self._followers is not None:
            self._followers.finish()

    def _wait_for_sinks(self) -> None:
        if self._followers is not None and self._has_learned:  # before, the hub knows no run
            self._followers.wait_until_connected()

    def _report(self) -> None:
        """Of updates and programs in the last step. Collective over all ranks, so it has its place between two steps,
        also if one of the ranks left the step by an exception."""
        if self._updates is not None and self._native.wants_updates(self._step):
            table = self._updates.share()
            if table is None:
                self._warn_once(_kNoUpdate.format(self._step), _kNoUpdate)
            else:
                self._native.capture_updates(self._step, table)
        self._native.end_step(self._step)
        self._has_report = False

    def _updates_are_due(self) -> bool:
        if not self._has_learned or not self._is_in_step:
            return False
        with self._guarded("looking for the entries of Updates"):
            return bool(self._native.wants_updates(self._step))
        return False

    # --- failures ---

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """No error of the tracer reaches the training, except for those that tell of wrong arguments."""
        try:
            yield
        except TensorTracerError:
            raise
        except Exception as error:
            self._switch_off(f"{what} failed: {error}")

    def _switch_off(self, reason: str) -> None:
        """For good, on this rank. The groups go too, so that ranks that wait for this one notice it, and do the same."""
        if self._off:
            return
        self._off = reason
        step = self._step if self._is_in_step else self._step + 1
        self._warn(f"the tracer is off from step {step} on, and the training goes on: {reason}")
        with contextlib.suppress(Exception):
            self._release()

    def _release(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._forward = self._learned = self._numbers = None
        self._hooks.end_pass()
        self._hooks.remove()
        if self._updates is not None:
            self._updates.remove()
        if self._learner is not None:
            self._learner.stop()
        native, self._native, self._has_learned = self._native, None, False
        withdraw(self._head)
        if native is not None:
            native.finish(max(self._step, 0))
            self._groups = self._groups.destroy()

    def _drop_pass(self, error: BaseException) -> None:
        """After an exception in a step. The other tensor-parallel ranks may be waiting for numbers of this pass, or
        may be gone."""
        is_shared = self._forward is not None and len(self._groups.tensor_ranks) > 1
        self._forward = None
        self._hooks.end_pass()
        self._is_in_step = False
        if is_shared:
            self._switch_off(f"step {self._step} ended with {type(error).__name__} while it was traced")

    def _look_around(self) -> None:
        """Tells of what has changed since the last step."""
        if not self._off and self._hub_child.has_ended():
            self._warn("the hub has ended: page and recording stop here, and the training goes on")
        if self._has_learned and self._layers.have_changed():
            self._warn_once(_kEdited, _kEdited)

    def _warn_once(self, message: str, about: str) -> None:
        if about not in self._told_once:
            self._told_once.add(about)
            self._warn(message)

    # --- the passes ---

    def _before_forward(self, _root: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling() or self._off or self._has_ended:
            return
        with self._guarded("the begin of a forward"):
            if self._is_captured_in_graph():
                self._hooks.end_pass()  # the pass before is ended after the recording
                return
        self._end_forward()
        with self._guarded("the begin of a forward"):
            self._begin_forward(args, kwargs)

    def _begin_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        is_eval = not torch.is_grad_enabled()
        if not self._is_in_step and not is_eval:
            return
        tokens = find_tokens(args, kwargs)
        if tokens is None:
            tokens = self._given_tokens
        if not self._has_learned:
            if is_eval:
                return
            self._micro_batch += 1
            if self._learned is None:
                self._learner = Learner(self._root, self._layouts, about.attention_heads(self._root))
                self._learner.start(tokens)
            return
        if tokens is None:
            tokens = torch.zeros(self._batch.rows, self._batch.tokens, dtype=torch.int64)
        self._open(tokens, is_eval)

    def _is_captured_in_graph(self) -> bool:
        """Kernels of ours in a CUDA graph would write into memory of another pass when the graph is replayed."""
        is_captured = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        if is_captured:
            self._warn_once(_kGraph, _kGraph)
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
        if torch.compiler.is_compiling():
            return
        with self._guarded("the end of a forward"):
            if self._learner is not None and self._learned is None:
                self._learner.finish(output)
                self._learned = self._learner, _batch_of(self._learner)
            if self._forward is not None:
                self._forward.end_forward()
                if missing := self._hooks.missing():
                    self._warn_once(_kMissing.format(", ".join(missing), self._step), ", ".join(missing))

    def _end_forward(self) -> None:
        forward, self._forward = self._forward, None
        self._hooks.end_pass()
        if forward is not None:
            with self._guarded("the end of a backward"):
                forward.end()

    def _learn(self) -> None:
        """Makes the place table once each rank has run the model in a step. Collective over all ranks."""
        batch = self._learned[1] if self._learned is not None else None
        batches = share(batch, self._groups.control)
        if self._learned is not None and None not in batches:
            self._use(self._learned[0], self._learned[1], batches[0])

    def _use(self, learner: Learner, batch: Batch, batch_of_rank_0: Batch) -> None:
        """Makes the place table of what was learned, on every rank. Collective over all ranks."""
        learner.stop()
        self._learner = None
        layers = find_layers(self._root, learner.seen)
        modules = {number: self._root.get_submodule(path) for path, number in layers.items()}
        batch = replace(batch, is_sequence_first=megatron.is_sequence_first(list(modules.values())))
        ranks = len(self._groups.tensor_ranks)
        sites = make_sites(learner.seen, layers, batch, ranks)
        learned = [Learned.of(site.seen) for site in sites]
        warnings = settle_layouts(sites, self._groups.gather(learned)) if ranks > 1 else []
        vocabulary = text_size(self._root)
        places = name_sites(sites, layers, self._names, vocabulary)
        head = Head.of(places, self._layouts.axis)
        places = with_lenses(places, head)
        self._sites, self._batch = [*sites, *(site for site in places if site.lens_of is not None)], batch
        states = [site for site in places if site.name == "HiddenStates"]
        hidden_size = int(states[0].row["features"]) if states else max((s.row["features"] for s in places), default=1)
        shown = batch_of_rank_0  # another replica may have batches of another shape
        model = about.model_facts(self._root, len(layers), hidden_size, shown.tokens, vocabulary, ranks)
        description = self._describe(places, model, shown)
        self._head = offer(head) if head is not None else 0
        called(self._native.learn, json.dumps(description | {"head": self._head}), self._agreed_plan(places))
        hooked = [None, *places, None]  # no module has the tokens, nor the updates
        self._hooks = SiteHooks(hooked, modules, self._warn, self._switch_off if ranks > 1 else None, head)
        self._layers = LayerList(self._root, layers)
        self._has_learned = True
        self._learned = None
        self._native.send_event("state", json.dumps({"phase": "training", "step": self._step}))
        for warning in warnings + [f"it is not known what the module passes on: {one}" for one in learner.failures]:
            self._warn(warning)

    def _agreed_plan(self, places: list[Site]) -> str:
        """A wrong plan of rank 0 is the error of every rank. Collective over all ranks."""
        text, problem = "", None
        try:
            text = self._plan_text(places)
        except TensorTracerError as error:
            problem = error
        agree(problem, self._groups.control)
        return text

    def _plan_text(self, places: list[Site]) -> str:
        """The first plan for the library; empty: the default plan."""
        if self._plan is None:
            return ""
        names = [(site.name, site.full_path, site.has_gradient) for site in places]
        return json.dumps(expand(self._plan, list(dict.fromkeys(names))))

    def _describe(self, places: list[Site], model: dict[str, Any], batch: Batch) -> dict[str, Any]:
        head_size = about.head_size(self._root, model)
        dtype = str(places[0].seen.dtype).removeprefix("torch.") if places else "float32"
        taken = {site.path for site in places} | {site.name for site in places}
        sites = [tokens_row(), *(describe(site, head_size, taken) for site in places)]
        sites += [self._updates.row()] if self._updates is not None else []
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
            with self._guarded("sending the numbers of a step"):
                self._native.send_event("step", json.dumps(self._numbers))
        self._numbers = None

    def _warn(self, message: str) -> None:
        print(f"tensor_tracer: warning: {message}", file=sys.stderr)
        if self._native is not None:
            with contextlib.suppress(RuntimeError):
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
