"""What the run's facts say about a model that the tracer is attached to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from tensor_tracer.attaching import megatron, torchtitan
from tensor_tracer.attaching.flat_weights import whole_sizes
from tensor_tracer.attaching.paths import without_wrappers, wrapped_module

_kNames = {
    "hidden_size": ("hidden_size", "n_embd", "dim", "d_model"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads"),
    "num_query_groups": ("num_key_value_heads", "num_query_groups", "n_kv_heads"),
    "ffn_hidden_size": ("intermediate_size", "ffn_hidden_size", "n_inner"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
}


@dataclass(frozen=True)
class Known:
    """What a part of the model says about the model. `parameters`: of this part, on all tensor-parallel ranks."""

    kind: str  # the class
    sizes: dict[str, int]
    head_size: int  # 0: not stated
    parameters: int


def known_of(root: nn.Module, ranks: int) -> Known:
    """`ranks`: the number of tensor-parallel ranks."""
    config = getattr(root, "config", None)
    head = getattr(config, "head_dim", None) or getattr(config, "kv_channels", None)
    flat = whole_sizes(root)
    parameters = sum(flat.get(id(one)) or megatron.whole_size(one, ranks) for one in root.parameters())
    parameters += sum(part.numel() * (ranks - 1) for part in torchtitan.parts_of(root))
    return Known(type(without_wrappers(root)).__name__, _configured(root), head if isinstance(head, int) else 0, parameters)


def _configured(root: nn.Module) -> dict[str, int]:
    """The numbers that the model's configuration states."""
    config = getattr(root, "config", None) or getattr(root, "model_args", None)
    configs = config, getattr(config, "first_attention", None)  # the latter: of torchtitan
    sizes: dict[str, int] = {}
    for name, spellings in _kNames.items():
        values = (getattr(one, spelling, None) for one in configs for spelling in spellings)
        number = next((value for value in values if isinstance(value, int) and value > 0), None)
        if number is not None:
            sizes[name] = number
    return sizes


def attention_heads(root: nn.Module) -> int:
    """The number of attention heads of the whole model; 0: not known."""
    return _configured(root).get("num_attention_heads", 0)


def model_facts(
    parts: Sequence[Known], num_layers: int, hidden_size: int, tokens: int, vocabulary: int
) -> dict[str, Any]:
    """The model's configuration where it has one, else what was seen. `parts`: of all pipeline stages."""
    defaults = {"hidden_size": hidden_size, "num_attention_heads": 1, "vocab_size": vocabulary}
    parameters = sum(part.parameters for part in parts)
    return defaults | parts[0].sizes | {"num_layers": num_layers, "seq_length": tokens, "parameters": parameters}


def head_size(known: Known, model: dict[str, Any]) -> int:
    """The number of features of an attention head; 0: not known."""
    if known.head_size:
        return known.head_size
    return int(model["hidden_size"]) // int(model["num_attention_heads"]) if model["num_attention_heads"] > 1 else 0


def wrappers_and_model(model: nn.Module) -> list[nn.Module]:
    """DistributedDataParallel, Float16Module and other wrappers with one `module`, from outside to inside, and last the
    model in them. A model in FullyShardedDataParallel runs only by this wrapper, which stays."""
    found = [model]
    while isinstance(inner := getattr(found[-1], "module", None), nn.Module):
        if wrapped_module(found[-1]) is not None or list(found[-1].parameters(recurse=False)):
            break
        found.append(inner)
    return found
