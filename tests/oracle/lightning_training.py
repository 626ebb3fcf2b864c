"""A training by Lightning's Trainer that test_attach_lightning.py starts, by itself or by torchrun.

The tracer's callback is there or not. Hooks of attached_training.py keep what each module returned and its gradient.

    python lightning_training.py OUT '{"ranks": 1, "micro_batches": 2, "attach": {…}, …}'
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
import torch.distributed as dist
from attached_training import TOKENS, VOCABULARY, Witness, make_model
from torch import Tensor, nn


class Texts(torch.utils.data.Dataset[Tensor]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Tensor:
        return torch.randint(0, VOCABULARY, (TOKENS,), generator=torch.Generator().manual_seed(index))


class Module(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = make_model("gpt2", "none")
        self.metric = nn.Identity()

    def training_step(self, ids: Tensor, index: int) -> Tensor:
        return self.model(ids, labels=ids).loss

    def validation_step(self, ids: Tensor, index: int) -> None:
        self.log("val_loss", self.model(ids, labels=ids).loss)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2, foreach=False)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5), "interval": "step"}]


class Watching(L.Callback):
    """Keeps the losses of all batches, and tells the witness the step and the micro-batch."""

    def __init__(self) -> None:
        self.witness: Any = None
        self.losses: list[float] = []
        self.rates: list[float] = []
        self._step = 0

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self.witness = Witness(module.model)

    def on_train_batch_start(self, trainer: L.Trainer, module: L.LightningModule, batch: Any, index: int) -> None:
        is_next = trainer.global_step + 1 > self.witness.step
        self.witness.micro_batch = 0 if is_next else self.witness.micro_batch + 1
        self.witness.step = trainer.global_step + 1
        if is_next:
            self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    def on_train_batch_end(self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, *_: Any) -> None:
        self.losses.append(float(outputs["loss"]))

    def on_validation_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if self.witness is not None:
            self.witness.step = 0  # keep nothing that counts


class PointsKept(L.Callback):
    """Writes the places and the addresses of the attached run before it ends."""

    def __init__(self, out: Path, tracer: Any) -> None:
        self.out, self.tracer = out, tracer

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        (self.out / f"points{trainer.global_rank}.json").write_text(json.dumps(self.tracer.run.points()))


def main() -> None:
    out, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    watching = Watching()
    callbacks: list[L.Callback] = [watching]
    if options.get("attach") is not None:
        import tensor_tracer as tt

        tracer = tt.lightning.TracerCallback(**options["attach"])
        callbacks = [tracer, watching, PointsKept(out, tracer)]
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    trainer = L.Trainer(
        accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto", max_steps=options["steps"],
        accumulate_grad_batches=options["micro_batches"], callbacks=callbacks, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=out,
        val_check_interval=2 * options["micro_batches"], limit_val_batches=1,
    )  # fmt: skip
    L.seed_everything(3)
    texts = torch.utils.data.DataLoader(Texts(), batch_size=2, shuffle=False)
    trainer.fit(Module(), texts, texts)
    found = {"losses": watching.losses, "rates": watching.rates, "steps": trainer.global_step}
    found |= {"values": watching.witness.values, "gradients": watching.witness.gradients}
    torch.save(found, out / f"rank{trainer.global_rank}.pt")
    if dist.is_initialized():
        del trainer, watching, callbacks
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
