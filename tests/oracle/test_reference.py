"""The reference model against a second formulation made of PyTorch's own modules."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from reference_gpt import (
    Config,
    ReferenceGpt,
    activations,
    loss_and_gradients,
    parameter_shapes,
    rotate,
    tile_means,
)
from torch import Tensor, nn

GPT2 = Config(
    num_layers=2, hidden_size=24, num_attention_heads=4, vocab_size=37, seq_length=11
)
LLAMA = dataclasses.replace(
    GPT2,
    num_query_groups=2,
    ffn_hidden_size=40,
    normalization="RMSNorm",
    position_embedding_type="rope",
    swiglu=True,
    add_bias_linear=False,
    untie_embeddings_and_output_weights=True,
)


def random_model(config: Config) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Float64 weights far from any symmetry, tokens and labels."""
    generator = torch.Generator().manual_seed(1)

    def normal(shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64) * 0.3

    weights = {name: normal(shape) for name, shape in parameter_shapes(config).items()}
    draw = torch.randint(config.vocab_size, (3, config.seq_length + 1), generator=generator)
    return weights, draw[:, :-1], draw[:, 1:]


def gpt2_by_modules(config: Config, weights: dict[str, Tensor], tokens: Tensor) -> Tensor:
    """Logits of the GPT-2 shape by nn.MultiheadAttention, nn.LayerNorm and nn.GELU."""
    size = config.hidden_size
    mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], dtype=torch.float64)
    x = weights["embedding.word_embeddings.weight"][tokens]
    x = x + weights["embedding.position_embeddings.weight"]

    def norm(name: str, value: Tensor) -> Tensor:
        module = nn.LayerNorm(size, eps=config.norm_epsilon, dtype=torch.float64)
        state = {"weight": weights[f"{name}.weight"], "bias": weights[f"{name}.bias"]}
        return torch.func.functional_call(module, state, (value,))

    for n in range(1, config.num_layers + 1):
        w = {k.removeprefix(f"layers.{n}."): v for k, v in weights.items()}
        attention = nn.MultiheadAttention(
            size, config.num_attention_heads, batch_first=True, dtype=torch.float64
        )
        state = {
            "in_proj_weight": w["attention.qkv.weight"],
            "in_proj_bias": w["attention.qkv.bias"],
            "out_proj.weight": w["attention.proj.weight"],
            "out_proj.bias": w["attention.proj.bias"],
        }
        y = norm(f"layers.{n}.input_norm", x)
        options = {"attn_mask": mask, "need_weights": False}
        x = x + torch.func.functional_call(attention, state, (y, y, y), options)[0]
        y = norm(f"layers.{n}.mlp_norm", x) @ w["mlp.fc1.weight"].T + w["mlp.fc1.bias"]
        x = x + nn.GELU(approximate="tanh")(y) @ w["mlp.fc2.weight"].T + w["mlp.fc2.bias"]
    return norm("final_norm", x) @ weights["embedding.word_embeddings.weight"].T


def llama_by_modules(config: Config, weights: dict[str, Tensor], tokens: Tensor) -> Tensor:
    """Logits of the Llama shape by F.scaled_dot_product_attention and complex rotations."""
    heads, groups, size = config.num_attention_heads, config.groups, config.head_size
    x = F.embedding(tokens, weights["embedding.word_embeddings.weight"])

    def norm(name: str, value: Tensor) -> Tensor:
        return F.rms_norm(value, value.shape[-1:], weights[f"{name}.weight"], config.norm_epsilon)

    for n in range(1, config.num_layers + 1):
        w = {k.removeprefix(f"layers.{n}."): v for k, v in weights.items()}
        qkv = F.linear(norm(f"layers.{n}.input_norm", x), w["attention.qkv.weight"])
        split = qkv.unflatten(-1, (heads + 2 * groups, size)).transpose(1, 2)
        q, k = rotate_complex(split[:, :heads]), rotate_complex(split[:, heads : heads + groups])
        y = F.scaled_dot_product_attention(
            q, k, split[:, heads + groups :], is_causal=True, enable_gqa=True
        )
        x = x + F.linear(y.transpose(1, 2).flatten(2), w["attention.proj.weight"])
        y = norm(f"layers.{n}.mlp_norm", x)
        gate = F.linear(y, w["mlp.fc1.weight"][: config.ffn_size])
        up = F.linear(y, w["mlp.fc1.weight"][config.ffn_size :])
        x = x + F.linear(gate * gate.sigmoid() * up, w["mlp.fc2.weight"])
    return F.linear(norm("final_norm", x), weights["output_layer.weight"])


def rotate_complex(x: Tensor) -> Tensor:
    """Rotary embedding as multiplication by e^(i p theta), the pair (j, j + size/2) as a number."""
    half = x.shape[-1] // 2
    turns = 10000.0 ** (-2 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * turns
    turn = torch.polar(torch.ones_like(angles), angles)
    turned = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous()) * turn
    return torch.cat([turned.real, turned.imag], dim=-1)


@pytest.mark.parametrize(
    ("config", "by_modules"), [(GPT2, gpt2_by_modules), (LLAMA, llama_by_modules)]
)
def test_equals_second_formulation(config, by_modules) -> None:
    weights, tokens, labels = random_model(config)
    loss, gradients = loss_and_gradients(config, weights, tokens, labels)

    leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    log_probability = by_modules(config, leaves, tokens).log_softmax(dim=-1)
    other = -log_probability.gather(-1, labels[..., None]).mean()
    other.backward()

    torch.testing.assert_close(loss, other.detach(), rtol=1e-12, atol=0)
    assert gradients.keys() == parameter_shapes(config).keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, leaves[name].grad, rtol=1e-10, atol=1e-13, msg=name)


def test_multi_query_is_grouped_query_with_one_group() -> None:
    """One shared key and value head equals a multi-head model whose heads are copies of it."""
    shared = dataclasses.replace(GPT2, num_query_groups=1)
    weights, tokens, _ = random_model(shared)
    full, width, size = dict(weights), GPT2.hidden_size, GPT2.head_size
    for n in range(1, GPT2.num_layers + 1):
        for kind in ("weight", "bias"):
            name = f"layers.{n}.attention.qkv.{kind}"
            q, k, v = weights[name].split([width, size, size])
            full[name] = torch.cat([q] + [k] * 4 + [v] * 4)
    expected = ReferenceGpt(GPT2, full).logits(tokens)
    torch.testing.assert_close(ReferenceGpt(shared, weights).logits(tokens), expected)


def test_rotation_depends_on_distance_only() -> None:
    x = torch.randn(1, 1, 1, 8, dtype=torch.float64).expand(1, 1, 6, 8)
    turned = rotate(x, torch.tensor([1.0, 0.1, 0.01, 0.001]))[0, 0]
    products = turned @ turned.T
    for distance in range(6):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))


@pytest.mark.parametrize("config", [GPT2, LLAMA])
def test_captured_shapes(config: Config) -> None:
    weights, tokens, _ = random_model(config)
    captured = activations(config, weights, tokens)
    hidden, ffn, layers = config.hidden_size, config.ffn_size, range(1, config.num_layers + 1)
    query = config.num_attention_heads * config.head_size
    key = config.groups * config.head_size
    of_layers = {
        "QKV": query + 2 * key,
        "Query": query,
        "Key": key,
        "Value": key,
        "ContextLayer": query,
        "AttentionOutput": hidden,
        "attention.input": hidden,
        "mlp.input": hidden,
        "ResidualMid": hidden,
        "MLP1": 2 * ffn if config.swiglu else ffn,
        "MLPActivation": ffn,
        "MLP2": hidden,
        "HiddenStates": hidden,
    }
    if config.position_embedding_type == "rope":
        of_layers |= {"attention.query_rotated": query, "attention.key_rotated": key}
    expected = {(point, n): width for point, width in of_layers.items() for n in layers}
    expected |= {("Embedding", 0): hidden, ("FinalNorm", 0): hidden}
    if config.position_embedding_type == "learned_absolute":
        expected |= {("embedding.word_embeddings.output", 0): hidden}
    expected |= {("Logits", 0): config.vocab_size}
    shapes = {key: (*tokens.shape, width) for key, width in expected.items()}
    batch, sequence = tokens.shape
    scores = (batch, config.num_attention_heads, sequence, sequence)
    shapes |= {(point, n): scores for point in ("RawAttentionScore", "attention.logits")
               for n in layers}  # fmt: skip
    assert {key: tuple(value.shape) for key, value in captured.items()} == shapes


def test_tile_means_of_uneven_tiles() -> None:
    values = torch.arange(7, dtype=torch.float64)
    expected = [0.5, 2.5, 5.0]  # columns [0,2), [2,4), [4,7)
    assert tile_means(values, 3).tolist() == expected
    assert tile_means(values, 7).tolist() == values.tolist()
    assert math.isclose(tile_means(values, 1).item(), 3.0)
