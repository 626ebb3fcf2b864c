"""A small Llama with the tensor parallelism of DTensor, with and without sequence parallelism: the whole model, or the
part of one pipeline stage."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from pipeline_training import HIDDEN, Gpt
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, ParallelStyle, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module,
)  # fmt: skip

HEAD_SIZE = 8
COLUMNS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
ROWS = ("self_attn.o_proj", "mlp.down_proj")
NORMS = ("input_layernorm", "post_attention_layernorm")


def rotated(heads: Tensor) -> Tensor:
    """[batch, heads, sequence, head size], turned by the positions."""
    turns = torch.arange(heads.shape[2])[:, None] * 100.0 ** -(torch.arange(HEAD_SIZE // 2) / (HEAD_SIZE // 2))
    a, b = heads.chunk(2, dim=-1)
    return torch.cat((a * turns.cos() - b * turns.sin(), b * turns.cos() + a * turns.sin()), dim=-1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(HIDDEN, HIDDEN, bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.v_proj, self.o_proj = nn.Linear(HIDDEN, HIDDEN, bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            one(x).unflatten(2, (-1, HEAD_SIZE)).transpose(1, 2) for one in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = nn.functional.scaled_dot_product_attention(rotated(query), rotated(key), value, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(HIDDEN, 48, bias=False), nn.Linear(HIDDEN, 48, bias=False)
        self.down_proj = nn.Linear(48, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.self_attn = nn.LayerNorm(HIDDEN), Attention()
        self.post_attention_layernorm, self.mlp = nn.LayerNorm(HIDDEN), Mlp()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(Gpt):
    def __init__(self) -> None:
        super().__init__(False, Layer)
        self.config = SimpleNamespace(num_attention_heads=HIDDEN // HEAD_SIZE)

    def lens(self, hidden: Tensor) -> None:
        """Not kept: DTensors have the weights."""


def parallelize(model: Llama, mesh: DeviceMesh, is_sequence_parallel: bool) -> Llama:
    """Between its products a rank has the whole, or a part of the tokens."""
    between = Shard(1) if is_sequence_parallel else Replicate()
    styles: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in COLUMNS}
    styles |= {name: RowwiseParallel(output_layouts=between) for name in ROWS}
    outside: dict[str, ParallelStyle] = {
        "wte": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
        "lm_head": ColwiseParallel(input_layouts=between, output_layouts=Replicate()),
    }
    if is_sequence_parallel:
        styles |= {name: SequenceParallel() for name in NORMS}
        whole = PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(Replicate(),))
        styles |= {"self_attn": whole, "mlp": whole}
        outside["norm"] = SequenceParallel()
    for layer in model.h:
        parallelize_module(layer, mesh, styles)
    for name, style in outside.items():
        if (module := getattr(model, name)) is not None:
            parallelize_module(module, mesh, style)
    return model
