"""`generate --steer` on SmolLM2-135M-Instruct beside NNsight and the library steering-vectors (steering_peers.py): the
same vector added to the same layers at all positions gives the same logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from generation import Ids, all_logits, generate
from own_environment import run_in_environment
from steering_peers import PEERS, Coefficients
from test_real_model import CLOSE, folder  # noqa: F401, a fixture
from torch import Tensor
from transformers import AutoTokenizer

pytestmark = pytest.mark.nightly(suite="models")

LAYERS, HIDDEN, VOCABULARY = 30, 576, 49152
TEXTS = ("Water boils at 100 degrees Celsius, but on a high", "def add(a, b):\n    return a +")
NEW_TOKENS = 8
# By layer, from 1. The output of the last layer is before the final norm.
CASES: dict[str, Coefficients] = {
    "first layer": {1: 0.5}, "middle": {9: 2.0}, "middle, away": {9: -2.0}, "late": {20: 5.0}, "last layer": {30: 12.0},
    "three layers": {5: 1.0, 12: -1.5, 24: 3.0},
}  # fmt: skip
Sequence = tuple[Ids, Tensor]  # token ids, and our logits after each of them


def ours(model: Path, work: Path, coefficients: Coefficients) -> list[Sequence]:
    """Each of TEXTS with a response: the logits of passes over the text up to each of its tokens, then of passes over
    each new token."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    texts = [tokenizer(text).input_ids for text in TEXTS]
    flags: dict[str, Any] = {
        "steer": [f"shift@{layer}={coefficient}" for layer, coefficient in coefficients.items()], "positions": "all",
        "tensor_tracer_vectors": work / "vectors", "top_logits": VOCABULARY, "ignore_eos": True, "batch_size": 16,
    }  # fmt: skip
    starts = [ids[:count] for ids in texts for count in range(1, len(ids) + 1)]
    ends = iter(generate(model, starts, work, max_new_tokens=1, **flags).responses)
    responses = generate(model, texts, work, max_new_tokens=NEW_TOKENS, **flags).responses
    return [
        (ids + response["token_ids"][:-1],
         torch.cat([*(all_logits(next(ends)) for _ in ids), all_logits(response)[1:]]))
        for ids, response in zip(texts, responses, strict=True)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def found(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[Tensor]]]:  # noqa: F811
    """Logits by way and case: "ours", those of the PEERS, and "plain" without a vector."""
    work = tmp_path_factory.mktemp("steering")
    (work / "vectors").mkdir()
    vector = torch.randn(LAYERS + 1, HIDDEN, generator=torch.Generator().manual_seed(4))
    torch.save(vector, work / "vectors" / "shift.pt")
    sequences = [ours(folder, work, coefficients) for coefficients in CASES.values()]
    cases = [(steering, [ids for ids, _ in own]) for steering, own in zip(CASES.values(), sequences, strict=True)]
    torch.save({"model": str(folder), "vector": vector, "cases": cases}, work / "cases.pt")
    run_in_environment("nnsight", "steering_peers.py", work / "cases.pt", work / "logits.pt")
    logits = torch.load(work / "logits.pt") | {"ours": [[own for _, own in one] for one in sequences]}
    return {way: dict(zip(CASES, of_cases, strict=True)) for way, of_cases in logits.items()}


def difference(some: list[Tensor], others: list[Tensor]) -> float:
    """The largest absolute difference of two logits."""
    assert [one.shape for one in some] == [one.shape for one in others] and len(some) == len(TEXTS)
    return max((one - other).abs().max().item() for one, other in zip(some, others, strict=True))


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_the_peer(case: str, peer: str, found: dict[str, dict[str, list[Tensor]]]) -> None:
    off, moved = (difference(found[peer][case], found[way][case]) for way in ("ours", "plain"))
    print(f"{case}: {off:.2g} from {peer}; steering moves logits by {moved:.3g}")
    assert off <= CLOSE
    assert moved > 1000 * CLOSE, "a vector that does little shows little"
