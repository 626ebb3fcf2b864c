"""Two trainings of one model by Lightning with one callback; an exception ends the first:

python lightning_again.py '{…options of the callback…}'

Prints the steps of both, and the number of hooks that are left.
"""

from __future__ import annotations

import json
import sys

import lightning.pytorch as L
import torch
from lightning_training import Module, Texts
from torch import Tensor

import tensor_tracer as tt


class Failing(Module):
    def __init__(self) -> None:
        super().__init__()
        self.fails = True

    def training_step(self, ids: Tensor, index: int) -> Tensor:
        if self.fails and index == 2:
            self.fails = False
            raise RuntimeError("out of memory")
        return super().training_step(ids, index)


def main() -> None:
    torch.set_num_threads(1)
    tracer, module, steps = tt.lightning.TracerCallback(**json.loads(sys.argv[1])), Failing(), []
    texts = torch.utils.data.DataLoader(Texts(), batch_size=2)
    for _ in range(2):
        trainer = L.Trainer(
            accelerator="cpu", max_steps=4, callbacks=[tracer], logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, limit_val_batches=0,
        )  # fmt: skip
        try:
            trainer.fit(module, texts)
        except RuntimeError as error:
            assert "out of memory" in str(error), error
        steps.append(trainer.global_step)
    hooks = sum(len(one._forward_hooks) + len(one._forward_pre_hooks) for one in module.model.modules())
    print(json.dumps({"steps": steps, "hooks": hooks}))


if __name__ == "__main__":
    main()
