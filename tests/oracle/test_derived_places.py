"""Values that are computed only for the trace plan, against PyTorch: logit lens, attention health, contributions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_models import FAMILIES, imported
from hf_models import HIDDEN as IMPORTED_HIDDEN
from reference_gpt import Export, ReferenceGpt
from test_points import HIDDEN, LAYERS, MICRO_BATCH, NIGHTLY, agree, entry, records_of_three_steps, stats
from test_points import assert_equal, softmax_planes
from test_stream import LLAMA
from torch import Tensor

HEALTH = ("attention.entropy", "attention.largest_score", "attention.first_token_share")
CONTRIBUTIONS = ("attention.contribution", "attention.contribution_ratio")
CONTRIBUTIONS += ("mlp.contribution", "mlp.contribution_ratio")
LENSES = {"LogitLens": "HiddenStates", "LogitLensMid": "ResidualMid", "LogitLensEmbedding": "Embedding"}
ENTRIES = [
    *(entry(point) for point in (*LENSES, *HEALTH, *CONTRIBUTIONS)),
    *(entry(point, tokens=[5, 20], rows=[1, 3]) for point in (*LENSES, *HEALTH)),
    entry("LogitLens", compressor={"kind": "topk", "k": 10}),
    entry("LogitLens", layers="2", tokens=[3, 9], compressor={"kind": "topk", "k": 3}),
    entry("LogitLensMid", compressor={"kind": "stats"}),
    entry("attention.entropy", compressor={"kind": "stats"}),
]


def derived_values(export: Export) -> dict[tuple[str, int], Tensor]:
    """What PyTorch computes from the exported weights and tokens."""
    model = ReferenceGpt(export.config, export.weights, capture=True)
    with torch.no_grad():
        model.logits(export.tokens)
        seen, values = model.captured, {}
        for lens, place in LENSES.items():
            for layer in [0] if place == "Embedding" else range(1, LAYERS + 1):
                values[lens, layer] = model.output_layer(model.final_norm(seen[place, layer]))
        for layer in range(1, LAYERS + 1):
            shares = seen["RawAttentionScore", layer]
            future = torch.ones(shares.shape[-2:], dtype=torch.bool).triu(1)
            largest = seen["attention.logits", layer].masked_fill(future, -math.inf).amax(-1)
            numbers = (torch.special.entr(shares).sum(-1), largest, shares[..., 0])
            for name, by_head in zip(HEALTH, numbers, strict=True):
                values[name, layer] = by_head.transpose(1, 2)
            stream = seen["HiddenStates", layer - 1] if layer > 1 else seen["Embedding", 0]
            blocks = (("AttentionOutput", stream), ("MLP2", seen["ResidualMid", layer]))
            for index, (added, before) in enumerate(blocks):
                size = seen[added, layer].norm(dim=-1, keepdim=True)
                values[CONTRIBUTIONS[2 * index], layer] = size
                values[CONTRIBUTIONS[2 * index + 1], layer] = size / before.norm(dim=-1, keepdim=True)
    return values


def expected_of(one: dict[str, Any], whole: Tensor, labels: Tensor) -> Tensor:
    rows = one["rows"] if isinstance(one["rows"], list) else [0, MICRO_BATCH]
    tokens = one.get("tokens", [0, whole.shape[1]])
    part = whole[rows[0] : rows[1], tokens[0] : tokens[1]]
    compressor = one["compressor"]
    if compressor["kind"] == "topk":
        best = torch.stack([numbers.double() for numbers in part.topk(compressor["k"])])
        targets = labels[rows[0] : rows[1], tokens[0] : tokens[1]]
        return torch.cat([best, softmax_planes(part, targets, compressor["k"])])
    return stats(part, compressor) if compressor["kind"] == "stats" else part


@pytest.mark.parametrize("shape", [{}, pytest.param(LLAMA, marks=NIGHTLY)], ids=["gpt2", "llama"])
@pytest.mark.parametrize(
    ("tensor", "replicas"),
    [pytest.param(1, 1, marks=NIGHTLY), (2, 2), pytest.param(4, 1, marks=NIGHTLY), pytest.param(1, 2, marks=NIGHTLY)],
)
def test_derived_places_equal_pytorch(shape: dict, tensor: int, replicas: int, flags, tmp_path: Path) -> None:
    assert_derived_places(flags, shape, tmp_path, (tensor, replicas))


@pytest.mark.parametrize("name", [pytest.param(name, marks=NIGHTLY) for name in FAMILIES])
def test_derived_places_of_imported_models_equal_pytorch(name: str, flags, tmp_path: Path) -> None:
    assert_derived_places(imported(flags, name, tmp_path / "model"), {}, tmp_path, (2, 1), IMPORTED_HIDDEN)


def assert_derived_places(flags: Any, shape: dict, folder: Path, mesh: tuple[int, int], hidden: int = HIDDEN) -> None:
    exports = folder / "exports"
    more = shape | {"export_tensors": str(exports), "export_at": "1-3"}
    records = records_of_three_steps(flags, more, folder / "run", mesh[0], ENTRIES, mesh[1], hidden)
    assert {index for _, index, _, _ in records} == set(range(len(ENTRIES)))
    for (step, index, layer, first_row), record in records.items():
        one = ENTRIES[index]
        assert (record.point, record.direction, first_row) == (one["point"], 0, 1 if "tokens" in one and one["rows"] else 0)
        export = Export.read(exports / f"step_{step:06d}.safetensors")
        expected = expected_of(one, derived_values(export)[one["point"], layer], export.labels)
        assert_equal(record, one, expected)


def test_derived_places_agree_at_every_tensor_size(flags, tmp_path: Path) -> None:
    alone = records_of_three_steps(flags, {}, tmp_path / "1", 1, ENTRIES)
    for tensor in (2, 4):
        split = records_of_three_steps(flags, {}, tmp_path / str(tensor), tensor, ENTRIES)
        assert split.keys() == alone.keys()
        for key, record in alone.items():
            agree(record, split[key])


def test_watching_derived_places_changes_no_weight(flags, tmp_path: Path) -> None:
    """The loss of every step and every weight are the same bits with the lens on and with an empty plan."""
    found = []
    for name, entries in (("off", []), ("on", ENTRIES)):
        exports = tmp_path / name / "exports"
        more = {"export_tensors": str(exports), "export_at": "3", "params_dtype": "float32"}
        records_of_three_steps(flags, more, tmp_path / name, 2, [one | {"dtype": "f32"} for one in entries])
        found.append(Export.read(exports / "step_000003.safetensors"))
    off, on = found
    assert off.loss == on.loss
    assert all(torch.equal(off.weights[name], on.weights[name]) for name in off.weights)
    assert all(torch.equal(off.gradients[name], on.gradients[name]) for name in off.gradients)
