"""Trainings with tensor_tracer.point() in a forward, for test_attach_points.py. They run on forked ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from attach_scenarios import Options, Training
from attached_training import Block, numbers_of
from torch import Tensor, nn

Witnessed = dict[tuple[int, str, int], Tensor]  # by step, "value" or "gradient", layer


class Pointed(nn.Module):
    """A Block whose hidden features have a name, if `is_named`."""

    def __init__(self, block: Block, number: int, is_named: bool) -> None:
        super().__init__()
        self.block, self.name, self.is_named = block, f"blocks.{number}.hidden", is_named

    def forward(self, hidden: Tensor) -> Tensor:
        features = torch.tanh(self.block.up(self.block.norm(hidden)))
        if self.is_named:
            import tensor_tracer as tt

            features = tt.point(self.name, features, placement=tt.Replicate())
        return hidden + self.block.down(features)


def witness(training: Training, path: str, found: Witnessed) -> None:
    """Keeps what `path`, a module in each layer, takes, and its gradient."""
    layers = next(one for one in training.root.modules() if isinstance(one, nn.ModuleList))
    for number, layer in enumerate(layers, 1):

        def keep(_module: nn.Module, args: Any, number: int = number) -> None:
            step = len(training.losses) + 1
            found[step, "value", number] = numbers_of(args[0])
            args[0].register_hook(lambda grad: found.__setitem__((step, "gradient", number), numbers_of(grad)))

        layer.get_submodule(path).register_forward_pre_hook(keep)


def pointed(attach: Options, is_named: bool, backend: str, program: str) -> tuple[list[float], Witnessed, Any]:
    """`backend`: of torch.compile for each layer; empty: eager."""
    torch.compiler.reset()
    training = Training("plain", "none", None)
    blocks = training.root.blocks
    for number, block in enumerate(blocks):
        layer = Pointed(block, number, is_named)
        blocks[number] = torch.compile(layer, backend=backend, fullgraph=True) if backend else layer
    found: Witnessed = {}
    if not is_named and not backend:
        witness(training, "block.down", found)
    points = None
    if attach is not None:
        import tensor_tracer as tt

        training.run = tt.attach(training.model, **attach)
    for step in range(1, 5):
        if step == 3 and program:
            training.run.intervene(program)
        training.step(step)
    if training.run is not None:
        points = training.run.points()
        training.run.detach()
    return training.losses, found, points


def sharded(attach: Options, is_named: bool) -> tuple[list[float], Witnessed, None]:
    """Llama with two tensor-parallel ranks: each has a part of the features, which only the code knows."""
    import tensor_tracer as tt

    training = Training("llama", "tp", None)
    for number, layer in enumerate(training.root.model.layers):
        mlp = layer.mlp

        def forward(x: Tensor, mlp: Any = mlp, number: int = number) -> Tensor:
            gate = torch.square(mlp.gate_proj(x))
            if is_named:
                gate = tt.point(f"layers.{number}.squares", gate, placement=tt.Shard(2))
            return mlp.down_proj(torch.tanh(gate) * mlp.up_proj(x))

        mlp.forward = forward
    found: Witnessed = {}
    if not is_named:
        original, layers = torch.square, len(training.root.model.layers)

        def kept(x: Tensor) -> Tensor:
            result = original(x)
            step, number = len(training.losses) + 1, sum(key[1] == "value" for key in found) % layers + 1
            found[step, "value", number] = numbers_of(result)
            result.register_hook(lambda grad: found.__setitem__((step, "gradient", number), numbers_of(grad)))
            return result

        torch.square = kept
    if attach is not None:
        training.run = tt.attach(training.model, **attach)
    losses = training.steps(4)
    assert dist.get_world_size() == 2
    return losses, found, None
