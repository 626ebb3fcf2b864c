"""A training of a small GPT by Megatron-Core that test_attach_megatron.py starts, by itself or by torchrun.

The tracer is attached or not. Hooks of this file, which know nothing of the tracer, keep what each module took
and returned on this rank and its gradient; rank r writes them to OUT/rank<r>.pt, with losses and weights.

    python megatron_training.py OUT '{"model": "llama", "steps": 3, "attach": {…}, …}'

With "chunks", there are two pipeline stages with so many virtual stages each, which Megatron's own schedule runs. With
"contexts", so many ranks share each sequence; Megatron's attention for a CPU has no context parallelism, so ContextAttention
gathers keys and values.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from shared_sequences import all_gather, order_of_whole, tokens_of_rank
from torch import Tensor, nn

TOKENS, VOCABULARY, HIDDEN, LAYERS = 8, 48, 32, 2
PIPELINE_LAYERS, MICRO_BATCHES = 4, 4  # with pipeline stages

# Settings of TransformerConfig; `position` is an argument of GPTModel.
MODELS: dict[str, dict[str, Any]] = {
    "gpt": {"num_attention_heads": 4, "ffn_hidden_size": 64, "position": "learned_absolute"},
    "llama": {
        "num_attention_heads": 4, "num_query_groups": 2, "ffn_hidden_size": 40, "position": "rope",
        "normalization": "RMSNorm", "gated_linear_unit": True, "activation_func": nn.functional.silu,
        "add_bias_linear": False,
    },
}  # fmt: skip


def run_on_cpu() -> None:
    """All patches of Megatron-Core 0.16.1, which expects CUDA: the device of new tensors, the wait for the device, and
    the generators of random numbers with their states, which nobody uses without dropout."""
    from megatron.core.pipeline_parallel import schedules
    from megatron.core.tensor_parallel import random

    schedules.torch = TorchOnCpu()
    torch.cuda.synchronize = lambda *_args: None  # type: ignore[assignment]
    torch.cuda.current_device = lambda: torch.device("cpu")  # type: ignore[assignment, return-value]
    random.CudaRNGStatesTracker.fork = lambda *_args: contextlib.nullcontext()
    random._get_all_rng_states = lambda: ()  # these three: of recomputation
    random._set_all_rng_states = lambda *_states: None
    random._fork_rng = contextlib.nullcontext


class TorchOnCpu:
    """The module torch, as the schedules of pipelines use it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def zeros(self, *sizes: Any, device: str, **options: Any) -> Tensor:
        return torch.zeros(*sizes, **options)


def context_attention(group: Any) -> type:
    """Megatron's DotProductAttention, with the keys and values of all context-parallel ranks."""
    from megatron.core.transformer.dot_product_attention import DotProductAttention

    ranks = dist.get_world_size(group)
    order = order_of_whole(TOKENS, ranks)

    class ContextAttention(DotProductAttention):
        def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
            config = copy.copy(config)
            config.context_parallel_size = 1
            super().__init__(config, *args, **kwargs)

        def forward(self, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
            key, value = (torch.cat(all_gather(one, group))[order] for one in (key, value))
            return super().forward(query, key, value, *args, **kwargs)

    return ContextAttention


def layer_spec(config: Any) -> Any:
    from megatron.core import parallel_state
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    spec = get_gpt_layer_local_spec(normalization=config.normalization)
    if config.context_parallel_size > 1:
        group = parallel_state.get_context_parallel_group()
        spec.submodules.self_attention.submodules.core_attention = context_attention(group)
    return spec


def own_tokens() -> Tensor:
    from megatron.core import parallel_state

    ranks = parallel_state.get_context_parallel_world_size()
    return tokens_of_rank(TOKENS, parallel_state.get_context_parallel_rank(), ranks) if ranks > 1 else torch.arange(TOKENS)


class PartNorm(nn.RMSNorm):
    """A norm of a rank's part of the sequence. Megatron-Core has one only for CUDA."""

    def __init__(self, config: Any, hidden_size: int, eps: float) -> None:
        super().__init__(hidden_size, eps)
        self.weight.sequence_parallel = True  # type: ignore[attr-defined]


def make_model(options: dict[str, Any]) -> nn.Module:
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
    from megatron.core.transformer.transformer_config import TransformerConfig

    settings = dict(MODELS[options["model"]])
    position = settings.pop("position")
    if options.get("marked"):
        settings |= {"init_method": mark_columns, "normalization": "LayerNorm"}
    if options.get("recompute"):
        settings |= {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    config = TransformerConfig(
        num_layers=LAYERS, hidden_size=HIDDEN, use_cpu_initialization=True, attention_dropout=0.0, hidden_dropout=0.0,
        bias_activation_fusion=False, gradient_accumulation_fusion=False,
        sequence_parallel=bool(options.get("sequence_parallel")), context_parallel_size=options.get("contexts", 1),
        tensor_model_parallel_size=parallel_state.get_tensor_model_parallel_world_size(), **settings,
    )  # fmt: skip
    torch.manual_seed(7)
    spec = layer_spec(config)
    if config.sequence_parallel:
        spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = PartNorm
        spec = TransformerBlockSubmodules(layer_specs=[spec] * LAYERS, layer_norm=PartNorm)
    model: nn.Module = GPTModel(
        config, spec, VOCABULARY, TOKENS, position_embedding_type=position, share_embeddings_and_output_weights=False
    )
    if options.get("marked"):
        for norm in (one for one in model.modules() if isinstance(one, nn.LayerNorm)):
            nn.init.zeros_(norm.weight)
            norm.bias.data[0] = 1.0  # the first feature is 1, all others are 0
    return model


def wrapped(model: Any) -> nn.Module:
    """As Megatron-LM wraps it for a training in bfloat16."""
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.transformer.module import Float16Module

    model.config.bf16 = True
    half = Float16Module(model.config, model)
    buffered: nn.Module = DistributedDataParallel(model.config, DistributedDataParallelConfig(), half)
    return buffered


def take_gradients(model: Any) -> None:
    """Megatron's DistributedDataParallel sums the gradients in a buffer, which the next step begins with zeros."""
    model.finish_grad_sync()
    for weight in model.parameters():
        weight.grad = weight.main_grad.to(weight.dtype)
    model.zero_grad_buffer()


def make_chunks(options: dict[str, Any]) -> list[nn.Module]:
    """This rank's virtual pipeline stages."""
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.transformer.transformer_config import TransformerConfig

    settings, count = dict(MODELS[options["model"]]), options["chunks"]
    position = settings.pop("position")
    config = TransformerConfig(
        num_layers=PIPELINE_LAYERS, hidden_size=HIDDEN, use_cpu_initialization=True, attention_dropout=0.0,
        hidden_dropout=0.0, bias_activation_fusion=False, gradient_accumulation_fusion=False,
        pipeline_model_parallel_size=2, pipeline_dtype=torch.float32, deallocate_pipeline_outputs=True,
        virtual_pipeline_model_parallel_size=count if count > 1 else None,
        context_parallel_size=options.get("contexts", 1), **settings,
    )  # fmt: skip
    torch.manual_seed(7)
    chunks: list[nn.Module] = []
    for number in (range(count) if count > 1 else [None]):
        is_first = parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=number)
        is_last = parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=number)
        spec = layer_spec(config)
        chunks.append(GPTModel(
            config, spec, VOCABULARY, TOKENS, pre_process=is_first, post_process=is_last, vp_stage=number,
            position_embedding_type=position, share_embeddings_and_output_weights=False,
        ))  # fmt: skip
    return chunks


def mark_columns(weight: Tensor) -> None:
    """Column k of the output is k times the first feature of the input."""
    weight.zero_()
    weight[:, 0] = torch.arange(len(weight))


class Witness:
    """Keeps the first tensor that each module takes and returns, and its gradient, by step and name. Of several
    micro-batches, those of the first."""

    def __init__(self, root: nn.Module) -> None:
        self.values: dict[tuple[int, str], Tensor] = {}
        self.gradients: dict[tuple[int, str], Tensor] = {}
        self.step = 0
        for path, module in root.named_modules():
            module.register_forward_pre_hook(self._before(f"{path}.input"), with_kwargs=True)
            module.register_forward_hook(self._after(f"{path}.output"))

    def _before(self, name: str) -> Any:
        return lambda _module, args, kwargs: self._keep(name, (*args, *kwargs.values()))

    def _after(self, name: str) -> Any:
        return lambda _module, _args, output: self._keep(name, output if isinstance(output, tuple) else (output,))

    def _keep(self, name: str, among: tuple[Any, ...]) -> None:
        tensor = next((one for one in among if isinstance(one, Tensor) and one.is_floating_point()), None)
        key = self.step, name
        if tensor is None:
            return
        self.values.setdefault(key, tensor.detach().clone())
        if tensor.requires_grad and torch.is_grad_enabled():  # with recomputation, only the second time
            tensor.register_hook(lambda gradient: self.gradients.setdefault(key, gradient.detach().clone()))


def batch_of(step: int, rows: int) -> tuple[Tensor, Tensor]:
    """Tokens and labels: the same on every rank."""
    ids = torch.randint(0, VOCABULARY, (rows, TOKENS + 1), generator=torch.Generator().manual_seed(step))
    return ids[:, :-1], ids[:, 1:]


def loss_of(model: nn.Module, step: int, rows: int) -> Tensor:
    """The mean over the batch; with context-parallel ranks, this rank's part of it."""
    ids, labels = batch_of(step, rows)
    own = own_tokens()
    later = torch.ones(1, 1, TOKENS, TOKENS).triu(1).bool()[:, :, own]
    losses: Tensor = model(ids[:, own], own.expand(rows, -1), later, labels=labels[:, own])
    return losses.sum() / ids.numel()


def train_step(
    forward_step_func: Callable[[nn.Module], Tensor], data_iterator: None, model: list[nn.Module],
    optimizer: torch.optim.Optimizer,
) -> tuple[Any, ...]:  # fmt: skip
    """One step, with the first arguments and all results of train_step of Megatron-LM."""
    optimizer.zero_grad()
    loss = forward_step_func(model[0])
    loss.backward()
    if hasattr(model[0], "finish_grad_sync"):
        take_gradients(model[0])
    for weight in model[0].parameters():
        if getattr(weight, "sequence_parallel", False):  # its gradient is of this rank's part of the sequence
            dist.all_reduce(weight.grad)
        share_over_contexts(weight.grad)
    optimizer.step()
    norm = sum(float(weight.grad.square().sum()) for weight in model[0].parameters() if weight.grad is not None) ** 0.5
    return {"lm loss": loss.detach()}, 0, False, False, 0, norm, None, 0


def share_over_contexts(gradient: Tensor) -> None:
    from megatron.core import parallel_state

    if parallel_state.get_context_parallel_world_size() > 1:
        dist.all_reduce(gradient, group=parallel_state.get_context_parallel_group())


def train_pipeline_step(
    forward_step_func: Any, data_iterator: None, model: list[nn.Module], optimizer: torch.optim.Optimizer
) -> tuple[Any, ...]:  # fmt: skip
    """As train_step, by the schedule of Megatron-Core."""
    from megatron.core.pipeline_parallel import get_forward_backward_func

    def run_one(batches: Any, chunk: nn.Module, *_args: Any) -> Any:
        def loss_of_output(output: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            loss = output.mean()
            return loss, {"lm loss": loss.detach()}

        ids, labels = batch_of(next(batches), 2)
        own = own_tokens()
        later = torch.ones(1, 1, TOKENS, TOKENS).triu(1).bool()[:, :, own]
        return chunk(ids[:, own], own.expand(2, -1), later, labels=labels[:, own]), loss_of_output

    optimizer.zero_grad()
    step = forward_step_func.keywords["step"]
    batches = [iter(range(100 * step, 100 * step + MICRO_BATCHES)) for _ in model]
    told = get_forward_backward_func()(
        forward_step_func=run_one, data_iterator=batches if len(model) > 1 else batches[0],
        model=model if len(model) > 1 else model[0], num_microbatches=MICRO_BATCHES, seq_length=TOKENS,
        micro_batch_size=2, decoder_seq_length=TOKENS, forward_only=False,
    )  # fmt: skip
    optimizer.step()
    losses = {"lm loss": torch.stack([one["lm loss"] for one in told]).mean()} if told else {}
    return losses, 0, False, False, 0, None, None, 0


def main() -> None:
    from megatron.core import parallel_state

    out, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    run_on_cpu()
    dist.init_process_group("gloo")
    contexts = options.get("contexts", 1)
    if chunks := options.get("chunks"):
        virtual = chunks if chunks > 1 else None
        parallel_state.initialize_model_parallel(1, 2, virtual, context_parallel_size=contexts)
        model = nn.ModuleList(make_chunks(options))
        models, own_step = list(model), train_pipeline_step
    else:
        tensors = dist.get_world_size() // contexts
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=tensors, context_parallel_size=contexts)
        model = make_model(options)
        models, own_step = [wrapped(model) if options.get("wrapped") else model], train_step
    if weights := options.get("weights"):
        model.load_state_dict(torch.load(weights))
    kept = {name: weight.clone() for name, weight in model.state_dict().items() if isinstance(weight, Tensor)}
    witness = Witness(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0 if options.get("marked") else 0.05)
    run, one_step = None, own_step
    if options.get("attach") is not None:
        import tensor_tracer as tt

        run = tt.attach(models, **options["attach"])
        one_step = tt.megatron.wrap_train_step(own_step, run)
    losses = []
    for step in range(1, options["steps"] + 1):
        witness.step = step
        results = one_step(partial(loss_of, step=step, rows=options.get("rows", 4)), None, models, optimizer)
        losses.append(float(results[0].get("lm loss", 0.0)))
    rank = dist.get_rank()
    if run is not None:
        (out / f"points{rank}.json").write_text(json.dumps(run.points()))
        run.detach()
    found = {"losses": losses, "norm": results[5], "values": witness.values, "gradients": witness.gradients}
    torch.save(found | {"weights": kept}, out / f"rank{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
