"""Programs that write weights in attached trainings, beside trainings whose modules compute with these weights by
PyTorch's own means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attach_scenarios as scenarios
import pytest
import torch
from forked_ranks import run_ranks
from tensor_tracer.attaching.layouts import Layout, Layouts, TensorAxis
from tensor_tracer.attaching.learning import Seen, fingerprint
from tensor_tracer.attaching.table import Batch, Learned, make_sites, settle_layouts
from tensor_tracer.attaching.weights import settle_weights, with_weights
from test_attach_safety import both, environment, options
from torch import nn

pytestmark = pytest.mark.nightly(suite="attach")

LLAMA, GPT2 = "model.layers.{}.{}", "transformer.h.{}.{}"
QKV = [LLAMA.format(1, f"self_attn.{name}_proj") for name in "qkv"]
CASES = [
    pytest.param("llama", "none", "layers[2].attention.qkv.weight *= 1.5", QKV, False, id="joined", marks=pytest.mark.smoke),
    pytest.param("llama", "none", "layers[2].attention.qkv.weight *= 1.5", QKV, True, id="recomputed"),
    pytest.param("llama", "none", "layers[2].self_attn.q_proj.weight[3:5] *= 1.5\n"
                 "layers[2].self_attn.q_proj.weight[:3] *= 1.5\nlayers[2].self_attn.q_proj.weight[5:] *= 1.5",
                 QKV[:1], False, id="rows"),
    pytest.param("llama", "fsdp", "layers[2].attention.qkv.weight *= 1.5\noutput_layer.weight *= 1.5", [*QKV, "lm_head"],
                 False, id="fsdp"),
    pytest.param("llama", "tp", "layers[2].attention.qkv.weight *= 1.5", QKV, False, id="columns"),
    pytest.param("llama", "tp", "layers[2].attention.qkv.weight[:32] *= 1.5", QKV[:1], False, id="queries"),
    pytest.param("llama", "tp", "layers[layer].mlp.fc2.weight *= 1.5",
                 [LLAMA.format(i, "mlp.down_proj") for i in range(3)], False, id="rows of ranks"),
    pytest.param("gpt2", "ddp", "layers[1].attention.qkv.weight *= 1.5", [GPT2.format(0, "attn.c_attn")], False, id="conv"),
    pytest.param("gpt2", "ddp", "output_layer.weight *= 1.5", ["lm_head"], False, id="tied"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "wrap", "program", "paths", "recomputes"), CASES)
def test_a_program_changes_the_weights_of_a_forward(
    kind: str, wrap: str, program: str, paths: list[str], recomputes: bool, tmp_path: Path
) -> None:
    ranks = 1 if wrap == "none" else 2
    watched, by_hand = both(scenarios.multiply_weights, ranks, tmp_path, kind, wrap, program, paths, recomputes)
    for one, other in zip(watched, by_hand, strict=True):
        assert one.result[0] == other.result[0], one.output
    place = tmp_path / "plain"
    plain = run_ranks(scenarios.train, ranks, place, None, kind, wrap, 3, env=environment(place))[0]
    assert watched[0].result[0][:2] == plain[:2] and watched[0].result[0][2] != plain[2]


def weights_of(points: list[dict[str, Any]]) -> dict[str, tuple[list[int], str, str]]:
    return {
        point["path"]: (point["shape"], point["layout"], point["problem"])
        for point in points if point["path"].endswith(".weight") and point["layer"] in (0, 2)
    }  # fmt: skip


@pytest.mark.cpu_only
def test_the_weights_of_two_tensor_parallel_ranks_are_those_of_the_whole_model(tmp_path: Path) -> None:
    watched, _ = both(scenarios.multiply_weights, 2, tmp_path, "llama", "tp", "layers[2].mlp.fc2.weight *= 1.5",
                      [LLAMA.format(1, "mlp.down_proj")])  # fmt: skip
    weights = weights_of(watched[0].result[1])
    assert weights["layers[2].attention.qkv.weight"] == ([64, 32], "shard(0)", "")
    assert weights["layers[2].self_attn.k_proj.weight"] == ([16, 32], "shard(0)", "")
    assert weights["layers[2].mlp.fc1.weight"] == ([96, 32], "shard(0)", "")
    assert weights["layers[2].mlp.down_proj.weight"] == ([32, 48], "shard(1)", "")
    assert weights["layers[2].input_layernorm.weight"] == ([32], "replicate", "")
    assert weights["lm_head.weight"] == ([61, 32], "replicate", "")


def test_a_layer_that_fuses_the_accumulation_of_its_gradient_keeps_its_weight() -> None:
    module = nn.Linear(4, 4)
    module.gradient_accumulation_fusion = True
    output = Seen("up", module, "output", None, (2, 8, 4), torch.float32, Layout(), 0, False)
    weight, bias, last = with_weights([output], Layouts(1, {}, TensorAxis(frozenset(), False), []))
    assert "main_grad" in weight.layout.problem and "main_grad" in bias.layout.problem and last is output


PATHS = [
    "embedding.output", "final_norm.input", "final_norm.output", "final_norm.weight", "logits", "output_layer.input",
    "output_layer.weight",
    *(f"layers[2].{path}" for path in (
        "attention.input", "attention.context", "attention.output", "attention.qkv.weight", "attention.proj.weight",
        "input_norm.weight", "mid", "mlp.input", "mlp.activation", "mlp.output", "mlp.fc1.weight", "mlp.fc2.weight",
        "mlp_norm.weight", "output",
    )),
]  # fmt: skip


@pytest.mark.smoke
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_programs_use_the_paths_of_our_own_models(kind: str, tmp_path: Path) -> None:
    programs = [f'save({path}.mean(), "x")' for path in PATHS]
    attach = options(tmp_path)
    found = run_ranks(scenarios.errors_of, 1, tmp_path / "ranks", attach, kind, programs, env=environment(tmp_path))[0]
    assert dict(zip(PATHS, found, strict=True)) == dict.fromkeys(PATHS, "")


def test_the_hash_of_a_large_tensor_is_of_all_its_numbers() -> None:
    numbers = torch.zeros(3 << 20)  # of several pieces
    numbers[5] = 1.0
    last, swapped = numbers.clone(), numbers.roll(1 << 20)
    last[-1] = 1.0
    hashes = [fingerprint(one) for one in (numbers, numbers.clone(), last, swapped)]
    assert hashes[0] == hashes[1] and len({bits for bits, _ in hashes}) == 3
    assert not any(is_constant for _, is_constant in hashes)


UNKNOWN = Layout(source="no source knows it", is_known=False)
LAYOUTS = [
    pytest.param(Layout(0, source="DTensor"), (61, 32), [0, 0], "unequal parts of its dim 0 of size 61", id="unequal"),
    pytest.param(Layout(source="DTensor"), (61, 32), [0, 0], "", id="whole"),
    pytest.param(UNKNOWN, (64, 32), [5, 5], "", id="equal bits"),
    pytest.param(UNKNOWN, (64, 32), [5, 6], "no source knows how the ranks share it", id="unequal bits"),
    pytest.param(UNKNOWN, (32,), [0, 0], "", id="one number for each feature"),
    pytest.param(UNKNOWN, (16,), [0, 0], "no source knows how the ranks share it", id="other features"),
]  # fmt: skip


@pytest.mark.smoke
@pytest.mark.parametrize(("layout", "shape", "bits", "problem"), LAYOUTS)
def test_a_weight_whose_layout_is_not_known_is_no_place(
    layout: Layout, shape: tuple[int, ...], bits: list[int], problem: str
) -> None:
    """On two ranks. Bits of 0 stand for a tensor of one number."""
    module = nn.Linear(4, 4)
    weight = Seen("up", module, "weight", None, shape, torch.float32, layout, 0, False, is_weight=True)
    output = Seen("up", module, "output", None, (2, 8, 32), torch.float32, Layout(source="test"), 0, False)
    sites = make_sites([weight, output], {}, Batch(2, 8), 2)
    learned = [[Learned(shape, one, one == 0, None), Learned(output.shape, 0, False, None)] for one in bits]
    settle_layouts(sites, learned, 2)
    settle_weights(sites)
    assert problem in sites[0].problem and bool(problem) == bool(sites[0].problem)
