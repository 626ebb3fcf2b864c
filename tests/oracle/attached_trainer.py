"""A training by transformers.Trainer with the tracer's callback, which test_attach.py starts.

python attached_trainer.py OUT '{"model": "gpt2", "attach": {…}}'
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from attached_training import TOKENS, VOCABULARY, Witness, make_model
from torch import Tensor
from transformers import Trainer, TrainerCallback, TrainingArguments


class Texts(torch.utils.data.Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        ids = torch.randint(0, VOCABULARY, (TOKENS,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


class Watching(TrainerCallback):
    """Keeps losses, and tells the witness the step."""

    def __init__(self) -> None:
        self.witness: Witness | None = None
        self.losses: list[float] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.witness = Witness(model)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        assert self.witness is not None
        self.witness.step, self.witness.micro_batch = state.global_step + 1, 0

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        assert self.witness is not None
        self.witness.micro_batch += 1

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "loss" in logs:
            self.losses.append(logs["loss"])


class PointsKept(TrainerCallback):
    """Writes the places of the attached run before it ends."""

    def __init__(self, out: Path, tracer: Any) -> None:
        self.out, self.tracer = out, tracer

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        points = json.dumps(self.tracer.run.points())
        (self.out / f"points{os.environ.get('RANK', '0')}.json").write_text(points)


def main() -> None:
    out, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    watching = Watching()
    callbacks: list[TrainerCallback] = [watching]
    if options.get("attach") is not None:
        from tensor_tracer.hf import TracerCallback

        tracer = TracerCallback(**options["attach"])
        callbacks = [tracer, watching, PointsKept(out, tracer)]
    arguments = TrainingArguments(
        output_dir=str(out / "trainer"), max_steps=options["steps"], per_device_train_batch_size=2, logging_steps=1,
        gradient_accumulation_steps=options["micro_batches"], report_to=[], use_cpu=True, save_strategy="no",
        disable_tqdm=True, seed=3,
    )  # fmt: skip
    trainer = Trainer(make_model(options["model"], "none"), arguments, train_dataset=Texts(), callbacks=callbacks)
    trainer.train()
    witness = watching.witness
    assert witness is not None
    rank = int(os.environ.get("RANK", "0"))
    torch.save(
        {"losses": watching.losses, "values": witness.values, "gradients": witness.gradients}, out / f"rank{rank}.pt"
    )
    del trainer, witness, watching, callbacks
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
