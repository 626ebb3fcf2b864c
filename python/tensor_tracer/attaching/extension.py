"""Finds and loads the C++ half of `attach`, a library that belongs to one version of torch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from tensor_tracer.attaching.head import register_head
from tensor_tracer.attaching.prompts import register_prompts
from tensor_tracer.attaching.wrappers import register_wrappers
from tensor_tracer.errors import TensorTracerError

T = TypeVar("T")

kLibrary = "libtensor_tracer_torch.so"


@dataclass(frozen=True)
class Extension:
    """The files of the C++ half. `hub`: the program tensor-tracer-hub, beside its page."""

    library: Path
    hub: Path
    built_for: str  # the version of torch; empty: not known


@lru_cache(maxsize=1)
def load_extension() -> Extension:
    """Loads the library into this process, once."""
    found = find_extension()
    version = torch.__version__.partition("+")[0]
    if found.built_for and found.built_for.partition("+")[0] != version:
        message = f"tensor-tracer-torch was built for torch {found.built_for}, and this is torch {torch.__version__}"
        raise TensorTracerError("wrong_torch", message, str(found.library), _remedy())
    try:
        torch.ops.load_library(str(found.library))  # type: ignore[no-untyped-call]
    except OSError as error:
        message = f"the library does not fit torch {torch.__version__}: {error}"
        raise TensorTracerError("wrong_torch", message, str(found.library), _remedy()) from error
    register_wrappers()
    register_head()
    register_prompts()
    return found


def check_device(model: nn.Module) -> None:
    """Raises TensorTracerError if the library has no kernels for the model's device. REQUIRES: load_extension()."""
    other = {one.device.type for one in model.parameters()} - {"cpu"}
    if other - {"cuda"} or (other and not torch.ops.tensor_tracer.has_cuda_kernels()):
        remedy = "build with: cmake --preset cuda" if other == {"cuda"} else "use a model on cpu or cuda"
        message = f"the model is on {', '.join(sorted(other))}, for which the library has no kernels"
        raise TensorTracerError("no_kernels", message, "model", remedy)


def find_extension() -> Extension:
    """TENSOR_TRACER_BUILD is the build folder of a checkout; without it the installed package counts."""
    if folder := os.environ.get("TENSOR_TRACER_BUILD"):
        build = Path(folder).absolute()
        return _checked(Extension(build / "lib" / kLibrary, build / "bin" / "tensor-tracer-hub", ""))
    try:
        package = import_module("tensor_tracer_torch")
    except ImportError:
        message = f"attach needs the package tensor-tracer-torch for torch {torch.__version__}, which is not installed"
        raise TensorTracerError("no_extension", message, "", _remedy()) from None
    home = Path(str(package.__file__)).parent
    return _checked(Extension(home / "lib" / kLibrary, home / "bin" / "tensor-tracer-hub", package.BUILT_FOR))


def _checked(found: Extension) -> Extension:
    for path in (found.library, found.hub):
        if not path.exists():
            raise TensorTracerError("no_extension", "there is no such file", str(path), _remedy())
    return found


def _remedy() -> str:
    return "in a checkout that scripts/setup.sh has set up: pip install --no-build-isolation ./python/torch"


def called(function: Callable[..., T], *arguments: object) -> T:
    """Calls a method of the library; its error becomes a TensorTracerError."""
    try:
        return function(*arguments)
    except RuntimeError as error:
        raise _error_of(error) from None


def _error_of(error: RuntimeError) -> Exception:
    text = str(error).split("\nException raised from")[0]
    try:
        facts: dict[str, Any] = json.loads(text)
        return TensorTracerError(facts["code"], facts["message"], facts["where"], facts["remedy"])
    except (ValueError, KeyError, TypeError):
        return error
