"""A plain PyTorch GPT that recomputes what `tensor-tracer train` exported.

It shares no code with the C++ program. It reads one exported step (`Export`), runs the forward pass
with ordinary PyTorch operators, lets autograd find the gradients, and can hand out the activations
that the trace points name. GPT-2 and Llama shapes differ only in the fields of `Config`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Config:
    """The shape of the model, with the names of the program's flags."""

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    vocab_size: int
    seq_length: int
    num_query_groups: int = 0  # 0: as many as heads
    kv_channels: int = 0  # 0: hidden size / heads
    ffn_hidden_size: int = 0  # 0: four times the hidden size
    normalization: str = "LayerNorm"
    norm_epsilon: float = 1e-5
    position_embedding_type: str = "learned_absolute"
    max_position_embeddings: int = 0  # 0: the sequence length
    rotary_base: float = 10000.0
    rope_scaling_factor: float = 1.0
    rope_low_freq_factor: float = 1.0
    rope_high_freq_factor: float = 4.0
    rope_original_max_positions: int = 8192
    activation: str = "gelu_tanh"
    swiglu: bool = False
    qk_layernorm: bool = False
    add_bias_linear: bool = True
    add_qkv_bias: bool = False
    add_proj_bias: bool = False
    add_mlp_bias: bool = False
    untie_embeddings_and_output_weights: bool = False

    @classmethod
    def from_json(cls, text: str) -> Config:
        """Reads the members this model depends on; a null counts as left out."""
        known = {field.name for field in dataclasses.fields(cls)}
        values = json.loads(text)
        return cls(**{k: v for k, v in values.items() if k in known and v is not None})

    @property
    def groups(self) -> int:
        return self.num_query_groups or self.num_attention_heads

    @property
    def head_size(self) -> int:
        return self.kv_channels or self.hidden_size // self.num_attention_heads

    @property
    def ffn_size(self) -> int:
        return self.ffn_hidden_size or 4 * self.hidden_size


    def has_bias(self, linear: str) -> bool:
        """Of a linear layer such as mlp.fc1."""
        added = {"attention.qkv": self.add_qkv_bias, "attention.proj": self.add_proj_bias}
        return self.add_bias_linear or added.get(linear, self.add_mlp_bias)


@dataclasses.dataclass(frozen=True)
class Export:
    """One exported step: weights before it, gradients of it, and the batch it saw."""

    config: Config
    weights: dict[str, Tensor]
    gradients: dict[str, Tensor]
    tokens: Tensor
    labels: Tensor
    loss: float
    starts: Tensor | None = None  # of each token's document in its row; None: a row is one document
    mask: Tensor | None = None  # the labels whose loss counts; None: all

    @classmethod
    def read(cls, path: Path) -> Export:
        """Reads a file that `--export-tensors` wrote."""
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        return cls(
            config=Config.from_json(metadata["config"]),
            weights=_below("weight/", tensors),
            gradients=_below("grad/", tensors),
            tokens=tensors["tokens"],
            labels=tensors["labels"],
            loss=float(metadata["loss"]),
            starts=tensors.get("document_starts"),
            mask=tensors.get("loss_mask"),
        )


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


Edit = Callable[[str, int, Tensor], Tensor]


class ReferenceGpt:
    """The forward pass over a dictionary of full, logical weights.

    With `capture` set, `captured[point, layer]` holds the activations `[batch, sequence, features]`
    of the last forward pass, under the trace points' names, still in their graph; layers count
    from 1. `edit` gets every activation, and every matrix by a name like `mlp.fc1.weight`, and what
    it returns takes their place. `skips` says which layers are left out. `starts[row, token]` is the
    index of the first token of the token's document: attention stays within it, positions restart.
    """

    def __init__(
        self, config: Config, weights: dict[str, Tensor], capture: bool = False,
        edit: Edit | None = None, skips: Callable[[int], bool] | None = None, starts: Tensor | None = None,
    ) -> None:  # fmt: skip
        self.starts = starts
        self.config = config
        self.weights = weights
        self.captured: dict[tuple[str, int], Tensor] | None = {} if capture else None
        self._edit, self._skips = edit, skips

    def loss(self, tokens: Tensor, labels: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mean cross entropy in nats over all tokens, or over those of the mask."""
        logits, labels = self.logits(tokens).flatten(0, 1), labels.flatten()
        if mask is not None:
            logits, labels = logits[mask.flatten()], labels[mask.flatten()]
        return F.cross_entropy(logits, labels)

    def _positions(self, tokens: int) -> Tensor:
        """`[sequence]`, or `[batch, sequence]` if rows hold documents."""
        positions = torch.arange(tokens)
        return positions if self.starts is None else positions - self.starts

    def hidden_keys(self, tokens: int) -> Tensor:
        """What a query does not attend to: `[queries, keys]`, or `[batch, 1, queries, keys]`."""
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        if self.starts is None:
            return future
        return (future | (torch.arange(tokens) < self.starts.unsqueeze(-1))).unsqueeze(1)

    def logits(self, tokens: Tensor) -> Tensor:
        """Scores `[batch, sequence, vocabulary]` of the next token."""
        hidden = F.embedding(tokens, self.weights["embedding.word_embeddings.weight"])
        if self.config.position_embedding_type == "learned_absolute":
            hidden = self._pass("embedding.word_embeddings.output", 0, hidden)
            positions = self.weights["embedding.position_embeddings.weight"]
            hidden = hidden + positions[self._positions(tokens.shape[1])]
        hidden = self._pass("Embedding", 0, hidden)
        for layer in range(1, self.config.num_layers + 1):
            if self._skips is None or not self._skips(layer):
                hidden = self._layer(layer, hidden)
            hidden = self._pass("HiddenStates", layer, hidden)
        hidden = self._pass("FinalNorm", 0, self.final_norm(hidden))
        weight = self._edited("output_layer.weight", 0, self._output_weight)
        return self._pass("Logits", 0, hidden @ weight.T)

    def final_norm(self, x: Tensor) -> Tensor:
        """The final norm of any tensor of the hidden size, nothing edited."""
        return self._norm("final_norm", x)

    def output_layer(self, x: Tensor) -> Tensor:
        """Scores of any tensor of the hidden size, nothing edited."""
        return x @ self._output_weight.T

    @property
    def _output_weight(self) -> Tensor:
        untied = self.config.untie_embeddings_and_output_weights
        return self.weights["output_layer.weight" if untied else "embedding.word_embeddings.weight"]

    def _layer(self, layer: int, hidden: Tensor) -> Tensor:
        prefix = f"layers.{layer}"
        normed = self._norm(f"{prefix}.input_norm", hidden)
        hidden = hidden + self._attention(layer, self._pass("attention.input", layer, normed))
        hidden = self._pass("ResidualMid", layer, hidden)
        normed = self._norm(f"{prefix}.mlp_norm", hidden)
        return hidden + self._mlp(layer, self._pass("mlp.input", layer, normed))

    def _attention(self, layer: int, x: Tensor) -> Tensor:
        config, (batch, sequence, _) = self.config, x.shape
        heads, groups, size = config.num_attention_heads, config.groups, config.head_size
        qkv = self._pass("QKV", layer, self._linear(layer, "attention.qkv", x))
        parts = qkv.split([heads * size, groups * size, groups * size], dim=-1)
        names = ("Query", "Key", "Value")
        query, key, value = (self._pass(name, layer, x) for name, x in zip(names, parts))
        if config.qk_layernorm:
            query = self._normed_heads(layer, "query_norm", query)
            key = self._normed_heads(layer, "key_norm", key)
        query = query.view(batch, sequence, heads, size).transpose(1, 2)
        key = key.view(batch, sequence, groups, size).transpose(1, 2)
        value = value.view(batch, sequence, groups, size).transpose(1, 2)
        if config.position_embedding_type == "rope":
            positions = self._positions(sequence)
            query, key = (rotate(x, frequencies(config), positions) for x in (query, key))
            query = self._rotated("attention.query_rotated", layer, query)
            key = self._rotated("attention.key_rotated", layer, key)
        # Query heads of one group stand side by side and share its key and value.
        key = key.repeat_interleave(heads // groups, dim=1)
        value = value.repeat_interleave(heads // groups, dim=1)
        scores = query @ key.transpose(-1, -2) / math.sqrt(size)
        hidden = self.hidden_keys(sequence)
        scores = self._pass("attention.logits", layer, scores.masked_fill(hidden, 0))
        probabilities = scores.masked_fill(hidden, -math.inf).softmax(dim=-1)
        probabilities = self._pass("RawAttentionScore", layer, probabilities)
        attended = probabilities @ value
        attended = attended.transpose(1, 2).reshape(batch, sequence, heads * size)
        attended = self._pass("ContextLayer", layer, attended)
        return self._pass("AttentionOutput", layer, self._linear(layer, "attention.proj", attended))

    def _normed_heads(self, layer: int, norm: str, x: Tensor) -> Tensor:
        name = f"attention.{norm}"
        heads = x.unflatten(-1, (-1, self.config.head_size))
        normed = self._norm(f"layers.{layer}.{name}", heads)
        return self._pass(f"{name}.output", layer, normed.flatten(-2))

    def _rotated(self, point: str, layer: int, x: Tensor) -> Tensor:
        """Of `[batch, heads, sequence, size]`, as the point has it: heads side by side."""
        flat = self._pass(point, layer, x.transpose(1, 2).flatten(2))
        return flat.unflatten(2, (x.shape[1], x.shape[3])).transpose(1, 2)

    def _mlp(self, layer: int, x: Tensor) -> Tensor:
        inner = self._pass("MLP1", layer, self._linear(layer, "mlp.fc1", x))
        if self.config.swiglu:
            gate, up = inner.chunk(2, dim=-1)
            inner = F.silu(gate) * up
        else:
            inner = ACTIVATIONS[self.config.activation](inner)
        inner = self._pass("MLPActivation", layer, inner)
        return self._pass("MLP2", layer, self._linear(layer, "mlp.fc2", inner))

    def _linear(self, layer: int, name: str, x: Tensor) -> Tensor:
        whole = f"layers.{layer}.{name}"
        weight = self._edited(f"{name}.weight", layer, self.weights[f"{whole}.weight"])
        bias = self.weights[f"{whole}.bias"] if self.config.has_bias(name) else None
        return F.linear(x, weight, bias)

    def _norm(self, name: str, x: Tensor) -> Tensor:
        weight, epsilon = self.weights[f"{name}.weight"], self.config.norm_epsilon
        if self.config.normalization == "RMSNorm":
            return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + epsilon) * weight
        return F.layer_norm(x, weight.shape, weight, self.weights[f"{name}.bias"], epsilon)

    def _pass(self, point: str, layer: int, value: Tensor) -> Tensor:
        value = self._edited(point, layer, value)
        if self.captured is not None:
            self.captured[point, layer] = value
        return value

    def _edited(self, name: str, layer: int, value: Tensor) -> Tensor:
        return value if self._edit is None else self._edit(name, layer, value)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "gelu": F.gelu, "relu": F.relu, "silu": F.silu,
}  # fmt: skip


def frequencies(config: Config) -> Tensor:
    """Radians per position of each pair of a head, float64; long waves are stretched as in Llama 3."""
    plain = config.rotary_base ** (-torch.arange(0, config.head_size, 2, dtype=torch.float64) / config.head_size)
    if config.rope_scaling_factor == 1:
        return plain
    scaled = []
    for frequency in plain.tolist():
        wave = 2 * math.pi / frequency
        longest = config.rope_original_max_positions / config.rope_low_freq_factor
        shortest = config.rope_original_max_positions / config.rope_high_freq_factor
        if wave < shortest:
            scaled.append(frequency)
        elif wave > longest:
            scaled.append(frequency / config.rope_scaling_factor)
        else:
            kept = config.rope_original_max_positions / wave - config.rope_low_freq_factor
            kept /= config.rope_high_freq_factor - config.rope_low_freq_factor
            scaled.append((1 - kept) * frequency / config.rope_scaling_factor + kept * frequency)
    return torch.tensor(scaled, dtype=torch.float64)


def rotate(x: Tensor, frequency: Tensor, positions: Tensor | None = None) -> Tensor:
    """Rotary position embedding of `[batch, heads, sequence, size]`, halves not interleaved.

    It is computed in the width of `x`, but never less than float32. `positions`: as the model has them.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    positions = torch.arange(x.shape[-2]) if positions is None else positions
    angles = positions.to(dtype).unsqueeze(-1) * frequency.to(dtype)
    angles = torch.cat([angles, angles], dim=-1)
    if positions.dim() == 2:
        angles = angles.unsqueeze(1)
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (x * angles.cos() + turned * angles.sin()).to(x.dtype)


def parameter_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The name and full shape of every parameter that a model of this shape has."""
    hidden, ffn = config.hidden_size, config.ffn_size
    attention = config.num_attention_heads * config.head_size
    qkv = attention + 2 * config.groups * config.head_size
    shapes: dict[str, tuple[int, ...]] = {
        "embedding.word_embeddings.weight": (config.vocab_size, hidden)
    }
    if config.position_embedding_type == "learned_absolute":
        positions = config.max_position_embeddings or config.seq_length
        shapes["embedding.position_embeddings.weight"] = (positions, hidden)
    norms, linears = {"final_norm": hidden}, {}
    for n in range(1, config.num_layers + 1):
        norms |= {f"layers.{n}.input_norm": hidden, f"layers.{n}.mlp_norm": hidden}
        if config.qk_layernorm:
            norms |= {f"layers.{n}.attention.{kind}_norm": config.head_size for kind in ("query", "key")}
        linears[f"layers.{n}.attention.qkv"] = (qkv, hidden)
        linears[f"layers.{n}.attention.proj"] = (hidden, attention)
        linears[f"layers.{n}.mlp.fc1"] = (2 * ffn if config.swiglu else ffn, hidden)
        linears[f"layers.{n}.mlp.fc2"] = (hidden, ffn)
    for name, size in norms.items():
        shapes[f"{name}.weight"] = (size,)
        if config.normalization == "LayerNorm":
            shapes[f"{name}.bias"] = (size,)
    for name, shape in linears.items():
        shapes[f"{name}.weight"] = shape
        if config.has_bias(".".join(name.split(".")[2:])):
            shapes[f"{name}.bias"] = shape[:1]
    if config.untie_embeddings_and_output_weights:
        shapes["output_layer.weight"] = (config.vocab_size, hidden)
    return shapes


def loss_and_gradients(
    config: Config, weights: dict[str, Tensor], tokens: Tensor, labels: Tensor,
    starts: Tensor | None = None, mask: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:  # fmt: skip
    """The loss and the gradient of every weight."""
    leaves = {name: weight.detach().clone().requires_grad_() for name, weight in weights.items()}
    loss = ReferenceGpt(config, leaves, starts=starts).loss(tokens, labels, mask)
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    return loss.detach(), dict(zip(leaves, gradients, strict=True))


def activations(
    config: Config, weights: dict[str, Tensor], tokens: Tensor
) -> dict[tuple[str, int], Tensor]:
    """What every trace point sees, by (point, layer)."""
    model = ReferenceGpt(config, weights, capture=True)
    with torch.no_grad():
        model.logits(tokens)
    assert model.captured is not None
    return model.captured


def activation_gradients(
    config: Config, weights: dict[str, Tensor], tokens: Tensor, labels: Tensor
) -> dict[tuple[str, int], Tensor]:
    """The gradient of the mean loss with respect to what every trace point sees."""
    leaves = {name: weight.detach().clone().requires_grad_() for name, weight in weights.items()}
    model = ReferenceGpt(config, leaves, capture=True)
    loss = model.loss(tokens, labels)
    assert model.captured is not None
    gradients = torch.autograd.grad(loss, list(model.captured.values()))
    return dict(zip(model.captured, gradients, strict=True))


def tile_means(values: Tensor, tiles: int) -> Tensor:
    """Tile t of T: the mean over feature columns [floor(t*F/T), floor((t+1)*F/T))."""
    features = values.shape[-1]
    borders = [t * features // tiles for t in range(tiles + 1)]
    columns = [values[..., a:b].mean(dim=-1) for a, b in zip(borders, borders[1:])]
    return torch.stack(columns, dim=-1)
