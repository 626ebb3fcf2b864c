"""Hooks on the modules that a pass needs, and on no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import _StopRecomputationError
from torch.utils.hooks import RemovableHandle

from tensor_tracer.attaching import points
from tensor_tracer.attaching.attention import AttentionCall, AttentionWatch
from tensor_tracer.attaching.head import Head
from tensor_tracer.attaching.inert import Hook
from tensor_tracer.attaching.learning import Member, first_tensor, member_of, replaced
from tensor_tracer.attaching.table import Site, kSequenceFirst
from tensor_tracer.attaching.weights import WeightEdit, local_weight, parts_like
from tensor_tracer.attaching.wrappers import (
    differentiable_local, expect_gradient_like, is_wrapped, local_of, wrapped_like,
)  # fmt: skip


class SiteHooks:
    """`sites`: by the library's numbers; `layers`: modules, by their number. `tell`: takes the message of a
    hook that failed; its site is left alone from then on. `give_up`: takes that of a failure for which other ranks
    would wait; None: there are none."""

    def __init__(
        self, sites: Sequence[Site | None], layers: dict[int, nn.Module], tell: Callable[[str], None],
        give_up: Callable[[str], None] | None, head: Head | None = None,
    ) -> None:  # fmt: skip
        self._sites = sites
        self._layers = layers
        self._tell, self._give_up, self._head = tell, give_up, head
        self._reached: set[int] = set()  # sites whose module has run in this pass
        self._installed: tuple[frozenset[int], bool] = (frozenset(), False)
        self._handles: list[RemovableHandle] = []
        self._failed: set[int] = set()
        self._inputs: dict[int, Tensor] = {}  # of layers that programs skip
        self._points: dict[str, int] = {}  # sites of tensor_tracer.point(), by its name
        self._leaves: dict[int, tuple[Any, Tensor]] = {}  # passes and values that compiled code gave, by their numbers
        self.forward: Any = None  # torch.classes.tensor_tracer.Forward of the pass; None: no pass

    def use(self, forward: Any) -> None:
        """Installs what the pass needs. Nothing changes if the pass before needed the same. None: no pass runs."""
        self.forward = forward
        self._reached.clear()
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
                self._handles.append(module.register_forward_pre_hook(Hook(self._ask_skip(number)), with_kwargs=True))
                self._handles.append(module.register_forward_hook(Hook(self._skip(number))))
        made: dict[nn.Module, dict[str, int]] = {}
        for number in sorted(needed[0]):
            site = self._sites[number]
            if site is not None and site.lens_of is not None:
                self._install_lens(number, site.lens_of)
            elif site is not None and site.seen.is_weight:
                self._handles += WeightEdit(site, partial(self._change_weights, number, site)).install()
            elif site is not None and site.seen.is_made:
                made.setdefault(site.seen.module, {})[site.seen.part] = number
            elif site is not None:
                self._install(number, site)
        for module, parts in made.items():
            self._install_attention(module, parts)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._points.clear()
        points.unwatch(self)
        self._installed = frozenset(), False

    def rest(self) -> None:
        """No pass runs in the modules at this moment."""
        self.forward = None

    def end_pass(self, forward: Any) -> None:
        """The pass is over."""
        self._leaves = {number: leaf for number, leaf in self._leaves.items() if leaf[0] is not forward}

    def missing(self) -> list[str]:
        """The sites that a pass needed and whose modules did not run in it, by the paths of their places."""
        sites = (self._sites[number] for number in sorted(self._installed[0] - self._reached - self._failed))
        return [site.at for site in sites if site is not None]

    def _install_attention(self, module: nn.Module, parts: dict[str, int]) -> None:
        """`parts`: the sites that are recomputed from the module's attention, by their part."""
        watch = AttentionWatch(lambda args, kwargs: self._capture_attention(parts, args, kwargs))
        self._handles.append(module.register_forward_pre_hook(Hook(lambda *_: watch.start())))
        self._handles.append(module.register_forward_hook(Hook(lambda *_: watch.stop()), always_call=True))

    def _capture_attention(self, parts: dict[str, int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.forward is None or not self._failed.isdisjoint(parts.values()):
            return
        self._reached.update(parts.values())
        try:
            with torch.no_grad():
                rows = {part: self.forward.rows_wanted(number) for part, number in parts.items()}
                wanted = {part: count for part, count in rows.items() if count > 0}
                for part, value in (AttentionCall.of(args, kwargs).parts(wanted) if wanted else {}).items():
                    self.forward.capture_made(parts[part], value)
        except Exception as error:  # no error of ours reaches training
            self._failed.update(parts.values())
            self._tell(f"attention is not traced any more: {error}")

    def _install_lens(self, number: int, of: Site) -> None:
        """`of`: the place that the lens reads."""
        module, member = of.seen.module, of.seen.member

        def after(_module: nn.Module, _args: Any, output: Any) -> None:
            self._capture_lens(number, of, member_of(output, member))

        def before(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._capture_lens(number, of, member_of(args if args else kwargs, member))

        if of.seen.is_output:
            self._handles.append(module.register_forward_hook(Hook(after)))
        else:
            self._handles.append(module.register_forward_pre_hook(Hook(before), with_kwargs=True))

    def _capture_lens(self, number: int, of: Site, hidden: Tensor) -> None:
        self._reached.add(number)
        if self.forward is None or self._head is None or number in self._failed:
            return
        try:
            rows, first, end = self.forward.window(number)
            if rows == 0:
                return
            local = local_of(hidden).detach()
            local = local.transpose(0, 1) if of.row["view"] == kSequenceFirst else local
            self.forward.capture_made(number, self._head.lens(local[:rows], first, end))
        except Exception as error:  # no error of ours reaches training
            self._failed.add(number)
            self._tell(f"the logit lens of {of.at} is not traced any more: {error}")

    def _install(self, number: int, site: Site) -> None:
        if site.seen.part == "point":
            self._points[site.seen.path] = number
            points.watch(self)
            return
        module, member = site.seen.module, site.seen.member
        if site.seen.part != "input":

            def after(_module: nn.Module, _args: Any, output: Any) -> Any:
                return self._pass_through(number, output, member)

            is_root = not site.seen.path  # a hook that is already there ends the forward
            self._handles.append(module.register_forward_hook(Hook(after), prepend=is_root))
            return

        def before(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if args:
                changed = self._pass_through(number, args, member)
                return None if changed is None else (changed, kwargs)
            changed = self._pass_through(number, dict(kwargs), member)
            return None if changed is None else (args, changed)

        self._handles.append(module.register_forward_pre_hook(Hook(before), with_kwargs=True))

    def at_point(self, name: str, _placement: str, tensor: Tensor, is_compiled: bool) -> Tensor | None:
        number = self._points.get(name)
        if number is None or self.forward is None:
            return None
        if is_compiled:
            self._leaves[tensor.tensor_tracer_number] = self.forward, tensor  # type: ignore[attr-defined]
        changed: Tensor | None = self._pass_through(number, tensor, None)
        return tensor if changed is None else changed

    def at_gradient(self, number: int, gradient: Tensor) -> None:
        leaf = self._leaves.pop(number, None)
        if leaf is not None:
            torch.autograd.backward([leaf[1]], [gradient])

    def _pass_through(self, number: int, value: Any, member: Member) -> Any:
        """Lets programs change the tensor and captures it. Returns the changed value; None: unchanged."""
        self._reached.add(number)
        if self.forward is None or number in self._failed:
            return None
        is_alone = True  # no other rank waits for this one
        try:
            tensor: Tensor = member_of(value, member)
            _check_part(self._sites[number], tensor)
            is_alone = not self.forward.acts_at(number)
            changed = tensor if is_alone else self._changed(number, tensor)
            is_alone = True
            # A tensor that is made while gradients are off is in no graph, also if a part of it asks for gradients, as
            # in the first forward of Megatron's recomputation. The graph comes with the second one.
            seen = changed if torch.is_grad_enabled() else changed.detach()
            if isinstance(seen, DTensor) and seen.requires_grad:
                expect_gradient_like(seen)
            self.forward.capture(number, seen, local_of(seen) if is_wrapped(seen) else seen)
            return None if changed is tensor else replaced(value, member, changed)
        except _StopRecomputationError:  # a program's operator has saved the last tensor that the backward pass needs
            raise
        except Exception as error:  # no error of ours reaches training
            self._failed.add(number)
            site = self._sites[number]
            message = f"{site.at if site else number} is not traced any more: {error}"
            self._tell(message) if is_alone or self._give_up is None else self._give_up(message)
            return None

    def _changed(self, number: int, tensor: Tensor) -> Tensor:
        if not is_wrapped(tensor):
            changed: Tensor = self.forward.apply(number, tensor)
            return tensor if changed is tensor else changed
        local = differentiable_local(tensor)
        return wrapped_like(self.forward.apply(number, local), tensor)

    def _change_weights(self, number: int, site: Site, weights: list[Tensor]) -> list[Tensor] | None:
        """What programs make of the weights of a place; None: unchanged."""
        self._reached.add(number)
        if self.forward is None or number in self._failed:
            return None
        try:
            local = local_weight(site, weights)
            changed = self.forward.apply(number, local)
            return None if changed is local else parts_like(changed, weights)
        except _StopRecomputationError:  # as below
            raise
        except Exception as error:  # no error of ours reaches training
            self._failed.add(number)
            message = f"programs do not change {site.at} any more: {error}"
            self._tell(message) if self._give_up is None else self._give_up(message)
            return None

    def _ask_skip(self, number: int) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            try:
                if self.forward is None or not self.forward.skips(number):
                    return
            except Exception as error:
                message = f"programs do not skip layer {number}: {error}"
                self._tell(message) if self._give_up is None else self._give_up(message)
                return
            _, tensor = first_tensor(args if args else kwargs)
            if tensor is not None:
                self._inputs[number] = tensor

        return hook

    def _skip(self, number: int) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
            value = self._inputs.pop(number, None)
            if value is None:
                return None
            member, computed = first_tensor(output)
            return None if computed is None else replaced(output, member, skipped(value, computed))

        return hook


def _check_part(site: Site | None, tensor: Tensor) -> None:
    """Each rank must have the part of a sharded dim that was learned: other parts would be put together wrongly."""
    if site is None or not (dims := site.part_dims):
        return
    found, learned = local_of(tensor).shape, site.seen.shape
    if any(found[dim] != learned[dim] for dim in dims):
        raise ValueError(f"a rank has a part of shape {list(found)}, and {list(learned)} was learned")


class _Skipped(torch.autograd.Function):
    """The input of a layer instead of what it has computed. The layer's parameters get gradients of 0, as in our
    own trainer: without any, an optimizer would leave them out."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, computed: Tensor) -> Tensor:
        ctx.save_for_backward(computed)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (computed,) = ctx.saved_tensors
        return gradients[0], torch.zeros_like(computed)


def skipped(value: Tensor, computed: Tensor) -> Tensor:
    result: Tensor = _Skipped.apply(value, computed)  # type: ignore[no-untyped-call]
    return result
