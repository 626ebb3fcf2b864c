"""Weights, gradients, updates and Adam's moments of each parameter, for the trace point Updates (docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate

from tensor_tracer.attaching import megatron
from tensor_tracer.attaching.flat_weights import is_flat
from tensor_tracer.attaching.groups import Groups
from tensor_tracer.attaching.wrappers import local_of
from tensor_tracer.errors import TensorTracerError

_kColumns = [
    "count", "weight_norm", "weight_rms", "gradient_norm", "gradient_rms", "update_norm", "update_rms", "update_ratio",
]  # fmt: skip
_kMoments = ["first_moment_norm", "first_moment_rms", "second_moment_mean"]
# Sums over a parameter, in the order of the columns of a tensor.
_kWeight, _kGradient, _kUpdate, _kFirst, _kSecond, _kNumSums = range(6)


class OfStage(NamedTuple):
    """What a virtual pipeline stage has. `layers`: the paths of its layers, in order. `sizes`: the number of elements of
    each full parameter, by its name in the stage."""

    layers: Sequence[str]
    sizes: Mapping[str, int]


class UpdateWatch:
    """Measures one optimizer's steps. `roots`: this rank's part of the model, by the number of the virtual pipeline
    stage. `is_due`: true in the steps that the plan traces, on every rank. `tell`: takes the text of an error.

    In such a step each rank copies its weights and sums over its numbers; share() adds the sums of the ranks. An error,
    such as too little memory, leaves the record of this step out. Thread: that of the step.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, roots: Mapping[int, nn.Module], groups: Groups, is_due: Callable[[], bool],
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        optimizer = _unwrapped(optimizer)
        self._optimizer, self._groups, self._is_due, self._tell = optimizer, groups, is_due, tell
        self._own = _own_parameters(optimizer, roots)
        self._rows: list[tuple[int, Tensor]] = []  # of this rank's parameters, with their place in the table
        self._counts = torch.zeros(0, dtype=torch.float64)  # of the elements of all parameters
        self._has_moments = isinstance(
            optimizer, (torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam)
        )
        self._before: list[Tensor] = []
        self._sums = self._zeros()
        self._handles = [
            optimizer.register_step_pre_hook(self._before_update), optimizer.register_step_post_hook(self._after_update)
        ]  # fmt: skip

    def sizes(self, stage: int) -> dict[str, int]:
        """For OfStage."""
        ranks = len(self._groups.tensor_ranks)
        own = {name: one for (of, name), one in self._own.items() if of == stage}
        return {name: megatron.whole_size(one, ranks) for name, one in own.items()}

    def row(self, stages: Sequence[OfStage]) -> dict[str, Any]:
        """The place for the library (src/attach/places.h), with the parameters of all stages."""
        names = names_of(stages)
        numbers = {key: row for row, key in enumerate(names)}
        self._rows = [(numbers[key], one) for key, one in self._own.items()]
        self._counts = torch.tensor([stages[stage].sizes[name] for stage, name in names], dtype=torch.float64)
        self._sums = self._zeros()
        columns = _kColumns + _kMoments * self._has_moments
        return {
            "layer": 0, "stage": 0, "name": "Updates", "path": "updates", "dtype": "float64", "writable": False, "gradient": False,
            "in_programs": False, "dims": ["step", "parameters", "features"], "features": len(columns),
            "parameters": list(names.values()), "columns": columns,
            "text": "norms of weights, gradients, updates and Adam's moments, a row for each parameter; once in a step",
        }  # fmt: skip

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._before = []

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
        return torch.zeros(len(self._counts) + 1, _kNumSums, dtype=torch.float64)

    def _before_update(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns other arguments for a step with a closure, which makes the gradients."""
        self._before = []
        self._sums = self._zeros()
        if not self._is_due():
            return None
        with self._guarded():
            self._before = [local_of(parameter).detach().clone() for _, parameter in self._rows]
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            self._take_gradients()
            return None

        def watched() -> Any:
            result = closure()
            self._take_gradients()
            return result

        return ((args[0], watched, *args[2:]), kwargs) if len(args) > 1 else (args, kwargs | {"closure": watched})

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            with torch.no_grad():
                yield
        except Exception as error:
            self._before = []
            self._tell(str(error))

    def _take_gradients(self) -> None:
        with self._guarded():
            for row, parameter in self._rows:
                if parameter.grad is not None:
                    self._add(row, _kGradient, parameter, _like(parameter, parameter.grad))

    def _after_update(self, *_: Any) -> None:
        if not self._before:
            return
        with self._guarded():
            for (row, parameter), before in zip(self._rows, self._before, strict=True):
                self._add(row, _kWeight, parameter, before)
                update = local_of(parameter).detach().double()
                update -= before
                self._add(row, _kUpdate, parameter, update)
                state = self._optimizer.state.get(parameter, {}) if self._has_moments else {}
                if "exp_avg" in state:
                    self._add(row, _kFirst, parameter, state["exp_avg"])
                    self._add(row, _kSecond, parameter, state["exp_avg_sq"], squares=False)
            self._sums[-1, 0] = 1
            self._before = []

    def _add(self, row: int, column: int, parameter: Tensor, numbers: Tensor, squares: bool = True) -> None:
        if not self._owns(parameter):
            return
        numbers = local_of(numbers).double()
        self._sums[row, column] = float((numbers.square() if squares else numbers).sum())

    def _owns(self, parameter: Tensor) -> bool:
        """True if this rank's numbers count: of copies, one does."""
        if isinstance(parameter, DTensor):
            mesh = parameter.device_mesh
            own = mesh.get_coordinate()
            if self._groups.first_rank not in mesh.mesh.flatten().tolist():
                return False  # another mesh has a copy
            return own is not None and all(
                at == 0 for at, placement in zip(own, parameter.placements, strict=True) if isinstance(placement, Replicate)
            )
        is_first = self._groups.tensor_ranks[0] == self._groups.rank
        is_first_copy = self._groups.data_index == 0 and self._groups.context_index == 0
        return is_first_copy and (is_first or megatron.is_sharded(parameter))

    def _table(self, sums: Tensor) -> Tensor:
        count = self._counts

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
    """A gradient may still be a sum over the ranks, or the whole on each rank: it gets the placements of its parameter."""
    if isinstance(parameter, DTensor) and isinstance(gradient, DTensor) and gradient.placements != parameter.placements:
        return gradient.redistribute(placements=parameter.placements)
    return gradient


def _unwrapped(optimizer: Any) -> Any:
    """Accelerate's optimizer is one by its class, and has the optimizer in it."""
    is_one = isinstance(optimizer, torch.optim.Optimizer)
    inner = getattr(optimizer, "optimizer", None) if is_one else None
    return _unwrapped(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


def _own_parameters(optimizer: Any, roots: Mapping[int, nn.Module]) -> dict[tuple[int, str], Tensor]:
    """By stage and name. A parameter of two stages belongs to the first."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        message = f"{type(optimizer).__name__} is not a torch.optim.Optimizer"
        remedy = "give the optimizer that changes the model's weights"
        raise TensorTracerError("invalid_argument", message, "watch_optimizer", remedy)
    left = {id(one) for group in optimizer.param_groups for one in group["params"]}
    own: dict[tuple[int, str], Tensor] = {}
    for stage, root in roots.items():
        named = {name: one for name, one in root.named_parameters() if id(one) in left}
        left -= {id(one) for one in named.values()}
        own |= {(stage, name): one for name, one in named.items()}
    if any(is_flat(one) for one in own.values()):
        message = "FullyShardedDataParallel keeps the weights in flat tensors, which have no norms of single weights"
        remedy = "use fully_shard (FSDP2), or do not watch the optimizer"
        raise TensorTracerError("invalid_argument", message, "watch_optimizer", remedy)
    if not own:
        message, remedy = "the optimizer changes no weight of the model", "make the optimizer after the model was wrapped"
        raise TensorTracerError("invalid_argument", message, "watch_optimizer", remedy)
    return own


def names_of(stages: Sequence[OfStage]) -> dict[tuple[int, str], str]:
    """The names in the whole model, by stage and name in the stage. A name that an earlier stage has, gets the number of
    its stage."""
    names: dict[tuple[int, str], str] = {}
    taken: set[str] = set()
    before = 0
    for number, stage in enumerate(stages):
        renamed = _whole_paths(stage.layers, before)
        for name in stage.sizes:
            layer = next((path for path in renamed if name.startswith(path + ".")), None)
            whole = name if layer is None else renamed[layer] + name[len(layer) :]
            names[number, name] = f"stage{number}.{whole}" if whole in taken else whole
            taken.add(whole)
        before += len(stage.layers)
    return names


def _whole_paths(layers: Sequence[str], before: int) -> dict[str, str]:
    """Paths of layers in the whole model, by their paths in a stage with `before` layers in the stages before it. The
    layers of a ModuleList count from 0 in their stage; a ModuleDict may have the numbers of the whole model."""
    parts = [path.rpartition(".") for path in layers]
    if not all(number.isdigit() for _, _, number in parts) or not parts or int(parts[0][2]) >= before:
        return {path: path for path in layers}
    return {"".join(one): f"{one[0]}{one[1]}{int(one[2]) + before}" for one in parts}
