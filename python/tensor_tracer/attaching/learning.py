"""Learns the places of a model from one forward pass: which tensors its modules pass on, in which order."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tensor_tracer.attaching.layouts import Layout, Layouts
from tensor_tracer.attaching.wrappers import local_of

# The member of a module's output or input: of a tuple, of a mapping; None: the tensor itself.
Member = int | str | None


@dataclass
class Seen:
    """A tensor that a module took or returned, once in the forward."""

    path: str  # of the module
    module: nn.Module
    is_output: bool
    member: Member
    shape: tuple[int, ...]  # of this rank
    dtype: torch.dtype
    layout: Layout
    bits: int  # a hash of this rank's numbers; 0: not asked
    is_constant: bool
    device: torch.device = torch.device("cpu")
    aliases: list[str] = field(default_factory=list)  # other names of the same tensor
    calls: int = 1  # of the module in this forward

    @property
    def name(self) -> str:
        return _name_of(self.path, self.is_output)


class Learner:
    """Watches one forward of `root`. `layouts` says how ranks share the tensors."""

    def __init__(self, root: nn.Module, layouts: Layouts) -> None:
        self.root = root
        self.layouts = layouts
        self.seen: list[Seen] = []
        self.failures: list[str] = []
        self.tokens: Tensor | None = None
        self._of_tensor: dict[int, tuple[weakref.ref[Tensor], Seen]] = {}
        self._calls: dict[str, int] = {}
        self._handles: list[RemovableHandle] = []

    def start(self, tokens: Tensor | None) -> None:
        self.tokens = tokens
        for path, module in self.root.named_modules():
            if module is self.root or module._compiled_call_impl is not None or _is_inside_compiled(self.root, path):
                continue
            self._handles.append(module.register_forward_pre_hook(self._before(path), with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._after(path)))

    def finish(self, output: Any) -> None:
        """`output`: of the root module."""
        self._after("")(self.root, (), output)
        self.stop()

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._of_tensor.clear()

    def _before(self, path: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._calls[path] = self._calls.get(path, 0) + 1
            member, tensor = first_tensor(args if args else kwargs)
            if tensor is not None:
                self._try_to_see(path, module, False, member, tensor)

        return hook

    def _after(self, path: str) -> Any:
        def hook(module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
            member, tensor = first_tensor(output)
            if tensor is not None:
                self._try_to_see(path, module, True, member, tensor)

        return hook

    def _try_to_see(self, path: str, module: nn.Module, is_output: bool, member: Member, tensor: Tensor) -> None:
        try:
            self._see(path, module, is_output, member, tensor)
        except Exception as error:  # no error of ours reaches training
            self.failures.append(f"{path}: {error}")

    def _see(self, path: str, module: nn.Module, is_output: bool, member: Member, tensor: Tensor) -> None:
        known = self._of_tensor.get(id(tensor))
        name = _name_of(path, is_output)
        if known is not None and known[0]() is tensor:
            known[1].aliases.append(name)
            if not known[1].layout.is_known:  # the module that passes it on may know more
                known[1].layout = self._layout_of(path, module, is_output, tensor)
            return
        if (calls := self._calls.get(path, 1)) > 1:
            for seen in self.seen:
                if seen.path == path:
                    seen.calls = calls
            return
        layout = self._layout_of(path, module, is_output, tensor)
        bits, is_constant = fingerprint(local_of(tensor)) if self.layouts.ranks > 1 else (0, False)
        shape = tuple(local_of(tensor).shape)
        seen = Seen(path, module, is_output, member, shape, tensor.dtype, layout, bits, is_constant, tensor.device)
        self.seen.append(seen)
        self._of_tensor[id(tensor)] = (weakref.ref(tensor), seen)

    def _layout_of(self, path: str, module: nn.Module, is_output: bool, tensor: Tensor) -> Layout:
        tokens = self.tokens.shape[1] if self.tokens is not None else 0
        if is_output:
            return self.layouts.of_output(path, module, tensor, tokens)
        return self.layouts.of_input(path, module, tensor)


def is_compiled(module: nn.Module) -> bool:
    """True if compiled code runs the module: hooks of the modules in it do not run, or only once."""
    dynamo = sys.modules.get("torch._dynamo")
    return module._compiled_call_impl is not None or (dynamo is not None and isinstance(module, dynamo.OptimizedModule))


def _is_inside_compiled(root: nn.Module, path: str) -> bool:
    parts = path.split(".")
    return any(is_compiled(root.get_submodule(".".join(parts[:end]))) for end in range(1, len(parts)))


def _name_of(path: str, is_output: bool) -> str:
    return f"{path}." * bool(path) + ("output" if is_output else "input")


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
    words = flat.view(torch.uint8).to(torch.int64)
    weights = torch.arange(words.numel(), device=words.device) * 0x9E3779B1 % 0x7FFFFFFF + 1
    return int((words * weights).sum()), bool((flat == flat[0]).all())
