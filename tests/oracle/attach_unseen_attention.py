"""Models whose attention the tracer cannot recompute, for test_attach_unseen_attention.py."""

from __future__ import annotations

from typing import Any

import torch
from attached_training import TOKENS, VOCABULARY, make_model
from torch import Tensor, nn


class HandWrittenAttention(nn.Module):
    def forward(self, hidden: Tensor) -> Tensor:
        return (hidden @ hidden.transpose(1, 2)).softmax(-1) @ hidden


class FusedAttention(nn.Module):
    def forward(self, hidden: Tensor) -> Tensor:
        split = hidden.unflatten(-1, (4, -1)).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(split, split, split, is_causal=True)
        return mixed.transpose(1, 2).flatten(2)


class Kernel(nn.Module):
    """Stands for the attention of Transformer Engine: a class of its package."""

    __module__ = "transformer_engine.pytorch.attention"

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden.cumsum(1)


class TEDotProductAttention(Kernel):
    """As Megatron-Core derives its class."""


class Layer(nn.Module):
    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.self_attention = nn.Sequential(nn.Linear(32, 32), attention)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.self_attention(hidden)


ATTENTION = {"class": HandWrittenAttention, "te": TEDotProductAttention, "compiled": FusedAttention}


def other_attention(_module: Any, query: Tensor, _key: Tensor, _value: Tensor, *_args: Any, **_more: Any) -> Any:
    return query.transpose(1, 2).contiguous(), None


def model_of(kind: str) -> nn.Module:
    if kind in ("sdpa", "eager", "unknown_kernel"):
        from transformers import AttentionInterface

        AttentionInterface.register("unknown_kernel", other_attention)
        model = make_model("llama", "none")
        model.set_attn_implementation(kind)
        return model
    model = make_model("plain", "none")
    attention = ATTENTION[kind]
    model.blocks = nn.ModuleList(Layer(attention()) for _ in range(2))
    if kind == "compiled":
        for number, layer in enumerate(model.blocks):
            model.blocks[number] = torch.compile(layer, backend="aot_eager")
    return model


def points_of(kinds: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """By kind, the sites of the attention probabilities."""
    import tensor_tracer as tt

    found = {}
    for kind in kinds:
        model = model_of(kind)
        run = tt.attach(model, port=None)
        for step in range(2):
            with run.step():
                output = model(torch.randint(0, VOCABULARY, (2, TOKENS), generator=torch.Generator().manual_seed(step)))
                (output if isinstance(output, Tensor) else output.logits).sum().backward()
        found[kind] = [one for one in run.points() if one["path"].endswith(".scores")]
        run.detach()
    return found


def record_run(kind: str, attach: dict[str, Any]) -> None:
    import tensor_tracer as tt

    model = model_of(kind)
    run = tt.attach(model, **attach)
    for _ in range(2):
        with run.step():
            model(torch.ones(2, TOKENS, dtype=torch.int64)).sum().backward()
    run.detach()
