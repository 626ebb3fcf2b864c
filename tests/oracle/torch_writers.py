"""Saves a model with torch.distributed.checkpoint, on ranks that `forked_ranks` starts."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

RANKS = 3  # divides no size of the models
FORMS = {
    "one rank": {},
    "shards": {"save_distributed": True},
    "shards of two files": {"save_distributed": True},
    "consolidated": {"save_distributed": True, "enable_consolidation": True},
}


def write_all(weights: dict[str, torch.Tensor], folder: Path) -> None:
    """A folder of each form. Matrices are cut along their rows, their columns, or not at all, in turn."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    kinds = [Shard(0), Shard(1), Replicate()]
    cut = {
        name: distribute_tensor(weight, mesh, [kinds[i % 3 if weight.dim() == 2 else 0]])
        for i, (name, weight) in enumerate(weights.items())
    }
    files = {name: 1 + i % 2 for i, name in enumerate(weights)}
    for form, options in FORMS.items():
        mapping = files if form == "shards of two files" else None
        writer = HuggingFaceStorageWriter(str(folder / form), fqn_to_index_mapping=mapping, **options)
        if options:
            dcp.save(cut, storage_writer=writer)
        elif dist.get_rank() == 0:
            dcp.save(weights, storage_writer=writer, no_dist=True)
