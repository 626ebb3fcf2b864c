"""What the tensor-parallel plan (`tp_plan`) of Transformers says of modules whose weights are plain parts.

Transformers is not imported. Written for 4.57. Most styles of a plan make a module's weights DTensors, which say their
layout themselves. Those that begin with `local` do not, as for experts; `gather` sums what such a module leaves.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from tensor_tracer.attaching.layouts import Layout

_kPartial = Layout(problem="the ranks hold partial sums, which this module does not reduce")
# By style, the layouts of output and input; None: the style does not say it.
_kStyles: dict[str, tuple[Layout | None, Layout | None]] = {
    "local_colwise": (Layout(-1), None),
    "local_rowwise": (_kPartial, Layout(-1)),
    "gather": (Layout(), None),
}


def tensor_group(model: nn.Module) -> DeviceMesh | None:
    """The tensor-parallel ranks of a model that from_pretrained(tp_plan=…) has shared; None: it has not."""
    meshes = (getattr(module, "_device_mesh", None) for module in model.modules())
    return next((mesh for mesh in meshes if isinstance(mesh, DeviceMesh) and mesh.ndim == 1), None)


def rule_for(path: str, module: nn.Module, is_output: bool) -> Layout | None:
    """How the ranks share the output or input of a module; None: the plan does not say it."""
    style: Any = getattr(module, "_hf_tp_plan", None)
    if style not in _kStyles:
        return None
    found = _kStyles[style][0 if is_output else 1]
    if found is None or found.problem:
        return found
    return Layout(found.dim, source=f"the tp_plan {style!r} of {path}")
