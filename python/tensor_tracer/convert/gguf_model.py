"""Reads a GGUF file of the Llama architecture, of llama.cpp, with the package `gguf`.

The file names its weights and settings in its own way, and it stores the rows of queries and keys in another order
(pairs of the rotary embedding beside each other). Hugging Face's order has the first halves of all pairs first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_tracer.errors import missing_package, wrong

Weights = NDArray[np.floating[Any]]

_OUTER = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
          "output.weight": "lm_head.weight"}
_OF_LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


class GgufModel:
    """The settings of a file, and its weights one by one. Errors name the file and the part."""

    def __init__(self, path: Path) -> None:
        try:
            import gguf
        except ImportError:
            raise missing_package("gguf", "reading a GGUF file") from None
        self.path = path
        self._dequantize: Callable[..., Weights] = gguf.dequantize
        try:
            self._reader = gguf.GGUFReader(path)
        except (ValueError, IndexError, KeyError) as error:
            raise wrong(f"it cannot be read as GGUF: {error}", where=str(path)) from None
        architecture = self.setting("general.architecture")
        if architecture != "llama":
            raise wrong(f'the architecture "{architecture}" is unknown; llama is known', where=str(path))

    def setting(self, key: str, default: Any = None) -> Any:
        field = self._reader.get_field(key)
        if field is not None:
            return field.contents()
        if default is not None:
            return default
        raise wrong(f"the setting {key} is missing", where=str(self.path))

    @property
    def heads(self) -> int:
        return int(self.setting("llama.attention.head_count"))

    @property
    def key_value_heads(self) -> int:
        return int(self.setting("llama.attention.head_count_kv", self.heads))

    def names(self) -> list[str]:
        return [tensor.name for tensor in self._reader.tensors]

    def weights(self) -> dict[str, Weights]:
        """Every tensor by Hugging Face's name, in float32."""
        return {self._name_of(tensor.name): self._weight(tensor) for tensor in self._reader.tensors}

    def _name_of(self, name: str) -> str:
        inside = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
        if inside and inside[2] in _OF_LAYER:
            return f"model.layers.{inside[1]}.{_OF_LAYER[inside[2]]}.{inside[3]}"
        if name in _OUTER:
            return _OUTER[name]
        raise wrong(f"the tensor {name} is unknown", "only plain Llama models can be converted", str(self.path))

    def _weight(self, tensor: Any) -> Weights:
        weight = self._dequantize(tensor.data, tensor.tensor_type)
        heads = {"attn_q": self.heads, "attn_k": self.key_value_heads}.get(tensor.name.split(".")[-2])
        return weight if heads is None else _halves_first(weight, heads)


def _halves_first(weight: Weights, heads: int) -> Weights:
    """Rows of a head: pair by pair -> the first of each pair, then the second of each pair."""
    pairs = weight.reshape(heads, weight.shape[0] // heads // 2, 2, *weight.shape[1:])
    return pairs.swapaxes(1, 2).reshape(weight.shape)
