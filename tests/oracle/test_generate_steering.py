"""--steer, --ablate, --cap and --steering-config of `tensor-tracer generate` against a hook in `transformers`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from generation import Generated, Ids, assert_best_tokens, edited_logits, generate, refused
from hf_models import random_model, save
from torch import Tensor

NIGHTLY = pytest.mark.nightly(suite="meshes")
PROMPTS: list[Ids] = [list(text.encode()) for text in ("a", "The loss fell to 0.5", "é is", "return x")]
TOKENS, VOCABULARY, SIZE = 12, 260, 48
POSITIONS = ["all", "prompt", "response", "published"]
LOW, HIGH = -0.3, 0.25  # about half of the tokens lie between


def unit(v: Tensor) -> Tensor:
    return v / v.norm()


def capped(h: Tensor, v: Tensor) -> Tensor:
    p = h @ unit(v)
    return h + (p.clamp(LOW, HIGH) - p)[..., None] * unit(v)


# The value of the flag, the same in the published form, and what it does to the output of layer 1.
KINDS: dict[str, tuple[str, dict[str, float], Callable[[Tensor, Tensor], Tensor]]] = {
    "steer": ("shift@1=2.0", {"steering_coef": 2.0}, lambda h, v: h + 2.0 * v),
    "ablate": ("shift@1", {}, lambda h, v: h - (h @ unit(v))[..., None] * unit(v)),
    "cap": (f"shift@1={LOW}:{HIGH}", {"low": LOW, "high": HIGH}, capped),
}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    model = random_model("llama-3", torch.float64)
    return model, save(model, tmp_path_factory.mktemp("llama") / "model")


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    torch.manual_seed(3)
    torch.save(torch.randn(3, SIZE), folder / "shift.pt")
    return folder


def run(llama: tuple[Any, Path], folder: Path, ranks: int = 1, **flags: Any) -> Generated:
    return generate(llama[1], PROMPTS, folder, ranks, params_dtype="float64", max_new_tokens=TOKENS, ignore_eos=True,
                    top_logits=VOCABULARY, **flags)  # fmt: skip


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=NIGHTLY)])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_flag_changes_what_a_hook_changes(
    kind: str, positions: str, ranks: int, llama: tuple[Any, Path], vectors: Path, tmp_path: Path
) -> None:
    value, _, edit = KINDS[kind]
    found = run(llama, tmp_path, ranks, tensor_tracer_vectors=vectors, positions=positions, **{kind: value})
    vector = torch.load(vectors / "shift.pt", weights_only=True)[1].double()
    changed = 0
    for prompt, response in zip(PROMPTS, found.responses, strict=True):
        logits, count = edited_logits(llama[0], prompt, response["token_ids"], lambda h: edit(h, vector), positions)
        assert_best_tokens(response, logits, 1e-9)
        changed += count
    read = {"all": sum(map(len, PROMPTS)), "prompt": sum(map(len, PROMPTS)), "response": 0, "published": len(PROMPTS)}
    total = read[positions] + (len(PROMPTS) * (TOKENS - 1) if positions != "prompt" else 0)
    assert 0 < changed < total if kind == "cap" else changed == total
    assert found.positions() == {f"{kind}-shift-1": changed}


def published(kind: str, vectors: Path) -> dict[str, Any]:
    return {"steering_vector_path": str(vectors / "shift.pt"), "type": kind, "layers": [1]} | KINDS[kind][1]


@pytest.mark.parametrize("shape", ["alone", "published"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_published_configuration_is_the_flag(
    kind: str, shape: str, llama: tuple[Any, Path], vectors: Path, tmp_path: Path
) -> None:
    """With it, the file of the vector is the only vector."""
    form = published(kind, vectors)
    whole = {"model": "x", "enable_steering_during_training": True, "steering_config": form}
    (tmp_path / "steer.json").write_text(json.dumps(form if shape == "alone" else whole))
    by_file = run(llama, tmp_path / "file", steering_config=tmp_path / "steer.json", positions="response")
    by_flag = run(llama, tmp_path / "flag", tensor_tracer_vectors=vectors, positions="response", **{kind: KINDS[kind][0]})
    assert by_file.responses == by_flag.responses
    assert by_file.positions() == by_flag.positions() and by_file.positions()[f"{kind}-shift-1"] > 0


def test_a_configuration_that_is_off_does_nothing(llama: tuple[Any, Path], vectors: Path, tmp_path: Path) -> None:
    off = {"enable_steering_during_training": False, "steering_config": published("steer", vectors)}
    (tmp_path / "off.json").write_text(json.dumps(off))
    found = run(llama, tmp_path / "off", steering_config=tmp_path / "off.json")
    assert found.responses == run(llama, tmp_path / "plain").responses and found.positions() == {}


def test_wrong_steering_is_named(llama: tuple[Any, Path], vectors: Path, tmp_path: Path) -> None:
    given = {"hf_model": llama[1], "prompt": ["text"]}
    folder = given | {"tensor_tracer_vectors": vectors}
    assert "--steering-config: " in (told := refused(given | {"steering_config": tmp_path / "none.json"}))
    assert "give a JSON file" in told
    (tmp_path / "push.json").write_text(json.dumps(published("cap", vectors) | {"type": "push"}))
    assert 'type is "push"; give steer, ablate or cap' in refused(given | {"steering_config": tmp_path / "push.json"})
    assert "--ablate: this run has no direction vectors" in refused(given | {"ablate": "shift@1"})
    assert '--cap: layer 3 of "shift": the model has the layers 1 to 2' in refused(folder | {"cap": "shift@3=0:1"})
    assert '--cap: "shift@1=4:-1" has a low limit above the high one' in refused(folder | {"cap": "shift@1=4:-1"})
