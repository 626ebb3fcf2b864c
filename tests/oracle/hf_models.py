"""Small models of `transformers` with random weights, and our names of their parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from program import Flags
from reference_gpt import Config, frequencies
from torch import Tensor
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

LAYERS, HIDDEN, LENGTH = 2, 48, 32
_LLAMA: dict[str, Any] = {
    "vocab_size": 260, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 88, "rms_norm_eps": 1e-5, "rope_theta": 500.0,
    "max_position_embeddings": 64, "attn_implementation": "sdpa",
}  # fmt: skip
_GPT2: dict[str, Any] = {
    "vocab_size": 260, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": 4, "n_positions": 40,
    "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_implementation": "eager",
}  # fmt: skip
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 32}  # fmt: skip
_MODELS: dict[str, tuple[type, type, dict[str, Any]]] = {
    "gpt2": (GPT2Config, GPT2LMHeadModel, _GPT2),
    "gpt2-variant": (GPT2Config, GPT2LMHeadModel, _GPT2 | {
        "activation_function": "gelu", "n_inner": 80, "layer_norm_epsilon": 1e-3, "tie_word_embeddings": False}),
    "llama-2": (LlamaConfig, LlamaForCausalLM, _LLAMA | {"num_key_value_heads": 4}),
    "llama-3": (LlamaConfig, LlamaForCausalLM, _LLAMA | {"rope_scaling": _LLAMA3, "head_dim": 16}),
    "llama-biases": (LlamaConfig, LlamaForCausalLM, _LLAMA | {"attention_bias": True, "mlp_bias": True}),
    "smollm2": (LlamaConfig, LlamaForCausalLM, _LLAMA | {"tie_word_embeddings": True}),
    "mistral": (MistralConfig, MistralForCausalLM, _LLAMA | {"sliding_window": LENGTH}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, _LLAMA | {"tie_word_embeddings": True}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, _LLAMA | {"head_dim": 16}),
}  # fmt: skip
NAMES = list(_MODELS)
FAMILIES = ["llama-3", "gpt2", "mistral", "qwen2", "qwen3"]  # one of each
NEW = "new"  # a model that begins in the run


def random_model(name: str, dtype: torch.dtype) -> PreTrainedModel:
    """All parameters differ from zero and one, biases and norms too."""
    torch.manual_seed(5)
    config, model, options = _MODELS[name]
    made = model(config(**options)).to(dtype).eval()
    if dtype == torch.float64:
        compute_in_float64(made)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return made


def compute_in_float64(model: PreTrainedModel) -> None:
    """`transformers` computes norms and rotary angles in float32, whatever the dtype of the model is."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = lambda x, norm=module: F.rms_norm(x, norm.weight.shape, norm.weight, norm.variance_epsilon)
        if type(module).__name__.endswith("RotaryEmbedding"):
            module.forward = lambda x, positions, frequency=_frequencies(model.config): _angles(frequency, positions)


def _frequencies(config: Any) -> Tensor:
    scaling = getattr(config, "rope_scaling", None) or {"factor": 1.0}
    options = {ours: scaling[theirs] for ours, theirs in {
        "rope_scaling_factor": "factor", "rope_low_freq_factor": "low_freq_factor",
        "rope_high_freq_factor": "high_freq_factor",
        "rope_original_max_positions": "original_max_position_embeddings"}.items() if theirs in scaling}  # fmt: skip
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return frequencies(Config(1, config.hidden_size, config.num_attention_heads, 1, 1, kv_channels=head_size,
                              rotary_base=config.rope_theta, **options))  # fmt: skip


def _angles(frequency: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    angles = positions.double()[..., None] * frequency
    both = torch.cat([angles, angles], dim=-1)
    return both.cos(), both.sin()


def save(model: PreTrainedModel, folder: Path, **options: Any) -> Path:
    model.save_pretrained(folder, **options)
    return folder


def imported(flags: Flags, name: str, folder: Path) -> dict[str, Any]:
    """The flags of a run that begins from this model in float64, instead of a new model."""
    model = save(random_model(name, torch.float64), folder)
    own = ("num_layers", "hidden_size", "num_attention_heads")
    return {flag: value for flag, value in flags.items() if flag not in own} | {"hf_model": str(model), "seq_length": LENGTH}


def begun_from(flags: Flags, model: str, folder: Path) -> dict[str, Any]:
    """The flags of a run that begins from this model; `NEW`: the flags as they are."""
    return dict(flags) if model == NEW else imported(flags, model, folder / "model")


def our_gradients(model: PreTrainedModel) -> dict[str, Tensor]:
    """The gradients by our parameters' names, in our shapes."""
    theirs = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return _gpt2_names(theirs) if model.config.model_type == "gpt2" else _llama_names(theirs)


def _gpt2_names(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    ours = {"embedding.word_embeddings.weight": theirs["transformer.wte.weight"],
            "embedding.position_embeddings.weight": theirs["transformer.wpe.weight"]}  # fmt: skip
    modules = {"input_norm": "ln_1", "attention.qkv": "attn.c_attn", "attention.proj": "attn.c_proj",
               "mlp_norm": "ln_2", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj"}  # fmt: skip
    for layer in range(LAYERS):
        for our, their in modules.items():
            for kind in ("weight", "bias"):
                value = theirs[f"transformer.h.{layer}.{their}.{kind}"]
                ours[f"layers.{layer + 1}.{our}.{kind}"] = value.T if value.dim() == 2 else value
    for kind in ("weight", "bias"):
        ours[f"final_norm.{kind}"] = theirs[f"transformer.ln_f.{kind}"]
    return ours | _output(theirs)


def _llama_names(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    ours = {"embedding.word_embeddings.weight": theirs["model.embed_tokens.weight"],
            "final_norm.weight": theirs["model.norm.weight"]}  # fmt: skip
    modules = {
        "input_norm": ["input_layernorm"], "attention.qkv": [f"self_attn.{part}_proj" for part in "qkv"],
        "attention.query_norm": ["self_attn.q_norm"], "attention.key_norm": ["self_attn.k_norm"],
        "attention.proj": ["self_attn.o_proj"], "mlp_norm": ["post_attention_layernorm"],
        "mlp.fc1": ["mlp.gate_proj", "mlp.up_proj"], "mlp.fc2": ["mlp.down_proj"],
    }  # fmt: skip
    for layer in range(LAYERS):
        for our, parts in modules.items():
            for kind in ("weight", "bias"):
                names = [f"model.layers.{layer}.{part}.{kind}" for part in parts]
                if names[0] in theirs:
                    ours[f"layers.{layer + 1}.{our}.{kind}"] = torch.cat([theirs[name] for name in names])
    return ours | _output(theirs)


def _output(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {"output_layer.weight": theirs["lm_head.weight"]} if "lm_head.weight" in theirs else {}
