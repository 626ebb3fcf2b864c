"""A training by transformers.Trainer with the tracer's callback, which test_attach.py starts, and the same without it.
Rank 0 also trains in one process. What they write is that of attached_training.py.

    torchrun --nproc-per-node 2 attached_trainer.py OUT '{"model": "gpt2", "steps": 4, "micro_batches": 2, "attach": {…}}'
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate.state import AcceleratorState
from attached_training import ROWS, TOKENS, VOCABULARY, Witness, make_model
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


def train_model(out: Path, options: dict[str, Any], ranks: int, attach: dict[str, Any] | None) -> dict[str, Any]:
    watching = Watching()
    callbacks: list[TrainerCallback] = [watching]
    if attach is not None:
        from tensor_tracer.hf import TracerCallback

        tracer = TracerCallback(**attach)
        callbacks = [tracer, watching, PointsKept(out, tracer)]
    arguments = TrainingArguments(
        output_dir=str(out / "trainer"), max_steps=options["steps"], per_device_train_batch_size=ROWS // ranks,
        logging_steps=1, gradient_accumulation_steps=options["micro_batches"], report_to=[], use_cpu=True, seed=3,
        save_strategy="no", disable_tqdm=True, optim="sgd", learning_rate=0.1,
    )  # fmt: skip
    trainer = Trainer(make_model(options["model"], "none"), arguments, train_dataset=Texts(), callbacks=callbacks)
    trainer.train()
    witness = watching.witness
    assert witness is not None
    return {"losses": watching.losses, "values": witness.values, "gradients": witness.gradients}


def leave_group() -> None:
    """Afterwards this process is no rank of torchrun's."""
    dist.destroy_process_group()
    AcceleratorState._reset_state(reset_partial_state=True)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)


def main() -> None:
    out, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    found = {"alone": train_model(out, options, ranks, None)["losses"]}
    found |= train_model(out, options, ranks, options["attach"])
    leave_group()
    if rank == 0:
        found["single"] = train_model(out, options, 1, None)
    torch.save(found, out / f"rank{rank}.pt")


if __name__ == "__main__":
    main()
