"""Two data-parallel processes: DistributedDataParallel over gloo."""

from __future__ import annotations

import torch.distributed
from pytorch_model import Gpt, arguments, become_ranks, token_loss, train
from shapes import SHAPES
from torch.nn.parallel import DistributedDataParallel

RANKS = 2


def main() -> None:
    become_ranks(RANKS)
    options = arguments(__doc__)
    shape = SHAPES[options.shape]
    torch.distributed.init_process_group("gloo")
    model = DistributedDataParallel(Gpt(shape), gradient_as_bucket_view=True)
    train(
        model,
        lambda tokens, labels: token_loss(model(tokens), labels),
        shape,
        shape.batch // RANKS,
        options.steps,
    )
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
