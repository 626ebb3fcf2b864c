"""Weights, gradients, updates and Adam's moments of each parameter, for the trace point Updates (docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Partial, Replicate

from tensor_tracer.attaching import megatron
from tensor_tracer.attaching.groups import Groups
from tensor_tracer.attaching.wrappers import local_of
from tensor_tracer.errors import TensorTracerError

_kColumns = [
    "count", "weight_norm", "weight_rms", "gradient_norm", "gradient_rms", "update_norm", "update_rms", "update_ratio",
]  # fmt: skip
_kMoments = ["first_moment_norm", "first_moment_rms", "second_moment_mean"]
# Sums over a parameter, in the order of the columns of a tensor.
_kWeight, _kGradient, _kUpdate, _kFirst, _kSecond, _kNumSums = range(6)


class UpdateWatch:
    """Measures one optimizer's steps. `is_due`: true in the steps that the plan traces, on every rank.

    In such a step each rank copies its weights and sums over its numbers; share() adds the sums of the ranks.
    Thread: that of the step.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, root: nn.Module, groups: Groups, is_due: Callable[[], bool]
    ) -> None:
        self._optimizer, self._groups, self._is_due = optimizer, groups, is_due
        self._named = _named_parameters(optimizer, root)
        self._has_moments = isinstance(
            optimizer, (torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam)
        )
        self._before: list[Tensor] = []
        self._sums = self._zeros()
        self._handles = [
            optimizer.register_step_pre_hook(self._before_update), optimizer.register_step_post_hook(self._after_update)
        ]  # fmt: skip

    def row(self) -> dict[str, Any]:
        """The place for the library (src/attach/places.h)."""
        columns = _kColumns + _kMoments * self._has_moments
        return {
            "layer": 0, "stage": 0, "name": "Updates", "path": "updates", "dtype": "float64", "writable": False, "gradient": False,
            "in_programs": False, "dims": ["step", "parameters", "features"], "features": len(columns),
            "parameters": list(self._named), "columns": columns,
            "text": "norms of weights, gradients, updates and Adam's moments, a row for each parameter; once in a step",
        }  # fmt: skip

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._before.clear()

    def share(self) -> Tensor | None:
        """The table [1, parameters, columns] of the last step; None: a rank did not update its weights. After a step
        that is due. Collective over all ranks."""
        sums, self._sums = self._sums, self._zeros()
        if self._groups.control is not None:
            dist.all_reduce(sums, group=self._groups.control)
        ranks = 1 if self._groups.control is None else dist.get_world_size(self._groups.control)
        if int(sums[-1, 0]) != ranks:
            return None
        return self._table(sums[:-1])[None]

    def _zeros(self) -> Tensor:
        """A row for each parameter, and one whose first number counts the ranks that have made an update."""
        return torch.zeros(len(self._named) + 1, _kNumSums, dtype=torch.float64)

    @torch.no_grad()
    def _before_update(self, *_: Any) -> None:
        self._before.clear()
        self._sums.zero_()
        if not self._is_due():
            return
        for row, parameter in enumerate(self._named.values()):
            if parameter.grad is not None:
                self._add(row, _kGradient, parameter, _like(parameter, parameter.grad))
            self._before.append(local_of(parameter).detach().clone())

    @torch.no_grad()
    def _after_update(self, *_: Any) -> None:
        if not self._before:
            return
        for row, (parameter, before) in enumerate(zip(self._named.values(), self._before, strict=True)):
            self._add(row, _kWeight, parameter, before)
            self._add(row, _kUpdate, parameter, local_of(parameter).detach().double() - before.double())
            state = self._optimizer.state.get(parameter, {}) if self._has_moments else {}
            if "exp_avg" in state:
                self._add(row, _kFirst, parameter, state["exp_avg"])
                self._add(row, _kSecond, parameter, state["exp_avg_sq"], squares=False)
        self._sums[-1, 0] = 1
        self._before.clear()

    def _add(self, row: int, column: int, parameter: Tensor, numbers: Tensor, squares: bool = True) -> None:
        if not self._owns(parameter):
            return
        numbers = local_of(numbers).double()
        self._sums[row, column] = float((numbers.square() if squares else numbers).sum())

    def _owns(self, parameter: Tensor) -> bool:
        """True if this rank's numbers count: of copies, one does."""
        if isinstance(parameter, DTensor):
            own = parameter.device_mesh.get_coordinate()
            return own is not None and all(
                at == 0 for at, placement in zip(own, parameter.placements, strict=True) if isinstance(placement, Replicate)
            )
        is_first = self._groups.tensor_ranks[0] == self._groups.rank
        return self._groups.data_index == 0 and (is_first or megatron.is_sharded(parameter))

    def _table(self, sums: Tensor) -> Tensor:
        ranks = len(self._groups.tensor_ranks)
        sizes = [megatron.whole_size(parameter, ranks) for parameter in self._named.values()]
        count = torch.tensor(sizes, dtype=torch.float64)

        def norm(column: int) -> Tensor:
            return sums[:, column].sqrt()

        def rms(column: int) -> Tensor:
            return (sums[:, column] / count).sqrt()

        columns = [count]
        for one in (_kWeight, _kGradient, _kUpdate):
            columns += [norm(one), rms(one)]
        columns.append(norm(_kUpdate) / norm(_kWeight))
        if self._has_moments:
            columns += [norm(_kFirst), rms(_kFirst), sums[:, _kSecond] / count]
        return torch.stack(columns, dim=1)


def _like(parameter: Tensor, gradient: Tensor) -> Tensor:
    """A gradient that is still a sum over the ranks gets the placements of its parameter."""
    if isinstance(gradient, DTensor) and any(isinstance(one, Partial) for one in gradient.placements):
        return gradient.redistribute(placements=parameter.placements)  # type: ignore[attr-defined]
    return gradient


def _named_parameters(optimizer: Any, root: nn.Module) -> dict[str, Tensor]:
    if not isinstance(optimizer, torch.optim.Optimizer):
        message = f"{type(optimizer).__name__} is not a torch.optim.Optimizer"
        remedy = "give the optimizer that changes the model's weights"
        raise TensorTracerError("invalid_argument", message, "watch_optimizer", remedy)
    changed = {id(one) for group in optimizer.param_groups for one in group["params"]}
    named: dict[str, Tensor] = {name: one for name, one in root.named_parameters() if id(one) in changed}
    if not named:
        message, remedy = "the optimizer changes no weight of the model", "make the optimizer after the model was wrapped"
        raise TensorTracerError("invalid_argument", message, "watch_optimizer", remedy)
    return named
