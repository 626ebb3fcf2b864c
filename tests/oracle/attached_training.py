"""A training of a small model that test_attach.py starts, by itself or by torchrun.

The tracer is attached or not. Hooks of this file, which know nothing of the tracer, keep what each module took and
returned on this rank and its gradient; rank r writes them to OUT/rank<r>.pt, with losses. With `has_others`, it also
writes the losses of the same training without the tracer, and rank 0 what the same training in one process gives.

    python attached_training.py OUT '{"model": "llama", "wrap": "tp", "attach": {…}, …}'
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.distributed.tensor import DTensor

DEVICE = os.environ.get("TT_DEVICE", "cpu")  # cuda: all ranks share one device
TOKENS, VOCABULARY, ROWS = 12, 61, 4  # ROWS: of the batch of all replicas
COLUMN_PARALLEL = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")  # of Llama, by tp_plan
EVALUATION = 99  # the number of the evaluation's forward


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.down(torch.tanh(self.up(self.norm(hidden))))


class Plain(nn.Module):
    """A model that no library knows."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.embedding(ids)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


class Scaled(Plain):
    """With a final norm that no library names."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.LayerNorm(32), self.head)


def make_model(kind: str, wrap: str, device: str = DEVICE) -> nn.Module:
    return unplaced_model(kind, wrap).to(device)


def unplaced_model(kind: str, wrap: str) -> nn.Module:
    torch.manual_seed(7)
    if kind in ("plain", "scaled"):
        return Plain() if kind == "plain" else Scaled()
    if kind == "sequence":
        return sequence_parallel_model(wrap)
    from transformers import (
        GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM,
    )  # fmt: skip

    if kind == "gpt2":
        return GPT2LMHeadModel(
            GPT2Config(n_embd=32, n_layer=3, n_head=4, n_positions=TOKENS, vocab_size=VOCABULARY,
                       resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        )  # fmt: skip
    configuration, causal = (Qwen2Config, Qwen2ForCausalLM) if kind == "qwen2" else (LlamaConfig, LlamaForCausalLM)
    config = configuration(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
                           num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=TOKENS)  # fmt: skip
    model = causal(config)
    if "tp" not in wrap:
        return model
    folder = Path(sys.argv[1]) / "model"
    if dist.get_rank() == 0:
        model.save_pretrained(folder)
    dist.barrier()
    return causal.from_pretrained(folder, tp_plan="auto")


def sequence_parallel_model(wrap: str) -> nn.Module:
    from small_llama import Llama, parallelize

    if wrap != "tp":
        return Llama()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    return parallelize(Llama(), mesh, is_sequence_parallel=True)


def wrapped(model: nn.Module, wrap: str) -> nn.Module:
    if wrap == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if wrap in ("fsdp", "fsdp-bf16"):
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        is_mixed = wrap == "fsdp-bf16"
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if is_mixed else MixedPrecisionPolicy()
        layers = next(one for one in model.modules() if isinstance(one, nn.ModuleList))
        for layer in layers:
            fully_shard(layer, mp_policy=policy, reshard_after_forward=not is_mixed)
        fully_shard(model, mp_policy=policy)
        assert all(isinstance(one, DTensor) and one.placements[0].is_shard() for one in model.parameters())
    if wrap in ("fsdp1", "fsdp1-whole"):
        return by_flat_parameters(model, "FULL_SHARD" if wrap == "fsdp1" else "SHARD_GRAD_OP")
    if wrap == "recompute":
        model.config.use_cache = False  # a recomputed layer would add its keys once more
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

        layers = next(one for one in model.modules() if isinstance(one, nn.ModuleList))
        apply_activation_checkpointing(model, check_fn=lambda one: one is layers[0] or one is layers[1])
    return model


def by_flat_parameters(model: nn.Module, strategy: str = "FULL_SHARD") -> nn.Module:
    """FullyShardedDataParallel, whose modules hold their weights in one flat tensor, around each layer and around all."""
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    layers = next(one for one in model.modules() if isinstance(one, nn.ModuleList))
    policy = ModuleWrapPolicy({type(layers[0])})
    return FullyShardedDataParallel(
        model, sharding_strategy=ShardingStrategy[strategy], auto_wrap_policy=policy, use_orig_params=True,
        device_id=torch.device("cpu"),
    )  # fmt: skip


def without_wrappers(path: str) -> str:
    """The path of a module or weight in a model that is not wrapped."""
    return ".".join(part for part in path.split(".") if not part.endswith("_wrapped_module"))


def inner_of(model: nn.Module) -> Any:
    is_wrapper = isinstance(model, (nn.parallel.DistributedDataParallel, FullyShardedDataParallel))
    return model.module if is_wrapper else model


def numbers_of(tensor: Tensor) -> Tensor:
    """The whole of a DTensor; this rank's numbers of any other tensor. A copy on the CPU."""
    with torch.no_grad():
        tensor = tensor.detach()
        if isinstance(tensor, DTensor):
            tensor = tensor.full_tensor()
        if isinstance(tensor, AsyncCollectiveTensor):
            tensor = tensor.trigger_wait()
        return tensor.to("cpu", copy=True)


def first_of(output: Any) -> Any:
    if isinstance(output, Tensor):
        return output
    return output[0] if isinstance(output, tuple) else next(iter(output.values()))


class Witness:
    """Keeps the first tensor that each module returns and its gradient, by step, micro-batch and path; of what the module
    takes the same, by its path with .input."""

    def __init__(self, root: nn.Module) -> None:
        self.values: dict[tuple[int, int, str], Tensor] = {}
        self.gradients: dict[tuple[int, int, str], Tensor] = {}
        self.step = 0
        self.micro_batch = 0
        for path, module in root.named_modules():
            path = without_wrappers(path)
            module.register_forward_pre_hook(self._before(f"{path}.input"), with_kwargs=True)
            module.register_forward_hook(self._after(path))

    def _before(self, name: str) -> Any:
        def hook(_module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
            floats = (one for one in (*args, *kwargs.values()) if isinstance(one, Tensor) and one.is_floating_point())
            self._keep(name, next(floats, None))

        return hook

    def _after(self, name: str) -> Any:
        return lambda _module, _args, output: self._keep(name, first_of(output))

    def _keep(self, name: str, tensor: Any) -> None:
        key = self.step, self.micro_batch, name
        if not isinstance(tensor, Tensor) or key in self.values:
            return
        self.values[key] = numbers_of(tensor)
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: self.gradients.__setitem__(key, numbers_of(gradient)))


def batch_of(step: int, micro_batch: int, options: dict[str, Any], rank: int, ranks: int) -> Tensor:
    """The rows of this replica: those of all replicas together are the same at any number of replicas."""
    generator = torch.Generator().manual_seed(1000 * step + micro_batch)
    ids = torch.randint(0, VOCABULARY, (ROWS, TOKENS), generator=generator).to(DEVICE)
    if "tp" in options["wrap"]:
        return ids
    rows = ROWS // ranks
    return ids[rank * rows : (rank + 1) * rows]


def loss_of(model: nn.Module, ids: Tensor) -> Tensor:
    logits = model(ids)
    logits = logits if isinstance(logits, Tensor) else logits.logits
    if isinstance(logits, DTensor):
        logits = logits.full_tensor()
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def keep_attention(model: nn.Module, ids: Tensor, witness: Witness) -> None:
    """Keeps what the eager attention of Transformers returns for the same weights and batch."""
    step, micro_batch, witness.micro_batch = witness.step, witness.micro_batch, EVALUATION
    used = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(ids, output_attentions=True).attentions
    model.set_attn_implementation(used)
    witness.micro_batch = micro_batch
    for layer, probabilities in enumerate(attentions, 1):
        witness.values[step, micro_batch, f"attention {layer}"] = numbers_of(probabilities)


def keep_lenses(model: nn.Module, ids: Tensor, witness: Witness) -> None:
    """Keeps what final norm and output layer of Transformers give for each hidden state; 0: for the embedding."""
    step, micro_batch, witness.micro_batch = witness.step, witness.micro_batch, EVALUATION
    body = model.model if hasattr(model, "model") else model.transformer
    norm = body.norm if hasattr(body, "norm") else body.ln_f
    with torch.no_grad():
        output = model(ids, output_hidden_states=True)
        lenses = [model.lm_head(norm(hidden)) for hidden in output.hidden_states[:-1]] + [output.logits]
    witness.micro_batch = micro_batch
    for layer, logits in enumerate(lenses):
        witness.values[step, micro_batch, f"lens {layer}"] = numbers_of(logits)


def scale_by_hooks(root: nn.Module, scale: dict[str, Any], witness: Witness) -> None:
    """What a program does, by PyTorch's own means: from a step on, the module's output or input is multiplied."""
    module = root.get_submodule(scale["module"])

    def scaled(value: Any) -> Any:
        if witness.step < scale["from"]:
            return None
        return value * scale["factor"] if isinstance(value, Tensor) else (value[0] * scale["factor"], *value[1:])

    if scale.get("input"):
        module.register_forward_pre_hook(lambda _module, args: scaled(args))
    else:
        module.register_forward_hook(lambda _module, _args, output: scaled(output))


def give_own_inputs(modules: Iterable[nn.Module]) -> None:
    """Each module gets a separate tensor with a separate gradient, as DTensor's styles give one."""

    def own(value: Any) -> Any:
        return value.view_as(value) if isinstance(value, Tensor) and value.is_floating_point() else value

    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return tuple(map(own, args)), {name: own(value) for name, value in kwargs.items()}

    for module in modules:
        module.register_forward_pre_hook(hook, with_kwargs=True)


def hooks_of(model: nn.Module) -> int:
    return sum(len(one._forward_hooks) + len(one._forward_pre_hooks) for one in model.modules())


def train(model: nn.Module, optimizer: torch.optim.Optimizer, run: Any, witness: Witness, options: dict[str, Any],
          rank: int, ranks: int) -> list[float]:  # fmt: skip
    import tensor_tracer as tt

    losses = []
    program = options.get("program")
    for step in range(1, options["steps"] + 1):
        if run is not None and program and step == options.get("program_from", 2):
            run.intervene(program)
        witness.step = step
        try:
            with run.step() if run is not None else contextlib.nullcontext():
                total = 0.0
                for micro_batch in range(options["micro_batches"]):
                    witness.micro_batch = micro_batch
                    ids = batch_of(step, micro_batch, options, rank, ranks)
                    if options.get("keeps_attention"):
                        keep_attention(inner_of(model), ids, witness)
                    if options.get("keeps_lenses"):
                        keep_lenses(inner_of(model), ids, witness)
                    loss = loss_of(model, ids)
                    (loss / options["micro_batches"]).backward()
                    total += float(loss.detach())
                optimizer.step()
                optimizer.zero_grad()
        except tt.RunStopped:
            break
        losses.append(total)
        if run is not None:
            run.log(loss=total, lr=optimizer.param_groups[0]["lr"])
        if run is not None and step == options.get("detach_after"):
            run.detach()
            assert hooks_of(model) == options["hooks"], "hooks are left"
            run = None
        if options.get("evaluates"):
            witness.micro_batch = EVALUATION
            model.eval()
            with torch.no_grad():
                loss_of(model, batch_of(step + 500, 0, options, rank, ranks))
            model.train()
    if run is not None:
        Path(sys.argv[1], f"points{rank}.json").write_text(json.dumps(run.points()))
        run.detach()
    return losses


def train_model(options: dict[str, Any], rank: int, ranks: int) -> dict[str, Any]:
    """From the first weights on; without the option `attach`, without the tracer."""
    model = wrapped(make_model(options["model"], options["wrap"]), options["wrap"])
    inner = inner_of(model)
    if used := options.get("attention"):
        inner.set_attn_implementation(used)
    if options.get("own_inputs"):
        give_own_inputs(one for path, one in inner.named_modules() if path.endswith(COLUMN_PARALLEL))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
    run, witness = None, Witness(inner)
    if scale := options.get("scale"):
        scale_by_hooks(inner, scale, witness)
    hooks = hooks_of(model)
    if options.get("attach") is not None:
        import tensor_tracer as tt

        run = tt.attach(model, **options["attach"])
    losses = train(model, optimizer, run, witness, options | {"hooks": hooks}, rank, ranks)
    return {"losses": losses, "values": witness.values, "gradients": witness.gradients}


def main() -> None:
    out, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if ranks > 1 else 0
    others, bare = {}, options | {"attach": None}
    if options.get("has_others"):
        others["alone"] = train_model(bare, rank, ranks)["losses"]
    found = train_model(options, rank, ranks)
    if options.get("has_others") and rank == 0:
        others["single"] = train_model(bare | {"wrap": "none", "own_inputs": options["wrap"] == "tp"}, 0, 1)
    torch.save(found | others, out / f"rank{rank}.pt")
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
