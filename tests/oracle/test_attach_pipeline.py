"""The tracer inside a training with pipeline stages: its records beside what PyTorch's own hooks kept on the stages'
ranks, and beside a training of the whole model in one process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import pipeline_training
from forked_ranks import Ended, Ranks
from pipeline_training import LAYERS, MICRO_BATCHES, ROWS
from tensor_tracer import open_recording
from tensor_tracer.record import Record
from test_attach import FOLDER, attach_environment

pytestmark = pytest.mark.nightly(suite="attach")

EVERYTHING = {
    "entries": [
        {"point": "InputTokens", "rows": 0, "micro_batches": "0-3"},
        {"point": "*", "rows": 0, "micro_batches": "0-3", "compressor": {"kind": "none"}},
        {"point": "*", "rows": 0, "micro_batches": "0-3", "direction": "gradient", "compressor": {"kind": "none"}},
    ]
}
OUTPUTS = {
    "h": ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj", ""],
    "outside": ["wte", "norm", "lm_head"],
}


@dataclass
class Training:
    """A finished run of pipeline_training.py."""

    folder: Path
    output: str
    of_rank: list[dict[str, Any]] = field(default_factory=list)

    @property
    def losses(self) -> list[list[float]]:
        """Of the micro-batches of each step."""
        return next(of["losses"] for of in self.of_rank if of["losses"][0])

    def recording(self) -> Any:
        return open_recording(next((self.folder / "record").glob("*.ttrec")))

    def records(self) -> list[Record]:
        with self.recording() as recording:
            return [record for record in recording.records() if record.point != "InputTokens"]

    def points(self, rank: int = 0) -> dict[tuple[str, int], dict[str, Any]]:
        points = json.loads((self.folder / f"points{rank}.json").read_text())
        return {(point["name"], point["layer"]): point for point in points if not point["problem"]}

    def witnessed(self, record: Record, place: dict[str, Any], replica: int = 0) -> np.ndarray[Any, Any]:
        """What the hooks kept of the record's module."""
        kind = "gradients" if record.direction == "gradient" else "values"
        key = record.step, record.micro_batch, record.layer, path_of(record, place)
        found = [of[kind][key] for of in self.of_rank if key in of[kind]]
        return np.asarray(found[replica].numpy())


def train(folder: Path, ranks: int = 2, plan: Any = EVERYTHING, **options: Any) -> Training:
    folder.mkdir(parents=True, exist_ok=True)
    asked = {"steps": 3} | options
    if plan is not None:
        attach = {"port": 0, "run_dir": str(folder / "run"), "record": str(folder / "record"), "plan": plan}
        asked["attach"] = attach | asked.get("attach", {})
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    line = [sys.executable, *launcher, str(FOLDER / "pipeline_training.py"), str(folder), json.dumps(asked)]
    done = subprocess.run(line, env=attach_environment(), capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(ranks)]
    return Training(folder, done.stdout + done.stderr, files)


def path_of(record: Record, place: dict[str, Any]) -> str:
    """As pipeline_training.py calls it."""
    if record.point == "LogitLens":
        return "lens"
    return place["module"].partition(".")[2].partition(".")[2] if record.layer else str(place["module"])


def key_of(record: Record, place: dict[str, Any]) -> tuple[str, int, str, int, int]:
    return path_of(record, place), record.layer, record.direction, record.step, record.micro_batch


def compare(watched: Training, single: Training, lenses: set[int]) -> float:
    """Each record has the bits of its stage's rank, and nearly those of one process. Every output of a module was
    recorded once for each micro-batch, with its gradient, and the logit lens of the layers `lenses`. Returns the largest
    relative difference."""
    places, largest, seen = watched.points(), 0.0, Counter[Any]()
    for record in watched.records():
        place = places[record.point, record.layer]
        if place["path"].endswith(".input") or record.point == "LogitLensMid":
            continue
        expected = watched.witnessed(record, place)
        assert np.array_equal(record.values, expected), record
        alone = single.witnessed(record, place)[: expected.shape[0]]
        largest = max(largest, float(np.abs(expected - alone).max() / np.abs(alone).max()))
        seen[key_of(record, place)] += 1
    wanted = {
        (path, layer, direction, step, micro_batch)
        for layer in range(LAYERS + 1)
        for path in [*OUTPUTS["h" if layer else "outside"], *["lens"] * (layer in lenses)]
        for direction in ("value", "gradient")[: 1 if path == "lens" else 2]
        for step in (2, 3)
        for micro_batch in range(MICRO_BATCHES)
    }
    assert set(seen) == wanted and set(seen.values()) == {1}
    return largest


CASES = [
    pytest.param(2, {}, id="1F1B"),
    pytest.param(2, {"chunks": 2, "gives_tokens": True}, id="interleaved"),
    pytest.param(2, {"recomputes": True}, id="recomputation"),
    pytest.param(4, {}, id="two replicas"),
]


@pytest.mark.parametrize(("ranks", "options"), CASES)
def test_records_have_the_bits_of_the_stages(ranks: int, options: dict[str, Any], tmp_path: Path) -> None:
    watched = train(tmp_path / "watched", ranks, **options)
    alone = train(tmp_path / "alone", ranks, None, **options)
    assert watched.losses == alone.losses and len(alone.losses) == 3
    single = train(tmp_path / "single", 1, None, replicas=ranks // 2)
    factor = 1.0 if ranks == 2 else 2.0  # the mean over the rows of one replica, or of both
    for gradient in single.of_rank[0]["gradients"].values():
        gradient *= factor
    with_head = LAYERS - LAYERS // (2 * options.get("chunks", 1))  # the layers before the stage of the output layer
    assert compare(watched, single, set(range(with_head + 1, LAYERS + 1))) < 1e-5
    with watched.recording() as recording:
        stages = 2 * options.get("chunks", 1)
        assert recording.facts["mesh"] == {"tensor": 1, "pipeline": 2, "data": ranks // 2}
        assert recording.facts["global_batch_size"] == ranks // 2 * MICRO_BATCHES * ROWS
        points = {point["name"]: point for point in recording.facts["points"]}
        assert (points["HiddenStates"]["first_layer"], points["HiddenStates"]["last_layer"]) == (1, LAYERS)
        assert points["LogitLens"]["first_layer"] == with_head + 1 and "LogitLensEmbedding" not in points
        tokens = Counter((one.step, one.micro_batch) for one in recording.records() if one.point == "InputTokens")
        assert set(tokens.values()) == {1} and len(tokens) == 2 * MICRO_BATCHES
        for record in recording.records():
            is_last = record.point in ("FinalNorm", "Logits")
            stage = (record.layer - 1) * stages // LAYERS if record.layer else int(is_last)
            assert record.pipeline_rank == stage % 2, record
        steps, losses = recording.scalars("loss")
        assert list(steps) == [1, 2, 3]
        assert losses == pytest.approx([sum(of_step) / MICRO_BATCHES for of_step in watched.losses])
        assert list(recording.scalars("lr")[1]) == [0.01, 0.02, 0.03]
    assert watched.points(0) == watched.points(ranks - 1)


UPDATES = [
    pytest.param(2, {}, id="1F1B"), pytest.param(2, {"chunks": 2}, id="interleaved"),
    pytest.param(4, {}, id="two replicas"),
]  # fmt: skip


@pytest.mark.parametrize("ends", ["exit", "destroy"])
def test_a_script_that_does_not_detach_ends_by_itself(ends: str, tmp_path: Path) -> None:
    """As Megatron-LM does. All numbers of the last stage arrive, unless the script has destroyed the groups."""
    watched = train(tmp_path, plan={"entries": []}, ends=ends)
    with watched.recording() as recording:
        steps = list(recording.scalars("loss")[0])
    assert steps == [1, 2, 3] if ends == "exit" else steps[:1] == [1]


@pytest.mark.parametrize(("ranks", "options"), UPDATES)
def test_updates_have_the_parameters_of_all_stages(ranks: int, options: dict[str, Any], tmp_path: Path) -> None:
    options = {"steps": 5, "watches_optimizer": True} | options
    plan = {"entries": [{"point": "Updates", "every": 2}]}
    watched = train(tmp_path / "watched", ranks, plan, **options)
    alone = train(tmp_path / "alone", ranks, None, **options)
    assert watched.losses == alone.losses
    whole = train(tmp_path / "single", 1, None, replicas=ranks // 2, steps=1, watches_optimizer=True).of_rank[0]["updates"]
    with watched.recording() as recording:
        (point,) = [one for one in recording.facts["points"] if one["name"] == "Updates"]
        records = list(recording.records())
    names = point["parameters"]
    assert sorted(names) == sorted(whole[0]) and len(names) == 5 + 12 * LAYERS
    assert [(one.point, one.step, one.pipeline_rank, one.shape) for one in records] == [
        ("Updates", step, 0, (1, len(names), 11)) for step in (2, 4)
    ]
    for record in records:
        of_stages = {name: row for of in alone.of_rank for name, row in of["updates"][record.step - 1].items()}
        expected = np.array([of_stages[name] for name in names])
        assert np.allclose(record.values[0], expected, rtol=1e-5, atol=1e-30), record.step


LAYER_4 = {"layer": 4, "path": "mlp", "factor": 1.5, "from": 3}
PROGRAMS = [
    pytest.param("layers[4].mlp.output *= 1.5", LAYER_4, False, id="the last stage"),
    pytest.param("layers[layer].mlp.output *= 1.5\nwhen(layers=\"4\")", LAYER_4, False, id="by layer"),
    # Another micro-batch runs forward before the first runs backward, in which its layers run again.
    pytest.param('layers[2].mlp.output *= 1.5\nwhen(rows="0-1")', LAYER_4 | {"layer": 2, "micro_batches": [0]}, True,
                 id="one micro-batch"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "scale", "recomputes"), PROGRAMS)
def test_a_program_acts_in_the_stage_that_has_its_places(
    program: str, scale: dict[str, Any], recomputes: bool, tmp_path: Path
) -> None:
    options = {"steps": 4, "recomputes": recomputes}
    steered = train(tmp_path / "program", plan={"entries": []}, program=program, **options)
    by_hook = train(tmp_path / "hook", plan=None, scale=scale, **options)
    alone = train(tmp_path / "alone", plan=None, **options)
    assert steered.losses == by_hook.losses
    assert steered.losses[:2] == alone.losses[:2] and steered.losses[2] != alone.losses[2]
    with steered.recording() as recording:
        applied = [event["detail"]["programs"][0] for event in recording.events("applied")]
    forwards = len(scale.get("micro_batches", range(MICRO_BATCHES)))
    assert [(one["ranks"], one["of_ranks"], one["forwards"]) for one in applied] == [(1, 1, forwards)] * 2


def test_a_program_calls_the_output_layer_in_its_stage(tmp_path: Path) -> None:
    run = train(tmp_path, plan={"entries": []}, program='save(output_layer(final_norm(layers[4].output[:, -1:])), "x")')
    with run.recording() as recording:
        saved = [event["detail"] for event in recording.events("saved")]
    assert len(saved) == MICRO_BATCHES
    for one in saved:
        expected = run.of_rank[1]["values"][one["step"], one["micro_batch"], 4, "lens"][:, -1:]
        assert [float(value) for value in one["values"]] == pytest.approx(expected.flatten().tolist(), abs=2e-5)
    folder = tmp_path / "refused"
    train(folder, plan={"entries": []}, program='save(output_layer(layers[1].output[:, -1:]), "x")')
    assert "needs output_layer of pipeline stage 1 and layers[1].output of stage 0" in (folder / "refused0.txt").read_text()


def test_a_program_with_values_of_two_stages_is_refused(tmp_path: Path) -> None:
    program = "a = layers[1].output\nlayers[4].mlp.output += a"
    run = train(tmp_path, plan={"entries": []}, program=program)
    told = (tmp_path / "refused0.txt").read_text()
    assert "layers[4].mlp.c_proj.output of pipeline stage 1 and layers[1].output of stage 0" in told
    assert "use places of one stage in a line" in told
    assert run.losses == train(tmp_path / "alone", plan=None).losses


@pytest.mark.parametrize("gives_tokens", [True, False])
def test_tokens_reach_the_later_stages_if_the_step_has_them(gives_tokens: bool, tmp_path: Path) -> None:
    program = 'when(token_text="5")\nlayers[4].mlp.output *= 1.5'
    attach = {"tokenizer": "byte"}
    run = train(tmp_path / "run", plan={"entries": []}, program=program, attach=attach, gives_tokens=gives_tokens)
    told = (tmp_path / "run/refused0.txt").read_text()
    assert ("does not get" in told) is not gives_tokens and bool(told) is not gives_tokens
    with run.recording() as recording:
        applied = [event["detail"]["programs"][0] for event in recording.events("applied")]
    assert [one["positions"] > 0 for one in applied] == [True] * gives_tokens


def test_a_stage_that_loses_its_link_is_a_missing_part(tmp_path: Path) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    run = train(tmp_path, attach={"port": port}, steps=5, cuts_link_after=3)
    with run.recording() as recording:
        connected = [[part["connected"] for part in event["detail"]["parts"]] for event in recording.events("parts")]
        steps = {record.step for record in recording.records() if record.layer == LAYERS}
    both, one_missing = [True, True], [True, False]
    assert connected[connected.index(both) :][:3] == [both, one_missing, both]
    assert steps == {2, 3, 4, 5}


@pytest.mark.parametrize("bind", ["127.0.0.5", "localhost", ""])
def test_a_stage_on_another_machine_needs_an_address_of_the_hub(bind: str, tmp_path: Path) -> None:
    run = train(tmp_path, attach={"bind": bind}, machines=["first", "second"])
    with run.recording() as recording:
        assert {record.layer for record in recording.records()} == set(range(LAYERS + 1 if bind else LAYERS // 2 + 1))
    warning = "there are no records of pipeline stage 1, because it is on second and the hub on first listens on loopback"
    assert (warning in run.output) is not bool(bind)


def end_with(fault: dict[str, Any], folder: Path) -> tuple[list[Ended], list[Ended]]:
    """The ranks of a training with this fault, with and without the tracer."""
    ended = []
    for name in ("with", "without"):
        place = folder / name
        attach = {"port": 0, "run_dir": str(place / "run"), "record": str(place / "record"), "plan": EVERYTHING}
        asked = {"steps": 6, "fault": fault, "attach": attach if name == "with" else None}
        ended.append(Ranks(pipeline_training.train, 2, place, place, asked, env=attach_environment()).wait())
    return ended[0], ended[1]


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(("how", "code"), [("killed", -9), ("raises", 1)])
def test_a_stage_that_fails_ends_the_run_as_without_the_tracer(how: str, code: int, rank: int, tmp_path: Path) -> None:
    watched, alone = end_with({"rank": rank, "how": how}, tmp_path)
    codes = [one.exit_code for one in watched]
    assert codes == [one.exit_code for one in alone] and codes[rank] == code and codes[1 - rank] == 1
    for one in (watched[1 - rank], alone[1 - rank]):  # the schedule's own message between stages tells of the loss
        assert "trained.run(step, losses)" in one.output and " by peer" in one.output
    assert ("an error of this stage" in watched[rank].output) == (how == "raises")
    assert "the tracer is off from step" not in watched[1 - rank].output
    for with_tracer, without in zip(watched, alone, strict=True):
        assert with_tracer.seconds < without.seconds + 10
    with open_recording(next((tmp_path / "with/record").glob("*.ttrec"))) as recording:
        assert {record.step for record in recording.records()} >= {2, 3}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("method", ["capture", "begin", "end_forward", "before_step"])
def test_an_error_of_the_tracer_in_one_stage_does_not_reach_the_training(method: str, rank: int, tmp_path: Path) -> None:
    watched, alone = end_with({"rank": rank, "how": method}, tmp_path)
    for with_tracer, without in zip(watched, alone, strict=True):
        assert with_tracer.exit_code == without.exit_code == 0, with_tracer.output
        assert with_tracer.result["losses"] == without.result["losses"]
    assert ": forced" in watched[rank].output
    if method == "capture":
        assert "is not traced any more: forced" in watched[rank].output
        assert all("the tracer is off" not in one.output for one in watched)
    else:
        assert all("the tracer is off from step" in one.output for one in watched)
