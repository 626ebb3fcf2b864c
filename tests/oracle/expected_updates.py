"""What the place Updates should show of a step of the optimizer, computed by PyTorch from the full parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor


def whole(x: Tensor) -> Tensor:
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().double().clone()


def rms(x: Tensor) -> Tensor:
    return x.square().mean().sqrt()


def step_with_rows(optimizer: torch.optim.Optimizer, named: Mapping[str, Tensor]) -> dict[str, list[float]]:
    """Makes a step, and returns the row of each parameter."""
    before = {name: whole(p) for name, p in named.items()}
    gradients = {name: whole(p.grad) for name, p in named.items() if p.grad is not None}
    optimizer.step()
    rows = {}
    for name, p in named.items():
        w, update = before[name], whole(p) - before[name]
        g, state = gradients.get(name, torch.zeros_like(w)), optimizer.state.get(p, {})
        row = [torch.tensor(w.numel()), w.norm(), rms(w), g.norm(), rms(g), update.norm(), rms(update),
               update.norm() / w.norm()]  # fmt: skip
        if isinstance(optimizer, torch.optim.AdamW):
            first = whole(state["exp_avg"]) if state else torch.zeros_like(w)
            second = whole(state["exp_avg_sq"]) if state else torch.zeros_like(w)
            row += [first.norm(), rms(first), second.mean()]
        rows[name] = [float(number) for number in row]
    return rows
