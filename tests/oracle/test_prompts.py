"""Prompts that a viewer types: PyTorch computes the same from the exported weights, and viewers that come
later, the recording and its replay know what was kept."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from decoder import Record, decode
from program import Flags
from reference_gpt import Export, ReferenceGpt
from test_control import claim
from viewer import RequestError, Viewer, live_run

NIGHTLY = pytest.mark.nightly(suite="meshes")
TYPED = 0xFFFFFFFF
TEXT = "def café(x):"
SEQUENCE = 24
DOUBLED = "layers[1].mlp.output *= 2"
CHANGES = {"params_dtype": "float64", "train_iters": 100_000, "seq_length": SEQUENCE, "micro_batch_size": 2,
           "monitor_interval": 2}  # fmt: skip
WATCHED = {"entries": [
    {"point": "InputTokens"},
    {"point": "Logits", "compressor": {"kind": "topk", "k": 5}, "dtype": "f64"},
    {"point": "HiddenStates", "compressor": {"kind": "none"}, "dtype": "f64"},
    {"point": "RawAttentionScore", "compressor": {"kind": "none"}, "dtype": "f64"},
    {"point": "LogitLens", "compressor": {"kind": "topk", "k": 5}, "dtype": "f64"},
    {"point": "HiddenStates", "compressor": {"kind": "projection", "vectors": ["evil"]}, "dtype": "f64"}]}  # fmt: skip
# [layers + 1, hidden]; the program keeps directions in float32.
EVIL = np.random.default_rng(7).standard_normal((3, 32)).astype(np.float32).astype(np.float64)

Key = tuple[str, int, str]  # point, layer, compressor


def by_key(records: list[Record]) -> dict[Key, Record]:
    return {(one.point, one.layer, one.compressor): one for one in records}


def records_of(answer: dict[str, Any], side: str, viewer: Viewer) -> dict[Key, Record]:
    return by_key(decode(base64.b64decode(answer["records"][side]), viewer.run))


def best(scores: torch.Tensor) -> torch.Tensor:
    """The five largest numbers of each token, then their columns."""
    return torch.stack([numbers.double() for numbers in scores.topk(5)])


def expected(folder: Path, step: int) -> dict[Key, torch.Tensor]:
    """What the model computes with the weights that step `step + 1` begins with."""
    export = Export.read(folder / "exports" / f"step_{step + 1:06d}.safetensors")
    model = ReferenceGpt(export.config, export.weights, capture=True)
    with torch.no_grad():
        model.logits(torch.tensor([list(TEXT.encode())]))
        seen = model.captured
        values = {("Logits", 0, "topk"): best(seen["Logits", 0])}
        for layer in (1, 2):
            hidden = seen["HiddenStates", layer]
            direction = torch.from_numpy(EVIL[layer]) / np.linalg.norm(EVIL[layer])
            values["HiddenStates", layer, "none"] = hidden
            values["HiddenStates", layer, "projection"] = (hidden @ direction).unsqueeze(-1)
            values["RawAttentionScore", layer, "none"] = seen["RawAttentionScore", layer]
            lens = model.output_layer(model.final_norm(hidden))
            values["LogitLens", layer, "topk"] = best(lens)
    return values


def assert_equal_pytorch(found: dict[Key, Record], folder: Path, step: int) -> None:
    wanted = expected(folder, step)
    tokens = found["InputTokens", 0, "none"].values[0]
    assert tokens.reshape(-1).tolist() == list(TEXT.encode())
    assert set(found) == set(wanted) | {("InputTokens", 0, "none")}
    for key, values in wanted.items():
        # The planes behind the values and the ids of topk: test_points.py.
        numbers = found[key].values[:2] if key[2] == "topk" else found[key].values
        assert np.allclose(numbers, values.numpy(), rtol=1e-9, atol=1e-12), key


@pytest.mark.parametrize(
    "mesh", [pytest.param((1, 1), marks=NIGHTLY), (2, 1), pytest.param((1, 2), marks=NIGHTLY),
             pytest.param((4, 1), marks=NIGHTLY)], ids=str)  # fmt: skip
def test_a_typed_and_a_kept_prompt_equal_pytorch(mesh: tuple[int, int], flags: Flags, tmp_path: Path) -> None:
    (tmp_path / "vectors").mkdir()
    np.save(tmp_path / "vectors" / "evil.npy", EVIL)
    changes = CHANGES | {
        "tensor_tracer_vectors": str(tmp_path / "vectors"),
        "tensor_model_parallel_size": mesh[0], "global_batch_size": 2 * mesh[1],
        "export_tensors": str(tmp_path / "exports"), "export_at": "1-1000",
    }  # fmt: skip
    with live_run(flags | changes, tmp_path, mesh[0] * mesh[1]) as run, run.viewer() as viewer:
        claim(viewer)
        last = viewer.request("control.pause")["step"]
        answer = viewer.request("prompt.run", {"text": TEXT, "plan": WATCHED})
        assert answer["step"] == last and answer["tokens"] == list(TEXT.encode())
        assert set(answer["records"]) == {"off"} and "programs" not in answer
        found = records_of(answer, "off", viewer)
        assert {(one.step, one.phase, one.prompt_set) for one in found.values()} == {(max(last, 1), "eval", TYPED)}
        kept = viewer.request("prompt.keep", {"name": "mine", "text": TEXT, "plan": WATCHED})
        assert kept["step"] == last + 1 and kept["prompt_set"] == 1
        viewer.request("control.step", {"count": 3})
        viewer.wait_for(lambda: bool(of_set(viewer, 1)), "records of the kept prompt")
        viewer.drain(0.3)
        assert_equal_pytorch(found, tmp_path, last)
        kept_records = of_set(viewer, 1)
        step = max(one.step for one in kept_records)
        assert step % 2 == 0
        assert_equal_pytorch(by_key([one for one in kept_records if one.step == step]), tmp_path, step)


def of_set(viewer: Viewer, number: int) -> list[Record]:
    return [one for one in viewer.records if one.prompt_set == number]


@pytest.fixture
def viewer(flags: Flags, tmp_path: Path) -> Iterator[Viewer]:
    """The controller of a paused run on two ranks."""
    with live_run(flags | CHANGES | {"tensor_model_parallel_size": 2}, tmp_path, 2) as run:
        with run.viewer() as viewer:
            claim(viewer)
            viewer.request("control.pause")
            viewer.live = run
            yield viewer


def test_programs_act_off_and_on(viewer: Viewer) -> None:
    viewer.request("intervention.apply", {"name": "double", "program": DOUBLED})
    plan = {"entries": [{"point": name, "compressor": {"kind": "none"}} for name in ("MLP2", "HiddenStates")]}
    answer = viewer.request("prompt.run", {"text": TEXT, "plan": plan})
    off, on = (records_of(answer, side, viewer) for side in ("off", "on"))
    assert answer["programs"] == [{"name": "double", "acted": True, "failed": 0, "waiting": 0}]
    assert np.array_equal(on["MLP2", 1, "none"].values, 2 * off["MLP2", 1, "none"].values)
    assert not np.array_equal(on["HiddenStates", 2, "none"].values, off["HiddenStates", 2, "none"].values)
    viewer.request("intervention.remove")
    assert "on" not in viewer.request("prompt.run", {"text": TEXT, "plan": plan})["records"]


def test_the_default_plan_shows_maps_attention_and_predictions(viewer: Viewer) -> None:
    answer = viewer.request("prompt.run", {"text": TEXT})
    found = records_of(answer, "off", viewer)
    assert [entry["point"] for entry in answer["plan"]["entries"]] == [
        "InputTokens", "Logits", "LogitLens", "HiddenStates", "RawAttentionScore"]  # fmt: skip
    assert {key[:2] for key in found} == {("InputTokens", 0), ("Logits", 0)} | {
        (name, layer) for name in ("LogitLens", "HiddenStates", "RawAttentionScore") for layer in (1, 2)}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "params", "code", "message"),
    [
        ("prompt.run", {"text": ""}, "invalid_argument", "holds no text"),
        ("prompt.run", {"text": "é" * 13}, "invalid_argument", "has 26 tokens, the sequence length is 24"),
        ("prompt.run", {"text": "a", "plan": {"entries": [{"point": "Nothing"}]}}, "invalid_argument", "unknown point"),
        ("prompt.keep", {"name": "a,b", "text": "a"}, "invalid_argument", "cannot be the name"),
        ("prompt.keep", {"name": "a", "text": "x" * 25}, "invalid_argument", "has 25 tokens"),
        ("prompt.remove", {"name": "a"}, "not_found", "there is no prompt set"),
    ],
)  # fmt: skip
def test_wrong_requests_are_refused_by_name(
    viewer: Viewer, method: str, params: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(RequestError) as refused:
        viewer.request(method, params)
    assert refused.value.code == code and message in refused.value.message, refused.value


def test_it_needs_the_lease(viewer: Viewer) -> None:
    with viewer.live.viewer() as other:
        for method, params in (("run", {}), ("keep", {"name": "a"})):
            with pytest.raises(RequestError, match="not_controller"):
                other.request(f"prompt.{method}", {"text": "a"} | params)


def test_a_late_viewer_knows_what_was_kept_and_removed(viewer: Viewer) -> None:
    viewer.request("prompt.keep", {"name": "mine", "text": TEXT})
    viewer.request("prompt.keep", {"name": "other", "text": "ab"})
    removed = viewer.request("prompt.remove", {"name": "mine"})
    assert {entry["prompts"] for entry in removed["plan"]["entries"] if "prompts" in entry} == {"other"}
    viewer.drain(0.2)
    with viewer.live.viewer() as late:
        sets = late.run["prompt_sets"]
        assert sets == viewer.named("prompts")[-1]["prompt_sets"] == [
            {"name": "mine", "interval": 2, "prompts": [TEXT], "tokens": [list(TEXT.encode())], "removed": True},
            {"name": "other", "interval": 2, "prompts": ["ab"], "tokens": [[97, 98]]}]  # fmt: skip
        assert late.run["plan"] == removed["plan"]
    # A program may name a kept prompt, and not one that was removed.
    assert viewer.request("intervention.check", {"program": 'when(prompts="other")\nlogits *= 2'})
    with pytest.raises(RequestError, match="mine"):
        viewer.request("intervention.check", {"program": 'when(prompts="mine")\nlogits *= 2'})
    with pytest.raises(RequestError, match="mine"):
        viewer.request("plan.check", {"plan": {"entries": [{"point": "Logits", "prompts": "mine"}]}})
