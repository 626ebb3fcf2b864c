"""What trace points and programs see of rows that hold several documents, against PyTorch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from data_files import questions, write_jsonl
from program import Flags
from reference_gpt import Export, ReferenceGpt
from test_derived_places import HEALTH
from test_parity import LLAMA
from test_points import LAYERS, MICRO_BATCH, assert_equal, entry, records_of_three_steps
from torch import Tensor

SEEN = ("attention.logits", "RawAttentionScore")
GRADIENTS = [entry(point, direction="gradient") for point in (*SEEN, "HiddenStates")]
VALUES = [*(entry(point) for point in (*SEEN, *HEALTH)), *(entry(one, tokens=[5, 20], rows=[1, 3]) for one in HEALTH)]
IDS = {"point": "InputTokens", "rows": 0, "dtype": "i64"}
ENTRIES = [*VALUES, *GRADIENTS, IDS]
# A program that writes every score; keys that are not visible stay out whatever it writes.
SCORES = "layers[1].attention.logits += 3.0 * layers[1].attention.logits.tanh()\n"


def edit(name: str, layer: int, value: Tensor) -> Tensor:
    return value + 3 * value.tanh() if (name, layer) == ("attention.logits", 1) else value


def expected_of(export: Export, is_edited: bool) -> tuple[dict[tuple[str, int], Tensor], dict[tuple[str, int], Tensor]]:
    """Values and gradients by place and layer."""
    assert export.starts is not None
    leaves = {name: weight.clone().requires_grad_() for name, weight in export.weights.items()}
    model = ReferenceGpt(export.config, leaves, capture=True, starts=export.starts, edit=edit if is_edited else None)
    loss = model.loss(export.tokens, export.labels, export.mask)
    assert loss.item() == pytest.approx(export.loss, rel=1e-10)
    assert model.captured is not None
    values = dict(model.captured)
    found = torch.autograd.grad(loss, list(values.values()))
    gradients = dict(zip(values, found, strict=True))
    hidden = model.hidden_keys(export.tokens.shape[1])
    for layer in range(1, LAYERS + 1):
        shares = values["RawAttentionScore", layer]
        largest = values["attention.logits", layer].masked_fill(hidden, -math.inf).amax(-1)
        first = export.starts[:, None, :, None].expand(-1, shares.shape[1], -1, -1)
        numbers = (torch.special.entr(shares).sum(-1), largest, shares.gather(-1, first).squeeze(-1))
        for name, by_head in zip(HEALTH, numbers, strict=True):
            values[name, layer] = by_head.transpose(1, 2)
    positions = torch.arange(export.tokens.shape[1]) - export.starts
    values["InputTokens", 0] = torch.stack([export.tokens, positions])
    return {key: value.detach() for key, value in values.items()}, gradients


@pytest.mark.parametrize("program", [False, True], ids=["", "scores-written"])
@pytest.mark.parametrize(("shape", "tensor"), [({}, 2), (LLAMA, 1)], ids=["gpt2-2", "llama-1"])
def test_places_of_packed_rows_equal_pytorch(
    shape: dict[str, Any], tensor: int, program: bool, flags: Flags, tmp_path: Path
) -> None:
    data, exports = write_jsonl(tmp_path / "chats.jsonl", questions(300)), tmp_path / "exports"
    more = shape | {"data_path": str(data), "export_tensors": str(exports), "export_at": "1-3"}
    if program:
        (tmp_path / "scores.tti").write_text(SCORES)
        more["interventions"] = str(tmp_path / "scores.tti")
    records = records_of_three_steps(dict(flags), more, tmp_path / "run", tensor, ENTRIES)
    for (step, index, layer, _), record in records.items():
        one = ENTRIES[index]
        values, gradients = expected_of(Export.read(exports / f"step_{step:06d}.safetensors"), program)
        whole = (gradients if one.get("direction") == "gradient" else values)[one["point"], layer]
        if one["point"] == "InputTokens":
            assert torch.equal(torch.as_tensor(record.values.copy()), whole[:, :MICRO_BATCH])
            continue
        rows, tokens = one["rows"] or [0, MICRO_BATCH], one.get("tokens", [0, whole.shape[1]])
        part = whole[rows[0] : rows[1]]
        assert_equal(record, one, part if "tokens" not in one else part[:, tokens[0] : tokens[1]])
