"""Projections of monitored prompts and responses, with their baseline before step 1, against `transformers`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hf_models import LENGTH, compute_in_float64, random_model, save
from program import Run, binary, train
from tensor_tracer import Recording, connect, open_recording
from transformers import AutoModelForCausalLM

NIGHTLY = pytest.mark.nightly(suite="meshes")
TEXTS = ["a", "The loss fell to 0.5", "x" * (LENGTH - 2), "y" * LENGTH]  # the last one has no room for a response
TOKENS, STEPS = 6, 4
SCALES: dict[str, dict[str, Any]] = {"normalized": {}, "raw": {"normalize": False}, "cosine": {"cosine": True}}
MEANS = ["last-prompt", "prompt", "response"]


def entry(**members: Any) -> dict[str, Any]:
    return {"point": "HiddenStates", "layers": "1", "prompts": "probes", "rows": 0, "dtype": "f64"} | members


def means(**members: Any) -> list[dict[str, Any]]:
    """One entry for each mean and scale, in this order."""
    entries = []
    for mean in MEANS:
        for scale in SCALES.values():
            compressor = {"kind": "projection", "vectors": ["evil", "vain"]} | scale
            entries.append(entry(mean_over=mean, responses=mean == "response", compressor=compressor) | members)
    return entries


def plan() -> list[dict[str, Any]]:
    """The means of layer 1, the tokens of responses, and the means of the final norm."""
    tokens = {"point": "InputTokens", "prompts": "probes", "rows": 0, "responses": True}
    of_tokens = entry(responses=True, compressor={"kind": "projection", "vectors": ["evil"]})
    return [*means(), of_tokens, tokens, *means(point="FinalNorm", layers=None)]


class Monitored:
    """A run of a few steps, and the models at its begin and its end."""

    def __init__(self, data: Path, folder: Path, mesh: tuple[int, int] = (1, 1), **changes: Any) -> None:
        self.folder = folder
        torch.manual_seed(5)
        first = random_model("llama-3", torch.float64)
        self.vectors = {name: torch.randn(first.config.num_hidden_layers + 1, first.config.hidden_size)
                        for name in ("evil", "vain")}  # fmt: skip
        (folder / "vectors").mkdir(parents=True)
        for name, rows in self.vectors.items():
            torch.save(rows, folder / "vectors" / f"{name}.pt")
        (folder / "probes.txt").write_text("\n".join(TEXTS))
        (folder / "plan.json").write_text(json.dumps({"entries": plan()}))
        flags = {
            "hf_model": save(first, folder / "model"), "data_path": data, "seq_length": LENGTH, "train_iters": STEPS,
            "micro_batch_size": 6 // mesh[1] if mesh[1] > 1 else 3, "eval_interval": 0, "threads": 1,
            "params_dtype": "float64", "monitor_prompts": folder / "probes.txt", "monitor_interval": 2,
            "monitor_generate_interval": 2, "monitor_max_new_tokens": TOKENS, "save_hf": folder / "out",
            "tensor_tracer_vectors": folder / "vectors", "tensor_tracer_plan": folder / "plan.json",
            "tensor_model_parallel_size": mesh[0],
        }  # fmt: skip
        self.run: Run = train(flags | changes, folder / "run", mesh[0] * mesh[1])
        [self.file] = (folder / "run").rglob("*.ttrec")
        self.recording: Recording = open_recording(self.file)

    def model(self, step: int) -> Any:
        folder = {0: self.folder / "model", STEPS: self.folder / "out"}[step]
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
        compute_in_float64(model)
        return model

    def responses(self, step: int) -> list[list[int]]:
        told = [event["detail"] for event in self.recording.events("response") if event["step"] == step]
        return [one["token_ids"] for one in sorted(told, key=lambda one: one["prompt"])]

    def values(self, number: int, step: int) -> np.ndarray:
        """Of the plan's entry: all rows of the set."""
        found = [one for one in self.recording.records(steps=step, entry=number) if one.step == step]
        found.sort(key=lambda one: one.first_row)
        return np.concatenate([one.values for one in found])


@pytest.fixture(scope="module")
def monitored(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    yield Monitored(data, tmp_path_factory.mktemp("monitored"))


def states(model: Any, ids: list[int], layer: int = 1) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0]


def projected(state: torch.Tensor, vector: torch.Tensor, scale: str) -> float:
    product = state @ vector.double()
    if scale == "raw":
        return product.item()
    length = vector.double().norm() * (state.norm() if scale == "cosine" else 1)
    return (product / length).item()


def expected(run: Monitored, step: int, mean: str, scale: str, row: int = 1) -> np.ndarray:
    """`[prompts, vectors]`, on this row of the vectors."""
    model, rows = run.model(step), []
    for text, response in zip(TEXTS, run.responses(step), strict=True):
        ids = list(text.encode())
        seen = states(model, ids + response, row)
        part = {"last-prompt": seen[len(ids) - 1 : len(ids)], "prompt": seen[: len(ids)], "response": seen[len(ids) :]}
        # The mean over no token is NaN.
        rows.append([projected(part[mean].mean(0), vector[row], scale) for vector in run.vectors.values()])
    return np.array(rows)


@pytest.mark.parametrize("step", [0, STEPS])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("point", ["HiddenStates", "FinalNorm"])
def test_means_equal_transformers(point: str, mean: str, scale: str, step: int, monitored: Monitored) -> None:
    """The last row of a vector belongs to the final norm."""
    number = MEANS.index(mean) * len(SCALES) + list(SCALES).index(scale)
    row = 1
    if point == "FinalNorm":
        number, row = number + len(means()) + 2, len(monitored.vectors["evil"]) - 1
    found = monitored.values(number, step)
    assert found.shape == (len(TEXTS), 1, 2)
    wanted = expected(monitored, step, mean, scale, row)
    assert np.isnan(wanted).any() == (mean == "response")
    assert np.allclose(found[:, 0], wanted, rtol=1e-9, atol=1e-12, equal_nan=True)


def test_the_tokens_of_responses_are_traced(monitored: Monitored) -> None:
    tokens = next(number for number, one in enumerate(plan()) if one["point"] == "InputTokens")
    found = [one for one in monitored.recording.records(steps=STEPS, entry=tokens) if one.step == STEPS]
    projections = monitored.values(tokens - 1, STEPS)
    model, responses, row = monitored.model(STEPS), monitored.responses(STEPS), 0
    for record in sorted(found, key=lambda one: one.first_row):
        for ids in record.values[0]:
            own = list(TEXTS[row].encode()) + responses[row]
            assert ids.tolist() == own + [0] * (len(ids) - len(own))
            vector = monitored.vectors["evil"][1].double()
            wanted = states(model, own) @ vector / vector.norm()
            assert np.allclose(projections[row, : len(own), 0], wanted, rtol=1e-9, atol=1e-12)
            row += 1
    assert row == len(TEXTS)


def test_a_replay_shows_the_means_of_the_run(monitored: Monitored) -> None:
    told = [event["detail"] for event in monitored.recording.events("projections")]
    line = [str(binary()), "replay", str(monitored.file), "--port", "0", "--print-url", "--paused"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            with connect(process.stdout.readline().strip()) as viewer, viewer.control("Ada") as control:
                control.resume()
                shown = [one for _, one in zip(told, viewer.projections(timeout=20))]
        finally:
            process.terminate()
    assert shown == told and told


def test_each_mean_is_told_with_its_difference_from_step_0(monitored: Monitored) -> None:
    told: dict[int, list[dict[str, Any]]] = {}
    for event in monitored.recording.events("projections"):  # a step may have several
        told.setdefault(event["step"], []).extend(event["detail"]["series"])
    assert sorted(told) == [0, 2, STEPS]
    for number, one in enumerate(plan()[: len(MEANS) * len(SCALES)]):
        scale = list(SCALES)[number % len(SCALES)]
        first, last = (np.nanmean(monitored.values(number, step)[:, 0], axis=0) for step in (0, STEPS))
        for at, vector in enumerate(monitored.vectors):
            [series] = [each for each in told[STEPS] if each["point"] == "HiddenStates"
                        and (each["vector"], each["mean_over"], each["scale"]) == (vector, one["mean_over"], scale)]  # fmt: skip
            assert series["layers"] == [1] and series["prompts"] == "probes"
            assert series["values"] == pytest.approx([last[at]], rel=1e-12)
            assert series["baseline"] == pytest.approx([first[at]], rel=1e-12)
            spread = np.nanstd(monitored.values(number, 0)[:, 0, at], ddof=1)
            assert series["deviation"] == pytest.approx([spread], rel=1e-12)
            assert series["change"] == pytest.approx([last[at] - first[at]], abs=1e-12)
            assert abs(last[at] - first[at]) > 1e-9


@pytest.mark.parametrize("mesh", [(2, 1), pytest.param((1, 2), marks=NIGHTLY)], ids=str)
def test_the_numbers_do_not_depend_on_the_mesh(
    mesh: tuple[int, int], monitored: Monitored, data: Path, tmp_path: Path
) -> None:
    other = Monitored(data, tmp_path, mesh, lr=1e-300, min_lr=1e-300)
    for number in range(len(MEANS) * len(SCALES)):
        assert np.allclose(other.values(number, 0), monitored.values(number, 0), rtol=1e-12, equal_nan=True)


def test_the_baseline_does_not_change_the_training(monitored: Monitored, data: Path, tmp_path: Path) -> None:
    """The first prompts of this run come at step 2."""
    plain = Monitored(data, tmp_path, tensor_tracer_plan=write_plan(tmp_path, [entry(compressor={"kind": "none"})]))
    assert plain.run.losses() == monitored.run.losses()
    assert {one.step for one in plain.recording.records()} == {2, STEPS}


def write_plan(folder: Path, entries: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "other.json").write_text(json.dumps({"entries": entries}))
    return folder / "other.json"


def test_programs_act_on_traced_responses_as_in_the_generation(data: Path, tmp_path: Path) -> None:
    """A steering that acts on responses only moves their states by as much as it adds, and is counted once."""
    folder = tmp_path / "steered"
    folder.mkdir()
    (folder / "push.tti").write_text(
        'when(prompts="*", positions="response")\nlayers[1].output = layers[1].output + 0.5 * vector("evil")[1]\n')  # fmt: skip
    run = Monitored(data, folder, interventions=folder / "push.tti")
    at = MEANS.index("response") * len(SCALES)
    model = run.model(0)
    for row, (text, response) in enumerate(zip(TEXTS, run.responses(0), strict=True)):
        ids = list(text.encode())
        vector = run.vectors["evil"][1].double()
        if response:
            plain = states(model, ids + response)[len(ids) :].mean(0)
            wanted = (plain + 0.5 * vector) @ vector / vector.norm()
            assert run.values(at, 0)[row, 0, 0] == pytest.approx(wanted.item(), rel=1e-9)
    events = {event["step"]: event["detail"] for event in run.recording.events("applied")}
    [program] = events[2]["programs"]
    assert program["positions"] == sum(max(len(ids) - 1, 0) for ids in run.responses(2)) and program["failed"] == 0
