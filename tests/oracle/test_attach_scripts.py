"""What training scripts do around a traced model: exceptions, closures, other people's wrappers, forks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import attached_scripts
import pytest
from attached_scripts import accelerated, closed, hooked, nested, numbered, resized, retried, tried_twice, unnamed
from forked_ranks import Ranks
from test_attach_safety import environment, options, records
from tensor_tracer import open_recording

pytestmark = pytest.mark.nightly(suite="attach")

UPDATES = {"point": "Updates"}
GRADIENT_NORM = 3  # the column


def ended(work: Any, folder: Path, attach: dict[str, Any], *arguments: Any) -> tuple[Any, str]:
    """The result and what the script printed."""
    [rank] = Ranks(work, 1, folder, attach, *arguments, env=environment(folder)).wait()
    assert rank.exit_code == 0, rank.output
    return rank.result, rank.output


def gradient_norms(folder: Path) -> dict[int, float]:
    """Of all parameters together, by step."""
    found = [one for one in records(folder) if one.point == "Updates"]
    return {one.step: float(np.sqrt(np.square(one.values[0, :, GRADIENT_NORM]).sum())) for one in found}


def test_a_trainer_trains_again_after_an_exception(tmp_path: Path) -> None:
    """As with auto_find_batch_size, or after Ctrl-C in a notebook."""
    (steps, hooks), _ = ended(retried, tmp_path, options(tmp_path))
    assert steps == [1, 1, 3] and hooks == 0


@pytest.mark.parametrize("is_by_name", [False, True])
def test_the_gradient_of_a_closure_is_that_of_its_step(is_by_name: bool, tmp_path: Path) -> None:
    norms, _ = ended(closed, tmp_path, options(tmp_path, plan={"entries": [UPDATES]}), is_by_name)
    found = gradient_norms(tmp_path)
    assert sorted(found) == [2, 3, 4, 5] and len(set(norms)) == 5
    assert all(found[step] == pytest.approx(norms[step - 1], rel=1e-6) for step in found)


def test_accelerate_in_bfloat16(tmp_path: Path) -> None:
    """It converts the output of the model, outside of the loss, and wraps the optimizer."""
    entries = [UPDATES, {"point": "LogitLens"}, {"point": "Logits", "direction": "gradient", "compressor": {"kind": "stats"}}]
    (norms, logits), _ = ended(accelerated, tmp_path, options(tmp_path, plan={"entries": entries}))
    assert logits["module"] == "lm_head" and not logits["gradient_problem"], logits
    found = gradient_norms(tmp_path)
    assert sorted(found) == [2, 3, 4] and all(found[step] == pytest.approx(norms[step - 1], rel=1e-6) for step in found)
    seen = {(one.point, one.direction, one.step) for one in records(tmp_path)}
    assert {("LogitLens", "value", 2), ("Logits", "gradient", 2)} <= {(p, str(d), s) for p, d, s in seen}, seen


@pytest.mark.parametrize("part", ["mlp", "self_attn", "mlp.down_proj"])
def test_a_hook_on_one_layer_leaves_the_tracer_on(part: str, tmp_path: Path) -> None:
    attach = options(tmp_path, plan={"entries": [{"point": "HiddenStates", "compressor": {"kind": "none"}}]})
    (off, names), _ = ended(hooked, tmp_path, attach, part)
    assert off == "" and names.count("HiddenStates") == 3
    assert {(one.layer, one.step) for one in records(tmp_path)} == {(layer, step) for layer in (1, 2, 3) for step in (2, 3)}


def test_a_forward_that_fails_is_no_micro_batch(tmp_path: Path) -> None:
    entries = [{"point": one, "rows": 0, "compressor": {"kind": "none"}} for one in ("HiddenStates", "Logits")]
    entries += [one | {"direction": "gradient"} for one in entries]
    ended(tried_twice, tmp_path, options(tmp_path, plan={"entries": entries}))
    found = [(one.point, str(one.direction), one.layer, one.step) for one in records(tmp_path) if one.micro_batch == 0]
    layers = {"HiddenStates": (1, 2, 3), "Logits": (0,)}
    wanted = [(point, way, layer, step) for point in layers for way in ("value", "gradient")
              for layer in layers[point] for step in (2, 3, 4)]  # fmt: skip
    assert sorted(found) == sorted(wanted)
    assert {one.values.shape[0] for one in records(tmp_path)} == {1}


def test_a_replaced_output_layer_is_told(tmp_path: Path) -> None:
    _, told = ended(resized, tmp_path, options(tmp_path, plan={"entries": [{"point": "LogitLens"}]}))
    assert told.count("final norm or output layer was replaced") == 1, told


def test_a_forked_child_may_exit(tmp_path: Path) -> None:
    line = [sys.executable, str(Path(attached_scripts.__file__)), str(tmp_path / "run")]
    done = subprocess.run(line, env=os.environ | environment(tmp_path), capture_output=True, text=True, timeout=90, check=True)
    assert "child 0" in done.stdout


def test_a_model_without_standard_places_is_told(tmp_path: Path) -> None:
    refusal, told = ended(unnamed, tmp_path, options(tmp_path, plan=None))
    assert "no tensor of this model has a standard name" in told
    assert "the run counts the steps" in refusal and "leave step out" in refusal


def test_a_training_leaves_out_steps(tmp_path: Path) -> None:
    plan = {"entries": [{"point": "HiddenStates", "direction": one} for one in ("value", "gradient")]}
    refusal, _ = ended(numbered, tmp_path, options(tmp_path, plan=plan))
    assert "step 6 does not come after step 6" in refusal and "larger number" in refusal
    assert sorted({(one.step, one.direction) for one in records(tmp_path)}) == [
        (step, direction) for step in (2, 5, 6) for direction in ("gradient", "value")
    ]
    with open_recording(next((tmp_path / "record").glob("*.ttrec"))) as recording:
        assert list(recording.scalars("loss")[0]) == [1, 2, 5, 6]


def test_the_nested_tensors_of_pytorchs_encoder(tmp_path: Path) -> None:
    plan = {"entries": [{"point": "HiddenStates", "phases": ["eval"], "rows": 0, "compressor": {"kind": "none"}}]}
    program = 'layers[2].output = 2 * layers[2].output\nwhen(phase="eval")'
    (_, before, after), _ = ended(nested, tmp_path, options(tmp_path, plan=plan), program)
    found = [one.values for one in records(tmp_path) if one.layer == 2]
    assert len(found) == 2 and not before[1, 7:].any() and before[1, :7].all()
    assert np.array_equal(found[0], before.numpy()) and np.array_equal(found[1], after.numpy())
    assert np.array_equal(after.numpy(), 2 * before.numpy())
