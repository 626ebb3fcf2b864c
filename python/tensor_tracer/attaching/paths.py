"""The modules of a model, and their paths without the wrappers that FullyShardedDataParallel (FSDP1) and activation
checkpointing put between a module and its parent. So a wrapped layer has the names of a layer that is not wrapped."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

_kWrapped = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module")  # of the wrappers of torch.distributed


def wrapped_module(module: nn.Module) -> nn.Module | None:
    """The module inside one such wrapper; None: the module is no wrapper."""
    return next((module._modules[name] for name in _kWrapped if name in module._modules), None)


def without_wrappers(module: nn.Module) -> nn.Module:
    while (inner := wrapped_module(module)) is not None:
        module = inner
    return module


def named_modules(root: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """All modules but the wrappers. A wrapper passes on the attributes of its module, so get_submodule() knows these
    paths. The path of the root, or of the module that it wraps, is empty."""
    for path, module in root.named_modules():
        if wrapped_module(module) is None:
            yield ".".join(part for part in path.split(".") if part not in _kWrapped), module
