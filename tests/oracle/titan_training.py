"""A training of torchtitan's small Llama that test_attach_torchtitan.py starts. The ranks are forked after the imports.

The tracer is attached or not. Hooks of this file, which know nothing of the tracer, keep what each module took and
returned on this rank and its gradient; rank r writes them to OUT/rank<r>.pt, with losses.

    python titan_training.py OUT '{"ranks": 2, "backend": "spmd_types", "sequence_parallel": true, "steps": 3, "attach": {…}, …}'
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch
import torch.distributed as dist
from shared_sequences import all_gather, order_of_whole, tokens_of_rank
from torch import Tensor, nn
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor
from torch.multiprocessing import start_processes
from titan_trainer import batch_of, make_trainer

TOKENS, ROWS, LAYERS, VOCABULARY = 8, 2, 2, 2048
MARKED = ("qkv_linear.wqkv", "feed_forward.w1", "feed_forward.w3", "lm_head")


def run_on_cpu() -> None:
    """All patches of torchtitan 0.3.0, which expects CUDA: the device, and packages of which it needs no part here:
    Triton for kernels of models with experts, and `datasets`."""
    import torch.testing._internal.distributed.fake_pg  # the backend of axes with one rank
    import torchtitan.tools.utils as utils

    utils.device_type, utils.device_module = "cpu", torch.cpu
    for names, module in (
        (("triton", "triton.language"), "torchtitan.distributed.minimal_async_ep.kernels"),
        (("datasets", "datasets.distributed"), "torchtitan.trainer"),
    ):
        sys.modules |= {name: MagicMock() for name in names}
        import_module(module)
        for name in names:
            del sys.modules[name]


def make_config(is_sequence_parallel: bool) -> Any:
    """The package's own debug model with fewer layers. Its attention by blocks needs a compiler."""
    from torchtitan.models.common.attention import ScaledDotProductAttention
    from torchtitan.models.llama3 import llama3_configs
    from torchtitan.models.llama3.sharding import set_llama3_sharding_config

    config = llama3_configs["debugmodel"](attn_backend="flex")
    config.layers = config.layers[:LAYERS]
    for layer in config.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
        layer.attention.rope = dataclasses.replace(layer.attention.rope, max_seq_len=TOKENS)
    set_llama3_sharding_config(config, enable_sp=is_sequence_parallel)
    return config


def make_model(options: dict[str, Any], parallel_dims: Any) -> nn.Module:
    """Without FSDP, of which torch 2.13 refuses the plain parameters of `spmd_types`."""
    model: nn.Module = make_config(options["sequence_parallel"]).build()
    torch.manual_seed(7)
    model.init_states()
    if options.get("marked"):
        mark_columns(model)
    if parallel_dims.cp > 1:
        share_sequences(model, parallel_dims.get_mesh("cp").get_group())
    if parallel_dims.tp > 1:
        model.parallelize(parallel_dims)
    return model


def share_sequences(model: nn.Module, group: Any) -> None:
    """An attention that gathers keys and values, because torchtitan's needs CUDA, and the sums of gradients, which
    torchtitan leaves to FSDP."""
    ranks = dist.get_world_size(group)
    own, order = tokens_of_rank(TOKENS, dist.get_rank(group), ranks), order_of_whole(TOKENS, ranks)
    is_seen = torch.arange(TOKENS) <= own[:, None]

    def attend(q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
        k, v = (torch.cat(all_gather(one, group), 1)[:, order] for one in (k, v))
        k, v = (one.repeat_interleave(q.shape[2] // one.shape[2], 2) for one in (k, v))
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v, is_seen).transpose(1, 2)

    def summed(gradient: Tensor) -> Tensor:
        total = gradient.clone()
        dist.all_reduce(total, group=group)
        return total

    for path, module in model.named_modules():
        if path.endswith("inner_attention"):
            module.forward = attend  # type: ignore[assignment]
    for weight in model.parameters():
        weight.register_hook(summed)  # type: ignore[no-untyped-call]


def mark_columns(model: nn.Module) -> None:
    """Column k of a layer in MARKED is k times the first feature of its input, which is the same at all tokens."""
    from marked_columns import mark

    with torch.no_grad():
        model.tok_embeddings.weight.zero_()[:, 0] = 1
        for path, module in model.named_modules():
            if path.endswith(MARKED):
                mark(module.weight)
            elif path.endswith(("wo", "w2")):
                module.weight.zero_()


def numbers_of(tensor: Tensor) -> Tensor:
    """A copy of this rank's numbers."""
    with torch.no_grad():
        tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        tensor = tensor.trigger_wait() if isinstance(tensor, AsyncCollectiveTensor) else tensor
        return tensor.detach().clone()


class Witness:
    """Keeps the first tensor that each module takes and returns, and its gradient, by step and name; of attention
    queries, keys and values, each [batch, sequence, heads, features]."""

    def __init__(self, root: nn.Module) -> None:
        self.values: dict[tuple[int, str], Tensor] = {}
        self.gradients: dict[tuple[int, str], Tensor] = {}
        self.partial: set[tuple[int, str]] = set()  # gradients that are the sum of what the ranks have
        self.kinds: set[str] = set()
        self.step = 0
        for path, module in root.named_modules():
            module.register_forward_pre_hook(self._before(f"{path}.input"))
            module.register_forward_hook(self._after(f"{path}.output"))
            if path.endswith("inner_attention"):
                module.register_forward_pre_hook(self._before_attention(path))

    def _before_attention(self, path: str) -> Any:
        def hook(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
            for name, tensor in zip(("queries", "keys", "values"), args, strict=True):
                self.values[self.step, f"{path}.{name}"] = numbers_of(tensor)

        return hook

    def _before(self, name: str) -> Any:
        return lambda _module, args: self._keep(name, args)

    def _after(self, name: str) -> Any:
        return lambda _module, _args, output: self._keep(name, output if isinstance(output, tuple) else (output,))

    def _keep(self, name: str, among: tuple[Any, ...]) -> None:
        tensor = next((one for one in among if isinstance(one, Tensor) and one.is_floating_point()), None)
        key = self.step, name
        if tensor is None or key in self.values:
            return
        self.kinds.add(type(tensor).__name__)
        self.values[key] = numbers_of(tensor)
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: self._keep_gradient(key, gradient))

    def _keep_gradient(self, key: tuple[int, str], gradient: Tensor) -> None:
        self.gradients[key] = numbers_of(gradient)
        if isinstance(gradient, DTensor) and any(one.is_partial() for one in gradient.placements):
            self.partial.add(key)


def loss_of(model: nn.Module, step: int, group: Any) -> Tensor:
    """Every rank has the loss of the whole vocabulary."""
    import spmd_types as spmd

    ids = torch.randint(0, VOCABULARY, (ROWS, TOKENS + 1), generator=torch.Generator().manual_seed(step))
    logits = model(ids[:, :-1], positions=torch.arange(TOKENS).expand(ROWS, TOKENS))
    if isinstance(logits, DTensor):
        logits = logits.full_tensor()
    elif group is not None:
        logits = spmd.redistribute(logits, group, src=spmd.S(2), dst=spmd.I)
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def add_up_gradients(model: nn.Module, group: Any) -> None:
    """Norms of a part of the sequence: torchtitan leaves the sum over ranks to FSDP."""
    for norm in model.modules():
        if isinstance(norm, nn.RMSNorm) and not isinstance(norm.weight, DTensor):
            dist.all_reduce(norm.weight.grad, group=group)


def train(model: nn.Module, dims: Any, run: Any, witness: Witness, options: dict[str, Any]) -> list[float]:
    from torchtitan.distributed.utils import get_spmd_context

    context, mesh = get_spmd_context(parallel_dims=dims), dims.get_optional_mesh("tp")
    group = None if mesh is None else mesh.get_group()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0 if options.get("marked") else 0.05, foreach=False)
    losses = []
    for step in range(1, options["steps"] + 1):
        witness.step = step
        with run.step() if run is not None else contextlib.nullcontext():
            with context():
                loss = loss_of(model, step, group)
                loss.backward()
            if options["sequence_parallel"]:
                add_up_gradients(model, group)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def run_rank(rank: int, out: Path, options: dict[str, Any]) -> None:
    from torchtitan.distributed import ParallelDims
    from torchtitan.distributed.utils import set_spmd_backend

    dist.init_process_group("gloo", f"file://{out}/store", rank=rank, world_size=options["ranks"])
    set_spmd_backend(options["backend"])
    contexts = options.get("contexts", 1)
    dims = ParallelDims(
        dp_replicate=1, dp_shard=1, cp=contexts, tp=options["ranks"] // contexts, pp=1, ep=1, world_size=options["ranks"],
        spmd_backend=options["backend"],
    )  # fmt: skip
    dims.build_mesh()
    model = make_model(options, dims)
    found = train_by_titan(model, dims, options) if options.get("trainer") else train_here(model, dims, out, options)
    torch.save(found, out / f"rank{rank}.pt")
    dist.destroy_process_group()


def train_here(model: nn.Module, dims: Any, out: Path, options: dict[str, Any]) -> dict[str, Any]:
    """In a loop of this file."""
    witness = Witness(model)
    run = None
    if options.get("attach") is not None:
        import tensor_tracer as tt

        run = tt.attach(model, **options["attach"])
    losses = train(model, dims, run, witness, options)
    if run is not None:
        (out / f"points{dist.get_rank()}.json").write_text(json.dumps(run.points()))
        run.detach()
    found = {"losses": losses, "values": witness.values, "gradients": witness.gradients, "partial": witness.partial}
    return found | {"kinds": witness.kinds}


def train_by_titan(model: nn.Module, dims: Any, options: dict[str, Any]) -> dict[str, Any]:
    """By torchtitan's Trainer."""
    batches = (batch_of(index, ROWS, TOKENS, VOCABULARY) for index in itertools.count())
    trainer = make_trainer(model, dims, options, batches)
    if options.get("attach") is not None:
        import tensor_tracer as tt

        tt.torchtitan.attach(trainer, **options["attach"])
    logged, checkpointer = trainer.metrics_processor.logged, trainer.checkpointer
    trainer.train()
    trainer.close()
    hooks = sum(len(one._forward_hooks) + len(one._forward_pre_hooks) for one in model.modules())
    return {"logged": logged, "saved": [tuple(call) for call in checkpointer.save.call_args_list], "hooks": hooks}


def main() -> None:
    out, options = Path(sys.argv[1]).absolute(), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    run_on_cpu()
    start_processes(run_rank, (out, options), nprocs=options["ranks"], start_method="fork")


if __name__ == "__main__":
    main()
