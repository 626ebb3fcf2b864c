"""Two tensor-parallel processes: DTensor over gloo, vocabulary and loss parallel too."""

from __future__ import annotations

import torch.distributed
from pytorch_model import Gpt, arguments, become_ranks, token_loss, train
from shapes import SHAPES, Shape
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)

RANKS = 2


def parallel_gpt(shape: Shape) -> Gpt:
    """The model with Megatron's split, as PyTorch's own tutorial on tensor parallelism does it."""
    mesh = init_device_mesh("cpu", (RANKS,))
    model = Gpt(shape, fused=False)
    plan = {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "output": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }
    for index in range(shape.layers):
        plan |= {
            f"layers.{index}.attention.{name}": ColwiseParallel()
            for name in ("query", "key", "value")
        }
        plan[f"layers.{index}.attention.proj"] = RowwiseParallel()
        plan[f"layers.{index}.fc1"] = ColwiseParallel()
        plan[f"layers.{index}.fc2"] = RowwiseParallel()
    parallelize_module(model, mesh, plan)
    model.output.weight = model.embedding.weight
    return model


def main() -> None:
    become_ranks(RANKS)
    options = arguments(__doc__)
    shape = SHAPES[options.shape]
    torch.distributed.init_process_group("gloo")
    model = parallel_gpt(shape)

    def forward_loss(tokens: Tensor, labels: Tensor) -> Tensor:
        return token_loss(model(tokens), labels)

    with loss_parallel():
        train(model, forward_loss, shape, shape.batch, options.steps)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
