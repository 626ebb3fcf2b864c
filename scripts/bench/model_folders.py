"""Folders of Llama models with random weights, in the form of Hugging Face."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors.torch import save_file
from torch import Tensor

LARGE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 1024,
    "intermediate_size": 2816, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64,
    "vocab_size": 8192, "max_position_embeddings": 2048, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False,
}  # fmt: skip


def config_of_size(gib: float, dtype: torch.dtype) -> dict[str, Any]:
    """A configuration whose weights have about this size, at least one layer."""
    one = LARGE | {"num_hidden_layers": 1}
    layer = sum(count(shape) for name, shape in shapes(one).items() if name.startswith("model.layers."))
    rest = sum(map(count, shapes(one).values())) - layer
    layers = round((gib * 2**30 / dtype.itemsize - rest) / layer)
    return LARGE | {"num_hidden_layers": max(1, layers)}


def count(shape: tuple[int, ...]) -> int:
    return int(numpy.prod(shape))


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor by its name in the files."""
    hidden, inner, vocabulary = (config[key] for key in ("hidden_size", "intermediate_size", "vocab_size"))
    heads, groups = (config[key] * config["head_dim"] for key in ("num_attention_heads", "num_key_value_heads"))
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, hidden)}
    for layer in range(config["num_hidden_layers"]):
        modules = {
            "input_layernorm": (hidden,), "self_attn.q_proj": (heads, hidden), "self_attn.k_proj": (groups, hidden),
            "self_attn.v_proj": (groups, hidden), "self_attn.o_proj": (hidden, heads),
            "post_attention_layernorm": (hidden,), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }  # fmt: skip
        found |= {f"model.layers.{layer}.{module}.weight": shape for module, shape in modules.items()}
    found["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = (vocabulary, hidden)
    return found


def write(folder: Path, config: dict[str, Any], dtype: torch.dtype, files: int) -> list[Path]:
    """Writes config.json and so many files of weights with their index, all on the disk. Returns these files."""
    folder.mkdir(parents=True)
    named = list(shapes(config).items())
    per_file = -(-len(named) // files)
    written, index = [], {}
    for number in range(files):
        part = named[number * per_file : (number + 1) * per_file]
        path = folder / f"model-{number + 1:05d}-of-{files:05d}.safetensors"
        save_file(dict(randomly(part, dtype)), path, {"format": "pt"})
        index |= {name: path.name for name, _ in part}
        written.append(path)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    (folder / "config.json").write_text(json.dumps(config))
    for path in written:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    return written


def randomly(named: list[tuple[str, tuple[int, ...]]], dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    for name, shape in named:
        yield name, torch.ones(shape, dtype=dtype) if len(shape) == 1 else (torch.randn(shape) * 0.02).to(dtype)


def parameters_of_rank(config: dict[str, Any], ranks: int) -> int:
    """How many numbers each of the tensor-parallel ranks holds: all of a norm, a part of a matrix."""
    return sum(count(shape) // (ranks if len(shape) > 1 else 1) for shape in shapes(config).values())
