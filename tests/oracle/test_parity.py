"""Loss and every gradient of the program against the reference, from what a run exports."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from program import Run, train
from reference_gpt import Export, loss_and_gradients, parameter_shapes

NIGHTLY = pytest.mark.nightly(suite="meshes")

LLAMA = {
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "swiglu": True,
    "disable_bias_linear": True,
    "untie_embeddings_and_output_weights": True,
    "ffn_hidden_size": 88,
}
QWEN = LLAMA | {
    "num_query_groups": 2,
    "qk_layernorm": True,
    "add_qkv_bias": True,
    "add_mlp_bias": True,
    "rope_scaling_factor": 4.0,
    "rope_original_max_positions": 64,
}
SHAPES = {
    "gpt2": {},
    "gpt2-without-linear-biases": {"disable_bias_linear": True},
    "llama": LLAMA,
    "llama-grouped": LLAMA | {"num_query_groups": 2},
    "gpt2-multi-query": {"num_query_groups": 1},
    "gpt2-wide-heads": {"kv_channels": 12, "num_query_groups": 2},
    "gpt2-odd-vocabulary": {"vocab_size": 259},
    "gpt2-gelu": {"activation": "gelu", "max_position_embeddings": 40},
    "qwen": QWEN,
    "gpt2-loss-in-chunks": {"loss_chunk_size": 50},
    "llama-loss-in-chunks": LLAMA | {"loss_chunk_size": 7, "vocab_size": 259},
    "layernorm-of-heads": {"qk_layernorm": True, "disable_bias_linear": True, "add_proj_bias": True},
}
MESHES = [(2, 1), (4, 1), (1, 2), (2, 2)]  # (tensor, data) sizes


def assert_matches_reference(run: Run, step: int, dtype: torch.dtype) -> None:
    """Float64: 1e-9 of each tensor's largest. Float32: 1e-5 of it plus 1e-6 of the global norm."""
    export = run.export(step)
    assert {name: tuple(w.shape) for name, w in export.weights.items()} == parameter_shapes(
        export.config
    )
    assert {weight.dtype for weight in export.weights.values()} == {dtype}
    weights = {name: weight.double() for name, weight in export.weights.items()}
    loss, gradients = loss_and_gradients(export.config, weights, export.tokens, export.labels)
    norm = torch.stack([g.norm() for g in gradients.values()]).norm().item()

    exact = dtype == torch.float64
    assert export.loss == pytest.approx(loss.item(), rel=1e-9 if exact else 1e-5)
    assert run.steps[step - 1]["loss"] == pytest.approx(export.loss, rel=1e-12 if exact else 1e-6)
    assert run.steps[step - 1]["grad_norm"] == pytest.approx(norm, rel=1e-9 if exact else 1e-5)

    assert export.gradients.keys() == gradients.keys()
    wrong = {}
    for name, expected in gradients.items():
        largest = expected.abs().max().item()
        # The key bias has a true gradient of 0, so float64 too needs a floor.
        allowed = 1e-9 * largest + 1e-14 * norm if exact else 1e-5 * largest + 1e-6 * norm
        error = (export.gradients[name].double() - expected).abs().max().item()
        if not error <= allowed:
            wrong[name] = f"off by {error:.3g}, allowed {allowed:.3g}, largest {largest:.3g}"
    assert not wrong


def test_batch_is_next_token_prediction(flags, tmp_path: Path) -> None:
    """Tokens are bytes of the data; labels are the same bytes one position later."""
    run = train(flags | {"params_dtype": "float64"}, tmp_path, export_at="1")
    export: Export = run.export(1)
    text = Path(str(flags["data_path"])).read_bytes()
    assert export.tokens.shape == (flags["global_batch_size"], flags["seq_length"])
    assert torch.equal(export.tokens[:, 1:], export.labels[:, :-1])
    for row, label in zip(export.tokens, export.labels[:, -1], strict=True):
        assert bytes([*row.tolist(), int(label)]) in text


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_rank(shape: str, dtype: str, flags, tmp_path: Path) -> None:
    """The first step, and one after the optimizer has moved the biases away from zero."""
    run = train(
        flags | SHAPES[shape] | {"params_dtype": dtype, "train_iters": 4}, tmp_path, export_at="1,4"
    )
    for step in (1, 4):
        assert_matches_reference(run, step, getattr(torch, dtype))


@pytest.mark.parametrize(
    "mesh", [(2, 1), (1, 2), *(pytest.param(mesh, marks=NIGHTLY) for mesh in [(4, 1), (2, 2)])], ids=str
)
@pytest.mark.parametrize(
    "shape",
    ["gpt2-odd-vocabulary", "llama-grouped", "gpt2-multi-query", "qwen", "gpt2-loss-in-chunks", "llama-loss-in-chunks"],
)
def test_mesh(shape: str, mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """The same on several ranks, also with fewer query groups than tensor ranks."""
    tensor, data = mesh
    changes = SHAPES[shape] | {
        "params_dtype": "float64",
        "train_iters": 4,
        "tensor_model_parallel_size": tensor,
    }
    run = train(flags | changes, tmp_path, ranks=tensor * data, export_at="1,4")
    for step in (1, 4):
        assert_matches_reference(run, step, torch.float64)


def test_initial_model_is_the_same_on_every_mesh(flags, tmp_path: Path) -> None:
    """Bit for bit, and so is the first batch."""
    small = flags | {"params_dtype": "float32", "train_iters": 1}
    alone = train(small, tmp_path / "1", export_at="1").export(1)
    for tensor, data in MESHES:
        mesh = small | {"tensor_model_parallel_size": tensor}
        other = train(mesh, tmp_path / f"{tensor}x{data}", tensor * data, export_at="1").export(1)
        assert torch.equal(alone.tokens, other.tokens)
        for name, weight in alone.weights.items():
            assert torch.equal(weight, other.weights[name]), name
