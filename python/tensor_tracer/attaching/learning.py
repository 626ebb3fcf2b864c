"""Learns the places of a model from one forward pass: which tensors its modules pass on, in which order."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.hooks import RemovableHandle

from tensor_tracer.attaching import backwards, points
from tensor_tracer.attaching.attention import PARTS, AttentionCall, AttentionWatch, is_attention, why_unseen
from tensor_tracer.attaching.inert import Hook
from tensor_tracer.attaching.layouts import Layout, Layouts, kUnseenGradient
from tensor_tracer.attaching.paths import named_modules
from tensor_tracer.attaching.wrappers import local_of

_kCompiled = "compiled in place, the module calls no hooks: use torch.compile(module) in the place of the module"

_kPiece = 1 << 22  # bytes that are hashed at once; each takes 24 bytes of memory meanwhile

# The member of a module's output or input: of a tuple, of a mapping; None: the tensor itself.
Member = int | str | None


@dataclass
class Seen:
    """A tensor that a module took or returned, once in the forward."""

    path: str  # of the module
    module: nn.Module
    part: str  # "input", "output", "point", "weight", "bias"; of an attention module also a name in attention.PARTS
    member: Member
    shape: tuple[int, ...]  # of this rank; of a weight: of the whole
    dtype: torch.dtype
    layout: Layout
    bits: int  # a hash of this rank's numbers; 0: not asked
    is_constant: bool
    is_received: bool = False  # from the pipeline stage before
    device: torch.device = torch.device("cpu")
    is_gradient_watched: bool = False
    gradient_bits: int | None = None  # of the gradient; None: it was not seen, or all its numbers are the same
    aliases: list[str] = field(default_factory=list)  # other names of the same tensor
    twins: list[str] = field(default_factory=list)  # names of tensors with the same numbers in the same memory
    calls: int = 1  # of the module in this forward
    is_compiled: bool = False  # compiled code gave it: programs cannot write it
    is_made: bool = False  # recomputed for the tracer alone; the model passes on no such tensor
    is_weight: bool = False

    @property
    def name(self) -> str:
        return self.path if self.part == "point" else _name_of(self.path, self.part)

    @property
    def is_output(self) -> bool:
        return self.part == "output"


class NamedPoint(nn.Module):
    """Stands for the module of a tensor_tracer.point()."""


class Learner:
    """Watches one forward of `root`, and until stop() its backward. `layouts` says how ranks share the tensors."""

    def __init__(self, root: nn.Module, layouts: Layouts, heads: int) -> None:
        """`heads`: the number of attention heads of the whole model; 0: not known."""
        self.root = root
        self.layouts = layouts
        self.heads = heads
        self.seen: list[Seen] = []
        self.failures: list[str] = []
        self.tokens: Tensor | None = None
        self.text_size = 0  # the rows of the embedding that got the tokens; 0: none did
        self.loss_scale: float | None = None  # as of backwards.loss_scale(); None: not known
        self._received: Tensor | None = None
        self._of_tensor: dict[int, tuple[weakref.ref[Tensor], int, Seen]] = {}  # with the version of the numbers
        self._of_memory: dict[Any, list[tuple[weakref.ref[Tensor], Seen]]] = {}
        self._calls: dict[str, int] = {}
        self._last: tuple[Tensor, Seen] | None = None  # the newest output of a module
        self._is_forward_over = False
        self._handles: list[RemovableHandle] = []
        self._open: list[tuple[str, nn.Module]] = []  # the modules that run now
        self._attention = AttentionWatch(self._see_attention)

    def start(self, tokens: Tensor | None, received: Tensor | None) -> None:
        """`received`: what the root gets from the pipeline stage before."""
        self.tokens, self._received = tokens, received
        points.watch(self)
        for path, module in named_modules(self.root):
            if not path or _is_inside_compiled(self.root, path):
                continue
            if module._compiled_call_impl is not None:
                layout = Layout(problem=_kCompiled)
                self.seen.append(Seen(path, module, "output", None, (), torch.float32, layout, 0, True))
                continue
            self._handles.append(module.register_forward_pre_hook(Hook(self._before(path)), with_kwargs=True))
            self._handles.append(module.register_forward_hook(Hook(self._after(path)), always_call=True))

    def finish(self, output: Any) -> None:
        """`output`: of the root module."""
        member, tensor = first_tensor(output)
        with self._guarded("output"):
            if not self._is_converted(tensor):
                self._see_member("", self.root, "output", member, tensor)
        self._last = None
        self._list_unseen_attention()
        backwards.watch(self)
        self._is_forward_over = True
        self._received = None
        self._of_tensor.clear()
        self._of_memory.clear()

    def _is_converted(self, tensor: Tensor | None) -> bool:
        """True if the root returns what the last module returned, in another dtype. Accelerate does so in mixed
        precision, outside of the graph of the loss."""
        if tensor is None or self._last is None or self._seen_before(tensor) is not None:
            return False
        last, seen = self._last
        if last.dtype == tensor.dtype or last.shape != tensor.shape or isinstance(tensor, DTensor):
            return False
        if not torch.equal(local_of(last.detach()).to(tensor.dtype), tensor.detach()):
            return False
        seen.aliases.append("output")
        return True

    def begin_backward(self) -> None:
        """In the backward, at the gradient of the root's output."""
        if self.loss_scale is None:
            self.loss_scale = backwards.loss_scale()

    def stop(self) -> None:
        points.unwatch(self)
        backwards.unwatch(self)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def at_point(self, name: str, placement: str, tensor: Tensor, is_compiled: bool) -> Tensor | None:
        if self._is_forward_over:
            return tensor
        with self._guarded(name):
            self._see_point(name, placement, tensor, is_compiled)
        return tensor

    def at_gradient(self, number: int, gradient: Tensor) -> None:
        """Gradients are not learned."""

    def _see_point(self, name: str, placement: str, tensor: Tensor, is_compiled: bool) -> None:
        self._calls[name] = self._calls.get(name, 0) + 1
        if self._calls[name] > 1:
            next(seen for seen in self.seen if seen.name == name).calls = self._calls[name]
            return
        layout = self.layouts.of_point(name, placement, tensor)
        local = local_of(tensor)
        bits, is_constant = fingerprint(local) if self.layouts.ranks > 1 else (0, False)
        self.seen.append(Seen(
            name, NamedPoint(), "point", None, tuple(local.shape), tensor.dtype, layout, bits, is_constant,
            device=tensor.device, is_compiled=is_compiled,
        ))  # fmt: skip

    def _before(self, path: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not self._open:
                self._attention.start()
            self._open.append((path, module))
            self._calls[path] = self._calls.get(path, 0) + 1
            if isinstance(module, nn.Embedding) and args:
                with self._guarded(path):
                    self._see_embedding(module, args[0])
            self._see_member(path, module, "input", *first_tensor(args if args else kwargs))

        return hook

    def _see_embedding(self, module: nn.Embedding, ids: Any) -> None:
        if self.text_size or self.tokens is None or not isinstance(ids, Tensor):
            return
        if ids.shape == self.tokens.shape and torch.equal(local_of(ids), self.tokens):
            self.text_size = module.num_embeddings

    def _after(self, path: str) -> Any:
        def hook(module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
            self._open.pop()
            if not self._open:
                self._attention.stop()
            with self._guarded(path):
                self._see_member(path, module, "scores", *probabilities_in(output))
            self._see_member(path, module, "output", *first_tensor(output))

        return hook

    @contextlib.contextmanager
    def _guarded(self, path: str) -> Iterator[None]:
        """No error of ours reaches training."""
        try:
            yield
        except Exception as error:
            self.failures.append(f"{path}: {error}")

    def _see_attention(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._is_forward_over:
            return
        path, module = self._open[-1]
        try:
            call = AttentionCall.of(args, kwargs)
            queries = args[0] if args else kwargs["query"]
            layout = self.layouts.of_heads(f"{path}.scores", queries, self.heads)
            bits, is_constant = fingerprint(call.query) if self.layouts.ranks > 1 else (0, False)
            earlier = [seen for seen in self.seen if seen.path == path and seen.is_made]
            for seen in earlier:
                seen.calls += 1
            for part, one in PARTS.items() if not earlier else ():
                held = layout if one.has_keys or layout.dim is None else replace(layout, dim=2)
                self.seen.append(Seen(
                    path, module, part, None, call.shape_of(part), call.dtype, held, bits, is_constant,
                    device=call.query.device, is_made=True,
                ))  # fmt: skip
        except Exception as error:  # no error of ours reaches training
            self.failures.append(f"{path}: {error}")

    def _list_unseen_attention(self) -> None:
        """The outermost attention modules that ran, without probabilities."""
        tokens = self.tokens.shape[1] if self.tokens is not None else None
        squares = [seen.path for seen in self.seen if _is_square(seen.shape) and tokens in (None, seen.shape[-1])]
        listed = squares + [seen.path for seen in self.seen if seen.part == "scores"]
        for path, module in named_modules(self.root):
            is_inside = _is_inside_compiled(self.root, path)
            if not path or not (is_inside or path in self._calls) or not is_attention(path, module):
                continue
            if any(f"{one}.".startswith(f"{path}.") or f"{path}.".startswith(f"{one}.") for one in listed):
                continue
            layout = Layout(problem=why_unseen(module, is_inside))
            self.seen.append(Seen(path, module, "scores", None, (), torch.float32, layout, 0, True, is_made=True))
            listed.append(path)

    def _see_member(self, path: str, module: nn.Module, part: str, member: Member, tensor: Tensor | None) -> None:
        with self._guarded(path):
            if tensor is not None and self._is_forward_over:
                self._watch_recomputed(_name_of(path, part), tensor)
            elif tensor is not None:
                self._see(path, module, part, member, tensor)

    def _see(self, path: str, module: nn.Module, part: str, member: Member, tensor: Tensor) -> None:
        known = self._seen_before(tensor)
        name = _name_of(path, part)
        layout = self._layout_of(path, module, part, tensor)
        is_summed = known is not None and known.layout.problem and not layout.problem and layout.is_known  # in place
        if known is not None and not is_summed:
            known.aliases.append(name)
            if layout.is_of_user or not known.layout.is_known:  # the module that passes it on may know more
                known.layout = layout
            return
        if (calls := self._calls.get(path, 1)) > 1:
            for seen in self.seen:
                if seen.path == path:
                    seen.calls = calls
            return
        local = local_of(tensor)
        bits, is_constant = fingerprint(local) if self.layouts.ranks > 1 else (0, False)
        is_received, shape, device = tensor is self._received, tuple(local.shape), tensor.device
        seen = Seen(path, module, part, member, shape, tensor.dtype, layout, bits, is_constant, is_received, device)
        self.seen.append(seen)
        if part == "output":
            self._last = tensor, seen
        self._of_tensor[id(tensor)] = (weakref.ref(tensor), _version_of(tensor), seen)
        self._watch_gradient(seen, tensor)
        self._share_layout(seen, tensor, local)

    def _seen_before(self, tensor: Tensor) -> Seen | None:
        """The place of this tensor, if nothing has written into it since."""
        reference, version, seen = self._of_tensor.get(id(tensor), (None, 0, None))
        is_same = reference is not None and reference() is tensor and version == _version_of(tensor)
        return seen if is_same else None

    def _watch_recomputed(self, name: str, tensor: Tensor) -> None:
        """A recomputation makes the graph of the gradients only in the backward."""
        seen = next((one for one in self.seen if one.name == name), None)
        if seen is not None and not seen.is_gradient_watched:
            self._watch_gradient(seen, tensor)

    def _watch_gradient(self, seen: Seen, tensor: Tensor) -> None:
        seen.is_gradient_watched = tensor.requires_grad and torch.is_grad_enabled()
        if self.layouts.ranks > 1 and seen.is_gradient_watched and not isinstance(tensor, DTensor):
            hook = partial(self._see_gradient, seen)
            tensor.register_hook(hook)  # type: ignore[no-untyped-call]

    def _see_gradient(self, seen: Seen, gradient: Tensor) -> None:
        with self._guarded(seen.name):
            bits, is_constant = fingerprint(local_of(gradient))
            seen.gradient_bits = None if is_constant else bits

    def _share_layout(self, seen: Seen, tensor: Tensor, local: Tensor) -> None:
        """Tensors in the same memory have the same layout: of a plain tensor and a DTensor, the latter knows it."""
        key = local.data_ptr(), local.shape, local.stride(), local.dtype
        same = [one for one in self._of_memory.get(key, []) if one[0]() is not None]
        self._of_memory[key] = same = [*same, (weakref.ref(tensor), seen)]
        known = next((one for _, one in same if one.layout.is_known), None)
        for _, one in same:
            if one is not seen:
                one.twins.append(seen.name)
            if known is not None and not one.layout.is_known:
                source = f"in the memory of {known.name}: {known.layout.source}"
                problem = kUnseenGradient if known.layout.dim is None else ""  # not all of them have the same gradient
                one.layout = replace(known.layout, source=source, gradient_problem=problem)

    def _layout_of(self, path: str, module: nn.Module, part: str, tensor: Tensor) -> Layout:
        tokens = self.tokens.shape[1] if self.tokens is not None else 0
        if part == "scores":
            return self.layouts.of_heads(f"{path}.{part}", tensor, self.heads)
        if part == "output":
            return self.layouts.of_output(path, module, tensor, tokens)
        return self.layouts.of_input(path, module, tensor)


def is_compiled(module: nn.Module) -> bool:
    """True if compiled code runs the module: hooks of the modules in it do not run, or only once."""
    dynamo = sys.modules.get("torch._dynamo")
    return module._compiled_call_impl is not None or (dynamo is not None and isinstance(module, dynamo.OptimizedModule))


def _is_inside_compiled(root: nn.Module, path: str) -> bool:
    parts = path.split(".")
    return any(is_compiled(root.get_submodule(".".join(parts[:end]))) for end in range(1, len(parts)))


def _name_of(path: str, part: str) -> str:
    return f"{path}." * bool(path) + part


def probabilities_in(output: Any) -> tuple[Member, Tensor | None]:
    """The attention probabilities [batch, heads, sequence, sequence] in the output of an attention module, beside
    its first tensor."""
    for index, found in enumerate(output if isinstance(output, tuple) else ()):
        if index > 0 and isinstance(found, Tensor) and _is_square(found.shape) and found.is_floating_point():
            local = local_of(found.detach())
            if bool((local >= 0).all() & local.any()):  # a bias of positions is not
                return index, found
    return None, None


def _version_of(tensor: Tensor) -> int:
    """Counts the writes into the tensor."""
    return 0 if tensor.is_inference() else tensor._version


def _is_square(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and shape[-1] == shape[-2]


def first_tensor(value: Any) -> tuple[Member, Tensor | None]:
    """The tensor of activations in a module's output or input: `logits`, else the first of floats."""
    if isinstance(value, Tensor):
        return None, value if value.is_floating_point() else None
    if isinstance(value, Mapping):
        for key in ("logits", *value.keys()):
            found = value.get(key)
            if isinstance(found, Tensor) and found.is_floating_point() and found.dim() > 0:
                return str(key), found
    elif isinstance(value, (tuple, list)):
        for index, found in enumerate(value):
            if isinstance(found, Tensor) and found.is_floating_point() and found.dim() > 0:
                return index, found
    return None, None


def replaced(value: Any, member: Member, tensor: Tensor) -> Any:
    """`value` with another tensor at the member. A mapping is changed in place."""
    if member is None:
        return tensor
    if isinstance(value, tuple):
        changed = (*value[: int(member)], tensor, *value[int(member) + 1 :])
        return type(value)(*changed) if hasattr(value, "_fields") else changed
    value[member] = tensor
    return value


def member_of(value: Any, member: Member) -> Any:
    return value if member is None else value[member]


def fingerprint(local: Tensor) -> tuple[int, bool]:
    """A hash of the tensor's bits, and whether all its numbers are the same."""
    flat = local.detach().contiguous().view(-1)
    if flat.numel() == 0:
        return 0, True
    total, words = 0, flat.view(torch.uint8)
    for start in range(0, words.numel(), _kPiece):
        piece = words[start : start + _kPiece].to(torch.int64)
        at = torch.arange(start, start + piece.numel(), device=piece.device)
        total += int((piece * (at * 0x9E3779B1 % 0x7FFFFFFF + 1)).sum())
    return total, bool((flat == flat[0]).all())
