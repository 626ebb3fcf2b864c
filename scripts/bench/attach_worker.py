"""A rank of a training of GPT-2 that scripts/bench.sh attach starts by torchrun: blocks of steps with a tool and without.

    python attach_worker.py OUT '{"watcher": "statistics", "pairs": 5, "steps": {"on": 4, "off": 4}, "size": {…}}'

Rank r writes what each block used to OUT/rank<r>.json.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from attach_watchers import WATCHERS, Watcher
from cpu_clocks import Meter
from torch import Tensor, nn

WARM_UP = {True: 2, False: 1}  # steps of a block that do not count, with and without a tool; ours learns in the first


@dataclasses.dataclass
class Block:
    """What the counted steps of a block used on this rank, in CPU seconds."""

    is_on: bool
    steps: int
    wall: float
    ranks: float  # the process of the rank, with the threads of the tool
    hooks: float  # in the tool's Python hooks
    calls: float  # in what the trainer calls of the tool
    gradients: float  # in other hooks of the tool
    threads: dict[str, float]  # of the tool, in the process of the rank
    processes: float  # of the tool


@dataclasses.dataclass
class Used:
    """What was used so far, in CPU seconds."""

    wall: float
    ranks: float
    hooks: float
    calls: float
    gradients: float
    threads: dict[str, float]
    processes: float

    @classmethod
    def now(cls, meter: Meter) -> Used:
        return cls(time.perf_counter(), time.process_time(), meter.hooks, meter.calls, meter.gradients,
                   meter.threads(), meter.processes())  # fmt: skip

    def since(self, begin: Used, is_on: bool, steps: int) -> Block:
        threads = {name: seconds - begin.threads.get(name, 0.0) for name, seconds in self.threads.items()}
        numbers = {
            name: getattr(self, name) - getattr(begin, name)
            for name in ("wall", "ranks", "hooks", "calls", "gradients", "processes")
        }
        return Block(is_on=is_on, steps=steps, threads=threads, **numbers)


class Training:
    """GPT-2 of Transformers with random weights and no dropout. `size`: of GPT2Config, and the `batch` of a rank."""

    def __init__(self, size: dict[str, int]) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        shape = {name: number for name, number in size.items() if name != "batch"}
        torch.manual_seed(7)
        config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, **shape)
        self.model: nn.Module = GPT2LMHeadModel(config)
        if dist.is_initialized():
            self.model = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        rank = dist.get_rank() if dist.is_initialized() else 0
        self._tokens = torch.Generator().manual_seed(rank)
        self._size = size["batch"], size["n_positions"]
        self._vocabulary = size["vocab_size"]

    def step(self, watcher: Watcher, meter: Meter) -> Tensor:
        ids = torch.randint(0, self._vocabulary, self._size, generator=self._tokens)
        meter.call(watcher.begin_step)
        loss = self.model(input_ids=ids, labels=ids).loss
        before = watcher.gradient_seconds()
        loss.backward()
        meter.gradients += watcher.gradient_seconds() - before
        self.optimizer.step()
        self.optimizer.zero_grad()
        meter.call(watcher.end_step, loss.detach())
        return loss.detach()

    def block(self, watcher: Watcher, is_on: bool, steps: int) -> Block:
        meter = Meter()
        with meter.counts_hooks():
            watcher.start(self.model)
            for _ in range(WARM_UP[is_on]):
                self.step(watcher, meter)
            begin = Used.now(meter)
            for _ in range(steps):
                self.step(watcher, meter)
            block = Used.now(meter).since(begin, is_on, steps)
            watcher.stop()
        return block


def measure(training: Training, options: dict[str, Any], folder: Path) -> list[Block]:
    """Pairs of a block with the tool and one without, whose order turns."""
    tool, nothing = WATCHERS[options["watcher"]](folder), Watcher(folder)
    training.block(nothing, False, 2)  # threads of libtorch, and the states of the optimizer
    gc.collect()
    gc.freeze()  # otherwise some block has a pass of the garbage collector over everything that was imported
    blocks = []
    for pair in range(options["pairs"]):
        for is_on in (pair % 2 == 0, pair % 2 == 1):
            blocks.append(training.block(tool if is_on else nothing, is_on, options["steps"]["on" if is_on else "off"]))
    return blocks


def main() -> None:
    out, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    training = Training(options["size"])
    blocks = measure(training, options, out / f"files{rank}")
    (out / f"rank{rank}.json").write_text(json.dumps([dataclasses.asdict(block) for block in blocks]))
    del training  # the reducer of DDP must go before its group
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("WANDB_SILENT", "true")
    main()
