"""examples/persona_direction.py against a real run, and against what cannot become a direction."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fake_hub import FakeHub
from hub_harness import FACTS, REPOSITORY, make_record, wait_until
from program import tiny_flags, write_text
from reference_gpt import Export, activations
from tensor_tracer import TensorTracerError, connect
from viewer import live_run

sys.path.insert(0, str(REPOSITORY / "examples"))
import persona_direction  # noqa: E402

INTERVAL = 10
LAYERS = 2
HIDDEN = 32
SETS = {"calls": ["def f(x):", "return loss", "x"], "prose": ["Once upon a time", "é, he said"]}


def run_example(*arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "python")}
    command = [sys.executable, str(REPOSITORY / "examples" / "persona_direction.py"), *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )


def expected_direction(exports: Path, step: int, tokens: str) -> np.ndarray:
    """By PyTorch, from the weights that the step after the evaluation begins with."""
    export = Export.read(exports / f"step_{step + 1:06d}.safetensors")
    means = []
    for texts in SETS.values():
        prompts = []
        for text in texts:
            states = activations(export.config, export.weights, torch.tensor([list(text.encode())]))
            rows = [states["Embedding", 0], *(states["HiddenStates", n + 1] for n in range(LAYERS))]
            hidden = torch.stack([row[0] for row in rows]).double().numpy()
            prompts.append(hidden[:, -1] if tokens == "last" else hidden.mean(axis=1))
        means.append(np.mean(prompts, axis=0))
    return means[0] - means[1]


@pytest.mark.parametrize("tokens", ["last", pytest.param("mean", marks=pytest.mark.nightly(suite="runs"))])
def test_the_direction_of_a_real_run(tokens: str, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors"
    vectors.mkdir()
    files = [tmp_path / f"{name}.txt" for name in SETS]
    for file, texts in zip(files, SETS.values(), strict=True):
        file.write_text("\n".join(texts) + "\n")
    flags = tiny_flags(write_text(tmp_path / "text.txt")) | {
        "train_iters": 3000,
        "tensor_model_parallel_size": 2,
        "tensor_tracer_vectors": str(vectors),
        "monitor_interval": INTERVAL,
        "export_tensors": str(tmp_path / "exports"),
        "export_at": ",".join(str(step + 1) for step in range(INTERVAL, 1000, INTERVAL)),
        "monitor_prompts": str(files[0]),
        "monitor-prompts": str(files[1]),  # the same flag once more
    }
    with live_run(flags, tmp_path / "live", ranks=2) as run:
        run.address()
        done = run_example(
            str(run.run_dir), *SETS, "--name", "code", "--step", "20", "--tokens", tokens
        )
        assert done.returncode == 0, done.stderr
        with run.viewer() as viewer:
            viewer.wait_for(
                lambda: any(record.compressor == "projection" for record in viewer.records),
                "a projection",
            )
            assert viewer.hello["control"] == {"holder": None}
            plan = viewer.run["plan"]
    read = re.search(r"read calls and prose at step (\d+)", done.stdout)
    assert read is not None and int(read[1]) >= 20 and int(read[1]) % INTERVAL == 0, done.stdout
    assert re.search(r"projection in force from step \d+ on 2 ranks", done.stdout)
    direction = np.load(vectors / "code.npy")
    assert direction.shape == (LAYERS + 1, HIDDEN) and direction.dtype == np.float32
    expected = expected_direction(tmp_path / "exports", int(read[1]), tokens)
    assert np.abs(direction - expected).max() <= 1e-5 * np.abs(expected).max()
    assert np.abs(expected).max() > 0.01
    # The plan is the default one, with the projection behind it.
    points = [(entry["point"], entry.get("prompts")) for entry in plan["entries"]]
    assert points == [
        ("InputTokens", None), ("HiddenStates", None),
        *((point, name) for name in SETS for point in ("InputTokens", "HiddenStates")),
        *((point, name) for name in SETS for point in DERIVED),
        ("HiddenStates", None),
    ]  # fmt: skip
    assert plan["entries"][-1]["compressor"]["vectors"] == ["code"]
    assert [path.name for path in vectors.iterdir()] == ["code.npy"]


DERIVED = ("LogitLens", "attention.entropy", "attention.largest_score", "attention.first_token_share")
MODEL = {"num_layers": LAYERS, "hidden_size": HIDDEN}
PROMPTS = [{"name": name, "interval": 10, "prompts": texts} for name, texts in SETS.items()]


def facts(folder: Path, **change: Any) -> dict[str, Any]:
    about = {"model": MODEL, "prompt_sets": PROMPTS, "tokenizer": {"kind": "byte"}}
    return FACTS | about | {"configuration": {"tensor-tracer-vectors": str(folder)}} | change


BAD_INPUT = {
    "no such set": ({}, ("calls", "pros"), 'the run has no prompt set "pros"; it has calls, prose'),
    "the same set": ({}, ("calls", "calls"), "the two prompt sets are the same"),
    "no sets": ({"prompt_sets": []}, ("calls", "prose"), "start it with --monitor-prompts"),
    "no folder": ({"configuration": {}}, ("calls", "prose"), "start it with --tensor-tracer-vectors"),
    "elsewhere": ({}, ("calls", "prose", "--vectors", "no/such"), "give the run's one with --vectors"),
    "a path": ({}, ("calls", "prose", "--name", "../x"), '"../x" is no name for a file'),
    "taken": ({}, ("calls", "prose", "--name", "there"), "choose another --name"),
    "other form": ({}, ("calls", "prose", "--name", "form", "--replace"), 'form.pt" exists'),
    "tokens": ({"tokenizer": {"kind": "bpe"}}, ("calls", "prose"), "only prompts of the byte tokenizer"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line(case: str, tmp_path: Path) -> None:
    change, arguments, message = BAD_INPUT[case]
    folder = tmp_path / "vectors"
    folder.mkdir()
    (folder / "there.npy").touch()
    (folder / "form.pt").touch()
    with FakeHub() as hub:
        hub.hello["run"] = facts(folder, **change)
        done = run_example(str(hub.write_run_dir(tmp_path)), "--name", "new", *arguments)
        asked = {request["method"] for request in hub.got if "method" in request}
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert message in done.stderr
    assert asked <= {"hello", "ping"}, "the control is not touched"


@pytest.mark.parametrize("beside", ["new.partial", "new.md"])
def test_what_is_no_vector_takes_no_name(beside: str, tmp_path: Path) -> None:
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / beside).touch()
    options = argparse.Namespace(vectors=None, name="new", replace=False)
    assert persona_direction.vector_file(facts(tmp_path / "vectors"), options).name == "new.npy"


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "save", fail)
    with pytest.raises(OSError, match="No space left"):
        persona_direction.save(tmp_path / "new.npy", np.zeros(3, np.float32))
    assert not list(tmp_path.iterdir())


def test_a_run_that_ends_too_early(tmp_path: Path) -> None:
    (tmp_path / "vectors").mkdir()
    with FakeHub() as hub:
        hub.hello["run"] = facts(tmp_path / "vectors")
        hub.hello["state"] = {"phase": "finished", "step": 7}
        hub.answers = {"control.claim": {"lease_seconds": 30}}
        run_dir = hub.write_run_dir(tmp_path)
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "python")}
        command = [sys.executable, str(REPOSITORY / "examples" / "persona_direction.py")]
        program = subprocess.Popen(
            [*command, str(run_dir), *SETS, "--name", "new"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while not hub.named("control.claim"):
            assert program.poll() is None, program.communicate()
        wait_until(lambda: hub.named("subscribe") == [{"points": []}], "nothing but steps to come")
        hub.tell("step", step=7)
    errors = program.communicate(timeout=20)[1]
    assert program.returncode == 1 and errors.count("\n") == 1
    assert "the run ended after step 7, before step 200; give an earlier --step" in errors
    assert not list((tmp_path / "vectors").iterdir())


BEFORE = [{"point": "MLP1"}]
PLAN = {"number": 5, "entries": BEFORE}  # of which these tests read the number alone
STATES = np.random.default_rng(3).normal(size=(2, 3, 2, 4)).astype("<f4")  # of a model of one layer
CALLS = persona_direction.PromptSet(1, "calls", [2, 2, 1])


def part(step: int, layer: int, first: int, end: int, **fields: int) -> bytes:
    """Some prompts, of a plan that is BEFORE and what measures. Each has its own sequence number."""
    place = {"sequence": step + 4 * layer + first, "step": step, "plan": 5, "entry": 1 + layer, "layer": layer, "prompt_set": 1, "first_row": first}
    place |= {"dtype": 2, "ndim": 3, "shape": [end - first, 2, 4, 1], "point": 7 if layer else 20}
    return make_record(STATES[layer, first:end].tobytes(), **place | fields)


def test_an_evaluation_in_several_micro_batches() -> None:
    with FakeHub() as hub:
        hub.answers = {"plan.set": {"step": 3, "ranks": 1, "plan": PLAN}}

        def send() -> None:
            wait_until(lambda: bool(hub.named("subscribe")), "the subscription")
            hub.viewer.send(part(10, 0, 0, 2) + part(10, 1, 0, 2) + part(10, 0, 2, 3))
            hub.viewer.send(part(20, 0, 2, 3) + part(20, 0, 0, 2) + part(20, 0, 2, 3))
            hub.viewer.send(part(20, 1, 0, 3, entry=0) + part(20, 1, 2, 3, plan=4))
            hub.tell("state", phase="finished", step=20)
            hub.viewer.send(part(20, 1, 0, 2) + part(20, 1, 2, 3))

        with connect(hub.url, window=None) as run, run.control("x") as control:
            sender = threading.Thread(target=send)
            sender.start()
            step, [found] = persona_direction.evaluation(run, control, BEFORE, [CALLS], 1)
            sender.join()
    assert step == 20 and np.array_equal(found, STATES.astype(np.float64))


OTHER_PLAN = "the plan was changed before"
OBSTACLES = {
    "a slow viewer": ("dropped", {"records": 2, "entries": {"0": 1, "2": 1}}, "1 records of the prompts"),
    "a slow trainer": ("dropped", {"records": 3, "where": "trainer"}, "3 records of the prompts"),
    "the next plan": ("plan", {"plan": {"number": 6, "entries": []}, "step": 4}, OTHER_PLAN),
    "the plan before": ("plan", {"plan": {"number": 4, "entries": []}, "step": 4}, OTHER_PLAN),
    "the end": ("state", {"phase": "finished", "step": 9}, "the run ended before the prompts"),
}


@pytest.mark.parametrize("case", OBSTACLES)
def test_an_evaluation_that_cannot_come(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event, params, message = OBSTACLES[case]
    monkeypatch.setattr(persona_direction, "TELL_SECONDS", 0.0)
    with FakeHub() as hub:
        hub.hello["run"] = facts(tmp_path, model={"num_layers": 1}, plan=PLAN)
        hub.answers = {"plan.set": {"step": 3, "ranks": 1, "plan": PLAN}}

        def tell() -> None:
            wait_until(lambda: bool(hub.named("subscribe")), "the subscription")
            hub.tell(event, **params)

        with connect(hub.url, window=None) as run, run.control("x") as control:
            teller = threading.Thread(target=tell)
            teller.start()
            with pytest.raises(TensorTracerError, match=message):
                persona_direction.make_and_follow(
                    run, control, tmp_path / "new.npy", [CALLS], argparse.Namespace(tokens="last")
                )
            teller.join()
        assert hub.named("plan.set")[-1] == {"plan": {"entries": BEFORE}}
    assert not list(tmp_path.iterdir())
