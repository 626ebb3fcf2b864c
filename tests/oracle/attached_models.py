"""Trainings of small random models of Transformers and PEFT that test_attach_models.py runs on a forked rank."""

from __future__ import annotations

from types import SimpleNamespace
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
    "dense and experts": ("Qwen2MoeForCausalLM", GATED | {
        "mlp_only_layers": [0], "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    }),
    "neox": ("GPTNeoXForCausalLM", SIZES | {"intermediate_size": 48}),
    "opt": ("OPTForCausalLM", SIZES | {"ffn_dim": 48, "word_embed_proj_dim": 32, "dropout": 0.0}),
    "phi": ("PhiForCausalLM", SIZES | {"intermediate_size": 48}),
}  # fmt: skip


class Block(nn.Module):
    """Writes the residual stream into what its last module returned."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 48), nn.Linear(48, 32)

    def forward(self, hidden: Tensor) -> Tensor:
        added: Tensor = self.down(self.up(self.norm(hidden)).relu())
        added += hidden
        return added


class InPlace(nn.Module):
    """With more positions than tokens in the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.positions, self.words = nn.Embedding(256, 32), nn.Embedding(VOCABULARY, 32)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last, self.head = nn.LayerNorm(32), nn.Linear(32, VOCABULARY)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, **_: Any) -> Any:
        hidden = self.words(input_ids) + self.positions(torch.arange(input_ids.shape[1]))
        states = [hidden]
        for block in self.blocks:
            hidden = block(hidden)
            states.append(hidden)
        states[-1] = self.last(hidden)
        logits = self.head(states[-1])
        if labels is None:
            return SimpleNamespace(hidden_states=states, logits=logits)
        return Output(logits)


class Output(dict[str, Tensor]):
    """As a model of Transformers returns its results."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__(logits=logits)
        self.loss = logits.square().mean()


def make_model(kind: str) -> nn.Module:
    if kind == "in-place":
        torch.manual_seed(7)
        return InPlace()
    import transformers

    torch.manual_seed(7)
    if kind.startswith("lora"):
        from peft import LoraConfig, get_peft_model

        llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GATED))
        saved = ["lm_head"] if kind == "lora-head" else None
        return get_peft_model(llama, LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], modules_to_save=saved))
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


def scores_of_t5(attach: dict[str, Any]) -> list[dict[str, Any]]:
    """The points of attention. Beside its result, T5's attention returns its bias of positions, [batch, heads, queries,
    keys]."""
    import tensor_tracer as tt
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(T5Config(
        d_model=32, d_kv=8, d_ff=48, num_layers=LAYERS, num_heads=4, vocab_size=VOCABULARY, decoder_start_token_id=0,
    ))  # fmt: skip
    run, ids = tt.attach(model, **attach), torch.ones(2, 12, dtype=torch.int64)
    with run.step():
        model(input_ids=ids, labels=ids).loss.backward()
    points = [point for point in run.points() if point["path"].endswith("scores")]
    run.detach()
    return points
