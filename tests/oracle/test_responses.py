"""A run continues its monitored prompts every few steps, as `transformers` does with the weights of that step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from generation import CLOSE, Ids, logits_of
from hf_models import LENGTH, compute_in_float64, random_model, save
from program import refused, train
from tensor_tracer import open_recording
from transformers import AutoModelForCausalLM

NIGHTLY = pytest.mark.nightly(suite="meshes")
TEXTS = ["a", "The loss fell to 0.5", "x" * (LENGTH - 2), "y" * LENGTH]  # the last two have little room, or none
TOKENS = 8
STEER = 'when(train=False, prompts="*")\nlayers[1].output = layers[1].output + 3.0\n'


def monitored(data: Path, tmp_path: Path, **changes: Any) -> dict[str, Any]:
    folder = save(random_model("llama-3", torch.float64), tmp_path / "model")
    (tmp_path / "probes.txt").write_text("\n".join(TEXTS))
    flags: dict[str, Any] = {
        "hf_model": folder, "data_path": data, "seq_length": LENGTH, "micro_batch_size": 3, "train_iters": 5,
        "eval_interval": 0, "threads": 1, "params_dtype": "float64", "monitor_prompts": tmp_path / "probes.txt",
        "monitor_generate_interval": 2, "monitor_max_new_tokens": TOKENS, "save_hf": tmp_path / "out"}  # fmt: skip
    return flags | changes


def responses(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """By step, in the order of the prompts."""
    [file] = folder.rglob("*.ttrec")
    found: dict[int, list[dict[str, Any]]] = {}
    for event in open_recording(file).events("response"):
        found.setdefault(event["step"], []).append(event["detail"])
    return {step: sorted(some, key=lambda one: one["prompt"]) for step, some in found.items()}


def trained(folder: Path) -> Any:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    compute_in_float64(model)
    return model


def assert_greedy(found: list[dict[str, Any]], model: Any) -> int:
    """Every token is the best one, or the two best are close. Returns the number of tokens."""
    tokens = 0
    for prompt, response in zip(map(str.encode, TEXTS), found, strict=True):
        ids: Ids = response["token_ids"]
        assert response["text"] == bytes(id for id in ids if id < 256).decode(errors="replace")
        ended = ids[-1:] == [model.config.eos_token_id]
        assert ended or len(ids) == min(TOKENS, LENGTH - len(prompt))
        assert response["finish_reason"] == ("stop" if ended else "length")
        best = logits_of(model, list(prompt), ids).topk(2)
        apart = best.values[:, 0] - best.values[:, 1] > CLOSE
        assert torch.equal(torch.tensor(ids, dtype=torch.long)[apart], best.indices[apart, 0])
        tokens += int(apart.sum())
    return tokens


@pytest.mark.parametrize("mesh", [(1, 1), (2, 1), (1, 2), pytest.param((2, 2), marks=NIGHTLY)], ids=str)
def test_responses_are_those_of_transformers(mesh: tuple[int, int], data: Path, tmp_path: Path) -> None:
    """With the weights after the last step, which are written."""
    flags = monitored(data, tmp_path, tensor_model_parallel_size=mesh[0], micro_batch_size=6 // mesh[1])
    train(flags, tmp_path / "run", mesh[0] * mesh[1])
    found = responses(tmp_path / "run")
    assert list(found) == [2, 4, 5]
    assert {one["prompt_set"] for some in found.values() for one in some} == {1}
    assert assert_greedy(found[5], trained(tmp_path / "out")) > TOKENS
    assert [one["token_ids"] for one in found[2]] != [one["token_ids"] for one in found[5]]


def test_responses_do_not_change_the_training(data: Path, tmp_path: Path) -> None:
    flags = monitored(data, tmp_path)
    with_them = train(flags, tmp_path / "with", export_at="5")
    without = train(flags | {"monitor_generate_interval": 0}, tmp_path / "without", export_at="5")
    assert with_them.losses() == without.losses()
    for name, weight in without.export(5).weights.items():
        assert torch.equal(with_them.export(5).weights[name], weight), name
    assert responses(tmp_path / "without") == {}


def test_draws_are_the_same_at_every_step_and_mesh(data: Path, tmp_path: Path) -> None:
    """The weights stay, so a difference could come from the random numbers only."""
    still = {"lr": 1e-300, "min_lr": 1e-300, "monitor_temperature": 1.5, "monitor_top_k": 50}
    flags = monitored(data, tmp_path, **still)
    train(flags, tmp_path / "1")
    train(flags | {"tensor_model_parallel_size": 2}, tmp_path / "2", 2)
    train(flags | {"seed": 8}, tmp_path / "other")
    one, two, other = ([[each["token_ids"] for each in some] for some in responses(tmp_path / name).values()]
                       for name in ("1", "2", "other"))  # fmt: skip
    assert one[0] == one[1] == one[2] == two[0]
    assert one[0] != other[0]


def test_programs_act_on_responses_as_their_when_says(data: Path, tmp_path: Path) -> None:
    def run_with(name: str, program: str) -> list[dict[str, Any]]:
        (tmp_path / f"{name}.tti").write_text(program)
        train(flags | {"interventions": tmp_path / f"{name}.tti"}, tmp_path / name)
        return responses(tmp_path / name)[5]

    flags = monitored(data, tmp_path, lr=1e-300, min_lr=1e-300)
    train(flags, tmp_path / "plain")
    plain = responses(tmp_path / "plain")[5]
    assert run_with("train_only", "layers[1].output = layers[1].output * 1.0 + 1e-9\n") == plain
    steered = run_with("steer", STEER)
    model = trained(tmp_path / "out")
    model.model.layers[0].register_forward_hook(
        lambda _module, _inputs, output: (output[0] + 3.0, *output[1:]) if isinstance(output, tuple) else output + 3.0)
    assert assert_greedy(steered, model) > TOKENS
    assert [one["token_ids"] for one in steered] != [one["token_ids"] for one in plain]
    # A program that needs a whole sequence does not act, and the run says so.
    scores = 'when(train=False, prompts="*")\nlayers[1].attention.logits = layers[1].attention.logits * 0.0\n'
    assert run_with("scores", scores) == plain
    [recording] = (tmp_path / "scores").rglob("*.ttrec")
    [applied] = [event["detail"] for event in open_recording(recording).events("applied") if event["step"] == 4]
    # Once for the batch of three; the other batch has no room for a token, so the model does not run.
    assert applied["programs"][0]["failed"] == 1 and applied["programs"][0]["positions"] == 0


def test_a_response_that_cannot_go_on_is_a_warning(data: Path, tmp_path: Path) -> None:
    """All prompts are in one batch: one without room for a token would have its empty response."""
    (tmp_path / "bad.tti").write_text('when(train=False, prompts="*")\nlayers[1].output = layers[1].output / 0.0\n')
    flags = monitored(data, tmp_path, interventions=tmp_path / "bad.tti", micro_batch_size=len(TEXTS))
    run = train(flags, tmp_path / "run")
    assert len(run.steps) == 5 and responses(tmp_path / "run") == {}
    [recording] = (tmp_path / "run").rglob("*.ttrec")
    told = [event["detail"] for event in open_recording(recording).events("log")]
    assert any(one["level"] == "warning" and 'no responses to prompts of "probes" at step 2: the scores' in one["message"]
               for one in told)  # fmt: skip


def test_wrong_options_are_named(data: Path, tmp_path: Path) -> None:
    flags = {"data_path": data, "monitor_generate_interval": 2, "monitor_top_k": 3}
    assert "--monitor-top-k: at temperature 0" in refused(flags)
    assert "add --monitor-temperature 1" in refused(flags)
    assert "--monitor-generate-interval" in refused(flags | {"monitor_generate_interval": -1})
