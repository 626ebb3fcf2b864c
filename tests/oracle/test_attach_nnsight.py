"""The ready-made interventions in an attached run of a Llama of Transformers, on one rank and on two tensor-parallel
ranks, beside the same interventions as users of NNsight write them, with the same weights in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attached_programs import VOCABULARY
from own_environment import make_environment
from graphs import HIDDEN, LAYERS, SEQUENCE, schedule, write_world
from program import REPOSITORY, environment
from ready_made import READY_MADE
from tensor_tracer import open_recording
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

pytestmark = pytest.mark.nightly(suite="attach")

TOLERANCE = 1e-5  # of the largest magnitude of a tensor
PLACED = schedule(READY_MADE)
NAMES = [one.graph.name for one in PLACED]
RANKS = pytest.mark.parametrize("ranks", [1, 2], ids=["one rank", "two tensor-parallel ranks"])
Saved = dict[tuple[str, str, int, int], Tensor]  # by program, name, step and layer


@dataclass
class Attached:
    steps: dict[int, Any]
    saved: Saved


@dataclass
class Results:
    attached: dict[int, Attached]  # by the number of ranks
    nnsight: dict[int, Any]


def start(line: list[str], **more: str) -> None:
    build = os.environ.get("TENSOR_TRACER_BUILD", str(REPOSITORY / "build/release"))
    variables = environment() | {"TENSOR_TRACER_BUILD": build, "PYTHONPATH": str(REPOSITORY / "python")} | more
    done = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def attached_run(folder: Path, ranks: int, device: str = "cpu") -> Attached:
    out = folder / f"{device}{ranks}"
    out.mkdir()
    attach = {"port": None, "plan": {"entries": []}, "run_dir": str(out / "run"), "record": str(out / "record"),
              "vectors": str(folder / "vectors"), "files": str(folder / "programs")}  # fmt: skip
    asked = {"model": str(folder / "model"), "programs": {one.graph.name: one.text() for one in PLACED},
             "steps": PLACED[-1].steps[-1], "attach": attach}  # fmt: skip
    launcher = [] if ranks == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    script = Path(__file__).with_name("attached_programs.py")
    start([sys.executable, *launcher, str(script), str(out), json.dumps(asked)], TT_DEVICE=device)
    with open_recording(out / "record" / "run.ttrec") as recording:
        told = [event["detail"] for event in recording.events("saved")]
    saved = {
        (one["program"], one["name"], one["step"], one.get("layer", 0)):
        torch.tensor([float(value) for value in one["values"]]).reshape(one["shape"])
        for one in told
    }  # fmt: skip
    assert json.loads((out / "refused.json").read_text()) == {}
    return Attached(torch.load(out / "steps.pt"), saved)


def write_model(folder: Path) -> None:
    """And the files that programs use."""
    torch.manual_seed(7)
    config = LlamaConfig(hidden_size=HIDDEN, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=SEQUENCE,
                         initializer_range=0.2)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder / "model")
    write_world(folder)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("nnsight")
    write_model(folder)
    attached = {ranks: attached_run(folder, ranks) for ranks in (1, 2)}
    noise: dict[int, dict[tuple[str, int], Tensor]] = {}
    for (program, name, step, layer), values in attached[1].saved.items():
        if program.startswith("noise"):
            noise.setdefault(step, {})[name, layer] = values
    torch.save(noise, folder / "noise.pt")
    asked = {"model": str(folder / "model"), "vectors": str(folder / "vectors" / "evil.pt"),
             "file": str(folder / "programs" / "clean.safetensors"), "noise": str(folder / "noise.pt"),
             "steps": {one.graph.name: list(one.steps) for one in PLACED}}  # fmt: skip
    python = make_environment("nnsight")
    script = Path(__file__).with_name("nnsight_programs.py")
    start([str(python), "-W", "ignore", str(script), str(folder), json.dumps(asked)])
    return Results(attached, torch.load(folder / "steps.pt"))


def difference(found: Tensor, expected: Tensor) -> float:
    """The largest, relative to the largest magnitude."""
    assert found.shape == expected.shape
    largest = float(expected.abs().max())
    return float((found - expected).abs().max()) / largest if largest > 0 else float(found.abs().max())


def steps_of(name: str) -> list[int]:
    return list(next(one.steps for one in PLACED if one.graph.name == name))


@RANKS
@pytest.mark.parametrize("name", NAMES)
def test_forward_values_are_those_of_nnsight(name: str, ranks: int, results: Results) -> None:
    for step in steps_of(name):
        found, expected = results.attached[ranks].steps[step], results.nnsight[step]
        assert difference(found["logits"], expected["logits"]) < TOLERANCE
        assert found["hidden"].keys() == expected["hidden"].keys() == set(range(LAYERS + 1))
        for number, state in expected["hidden"].items():
            assert difference(found["hidden"][number], state) < TOLERANCE, number


@RANKS
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_nnsight(name: str, ranks: int, results: Results) -> None:
    for step in steps_of(name):
        found, expected = results.attached[ranks].steps[step]["gradients"], results.nnsight[step]["gradients"]
        skipped = {key: gradient for key, gradient in found.items() if key not in expected}
        assert found.keys() >= expected.keys() and len(found) >= 20
        # NNsight does not compute a skipped layer; the tracer throws its output away.
        assert len(skipped) == (9 if name == "skip_layer" else 0)
        assert all(not gradient.any() for gradient in skipped.values())
        for parameter, gradient in expected.items():
            assert difference(found[parameter], gradient) < TOLERANCE, parameter


@RANKS
@pytest.mark.parametrize("name", ["steer_if", "cap", "save_norms", "logit_attribution", "logit_attribution_rms"])
def test_saved_values_are_those_of_nnsight(name: str, ranks: int, results: Results) -> None:
    [step] = steps_of(name)
    expected = results.nnsight[step]["saved"]
    found = {(key[1], key[3]): value for key, value in results.attached[ranks].saved.items() if key[0] == name}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert np.allclose(found[key], value, rtol=TOLERANCE, atol=1e-6), key


@pytest.mark.parametrize("name", NAMES)
def test_the_programs_do_something(name: str, results: Results) -> None:
    """The tests above would be worth nothing otherwise."""
    of_step = results.nnsight[steps_of(name)[-1]]
    changed = max(difference(gradient, of_step["plain"][key]) for key, gradient in of_step["gradients"].items())
    graph = next(one.graph for one in PLACED if one.graph.name == name)
    assert changed > 1000 * TOLERANCE if graph.changes else changed == 0


def test_noise_is_the_same_at_every_number_of_ranks(results: Results) -> None:
    one, two = (
        {key: value for key, value in results.attached[ranks].saved.items() if key[0].startswith("noise")}
        for ranks in (1, 2)
    )
    assert one.keys() == two.keys() and len(one) == 2 * (LAYERS + LAYERS + 2 * LAYERS + 1)
    assert all(torch.equal(value, two[key]) for key, value in one.items())
