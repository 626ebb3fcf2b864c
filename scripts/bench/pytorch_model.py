"""The GPT of the benchmark in idiomatic PyTorch, and what its training scripts share."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from shapes import SHAPES, Shape
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


class Attention(nn.Module):
    """Causal attention. Query, key and value are one product, or three for tensor parallelism."""

    def __init__(self, shape: Shape, fused: bool) -> None:
        super().__init__()
        self.head_size = shape.hidden // shape.heads
        self.fused = fused
        if fused:
            self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden)
        else:
            self.query = nn.Linear(shape.hidden, shape.hidden)
            self.key = nn.Linear(shape.hidden, shape.hidden)
            self.value = nn.Linear(shape.hidden, shape.hidden)
        self.proj = nn.Linear(shape.hidden, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        if self.fused:
            parts = self.qkv(x).chunk(3, dim=-1)
        else:
            parts = (self.query(x), self.key(x), self.value(x))
        q, k, v = (p.unflatten(-1, (-1, self.head_size)).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """One transformer layer, normalised before each part."""

    def __init__(self, shape: Shape, fused: bool) -> None:
        super().__init__()
        self.input_norm = nn.LayerNorm(shape.hidden)
        self.attention = Attention(shape, fused)
        self.mlp_norm = nn.LayerNorm(shape.hidden)
        self.fc1 = nn.Linear(shape.hidden, 4 * shape.hidden)
        self.fc2 = nn.Linear(4 * shape.hidden, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.input_norm(x))
        return x + self.fc2(F.gelu(self.fc1(self.mlp_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    """GPT-2: learned positions, output tied to the embedding."""

    def __init__(self, shape: Shape, fused: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab, shape.hidden)
        self.position = nn.Embedding(shape.sequence, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, fused) for _ in range(shape.layers))
        self.final_norm = nn.LayerNorm(shape.hidden)
        self.output = nn.Linear(shape.hidden, shape.vocab, bias=False)
        for parameter in self.parameters():
            if parameter.ndim >= 2:
                nn.init.normal_(parameter, std=0.02)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.output(self.final_norm(x))


def token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def by_kind(parameters: Iterable[Tensor]) -> list[list[Tensor]]:
    """Distributed and plain parameters apart: fused and foreach kernels refuse a mixture."""
    kinds: dict[type, list[Tensor]] = {}
    for parameter in parameters:
        kinds.setdefault(type(parameter), []).append(parameter)
    return list(kinds.values())


def adamw(kinds: list[list[Tensor]]) -> torch.optim.AdamW:
    """Fused AdamW; weight decay on matrices only."""
    groups = []
    for kind in kinds:
        groups.append({"params": [p for p in kind if p.ndim >= 2]})
        groups.append({"params": [p for p in kind if p.ndim < 2], "weight_decay": 0.0})
    return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def clip(kinds: list[list[Tensor]], most: float) -> None:
    """Scales all gradients so that their common norm is at most this."""
    norms = [torch.nn.utils.get_total_norm([p.grad for p in kind]) for kind in kinds]
    whole = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
    total = torch.stack(whole).norm()
    for kind in kinds:
        torch.nn.utils.clip_grads_with_norm_(kind, most, total)


def arguments(description: str | None) -> argparse.Namespace:
    """The options that all scripts share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--shape", choices=SHAPES, default="demo")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1, help="threads per rank")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    return options


def train(
    model: nn.Module,
    forward_loss: Callable[[Tensor, Tensor], Tensor],
    shape: Shape,
    rows: int,
    steps: int,
) -> None:
    """Trains on random bytes; rank 0 prints one JSON object per step, as `tensor-tracer` does.

    `rows` is this rank's part of the batch. A step is everything from the batch to the new weights,
    gradient clipping and the loss as a number included.
    """
    kinds = by_kind(model.parameters())
    optimizer = adamw(kinds)
    for step in range(1, steps + 1):
        begin = time.perf_counter()
        draw = torch.randint(256, (rows, shape.sequence + 1))
        optimizer.zero_grad(set_to_none=True)
        loss = forward_loss(draw[:, :-1], draw[:, 1:])
        loss.backward()
        clip(kinds, 1.0)
        optimizer.step()
        value = loss.item()
        milliseconds = (time.perf_counter() - begin) * 1e3
        if int(os.environ.get("RANK", "0")) == 0:
            print(json.dumps({"step": step, "loss": value, "step_ms": milliseconds}), flush=True)


def become_ranks(count: int) -> None:
    """In the process that the user started: runs this script again as `count` ranks, and exits.

    In a rank: returns. The ranks find each other as torchrun would let them, on loopback only.
    """
    if "RANK" in os.environ:
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = os.environ | {
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    ranks = [
        subprocess.Popen([sys.executable, *sys.argv], env=shared | {"RANK": str(rank)})
        for rank in range(count)
    ]
    sys.exit(max(abs(rank.wait()) for rank in ranks))
