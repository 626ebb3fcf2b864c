"""Trainings of a small Llama on a mesh of FSDP2 and tensor parallelism, which test_attach_mesh.py starts by torchrun.

Four processes, forked after the imports. For each way to share tensors on the axis "tp": a training without the tracer, the same with the tracer, and on rank 0
the same in one process. Hooks of this file, which know nothing of the tracer, keep what each module took and returned
and its gradient. After each training the ranks put together what they kept by torch.distributed.all_gather.

    python mesh_training.py OUT '{"plan": {…}}'
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from attached_training import give_own_inputs
from gathered_parts import gathered
from torch import Tensor, nn
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, ParallelStyle, PrepareModuleInput, PrepareModuleOutput, RowwiseParallel, SequenceParallel,
    parallelize_module,
)  # fmt: skip
from torch.multiprocessing import start_processes
from transformers import LlamaConfig, LlamaForCausalLM

DATA, TENSOR = 2, 2  # ranks on the two axes
LAYERS, ROWS, TOKENS, VOCABULARY, STEPS = 2, 4, 8, 64, 3  # ROWS: of the batch of all replicas

Key = tuple[int, str]  # step, and the module's path with .output or .input


def make_model() -> nn.Module:
    torch.manual_seed(7)
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=32, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=TOKENS, use_cache=False,
        )
    )  # fmt: skip


def layer_styles(is_sequence_parallel: bool) -> dict[str, ParallelStyle]:
    """Without sequence parallelism the MLP, and not its last linear layer, adds up what the ranks have."""
    columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
    styles: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in columns}
    rows = Shard(1) if is_sequence_parallel else Replicate()
    styles |= {name: RowwiseParallel(output_layouts=rows) for name in ("self_attn.o_proj", "mlp.down_proj")}
    if not is_sequence_parallel:
        return styles | {
            "mlp.down_proj": RowwiseParallel(output_layouts=Partial(), use_local_output=False),
            "mlp": PrepareModuleOutput(output_layouts=Partial(), desired_output_layouts=Replicate()),
        }
    part = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
    by_name = {"hidden_states": Shard(1)}, {"hidden_states": Replicate()}
    return styles | {
        "input_layernorm": SequenceParallel(),
        "self_attn": PrepareModuleInput(
            input_kwarg_layouts=by_name[0], desired_input_kwarg_layouts=by_name[1]
        ),
        "post_attention_layernorm": SequenceParallel(),
        "mlp": PrepareModuleInput(**part),
    }  # fmt: skip


def model_styles(is_sequence_parallel: bool) -> dict[str, ParallelStyle]:
    """With sequence parallelism the logits stay a DTensor, with a part of the vocabulary on each rank."""
    embedded = Shard(1) if is_sequence_parallel else Replicate()
    styles: dict[str, ParallelStyle] = {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=embedded),
        "lm_head": ColwiseParallel(output_layouts=Replicate()),
    }
    if is_sequence_parallel:
        styles["model.norm"] = SequenceParallel()
        styles["lm_head"] = ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)
    return styles


def parallelize(model: nn.Module, mesh: DeviceMesh, is_sequence_parallel: bool) -> None:
    for layer in model.model.layers:
        parallelize_module(layer, mesh["tp"], layer_styles(is_sequence_parallel))
    parallelize_module(model, mesh["tp"], model_styles(is_sequence_parallel))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])


def modules_with_styles(model: nn.Module, is_sequence_parallel: bool) -> list[nn.Module]:
    """Those to which parallelize() gives a separate tensor."""
    names = layer_styles(is_sequence_parallel)
    in_layers = [layer.get_submodule(name) for layer in model.model.layers for name in names]
    return [*in_layers, *map(model.get_submodule, model_styles(is_sequence_parallel))]


class Witness:
    """Keeps this rank's numbers of the first tensor that each module takes and returns, and its gradient."""

    def __init__(self, root: nn.Module) -> None:
        self.values: dict[Key, Tensor] = {}
        self.gradients: dict[Key, Tensor] = {}
        self.partial: set[Key] = set()  # gradients that are the sum of what the ranks have
        self.pending: set[str] = set()  # what the hooks saw before its collective was waited for
        self.step = 0
        for path, module in root.named_modules():
            module.register_forward_pre_hook(self._before(f"{path}.input"), with_kwargs=True)
            module.register_forward_hook(self._after(f"{path}.output"))

    def _before(self, name: str) -> Any:
        return lambda _module, args, kwargs: self._keep(name, (*args, *kwargs.values()))

    def _after(self, name: str) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            self._keep(name, (output,) if isinstance(output, Tensor) else tuple(getattr(output, "values", lambda: output)()))

        return hook

    def _keep(self, name: str, among: tuple[Any, ...]) -> None:
        tensor = next((one for one in among if isinstance(one, Tensor) and one.is_floating_point()), None)
        key = self.step, name
        if tensor is None or key in self.values:
            return
        if isinstance(tensor, AsyncCollectiveTensor):
            self.pending.add(name)
        self.values[key] = numbers_of(tensor)
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: self._keep_gradient(key, gradient))

    def _keep_gradient(self, key: Key, gradient: Tensor) -> None:
        self.gradients[key] = numbers_of(gradient)
        if isinstance(gradient, DTensor) and any(one.is_partial() for one in gradient.placements):
            self.partial.add(key)


def numbers_of(tensor: Tensor) -> Tensor:
    """A copy of this rank's numbers."""
    with torch.no_grad():
        tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        tensor = tensor.trigger_wait() if isinstance(tensor, AsyncCollectiveTensor) else tensor
        return tensor.detach().clone()


def batch_of(step: int) -> Tensor:
    return torch.randint(0, VOCABULARY, (ROWS, TOKENS), generator=torch.Generator().manual_seed(step))


def loss_of(model: nn.Module, ids: Tensor) -> Tensor:
    positions = torch.arange(TOKENS)  # given as the mask is, because Llama would make them for a rank's part of the text
    mask = positions[:, None] >= positions
    logits = model(
        input_ids=ids, attention_mask=mask[None, None], position_ids=positions[None], cache_position=positions
    ).logits
    logits = logits.full_tensor() if isinstance(logits, DTensor) else logits
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def train(model: nn.Module, data_index: int, replicas: int, attach: dict[str, Any] | None) -> dict[str, Any]:
    witness = Witness(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
    run = None
    if attach is not None:
        import tensor_tracer as tt

        run = tt.attach(model, **attach)
    losses, rows = [], ROWS // replicas
    for step in range(1, STEPS + 1):
        witness.step = step
        with run.step() if run is not None else contextlib.nullcontext():
            loss = loss_of(model, batch_of(step)[data_index * rows : (data_index + 1) * rows])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(float(loss.detach()))
    found = {"losses": losses, "values": witness.values, "gradients": witness.gradients}
    found |= {"partial": witness.partial, "pending": witness.pending, "points": []}
    if run is not None:
        found["points"] = run.points()
        run.detach()
    return found


def train_on_mesh(mesh: DeviceMesh, is_sequence_parallel: bool, attach: dict[str, Any] | None) -> dict[str, Any]:
    model = make_model()
    parallelize(model, mesh, is_sequence_parallel)
    weights = {
        name: {axis: str(one) for axis, one in zip(weight.device_mesh.mesh_dim_names, weight.placements, strict=True)}
        for name, weight in model.named_parameters()
    }
    found = train(model, mesh.get_local_rank("dp"), DATA, attach)
    found["losses"] = gathered_losses(found["losses"])
    if attach is None:
        return {"losses": found["losses"]}
    parts = {kind: gathered(found[kind], mesh.get_group("tp")) for kind in ("values", "gradients")}
    return found | parts | {"weights": weights}


def gathered_losses(losses: list[float]) -> list[list[float]]:
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, losses)
    return every


def run_rank(rank: int, out: Path, plan: dict[str, Any]) -> None:
    dist.init_process_group("gloo", f"file://{out}/store", rank=rank, world_size=DATA * TENSOR)
    mesh = init_device_mesh("cpu", (DATA, TENSOR), mesh_dim_names=("dp", "tp"))
    for name in ("tensor", "sequence"):
        folder = out / name
        attach = {"port": 0, "run_dir": str(folder), "record": str(folder / "record"), "plan": plan}
        found = {
            "alone": train_on_mesh(mesh, name == "sequence", None),
            "watched": train_on_mesh(mesh, name == "sequence", attach),
        }
        if rank == 0:
            model = make_model()
            give_own_inputs(modules_with_styles(model, name == "sequence"))
            torch.save(found | {"single": train(model, 0, 1, None)}, out / f"{name}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    arguments = Path(sys.argv[1]).absolute(), json.loads(sys.argv[2])["plan"]
    start_processes(run_rank, arguments, nprocs=DATA * TENSOR, start_method="fork")
