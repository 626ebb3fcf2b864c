"""Trainings of small random models of Transformers and PEFT that test_attach_models.py runs on a forked rank."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

VOCABULARY, LAYERS, STEPS = 61, 2, 3
SIZES = {
    "hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "vocab_size": VOCABULARY,
    "max_position_embeddings": 16,
}  # fmt: skip
GATED = SIZES | {"intermediate_size": 48, "num_key_value_heads": 2}
# The names in Transformers, and the settings: without dropout.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertLMHeadModel", {
        "is_decoder": True, "intermediate_size": 48, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    } | SIZES),
    "bloom": ("BloomForCausalLM", {"hidden_size": 32, "n_layer": LAYERS, "n_head": 4, "vocab_size": VOCABULARY}),
    "gemma2": ("Gemma2ForCausalLM", GATED | {"head_dim": 8}),
    "neox": ("GPTNeoXForCausalLM", SIZES | {"intermediate_size": 48}),
    "opt": ("OPTForCausalLM", SIZES | {"ffn_dim": 48, "word_embed_proj_dim": 32, "dropout": 0.0}),
    "phi": ("PhiForCausalLM", SIZES | {"intermediate_size": 48}),
}  # fmt: skip


def make_model(kind: str) -> nn.Module:
    import transformers

    torch.manual_seed(7)
    if kind == "lora":
        from peft import LoraConfig, get_peft_model

        llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GATED))
        return get_peft_model(llama, LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"]))
    name, settings = MODELS[kind]
    causal = getattr(transformers, name)
    model: nn.Module = causal(causal.config_class(**settings))
    return model


def watched(attach: dict[str, Any], kind: str) -> list[dict[str, Tensor]]:
    """What Transformers returns in each step for the same weights and batch, before the update: `states` [layers + 1,
    batch, sequence, hidden] and `logits`."""
    import tensor_tracer as tt

    model = make_model(kind).train()
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.5)
    run, steps = tt.attach(model, **attach), []
    for step in range(1, STEPS + 1):
        ids = torch.randint(1, VOCABULARY, (2, 12), generator=torch.Generator().manual_seed(step))
        with torch.no_grad():
            output = model(input_ids=ids, output_hidden_states=True)
        steps.append({"states": torch.stack(output.hidden_states), "logits": output.logits})
        with run.step():
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    run.detach()
    return steps
