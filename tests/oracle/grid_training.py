"""A training of a small Llama on two pipeline stages by two tensor-parallel ranks, which test_attach_grid.py runs on
forked ranks. torch.distributed.pipelining runs the stages, and DTensors have the weights of each."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist
from gathered_parts import gathered
from pipeline_training import MICRO_BATCHES, Pipeline, Witness
from small_llama import Llama, parallelize
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

STAGES, TENSOR, STEPS = 2, 2, 3


class Grid(Pipeline):
    def make_mesh(self, pipeline: int) -> DeviceMesh:
        return init_device_mesh("cpu", (pipeline, 1, TENSOR), mesh_dim_names=("pp", "dp", "tp"))

    def make_part(self, _options: dict[str, Any], stage: int, stages: int) -> Llama:
        part = Llama()
        part.keep_stage(stage, stages)
        return parallelize(part, self.mesh["tp"], is_sequence_parallel=False)


def train(attach: dict[str, Any] | None) -> dict[str, Any]:
    """Losses of the micro-batches of each step; with the tracer also its places, and what each module of the stage
    returned on the tensor-parallel ranks, with its gradient."""
    grid = Grid({}, STAGES)
    optimizer = torch.optim.SGD(grid.models[0].parameters(), lr=0.05, foreach=False)
    witness = Witness(grid.models[0], None)
    run = None
    if attach is not None:
        import tensor_tracer as tt

        run = tt.attach(grid.stages, **attach)
    of_steps = []
    for step in range(1, STEPS + 1):
        witness.step, witness.forwards = step, 0
        losses: list[Tensor] = []
        with run.step() if run is not None else contextlib.nullcontext():
            grid.run(step, losses)
            optimizer.step()
            optimizer.zero_grad()
        of_steps.append([float(loss.detach()) for loss in losses])
        if run is not None:
            run.log(loss=sum(of_steps[-1]) / MICRO_BATCHES if losses else None)
    found: dict[str, Any] = {"losses": of_steps}
    if run is not None:
        group = grid.mesh.get_group("tp")
        found |= {"values": gathered(witness.values, group), "gradients": gathered(witness.gradients, group)}
        found["points"] = run.points()
        run.detach()
        dist.barrier()
    return found
