"""What the examples share: their options, and batches of bytes from Python's own library, the text of scripts/demo.sh."""

from __future__ import annotations

import argparse
import sysconfig
from pathlib import Path

import torch
from torch import Tensor


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--run-dir", default="")
    return parser.parse_args()


class Bytes(torch.utils.data.Dataset[dict[str, Tensor]]):
    """Pieces of `length` bytes; the ids are the bytes."""

    def __init__(self, length: int, limit: int = 4_000_000) -> None:
        files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
        self.text = torch.frombuffer(bytearray(b"".join(file.read_bytes() for file in files)[:limit]), dtype=torch.uint8)
        self.length = length

    def __len__(self) -> int:
        return len(self.text) // self.length

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        ids = self.text[index * self.length : (index + 1) * self.length].long()
        return {"input_ids": ids, "labels": ids}


def batches(length: int, rows: int, rank: int = 0, ranks: int = 1) -> torch.utils.data.DataLoader[dict[str, Tensor]]:
    """Shuffled batches of a rank's own part of the text; the order is the same in each run."""
    data = Bytes(length)
    sampler = torch.utils.data.DistributedSampler(data, ranks, rank, seed=1)
    return torch.utils.data.DataLoader(data, rows, sampler=sampler, drop_last=True)
