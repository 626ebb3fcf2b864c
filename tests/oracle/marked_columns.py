"""Models whose fused layers give the number k in column k of the logical tensor, with the tracer attached, on two ranks.

    torchrun --nproc-per-node 2 marked_columns.py OUT

test_attach_columns.py starts it. Each model leaves OUT/<name>/record, and of each rank OUT/<name>/points<rank>.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensor_tracer as tt
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

HIDDEN, INNER, VOCABULARY, ROWS, TOKENS, LAYERS = 32, 48, 64, 2, 6, 2
EVERYTHING = {"entries": [{"point": "*", "rows": 0, "compressor": {"kind": "none"}}]}


class First(nn.Module):
    """In the place of a norm: the first feature is 1, all others are 0."""

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.cat([torch.ones_like(hidden[..., :1]), torch.zeros_like(hidden[..., 1:])], dim=-1) + 0 * hidden


def mark(weight: Tensor, dim: int = 0) -> None:
    """Column k of the output is k times the first feature of the input. `dim`: of the weight, with the columns."""
    with torch.no_grad():
        weight.zero_()
        weight.select(1 - dim, 0).copy_(torch.arange(weight.shape[dim]))


def replace_norms(model: nn.Module) -> None:
    for path, module in list(model.named_modules()):
        if "norm" in path.rpartition(".")[2]:
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, First())


def parallel_by_transformers(kind: type[Any], config: Any, folder: Path) -> nn.Module:
    """With `tp_plan`, which loads the parts of the weights from a folder."""
    if dist.get_rank() == 0:
        model = kind(config)
        for module in model.modules():
            if isinstance(module, nn.Linear):
                mark(module.weight)
        model.save_pretrained(folder / "model")
    dist.barrier()
    model = kind.from_pretrained(folder / "model", tp_plan="auto")
    replace_norms(model)
    return model


def phi3(folder: Path) -> nn.Module:
    from transformers import Phi3Config, Phi3ForCausalLM

    config = Phi3Config(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=4,
                        num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=TOKENS, pad_token_id=0,
                        tie_word_embeddings=False)  # fmt: skip
    return parallel_by_transformers(Phi3ForCausalLM, config, folder)


def llama(folder: Path) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=TOKENS)  # fmt: skip
    return parallel_by_transformers(LlamaForCausalLM, config, folder)


def gpt2(folder: Path) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_embd=HIDDEN, n_layer=LAYERS, n_head=4, n_positions=TOKENS, vocab_size=VOCABULARY))
    for block in model.transformer.h:
        mark(block.attn.c_attn.weight, dim=1)
        nn.init.zeros_(block.attn.c_attn.bias)
        block.ln_1 = First()
    return nn.parallel.DistributedDataParallel(model)


class Block(nn.Module):
    """Gates and values in one product."""

    def __init__(self, gate_up: nn.Module) -> None:
        super().__init__()
        self.norm = First()
        self.gate_up = gate_up

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.gate_up(self.norm(hidden)).mean(-1, keepdim=True)


class Model(nn.Module):
    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Block(make()) for _ in range(LAYERS))
        self.norm = First()
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        mark(self.head.weight)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.embedding(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(self.norm(hidden))


def marked_linear() -> nn.Module:
    linear = nn.Linear(HIDDEN, 2 * INNER, bias=False)
    mark(linear.weight)
    return linear


def by_torch(folder: Path) -> nn.Module:
    """Parts of columns in plain tensors: the weights alone know the layout."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model = Model(marked_linear)
    plan = {"layers.*.gate_up": ColwiseParallel(), "head": ColwiseParallel()}
    return parallelize_module(model, mesh, plan)


def by_dtensor(folder: Path) -> nn.Module:
    """The logits are a DTensor, sharded over the vocabulary."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    return parallelize_module(Model(marked_linear), mesh, {"head": ColwiseParallel(use_local_output=False)})


def half_of(whole: Tensor) -> Tensor:
    """This rank's gates and values, one after the other."""
    gates, values = whole.chunk(2)
    rank = dist.get_rank()
    return torch.cat([gates.chunk(2)[rank], values.chunk(2)[rank]])


def by_hand(folder: Path) -> nn.Module:
    """Each rank has its part of the gates and of the values. Nothing says so."""

    def make() -> nn.Module:
        linear = nn.Linear(HIDDEN, INNER, bias=False)
        linear.weight.data.copy_(half_of(marked_linear().weight))
        return linear

    return Model(make)


class Transposed(nn.Module):
    """As Conv1D, with the weight [in, out], here a DTensor; the forward takes this rank's part."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        whole = torch.zeros(HIDDEN, 2 * INNER)
        mark(whole, dim=1)
        part = whole.chunk(2, dim)[dist.get_rank()].clone()
        self.weight = nn.Parameter(DTensor.from_local(part, mesh, [Shard(dim)]))
        self.dim = dim

    def forward(self, hidden: Tensor) -> Tensor:
        part = self.weight.to_local()
        if self.dim == 1:
            return hidden @ part
        product: Tensor = hidden.chunk(2, -1)[dist.get_rank()] @ part
        dist.all_reduce(product.detach())
        return product


def transposed_columns(folder: Path) -> nn.Module:
    return Model(lambda: Transposed(1))


def transposed_rows(folder: Path) -> nn.Module:
    return Model(lambda: Transposed(0))


def by_override(folder: Path) -> nn.Module:
    """The options of attach() say the layout."""
    return transposed_columns(folder)


MODELS = (phi3, llama, gpt2, by_torch, by_dtensor, by_hand, transposed_columns, transposed_rows, by_override)


def options_of(make: Callable[[Path], nn.Module]) -> dict[str, Any]:
    if make is by_override:
        placements = {"layers.*.gate_up.output": tt.Shard(-1)}
        return {"placements": placements, "names": {"layers[n].gate_up.output": "GateUp"}}
    return {"tensor_parallel_group": dist.group.WORLD} if make is by_hand else {}


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for make in MODELS:
        folder = Path(sys.argv[1]) / make.__name__
        model = make(folder)
        folders = {"record": folder / "record", "run_dir": folder / "run"}
        run = tt.attach(model, None, plan=EVERYTHING, **folders, **options_of(make))
        for _ in range(2):
            with run.step():
                logits = model(torch.arange(ROWS * TOKENS).reshape(ROWS, TOKENS))
                logits = logits if isinstance(logits, Tensor) else logits.logits
                (logits.full_tensor() if isinstance(logits, DTensor) else logits).mean().backward()
        if dist.get_rank() == 0 and make is by_hand:
            try:
                run.intervene("layers[1].gate_up.output *= 2")
            except tt.TensorTracerError as error:
                (folder / "refused.txt").write_text(str(error))
        (folder / f"points{dist.get_rank()}.json").write_text(json.dumps(run.points()))
        run.detach()
        del model, run, logits
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
