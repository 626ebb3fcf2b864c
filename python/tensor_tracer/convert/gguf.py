"""Writes a GGUF file as a folder that `transformers` reads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from tensor_tracer.convert.gguf_model import GgufModel
from tensor_tracer.convert.gguf_tokenizer import write_tokenizer
from tensor_tracer.errors import wrong

DTYPES = ("float32", "float16")


def config_of(model: GgufModel, dtype: str) -> dict[str, Any]:
    """Hugging Face's config.json."""
    width = int(model.setting("llama.embedding_length"))
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": int(model.setting("llama.feed_forward_length")),
        "num_hidden_layers": int(model.setting("llama.block_count")),
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.key_value_heads,
        "head_dim": int(model.setting("llama.rope.dimension_count", width // model.heads)),
        "vocab_size": len(model.setting("tokenizer.ggml.tokens")),
        "max_position_embeddings": int(model.setting("llama.context_length")),
        "rms_norm_eps": _shortest(model.setting("llama.attention.layer_norm_rms_epsilon")),
        "rope_theta": _shortest(model.setting("llama.rope.freq_base", 10000.0)),
        "attention_bias": "blk.0.attn_q.bias" in model.names(),
        "mlp_bias": "blk.0.ffn_up.bias" in model.names(),
        "tie_word_embeddings": "output.weight" not in model.names(),
        "bos_token_id": model.setting("tokenizer.ggml.bos_token_id", 0),
        "eos_token_id": model.setting("tokenizer.ggml.eos_token_id", 0),
        "torch_dtype": dtype,
    }


def _shortest(number: float) -> float:
    """The file has float32; of 9.999999747378752e-06 the number meant is 1e-05."""
    return float(str(np.float32(number)))


def convert_gguf(path: Path, folder: Path, dtype: str = "float32") -> int:
    """Writes the model as a new folder that `transformers` reads; the number of its tensors. The folder appears when
    it is complete."""
    from safetensors.numpy import save_file

    if folder.exists():
        raise wrong("the folder exists", "name a new one", str(folder))
    model = GgufModel(path)
    config = config_of(model, dtype)
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        (part / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        write_tokenizer(model, part)
        weights = {name: np.ascontiguousarray(weight, dtype) for name, weight in model.weights().items()}
        save_file(weights, part / "model.safetensors", {"format": "pt"})
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return len(weights)
