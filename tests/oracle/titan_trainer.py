"""A training by torchtitan's own Trainer on a CPU. Its constructor needs CUDA, so this file gives the object its members;
the loop, the step, the loss and the gradient's norm are torchtitan's."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from torch import Tensor, nn

MICRO_BATCHES = 2


class Metrics:
    """Keeps what the trainer logged."""

    def __init__(self) -> None:
        self.ntokens_since_last_log = 0
        self.data_loading_times: list[float] = []
        self.logged: list[tuple[int, float, float, float]] = []

    def should_log(self, step: int) -> bool:
        return True

    def log(self, step: int, loss: float, largest: float, norm: float, extra_metrics: Any = None) -> None:
        self.logged.append((step, loss, norm, extra_metrics["lr/SGD"]))

    def close(self) -> None:
        pass


def batch_of(index: int, rows: int, tokens: int, vocabulary: int) -> tuple[dict[str, Tensor], Tensor]:
    ids = torch.randint(0, vocabulary, (rows, tokens + 1), generator=torch.Generator().manual_seed(index))
    return {"input": ids[:, :-1], "positions": torch.arange(tokens).expand(rows, tokens)}, ids[:, 1:]


def make_trainer(model: nn.Module, dims: Any, options: dict[str, Any], batches: Iterable[Any]) -> Any:
    from torchtitan.components.loss import CrossEntropyLoss
    from torchtitan.components.optimizer.lr_scheduler import LRSchedulersContainer
    from torchtitan.distributed import utils
    from torchtitan.trainer import Trainer

    utils.set_pg_timeouts = lambda **_: None  # asks for the CUDA device
    trainer = Trainer.__new__(Trainer)
    trainer.config = SimpleNamespace(
        training=SimpleNamespace(steps=options["steps"], disable_cuda_graphs=True, max_norm=1.0),
        parallelism=SimpleNamespace(
            spmd_backend=options["backend"], context_parallel_load_balancer=options.get("balancer", "headtail"),
            context_parallel_ptrr_mask_key=None,
        ),
        checkpoint=SimpleNamespace(load_step=-1),
        validator=SimpleNamespace(enable=False), comm=SimpleNamespace(train_timeout_seconds=60), profiler=MagicMock(),
        dump_folder="",
    )  # fmt: skip
    trainer.parallel_dims, trainer.device = dims, torch.device("cpu")
    trainer.model_parts, trainer.model_config = [model], model.config
    trainer.loss_fn = CrossEntropyLoss(CrossEntropyLoss.Config(global_vocab_size=model.config.vocab_size))
    trainer.optimizers = torch.optim.SGD(model.parameters(), lr=0.05, foreach=False)
    schedule = torch.optim.lr_scheduler.ExponentialLR(trainer.optimizers, 0.5)
    trainer.lr_schedulers = LRSchedulersContainer.__new__(LRSchedulersContainer)
    trainer.lr_schedulers.schedulers = [schedule]
    trainer.metrics_processor, trainer.checkpointer, trainer.gc_handler = Metrics(), MagicMock(), MagicMock()
    trainer.train_context = utils.get_spmd_context(parallel_dims=dims)
    trainer.fwd_bwd_fn = trainer._forward_backward_body
    trainer.gradient_accumulation_steps, trainer.num_pipeline_parallel_microbatches = MICRO_BATCHES, 1
    trainer.dataloader, trainer.step, trainer.ntokens_seen = batches, 0, 0
    return trainer
