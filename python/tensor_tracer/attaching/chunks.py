"""The part of the model that one virtual pipeline stage computes, and its passes that are open. A model without
pipeline parallelism is one such part."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tensor_tracer.attaching import facts as about
from tensor_tracer.attaching.head import Head
from tensor_tracer.attaching.hooks import SiteHooks
from tensor_tracer.attaching.inert import Hook
from tensor_tracer.attaching.layouts import Layouts
from tensor_tracer.attaching.learning import Learner, first_tensor
from tensor_tracer.attaching.parts import Part
from tensor_tracer.attaching.table import LayerList, Site
from tensor_tracer.attaching.tokens import find_tokens, given_positions


kPacked = "forwards with packed_seq_params are neither traced nor changed with context parallelism"


class Passes(Protocol):
    """What a chunk asks its run."""

    @property
    def has_learned(self) -> bool:
        """True if the places are known."""

    def takes(self, is_eval: bool) -> bool:
        """True if a forward at this moment is one of the run."""

    def is_captured_in_graph(self) -> bool:
        """True while a CUDA graph records the forward: no pass may begin or end."""

    def guarded(self, what: str) -> AbstractContextManager[None]:
        """Keeps errors of the tracer away from the training."""

    def enter(self, chunk: Chunk) -> None:
        """From now on this chunk runs, and no other."""

    def warn_missing(self, missing: Sequence[str]) -> None:
        """Tells of sites whose modules did not run."""

    def given_tokens(self, chunk: Chunk, received: Tensor | None) -> Tensor | None:
        """Those of the micro-batch, from the tokens that the script gave to the step. `received`: what the chunk gets."""

    def begin(self, chunk: Chunk, tokens: Tensor | None, shape: tuple[int, ...], is_eval: bool) -> Any:
        """Opens a forward of the library; None: nothing wants it. `shape`: of the tokens, or of what the chunk gets."""


@dataclass
class _Open:
    """A pass. `native`: torch.classes.tensor_tracer.Forward; None: nothing wants the pass, or it has ended."""

    native: Any
    is_eval: bool
    rows_before: int = 0  # of the step
    backward_began: bool = False

    def end(self) -> None:
        if self.native is not None:
            self.native.end()
            self.native = None


class Chunk:
    """Counts the forwards of one part of the model, and opens and ends their passes. With a pipeline schedule, several
    are open at once: a pass ends when a forward begins after its backward has begun, or with the step.
    Thread: the thread that runs the step."""

    def __init__(self, part: Part, stage: int, layouts: Layouts, passes: Passes, tell: Callable[[str], None]) -> None:
        self.root, self.stage = part.root, stage
        self.micro_batch = self.evaluated = 0  # forwards of the step; forwards after it without a backward
        self.rows = 0  # of the step's forwards that have begun
        self.learned: Learner | None = None  # what the first forward showed; its hooks watch the backward
        self.positions: dict[str, tuple[int, ...]] = {}  # that the first forward got, as of given_positions()
        self.received: tuple[int, ...] = ()  # the shape of the first tensor that the first forward got
        self.is_packed = False  # forwards were left out, because they have packed sequences
        self._learner: Learner | None = None  # during that forward
        self._layouts, self._passes, self._tell = layouts, passes, tell
        self._caller, self._is_called = part.stage, part.stage is None
        self._is_shared = False  # by tensor-parallel ranks, which exchange numbers in a pass
        self._is_apart = False  # the forward that runs is one of the tracer
        self._autocast = (False, torch.float32)  # of the last forward with gradients
        self._hooks = SiteHooks([], {}, tell, None)
        self._layers = LayerList(self.root, {})
        self._open: list[_Open] = []
        self._now: _Open | None = None  # the pass whose forward runs
        self._handles: list[RemovableHandle] = [
            self.root.register_forward_pre_hook(Hook(self._before), with_kwargs=True, prepend=True),
            self.root.register_forward_hook(Hook(self._after)),
        ]
        if self._caller is not None:
            self._watch_calls()

    @property
    def is_traced(self) -> bool:
        """True if the library has an open pass."""
        return any(one.native is not None for one in self._open)

    def use(
        self, sites: Sequence[Site | None], layers: dict[str, int], head: Head | None,
        give_up: Callable[[str], None] | None,
    ) -> None:  # fmt: skip
        """The sites by the library's numbers; those of other chunks are None. `layers`: paths and numbers. `give_up`: as
        of SiteHooks."""
        self._is_shared = give_up is not None
        modules = {number: self.root.get_submodule(path) for path, number in layers.items()}
        self._hooks = SiteHooks(sites, modules, self._tell, give_up, head)
        self._layers = LayerList(self.root, layers)
        self._stop_learning()

    def have_layers_changed(self) -> bool:
        return self._layers.have_changed()

    def begin_step(self) -> None:
        self.micro_batch = self.evaluated = self.rows = 0
        self._now = None

    def rest(self) -> None:
        """Another chunk runs."""
        self._hooks.rest()

    def run_apart(self, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Runs the part between two steps with the hooks of a pass that the library opens and ends."""
        self._is_apart = True
        self._hooks.use(forward)
        try:
            self.root(*args, **kwargs)
            if missing := self._hooks.missing():
                self._passes.warn_missing(missing)
        finally:
            self._hooks.rest()
            self._is_apart = False

    def autocast(self) -> AbstractContextManager[Any]:
        """torch.autocast as in the last forward with gradients."""
        is_on, dtype = self._autocast
        return torch.autocast(self._device_type, dtype, enabled=True) if is_on else contextlib.nullcontext()

    @property
    def _device_type(self) -> str:
        return next((one.device.type for one in self.root.parameters()), "cpu")

    def end_passes(self) -> None:
        """Ends all passes, in the order of their forwards. Collective over the tensor-parallel ranks."""
        self._end(lambda one: True)

    def drop_passes(self) -> None:
        """Forgets the passes without a message to another rank, which may be gone."""
        for one in self._open:
            self._hooks.end_pass(one.native)
            one.native = None
        self._open, self._now = [], None
        self._hooks.rest()

    def remove(self) -> None:
        """Removes every hook."""
        self.drop_passes()
        for handle in self._handles:
            handle.remove()
        self._hooks.remove()
        self._stop_learning()
        if self._caller is not None:
            self._caller.__dict__.pop("forward_one_chunk", None)

    # A stage of torch.distributed.pipelining also calls its module to learn the shapes of its tensors.
    def _watch_calls(self) -> None:
        call = self._caller.forward_one_chunk

        def forward_one_chunk(*args: Any, **kwargs: Any) -> Any:
            self._is_called = True
            try:
                return call(*args, **kwargs)
            finally:
                self._is_called = False

        self._caller.forward_one_chunk = forward_one_chunk

    def _before(self, _root: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        is_eval = not torch.is_grad_enabled()
        if self._is_apart or torch.compiler.is_compiling() or _is_backward() or not self._is_called:
            return
        with self._passes.guarded("the begin of a forward"):
            if self._passes.is_captured_in_graph():
                self._hooks.rest()  # the pass before is ended after the recording
                return
        self._forget_failed()
        self._end(lambda one: one.backward_began or one is self._now)
        if not self._passes.takes(is_eval):
            return
        if self._layouts.contexts > 1 and kwargs.get("packed_seq_params") is not None:
            self._leave_out(is_eval)
            return
        with self._passes.guarded("the begin of a forward"):
            self._begin_forward(args, kwargs, is_eval)

    # Megatron-Core divides each document of packed sequences among context-parallel ranks, and not each row.
    def _leave_out(self, is_eval: bool) -> None:
        if self._passes.has_learned and not self.is_packed:
            self._tell(kPacked)
        self.is_packed = True
        self.micro_batch += 0 if is_eval else 1

    # A script may try again after an exception, for example with a smaller batch. Other tensor-parallel ranks may wait
    # for the numbers of that forward.
    def _forget_failed(self) -> None:
        failed = self._now
        if failed is None or self._is_shared:
            return
        self._hooks.end_pass(failed.native)
        failed.native = None
        if not failed.is_eval:
            self.micro_batch -= 1
            self.rows = failed.rows_before

    def _begin_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any], is_eval: bool) -> None:
        _, received = first_tensor(args if args else kwargs)
        tokens = find_tokens(args, kwargs) if self.stage == 0 else None
        if tokens is None and not is_eval:  # the script gave those of the step, which an evaluation does not have
            tokens = self._passes.given_tokens(self, received)
        opened = _Open(None, is_eval, self.rows)
        if self._passes.has_learned:
            known = tokens if tokens is not None else received
            opened.native = self._passes.begin(self, tokens, () if known is None else tuple(known.shape), is_eval)
        elif self.learned is None:
            self.received = () if received is None else tuple(received.shape)
            self._learn(tokens, received if self.stage > 0 else None)
            self.positions = given_positions(self.root, args, kwargs)
        if is_eval:
            self.evaluated += 1
        else:
            self.micro_batch += 1
            kind = self._device_type
            self._autocast = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
        self._open.append(opened)
        self._now = opened
        self._passes.enter(self)
        self._hooks.use(opened.native)

    def _learn(self, tokens: Tensor | None, received: Tensor | None) -> None:
        self._stop_learning()  # an earlier forward has raised an exception
        self._learner = Learner(self.root, self._layouts, about.attention_heads(self.root))
        self._learner.start(tokens, received)

    def _stop_learning(self) -> None:
        for learner in (self._learner, self.learned):
            if learner is not None:
                learner.stop()
        self._learner = self.learned = None

    def _after(self, _root: nn.Module, _args: Any, output: Any) -> None:
        if self._is_apart:
            return
        opened, self._now = self._now, None
        if opened is None or torch.compiler.is_compiling():
            return
        with self._passes.guarded("the end of a forward"):
            if self._learner is not None:
                self._learner.finish(output)
                self.learned, self._learner = self._learner, None
            if opened.native is not None:
                opened.native.end_forward()
                if missing := self._hooks.missing():
                    self._passes.warn_missing(missing)
            if not opened.is_eval:
                self._watch_backward(opened, output)
        if opened.is_eval:
            self._end(lambda one: one is opened)

    # Recomputed modules run in the backward pass: their hooks must know whose.
    def _watch_backward(self, opened: _Open, output: Any) -> None:
        def begins(_gradient: Tensor) -> None:
            opened.backward_began = True
            with self._passes.guarded("the begin of a backward"):
                if self.learned is not None:
                    self.learned.begin_backward()
                self._passes.enter(self)
                self._hooks.use(opened.native)

        for tensor in _tensors_of(output):
            if tensor.requires_grad:
                tensor.register_hook(begins)  # type: ignore[no-untyped-call]

    def _end(self, is_over: Callable[[_Open], bool]) -> None:
        over = [one for one in self._open if is_over(one)]
        self._open = [one for one in self._open if not is_over(one)]
        self._hooks.rest()
        for one in over:
            self._hooks.end_pass(one.native)
            with self._passes.guarded("the end of a backward"):
                one.end()


def _is_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


def _tensors_of(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list, Mapping)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors_of(one)
