"""Tensors that wrap this rank's numbers: DTensor, the result of an asynchronous collective, and nested tensors, which
nn.TransformerEncoder makes of padded rows in evaluations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor


_kWanted = "_tensor_tracer_placements"


def is_wrapped(tensor: Tensor) -> bool:
    return isinstance(tensor, (DTensor, AsyncCollectiveTensor)) or tensor.is_nested


def local_of(tensor: Tensor) -> Tensor:
    """This rank's numbers, detached from the graph if `tensor` is a wrapper; the rows of a nested tensor are padded with
    zeros. Waits for a collective. Collective over the tensor's mesh for a gradient whose placements are not those of its
    activation."""
    with torch.no_grad():
        if isinstance(tensor, DTensor):
            tensor = tensor.redistribute(placements=getattr(tensor, _kWanted, tensor.placements)).to_local()
        if isinstance(tensor, AsyncCollectiveTensor):
            tensor = tensor.trigger_wait()  # type: ignore[no-untyped-call]
        if tensor.is_nested:
            tensor = torch.nested.to_padded_tensor(tensor, 0.0)
    return tensor


def expect_gradient_like(tensor: DTensor) -> None:
    """Has local_of() return the gradient of this activation in the placements of the activation. A gradient often has
    others: that of a column-parallel layer's input are partial sums."""
    placements = tensor.placements
    tensor.register_hook(lambda gradient: setattr(gradient, _kWanted, placements))  # type: ignore[no-untyped-call]


def differentiable_local(tensor: Tensor) -> Tensor:
    """This rank's numbers as a plain tensor in the autograd graph."""
    if isinstance(tensor, DTensor):
        tensor = tensor.to_local()
    if tensor.is_nested:
        tensor = torch.nested.to_padded_tensor(tensor, 0.0)
    return tensor.clone() if isinstance(tensor, AsyncCollectiveTensor) else tensor


def wrapped_like(local: Tensor, tensor: Tensor) -> Tensor:
    """The local tensor in the wrapper of `tensor`."""
    if tensor.is_nested:
        rows = [row[: len(like)] for row, like in zip(local, tensor.unbind(), strict=True)]
        return torch.nested.as_nested_tensor(rows, layout=tensor.layout)
    if not isinstance(tensor, DTensor):
        return local
    return DTensor.from_local(
        local, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def register_wrappers() -> None:
    """The library asks for the numbers of a wrapper, such as a gradient, by the operator to_local."""

    def to_local(_mode: Any, _func: Any, _types: Any, args: tuple[Tensor], _kwargs: Any) -> Tensor:
        return local_of(args[0])

    for kind in (DTensor, AsyncCollectiveTensor):
        torch.library.register_torch_dispatch("tensor_tracer::to_local", kind, to_local)
