"""Hooks on the modules that a pass needs, and on no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import _StopRecomputationError
from torch.utils.hooks import RemovableHandle

from tensor_tracer.attaching.learning import Member, first_tensor, member_of, replaced
from tensor_tracer.attaching.table import Site
from tensor_tracer.attaching.wrappers import differentiable_local, is_wrapped, local_of, wrapped_like


class SiteHooks:
    """`sites`: by the library's numbers; `layers`: modules, by their number. `tell`: takes the message of a
    hook that failed; its site is left alone from then on."""

    def __init__(self, sites: Sequence[Site | None], layers: dict[int, nn.Module], tell: Callable[[str], None]) -> None:
        self._sites = sites
        self._layers = layers
        self._tell = tell
        self._installed: tuple[frozenset[int], bool] = (frozenset(), False)
        self._handles: list[RemovableHandle] = []
        self._failed: set[int] = set()
        self._inputs: dict[int, Tensor] = {}  # of layers that programs skip
        self.forward: Any = None  # torch.classes.tensor_tracer.Forward of the pass; None: no pass

    def use(self, forward: Any) -> None:
        """Installs what the pass needs. Nothing changes if the pass before needed the same. None: no pass runs."""
        self.forward = forward
        if forward is None:
            self.remove()
            return
        needed = frozenset(forward.wanted()) - self._failed, bool(forward.has_programs())
        if needed == self._installed:
            return
        self.remove()
        self._installed = needed
        if needed[1]:
            for number, module in self._layers.items():
                self._handles.append(module.register_forward_pre_hook(self._ask_skip(number), with_kwargs=True))
                self._handles.append(module.register_forward_hook(self._skip(number)))
        for site in sorted(needed[0]):
            self._install(site)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._installed = frozenset(), False

    def _install(self, number: int) -> None:
        site = self._sites[number]
        if site is None:
            return
        module, member = site.seen.module, site.seen.member
        if site.seen.is_output:

            def after(_module: nn.Module, _args: Any, output: Any) -> Any:
                return self._pass_through(number, output, member)

            self._handles.append(module.register_forward_hook(after))
            return

        def before(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if args:
                changed = self._pass_through(number, args, member)
                return None if changed is None else (changed, kwargs)
            changed = self._pass_through(number, dict(kwargs), member)
            return None if changed is None else (args, changed)

        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))

    def _pass_through(self, number: int, value: Any, member: Member) -> Any:
        """Lets programs change the tensor and captures it. Returns the changed value; None: unchanged."""
        if self.forward is None or number in self._failed:
            return None
        try:
            tensor: Tensor = member_of(value, member)
            changed = self._changed(number, tensor)
            # A tensor that is made while gradients are off is in no graph, also if a part of it asks for gradients, as
            # in the first forward of Megatron's recomputation. The graph comes with the second one.
            seen = changed if torch.is_grad_enabled() else changed.detach()
            self.forward.capture(number, seen, local_of(seen) if is_wrapped(seen) else seen)
            return None if changed is tensor else replaced(value, member, changed)
        except _StopRecomputationError:  # a program's operator has saved the last tensor that the backward pass needs
            raise
        except Exception as error:  # no error of ours reaches training
            self._failed.add(number)
            site = self._sites[number]
            self._tell(f"{site.name if site else number} is not traced any more: {error}")
            return None

    def _changed(self, number: int, tensor: Tensor) -> Tensor:
        if not self.forward.acts_at(number):
            return tensor
        if not is_wrapped(tensor):
            changed: Tensor = self.forward.apply(number, tensor)
            return tensor if changed is tensor else changed
        local = differentiable_local(tensor)
        return wrapped_like(self.forward.apply(number, local), tensor)

    def _ask_skip(self, number: int) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if self.forward is not None and self.forward.skips(number):
                _, tensor = first_tensor(args if args else kwargs)
                if tensor is not None:
                    self._inputs[number] = tensor

        return hook

    def _skip(self, number: int) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
            value = self._inputs.pop(number, None)
            if value is None:
                return None
            return value if isinstance(output, Tensor) else replaced(output, 0, value)

        return hook
