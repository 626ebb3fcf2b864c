"""Programs at places that only some imported models have: norms of queries and keys, and biases. Loss and gradients are
those of `transformers` with hooks that do the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hf_models import our_gradients, random_model, save
from program import train
from test_hf_models import STILL, flags_for
from torch import Tensor, nn

NIGHTLY = pytest.mark.nightly(suite="models")
Change = Callable[[nn.Module, Tensor], Tensor]  # of a module and its output


def times(factor: float) -> Change:
    return lambda _module, output: output * factor


def more_bias(factor: float) -> Change:
    """As if the bias were `factor` times as large."""
    return lambda module, output: output + (factor - 1) * module.get_parameter("bias")


PROJECTIONS = [f"model.layers.0.self_attn.{name}_proj" for name in "qkv"]
# By model and program: the modules that the hooks change.
CASES: list[tuple[str, str, list[str], Change]] = [
    ("qwen3", "layers[2].attention.query_norm.output *= 1.5", ["model.layers.1.self_attn.q_norm"], times(1.5)),
    ("qwen3", "layers[2].attention.query_norm.weight *= 1.5", ["model.layers.1.self_attn.q_norm"], times(1.5)),
    ("qwen3", "layers[1].attention.key_norm.output *= 0.5", ["model.layers.0.self_attn.k_norm"], times(0.5)),
    ("qwen3", "layers[1].attention.key_norm.weight *= 0.5", ["model.layers.0.self_attn.k_norm"], times(0.5)),
    ("qwen2", "layers[1].attention.qkv.bias *= 3.0", PROJECTIONS, more_bias(3)),
    ("gpt2", "layers[1].attention.qkv.bias *= 3.0", ["transformer.h.0.attn.c_attn"], more_bias(3)),
    ("gpt2", "layers[2].attention.proj.bias *= 3.0", ["transformer.h.1.attn.c_proj"], more_bias(3)),
    ("gpt2", "layers[2].mlp.fc1.bias *= 3.0", ["transformer.h.1.mlp.c_fc"], more_bias(3)),
    ("gpt2", "layers[1].mlp_norm.bias *= 3.0", ["transformer.h.0.ln_2"], more_bias(3)),
]


@pytest.mark.parametrize("tensor", [2, pytest.param(1, marks=NIGHTLY), pytest.param(4, marks=NIGHTLY)])
@pytest.mark.parametrize(("name", "program", "modules", "change"), CASES, ids=[program.split(" ")[0] for _, program, *_ in CASES])
def test_a_program_equals_hooks_of_transformers(
    name: str, program: str, modules: list[str], change: Change, tensor: int, data: Path, tmp_path: Path
) -> None:
    model = random_model(name, torch.float64)
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():  # new models have biases of 0
        parameter.data += 0.02 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    folder = save(model, tmp_path / "model")
    (tmp_path / "program.tti").write_text(program + "\n")
    changes: dict[str, Any] = STILL | {
        "params_dtype": "float64", "tensor_model_parallel_size": tensor, "interventions": tmp_path / "program.tti",
    }  # fmt: skip
    export = train(flags_for(data, folder, **changes), tmp_path / "run", tensor, export_at="1").export(1)
    plain = F.cross_entropy(model(export.tokens).logits.flatten(0, 1), export.labels.flatten())
    for path in modules:
        model.get_submodule(path).register_forward_hook(lambda module, _, output: change(module, output))
    loss = F.cross_entropy(model(export.tokens).logits.flatten(0, 1), export.labels.flatten())
    loss.backward()
    assert export.loss == pytest.approx(loss.item(), rel=1e-10) and abs(plain.item() - loss.item()) > 1e-8
    expected = our_gradients(model)
    assert export.gradients.keys() == expected.keys()
    for place, gradient in expected.items():
        assert (export.gradients[place] - gradient).abs().max().item() <= 1e-9, place
