"""What torchtitan's sharding configuration says about how ranks share the tensors of a model's modules.

With the backend `spmd_types` the modules pass on plain tensors of this rank, and this configuration is the only source.
Neither torchtitan nor spmd_types is imported. Written for torchtitan 0.3.0, whose modules change the placements of
their inputs and outputs inside of `forward`, so that a hook sees an input before that and an output after it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from tensor_tracer.attaching.layouts import Layout, kPartialGradient
from tensor_tracer.errors import TensorTracerError

_kAxis = "tp"
# Kinds of values that are not sharded. Of V, the ranks have unlike values.
_kKinds = {
    "I": Layout(),
    "R": Layout(gradient_problem=kPartialGradient),
    "P": Layout(problem="the ranks hold partial sums, which this module does not reduce"),
}


def tensor_group(model: nn.Module) -> Any:
    """The tensor-parallel group of a model whose weights are plain parts; None: it has no such weights.
    Raises TensorTracerError if the model does not say the group."""
    if not parts_of(model):
        return None
    for module in model.modules():
        if isinstance(module, nn.Embedding) and getattr(module, "tp_group", None) is not None:
            return module.tp_group
    raise TensorTracerError(
        "invalid_argument", "torchtitan has shared the weights as plain tensors, and no embedding knows the group",
        "tensor_parallel_group", 'give parallel_dims.get_mesh("tp").get_group()',
    )  # fmt: skip


def parts_of(model: nn.Module) -> list[Tensor]:
    """The weights of which this rank has a part, as plain tensors."""
    return [
        weight
        for module in model.modules() if (config := _config_of(module)) is not None
        for name, weight in module.named_parameters(recurse=False)
        if not isinstance(weight, DTensor) and (dim := _dim_of(config.state_shardings.get(name))) is not None
        and isinstance(module, (nn.Linear, nn.Embedding)) and weight.shape[dim] != _sizes_of(module)[dim]
    ]  # fmt: skip


def rule_for(path: str, module: nn.Module, is_output: bool) -> Layout | None:
    """How the ranks share the output or input of a module; None: the configuration does not say it."""
    config = _config_of(module)
    if config is None:
        return None
    if is_output:
        placement = _single(config.out_dst_shardings) or _single(config.out_src_shardings)
    else:
        placement = _of_first_argument(module, config.in_src_shardings or {})
    found = _layout_of(placement)
    if found is None and not is_output and _dim_of(config.state_shardings.get("weight")) == 1:
        found = Layout(-1)  # the columns of the input belong to those of the weight
    if found is None or found.problem:
        return found
    source = f"the sharding configuration of {path or 'the model'}"
    return Layout(found.dim, source=source, gradient_problem=found.gradient_problem)


def _layout_of(placement: Any) -> Layout | None:
    """On the tensor-parallel axis; None: not known."""
    kind = None if placement is None else placement.per_axis_spmd_types().get(_kAxis)
    if (dim := getattr(kind, "dim", None)) is not None:
        return Layout(dim)
    return _kKinds.get(getattr(kind, "value", ""))


def _dim_of(placement: Any) -> int | None:
    """The dim that the tensor-parallel axis shards; None: none."""
    found = _layout_of(placement)
    return None if found is None else found.dim


def _single(placement: Any) -> Any:
    """A tuple is of several outputs, among which the configuration has no names."""
    return None if isinstance(placement, tuple) else placement


def _of_first_argument(module: nn.Module, placements: Mapping[str, Any]) -> Any:
    """A norm's only argument is `input` in the configuration, and `x` in torch.nn.RMSNorm."""
    names = [name for name in inspect.signature(type(module).forward).parameters if name != "self"]
    return next(iter(placements.values()), None) if len(names) == 1 else placements.get(names[0] if names else "")


def _sizes_of(module: nn.Linear | nn.Embedding) -> tuple[int, int]:
    """The sizes of the whole weight."""
    if isinstance(module, nn.Embedding):
        return module.num_embeddings, module.embedding_dim
    return module.out_features, module.in_features


def _config_of(module: Any) -> Any:
    """The configuration by which torchtitan has shared the module."""
    return getattr(module, "_sharding_config", None) if getattr(module, "_parallelized", False) else None
