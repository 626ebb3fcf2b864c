"""Models that know their tensor-parallel ranks by other means than DTensors, for test_attach_groups.py."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from attach_scenarios import Options
from attached_training import Witness, batch_of, loss_of, make_model
from tensor_tracer.attaching.groups import make_groups
from tensor_tracer.attaching.layouts import TensorAxis
from torch import Tensor, nn

LOCAL_PLAN = {
    "layers.*.mlp.gate_proj": "local_colwise", "layers.*.mlp.up_proj": "local_colwise",
    "layers.*.mlp.down_proj": "local_rowwise", "layers.*.mlp": "gather",
}  # fmt: skip


class ColumnParallelLinear(nn.Linear):
    """As that of Megatron-Core."""

    def __init__(self, tp_group: Any, is_expert: bool = False) -> None:
        super().__init__(4, 4)
        self.config = SimpleNamespace(tensor_model_parallel_size=2)
        self.tp_group, self.is_expert = tp_group, is_expert


def megatron_ranks() -> tuple[int, ...]:
    """The tensor-parallel ranks of this rank, of four: the model's modules have other groups than the process."""
    pairs = {pair: dist.new_group(list(pair)) for pair in [(0, 1), (2, 3), (0, 2), (1, 3)]}
    of_process, of_model = ([pair for pair in pairs if dist.get_rank() in pair][one] for one in (0, 1))
    sys.modules["megatron.core.parallel_state"] = SimpleNamespace(  # type: ignore[assignment]
        model_parallel_is_initialized=lambda: True, get_context_parallel_group=lambda check_initialized: None,
        get_tensor_model_parallel_group=lambda: pairs[of_process], get_pipeline_model_parallel_group=lambda: None,
    )  # fmt: skip
    model = nn.ModuleList([ColumnParallelLinear(pairs[of_process], is_expert=True), ColumnParallelLinear(pairs[of_model])])
    return make_groups(model, TensorAxis.of(model, ["tp"])).tensor_ranks


def locally_shared(attach: Options, folder: str) -> tuple[dict[Any, Tensor], list[dict[str, Any]]]:
    """Llama whose feed-forward is shared by a plan that makes no DTensors; with one rank, a whole one. The weights do not
    change."""
    from transformers import LlamaForCausalLM

    import tensor_tracer as tt

    model: Any = make_model("llama", "none")
    if dist.is_initialized():
        config = model.config
        config.base_model_tp_plan = LOCAL_PLAN
        if dist.get_rank() == 0:
            model.save_pretrained(folder)
        dist.barrier()
        os.environ["LOCAL_RANK"] = os.environ["RANK"] = str(dist.get_rank())
        model = LlamaForCausalLM.from_pretrained(folder, config=config, tp_plan="auto")
    witness = Witness(model)
    run = tt.attach(model, **attach) if attach is not None else None
    for step in (1, 2):
        witness.step = step
        ids = batch_of(step, 0, {"wrap": "tp"}, 0, 1)
        if run is None:
            loss_of(model, ids).backward()
            continue
        with run.step():
            loss_of(model, ids).backward()
    points = run.points() if run is not None else []
    if run is not None:
        run.detach()
    return {path: value for (step, _, path), value in witness.values.items() if step == 2}, points
