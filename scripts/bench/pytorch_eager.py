"""One process, eager PyTorch; with --bf16 under autocast."""

from __future__ import annotations

import torch
from pytorch_model import Gpt, arguments, token_loss, train
from shapes import SHAPES
from torch import Tensor


def main() -> None:
    options = arguments(__doc__)
    shape = SHAPES[options.shape]
    model = Gpt(shape)

    def forward_loss(tokens: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            return token_loss(model(tokens), labels)

    train(model, forward_loss, shape, shape.batch, options.steps)


if __name__ == "__main__":
    main()
