"""A run of somebody else's trainer that Tensor Tracer watches and steers."""

from __future__ import annotations

import contextlib
import ctypes
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tensor_tracer.attaching.agreement import agree, share
from tensor_tracer.attaching.chunks import Chunk, kPacked
from tensor_tracer.attaching.extension import called
from tensor_tracer.attaching.groups import Groups, whole_tokens
from tensor_tracer.attaching.head import offer, withdraw
from tensor_tracer.attaching.hub_child import HubChild
from tensor_tracer.attaching.layouts import Layouts
from tensor_tracer.attaching.names import Names
from tensor_tracer.attaching.numbers import StageNumbers, json_of, number_of
from tensor_tracer.attaching.parts import Part
from tensor_tracer.attaching.plans import expand
from tensor_tracer.attaching.prompts import PromptModel, PromptOptions, texts_of
from tensor_tracer.attaching.stages import Table, make_table
from tensor_tracer.attaching.states import StateReader
from tensor_tracer.attaching.table import absent_names
from tensor_tracer.attaching.updates import UpdateWatch
from tensor_tracer.errors import TensorTracerError
from tensor_tracer.sinks.followers import Followers
from tensor_tracer.sinks.settings import Settings


_kNoForward = (
    "no forward with gradients was seen in step {}: nothing is traced. A model that is compiled after attach() calls no "
    "hooks: compile before, and only its layers. Nor does model.forward(): call model()"
)
_kMissing = (
    "no values of {}, from step {} on: these modules did not run. If the model was edited or compiled, call detach() "
    "and attach() again"
)
_kUneven = (
    "step {} has a forward that is neither traced nor changed: its context-parallel ranks must have equally many rows, and "
    "{} tokens in each, as in the first step; they have {}"
)
_kNoUpdate = (
    "no record of Updates in step {}: on some rank, the optimizer that is watched made no step, or its numbers could not be "
    "computed"
)
_kGraph = "a CUDA graph records the model: its replays call no modules, so they are not traced"
_kEdited = "layers were added, removed or replaced: call detach() and attach() again to trace the new ones"
_kHeadReplaced = (
    "final norm or output layer was replaced: logit lenses and programs have the earlier one; call detach() and attach() "
    "again"
)
_kNoPlaces = (
    "no tensor of this model has a standard name, so the default plan traces nothing; run.points() lists the tensors with "
    "the reasons, and plan= and names= of attach() take them"
)


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
        names: Names, first_step: int, trainer: str, prompts: PromptOptions,
    ) -> None:  # fmt: skip
        self._native, self._groups, self._layouts = native, groups, layouts
        self._plan, self._names = plan, names
        self._told = {"trainer": trainer, "tokenizer": prompts.kind}
        self._prompt_options = prompts
        self._prompts: PromptModel | None = None  # None: the places are not known yet
        self._step = first_step - 1  # the last step that has begun
        self._is_in_step = self._has_ended = False
        self._may_continue: bool | None = None  # of the next step; None: not asked yet
        self._begin = 0.0
        self._tracer_seconds = 0.0
        self._numbers: dict[str, Any] | None = None  # of the last step, not sent yet
        self._table: Table | None = None  # None: the places are not known yet
        self._given_tokens: Tensor | None = None
        self._updates: UpdateWatch | None = None
        self._head = 0  # the number of the head that programs call; 0: this rank has none
        self._step_seen = False  # a step has begun
        self._off = ""  # why the tracer switched itself off
        self._told_once: set[str] = set()
        self._has_report = False  # the step has ended, and its programs have not reported
        hub = native.hub()
        self._hub: dict[str, Any] = json.loads(hub) if hub else {}
        self._followers: Followers | None = None
        self._hub_child = HubChild(self._hub.get("pid", 0))
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
        """The run's directory, for tensor_tracer.connect(run_dir=...); empty on other ranks than global rank 0."""
        return str(self._hub.get("token_path", "")).removesuffix("/token")

    @property
    def trainer(self) -> str:
        """The name that attach() got."""
        return self._told["trainer"]

    @property
    def addresses(self) -> dict[str, Any]:
        """Of the hub, with the token; empty on other ranks than global rank 0."""
        return dict(self._hub)

    def follow(self, sinks: Sequence[str | Settings]) -> None:
        """Global rank 0 sends the run's numbers to other tools until its end. Once for a run."""
        if self._hub:
            self._followers = Followers(sinks, self.run_dir, self._warn)

    @contextmanager
    def step(self, tokens: Tensor | None = None, *, number: int | None = None) -> Iterator[None]:
        """Surrounds one step of the optimizer. `tokens`: int64 [batch, sequence], if the model does not get them.
        `number`: of this step, the same on all ranks, if the trainer has left steps out. Raises RunStopped if a viewer
        has stopped the run. Collective over all ranks. After an exception the next
        step may follow; what the step traced is dropped."""
        self.begin_step(tokens, number=number)
        try:
            yield
        except BaseException as error:
            self._drop_pass(type(error).__name__)
            raise
        self.end_step()

    def begin_step(self, tokens: Tensor | None = None, *, number: int | None = None) -> None:
        """The begin of step(), for trainers with callbacks."""
        self._require_running()
        if number is not None and number <= self._step:
            message = f"step {number} does not come after step {self._step}"
            raise TensorTracerError("invalid_argument", message, "step", "give a larger number")
        if self._is_in_step:
            raise TensorTracerError("invalid_state", f"step {self._step} has not ended", "step", "call end_step first")
        self._end_passes()
        self._send_numbers()
        self._exchange_numbers()
        self._look_around()
        if not self.may_continue():
            raise RunStopped(f"the run was stopped after step {self._step}")
        self._may_continue = None
        self._step = self._step + 1 if number is None else number
        self._is_in_step = self._step_seen = True
        for chunk in self._chunks:
            chunk.begin_step()
        self._given_tokens = tokens.detach().to(torch.int64) if tokens is not None else None
        self._begin = time.perf_counter()

    def may_continue(self) -> bool:
        """Waits while the run is paused, and takes new plans and programs. False: a viewer has stopped the run, and
        begin_step() would raise RunStopped. Between steps only. Collective over all ranks."""
        if self._may_continue is None:
            self._end_passes()
            self._may_continue = True
            if self.has_learned:
                with self.guarded("the exchange of the ranks between two steps"):
                    self._report()
                    self._may_continue = bool(self._native.before_step(self._step + 1))
                    self._tell_of_prompts()
        return self._may_continue

    def end_step(self) -> None:
        """The end of step(). Collective over all ranks in the first steps, until the model has run on each rank."""
        self._require_running()
        self._end_passes()
        self._is_in_step = False
        if self._off:
            return
        seconds = time.perf_counter() - self._begin
        self._numbers = {"step": self._step, "step_ms": seconds * 1e3}
        if any(chunk.micro_batch == 0 for chunk in self._chunks):
            self._warn_once(_kNoForward.format(self._step), _kNoForward)
        if self.has_learned:
            tracer = self._native.tracer_seconds()
            self._numbers["tracer_ms"] = (tracer - self._tracer_seconds) * 1e3
            self._tracer_seconds = tracer
            self._has_report = True
        else:
            with self.guarded("learning the model's places"):
                self._learn()
        if self._followers is not None:
            self._followers.check()

    def log(self, **numbers: float | Tensor | None) -> None:
        """Numbers of the last step: `loss`, `lr`, `grad_norm`, `valid_loss`, `tokens_per_second`. Those of global
        rank 0 are shown, and one step later those of the last stage of its pipeline. None: this rank has no number."""
        if "step" in numbers:
            raise TensorTracerError("invalid_argument", "the run counts the steps", "log", "leave step out")
        if not self._hub and not self._far.is_source:
            return
        sent = {name: number_of(name, value) for name, value in numbers.items() if value is not None}
        if self._far.is_source:
            self._far.log(max(self._step, 1), sent)
            return
        self._numbers = (self._numbers or {"step": max(self._step, 1)}) | sent
        self._send_numbers()

    @property
    def step_number(self) -> int:
        """The number of the last step that began. Before: that of the first step, minus 1."""
        return self._step

    def points(self) -> list[dict[str, Any]]:
        """The places of the model, with layout and source of the layout. A `problem` says why a tensor of a module
        is no place, a `gradient_problem` why its gradient is not traced. Empty before the first step has ended."""
        return [
            {
                "path": site.at, "name": site.name, "module": site.seen.path, "layer": site.layer,
                "stage": site.stage, "shape": list(site.seen.shape),
                "layout": site.layout_text, "source": site.layout.source, "problem": site.problem,
                "gradient_problem": site.layout.gradient_problem,
            }
            for site in (self._table.sites if self._table is not None else [])
        ]  # fmt: skip

    def watch_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Makes the place Updates: norms of weights, gradients, updates and Adam's moments of each parameter. Before the
        first step, on every rank; with pipeline stages, each rank gives the optimizer of its stages. Raises
        TensorTracerError."""
        self._require_running()
        if self._updates is not None:
            message, remedy = "the run watches an optimizer", "give the one whose updates you want to see"
            raise TensorTracerError("invalid_state", message, "watch_optimizer", remedy)
        if self._step_seen:
            message, remedy = "the first step has begun", "call it right after attach()"
            raise TensorTracerError("invalid_state", message, "watch_optimizer", remedy)
        roots = {chunk.stage: chunk.root for chunk in self._chunks}
        self._updates = UpdateWatch(optimizer, roots, self._groups, self._updates_are_due, self._tell_of_updates)

    def intervene(self, program: str | dict[str, Any], *, name: str = "program") -> dict[str, Any] | None:
        """Puts a program in force from the next step on. Returns its description, on global rank 0; the calls of
        other ranks do nothing."""
        self._require_places("intervene")
        if self._groups.rank != 0:
            return None
        text = json.dumps({"name": name, "program": program})
        answer: dict[str, Any] = json.loads(called(self._native.apply_program, text, self._step + 1))
        return answer

    def state_reader(self) -> StateReader:
        """For tensor_tracer.vectors, between two steps. Raises TensorTracerError. Collective over the tensor-parallel
        ranks."""
        self._require_running()
        self._require_places("extract")
        if self._is_in_step:
            raise TensorTracerError("invalid_state", f"step {self._step} has not ended", "extract", "call it after the step")
        assert self._table is not None and self._prompts is not None
        if problem := self._prompts.problem_of_forwards(self._has_stages, self._has_contexts):
            raise problem
        self._end_passes()
        return StateReader(self._prompts, self._table, self._groups, self._step)

    def detach(self) -> None:
        """Removes every hook, ends the hub, and destroys the process groups of the tracer. On every rank."""
        if self._has_ended:
            return
        self._end_passes()
        if self._has_report and not self._off:
            with self.guarded("the report of the programs"):
                self._report()
        self._send_numbers()
        self._exchange_numbers(is_last=True)
        self._has_ended = True
        self._wait_for_sinks()
        self._release(is_collective=True)
        self._hub_child.wait()
        for chunk in self._chunks:
            _attached.pop(id(chunk.root), None)
        if self._followers is not None:
            self._followers.finish()

    def abandon(self) -> None:
        """detach() after a training that an exception has ended."""
        if self._is_in_step:
            self._drop_pass("an exception")
        self.detach()

    def finish_sending(self) -> None:
        """Sends the queued messages and ends the hub. For the end of the process, without detach()."""
        if self._has_ended or self._off:
            return
        self._has_ended = True
        self._send_numbers()
        with contextlib.suppress(Exception):  # another rank or the group may be gone
            self._far.finish()
        self._wait_for_sinks()
        self._native.finish(max(self._step, 0), False)
        self._native = None
        if self._followers is not None:
            self._followers.finish()

    def leak(self) -> None:
        """In a forked child: the library's run is never destroyed, because it would wait for threads of the parent."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._native))

    def _wait_for_sinks(self) -> None:
        if self._followers is not None and self.has_learned:  # before, the hub knows no run
            self._followers.wait_until_connected()

    def _report(self) -> None:
        """Of updates, prompts and programs after the last step. Collective over all ranks, so it has its place between
        two steps, also if one of the ranks left the step by an exception."""
        if self._updates is not None and self._native.wants_updates(self._step):
            table = self._updates.share()
            if table is None:
                self._warn_once(_kNoUpdate.format(self._step), _kNoUpdate)
            elif self._groups.pipeline_index == 0:
                self._native.capture_updates(self._step, table)
        self._native.end_step(self._step)
        self._tell_of_prompts()
        self._has_report = False

    def _tell_of_prompts(self) -> None:
        if news := self._native.take_prompt_news():
            self._warn(news)

    def _tell_of_updates(self, error: str) -> None:
        self._warn_once(f"no record of Updates in step {self._step}: {error}", "an error of Updates")

    def _updates_are_due(self) -> bool:
        if not self.has_learned or not self._is_in_step:
            return False
        with self.guarded("looking for the entries of Updates"):
            return bool(self._native.wants_updates(self._step))
        return False

    # --- failures ---

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
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
            self._release(is_collective=False)

    def _release(self, is_collective: bool) -> None:
        """`is_collective`: every rank does it, and the hub ends after the leaders of all pipeline stages."""
        self._numbers = None
        for chunk in self._chunks:
            chunk.remove()
        self._far.close()
        if self._updates is not None:
            self._updates.remove()
            self._updates = None  # it has the groups
        native, self._native = self._native, None
        withdraw(self._head)
        if self._prompts is not None:
            self._prompts.withdraw()
        if native is None:
            return
        step = max(self._step, 0)
        try:
            native.finish(step, is_collective)
        except RuntimeError:  # another rank is gone
            native.finish(step, False)
        self._groups = self._groups.destroy()

    def _drop_pass(self, error: str) -> None:
        """After an exception in a step; `error` names it. The other tensor-parallel ranks may be waiting for numbers of
        this pass, or may be gone."""
        is_shared = len(self._groups.shard_ranks) > 1 and any(chunk.is_traced for chunk in self._chunks)
        for chunk in self._chunks:
            chunk.drop_passes()
        self._is_in_step = False
        if is_shared:
            self._switch_off(f"step {self._step} ended with {error} while it was traced")

    def _look_around(self) -> None:
        """Tells of what has changed since the last step."""
        if not self._off and self._hub_child.has_ended():
            self._warn("the hub has ended: page and recording stop here, and the training goes on")
        if self.has_learned and any(chunk.have_layers_changed() for chunk in self._chunks):
            self._warn_once(_kEdited, _kEdited)
        head = self._table.head if self._table is not None else None
        if self.has_learned and head is not None and head.has_changed():
            self._warn_once(_kHeadReplaced, _kHeadReplaced)

    def _warn_once(self, message: str, about: str) -> None:
        if about not in self._told_once:
            self._told_once.add(about)
            self._warn(message)

    # --- the passes of the chunks ---

    @property
    def has_learned(self) -> bool:
        return self._table is not None and self._native is not None

    @property
    def _has_stages(self) -> bool:
        return len(self._chunks) > 1 or len(self._groups.pipeline_ranks) > 1

    @property
    def _has_contexts(self) -> bool:
        return self._groups.contexts.ranks > 1

    def takes(self, is_eval: bool) -> bool:
        if self._has_ended or self._off or (not self._is_in_step and not is_eval):
            return False
        return self.has_learned or not is_eval

    def enter(self, chunk: Chunk) -> None:
        for other in self._chunks:
            if other is not chunk:
                other.rest()

    def warn_missing(self, missing: Sequence[str]) -> None:
        self._warn_once(_kMissing.format(", ".join(missing), self._step), ", ".join(missing))

    def given_tokens(self, chunk: Chunk, received: Tensor | None) -> Tensor | None:
        given = self._given_tokens
        if given is None or (self._table is None and chunk.stage > 0):  # in the first step, stage 0 tells of the tokens
            return given
        if received is not None and received.dim() == 3:
            rows = received.shape[self._rows_dim]
        else:
            rows = len(given) if self._table is None else self._table.batch.rows
        return given[chunk.rows : chunk.rows + rows] if rows < len(given) else given

    @property
    def _rows_dim(self) -> int:
        """The dim of the rows in what a chunk gets."""
        return int(self._table is not None and self._table.batch.is_sequence_first)

    def begin(self, chunk: Chunk, tokens: Tensor | None, shape: tuple[int, ...], is_eval: bool) -> Any:
        assert self._table is not None
        batch, has_text = self._table.batch, tokens is not None
        rows = shape[self._rows_dim] if len(shape) == 3 else batch.rows
        rows = rows if tokens is None else tokens.shape[0]
        # The library counts evaluations in batches of as many micro-batches as a step has.
        number, micro_batch = divmod(chunk.evaluated, self._table.micro_batches) if is_eval else (0, chunk.micro_batch)
        before = 0 if is_eval else chunk.rows
        chunk.rows += 0 if is_eval else rows
        first_row = before * self._groups.data_size + self._groups.data_index * rows
        scope = [max(self._step, 1), micro_batch, first_row, number, chunk.stage]
        if self._has_contexts:
            if not self._native.wants_forward(scope, is_eval):
                return None  # without a word to the other ranks
            of_rank = batch.context_tokens
            if tokens is None and len(shape) == len(chunk.received) == 3:
                of_rank = of_rank * shape[1 - self._rows_dim] // chunk.received[1 - self._rows_dim]
            tokens, found = whole_tokens(tokens, (rows, of_rank), batch.context_tokens, self._groups)
            if found:
                self._warn_once(_kUneven.format(self._step, batch.context_tokens, found), _kUneven)
                return None
        elif tokens is None:
            tokens = torch.zeros(rows, batch.tokens, dtype=torch.int64)
        forward = self._native.begin(scope, is_eval, tokens, has_text)
        return None if forward.is_idle() else forward

    def is_captured_in_graph(self) -> bool:
        """Kernels of ours in a CUDA graph would write into memory of another pass when the graph is replayed."""
        is_captured = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        if is_captured:
            self._warn_once(_kGraph, _kGraph)
        return is_captured

    def _end_passes(self) -> None:
        for chunk in self._chunks:
            chunk.end_passes()

    def _learn(self) -> None:
        """Makes the place table once each rank has run its part of the model in a step. Collective over all ranks."""
        has_run = all(chunk.learned is not None for chunk in self._chunks)
        is_packed = not has_run and any(chunk.is_packed for chunk in self._chunks)
        have_run, are_packed = zip(*share((has_run, is_packed), self._groups.control), strict=True)
        if any(are_packed):
            self._switch_off(kPacked)
        elif all(have_run):
            self._use(make_table(self._chunks, self._groups, self._layouts, self._names, self._told, self._updates))

    def _use(self, table: Table) -> None:
        """Traces the places from now on. Collective over all ranks."""
        self._head = offer(table.head) if table.head is not None else 0
        stages = {chunk.stage for chunk in self._chunks}
        device = next((str(site.seen.device) for site in table.places if site.stage in stages), "cpu")
        vocabulary = table.description["facts"]["model"]["vocab_size"]
        fills_up = table.shards_sequence and not self._has_contexts
        filled_to = table.description["step"]["seq_length"] if fills_up else 0
        self._prompts = PromptModel(self._chunks[0], self._prompt_options, vocabulary, filled_to)
        prompts = self._prompts.settings(self._has_stages, self._has_contexts)
        description = table.description | {"head": self._head, "device": device, "prompts": prompts}
        if self._groups.rank == 0:
            self._tell_texts(description["facts"])
        plan, left_out = self._agreed_plan(table)
        unsent = called(self._native.learn, json.dumps(description), plan)
        give_up = self._switch_off if len(self._groups.shard_ranks) > 1 else None
        for chunk in self._chunks:
            sites = [site if site.stage == chunk.stage else None for site in table.places]
            hooked = [None, *sites, None]  # no module has the tokens, nor the updates
            chunk.use(hooked, table.layers[chunk.stage], table.head, give_up)
        self._table = table
        self._native.send_event("state", json.dumps({"phase": "training", "step": self._step}))
        is_unnamed = self._plan is None and not any(site.standard for site in table.places)
        others = [one for one in (unsent, _kNoPlaces if is_unnamed else "") if one]
        for warning in [*table.warnings, *left_out, *others]:
            self._warn(warning)

    def _tell_texts(self, facts: dict[str, Any]) -> None:
        texts = texts_of(self._prompt_options.tokenizer, facts["model"]["vocab_size"])
        if texts is not None:
            facts["tokenizer"]["texts"] = texts

    def _agreed_plan(self, table: Table) -> tuple[str, list[str]]:
        """The first plan for the library, empty for the default plan, and messages on entries that it has lost. A wrong
        plan of rank 0 is the error of every rank. Collective over all ranks."""
        text, messages, problem = "", list[str](), None
        try:
            if self._plan is not None:
                plan, messages = self._expanded(self._plan, table)
                text = json.dumps(plan)
        except TensorTracerError as error:
            problem = error
        agree(problem, self._groups.control)
        return text, messages

    def _expanded(self, plan: dict[str, Any], table: Table) -> tuple[dict[str, Any], list[str]]:
        names = [(site.name, site.full_path, site.has_gradient) for site in table.places if not site.seen.is_weight]
        return expand(plan, list(dict.fromkeys(names)), absent_names(table.sites, self._names))

    # --- messages ---

    def _send_numbers(self) -> None:
        if self._numbers is not None and self._hub and self.has_learned:
            with self.guarded("sending the numbers of a step"):
                self._native.send_event("step", json_of(self._numbers))
        self._numbers = None

    def _exchange_numbers(self, is_last: bool = False) -> None:
        """Between pipeline stages. `is_last`: no other exchange follows, which would complete this one."""
        with self.guarded("the exchange of numbers between pipeline stages"):
            self._far.exchange()
            if is_last:
                self._far.wait()

    def _send_far(self, numbers: dict[str, float]) -> None:
        if self._hub and self.has_learned:
            self._native.send_event("step", json_of(numbers))

    def _warn(self, message: str) -> None:
        print(f"tensor_tracer: warning: {message}", file=sys.stderr)
        if self._native is not None:
            with contextlib.suppress(RuntimeError):
                self._native.send_event("log", json.dumps({"level": "warning", "message": message}))

    def _require_running(self) -> None:
        if self._has_ended:
            raise TensorTracerError("invalid_state", "the run is detached", "step", "attach again")

    def _require_places(self, where: str) -> None:
        if self._off:
            raise TensorTracerError("invalid_state", f"the tracer is off: {self._off}", where, "attach again")
        if not self.has_learned:
            message = "the places of the model are not known yet"
            raise TensorTracerError("invalid_state", message, where, "call it after the first step")


_attached: dict[int, AttachedRun] = {}


def attached_to(root: nn.Module) -> AttachedRun | None:
    return _attached.get(id(root))
