"""Starts ranks as processes that are forked from one that has imported torch, which takes 0.1 s instead of 5."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([
    "torch", "torch.distributed.tensor", "torch.distributed.fsdp",
    "transformers.models.llama.modeling_llama", "transformers.models.gpt2.modeling_gpt2",
])  # fmt: skip


@dataclass
class Ended:
    """A rank that has ended. `exit_code`: negative for a signal. `seconds`: until it ended, since the start."""

    exit_code: int
    output: str
    result: Any  # what the function returned; None: it failed
    seconds: float


class Ranks:
    """`work(*arguments)` on each of `ranks` ranks with gloo; it must be a function of a module."""

    def __init__(self, work: Callable[..., Any], ranks: int, folder: Path, *arguments: Any, env: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._began = folder, time.monotonic()
        self.processes: list[BaseProcess] = [
            _FORKS.Process(target=_run, args=(work, rank, ranks, str(folder), env, arguments)) for rank in range(ranks)
        ]
        for process in self.processes:
            process.start()

    def wait(self, timeout: float = 120) -> list[Ended]:
        """Of each rank. A rank that has not ended in time is killed and has the exit code -9."""
        ended: dict[int, float] = {}
        while len(ended) < len(self.processes) and time.monotonic() < self._began + timeout:
            for rank, process in enumerate(self.processes):
                if rank not in ended and not process.is_alive():
                    ended[rank] = time.monotonic() - self._began
            time.sleep(0.02)
        for process in self.processes:
            process.kill()
            process.join()
        return [self._ended(rank, ended.get(rank, timeout)) for rank in range(len(self.processes))]

    def _ended(self, rank: int, seconds: float) -> Ended:
        file, code = self._folder / f"result{rank}.pt", self.processes[rank].exitcode
        result = torch.load(file, weights_only=False) if file.exists() else None
        text = (self._folder / f"output{rank}.txt").read_text()
        return Ended(code if code is not None else 1, text, result, seconds)


def run_ranks(
    work: Callable[..., Any], ranks: int, folder: Path, *arguments: Any, env: dict[str, str], timeout: float = 120
) -> list[Any]:
    """What the function returned on each rank. All ranks must succeed."""
    ended = Ranks(work, ranks, folder, *arguments, env=env).wait(timeout)
    assert all(one.exit_code == 0 for one in ended), "\n".join(f"{one.exit_code}: {one.output}" for one in ended)
    return [one.result for one in ended]


def _run(work: Callable[..., Any], rank: int, ranks: int, folder: str, env: dict[str, str], arguments: Any) -> None:
    output = os.open(f"{folder}/output{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ |= env
    torch.set_num_threads(1)
    if ranks > 1:
        limit = timedelta(seconds=float(os.environ.get("GROUP_SECONDS", "1800")))
        store = f"file://{folder}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks, timeout=limit)
    result = work(*arguments)
    torch.save(result, f"{folder}/result{rank}.pt")
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.stdout.flush()
