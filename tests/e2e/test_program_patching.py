"""Activation patching by files: what one run recorded stands in another's forward, bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import Flags, binary, command, environment, tiny_flags, write_text
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from tensor_tracer import open_recording  # noqa: E402

pytestmark = pytest.mark.nightly(suite="runs")

STEP, STEPS, LAYER = 3, 4, 1
WHOLE = {"rows": 0, "compressor": {"kind": "none"}, "micro_batches": "0-1", "dtype": "f32"}
PLAN = {"entries": [WHOLE | {"point": point} for point in ("HiddenStates", "MLP2", "MLPActivation")]}
MICRO_BATCH = 4


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    text = write_text(tmp_path_factory.mktemp("data") / "text.txt")
    return {**tiny_flags(text), "train_iters": STEPS, "log_format": "json"}


def ran(line: list[str]) -> str:
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def record(flags: Flags, folder: Path, ranks: int, **more: Any) -> dict[tuple[str, int, int], np.ndarray]:
    """A recorded run: what each point was, by layer and first row, in step 3."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(PLAN))
    changes = {"tensor_model_parallel_size": ranks, "run_dir": str(folder / "run"), "record": str(folder),
               "tensor_tracer_plan": str(folder / "plan.json")}  # fmt: skip
    ran(command({**flags, **changes, **more}, ranks))
    kept = open_recording(folder / "run.ttrec").records(steps=STEP)
    return {(one.point, one.layer, one.first_row): one.values.copy() for one in kept}


def export(folder: Path, place: str) -> str:
    """The file of one layer's point, named as the program names it."""
    output = folder / "patch.safetensors"
    line = [str(binary()), "export", str(folder / "run.ttrec"), "--to", "safetensors", "--output",
            str(output), "--point", place, "--layers", str(LAYER), "--steps", str(STEP)]  # fmt: skip
    ran(line)
    name = f"{place}.layers.{LAYER}"
    assert load_file(output)[name].shape[:2] == (2, MICRO_BATCH), "a record of each micro-batch"
    return name


def patches(folder: Path, name: str, place: str) -> list[str]:
    """Programs that put the recorded micro-batches back into their rows of the global batch."""
    paths = []
    for micro in (0, 1):
        rows = f"{micro * MICRO_BATCH}-{(micro + 1) * MICRO_BATCH - 1}"
        paths.append(folder / f"patch_{micro}.tti")
        paths[-1].write_text(f'when(steps="{STEP}", rows="{rows}")\n'
                             f'h = file("patch.safetensors")["{name}"]\n'
                             f"layers[{LAYER}].{place} = h[{micro}]\n")  # fmt: skip
    return [str(path) for path in paths]


def losses(folder: Path) -> list[float]:
    return open_recording(folder / "run.ttrec").scalars("loss")[1].tolist()


PATCHED = [("HiddenStates", "output"), ("MLP2", "mlp.output"), ("MLPActivation", "mlp.activation")]


@pytest.mark.parametrize(("point", "place"), PATCHED, ids=[point for point, _ in PATCHED])
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_recorded_place_is_patched_into_another_run(
    point: str, place: str, ranks: int, flags: Flags, tmp_path: Path
) -> None:
    """A run with other weights and other text has, in the step that is patched, the very bits that the
    first run had there, and its own in the steps before."""
    source = record(flags, tmp_path / "source", 1)
    programs = patches(tmp_path, export(tmp_path / "source", point), place)
    more = {"interventions": programs, "intervention_files": str(tmp_path / "source")}
    plain = record(flags, tmp_path / "plain", ranks, seed=8)
    patched = record(flags, tmp_path / "patched", ranks, seed=8, **more)
    assert patched.keys() == source.keys() == plain.keys()
    for first in (0, MICRO_BATCH):
        here, after = (point, LAYER, first), ("HiddenStates", LAYER + 1, first)
        assert np.array_equal(patched[here], source[here]), "not what was recorded"
        assert not np.array_equal(plain[here], patched[here])
        assert not np.array_equal(plain[after], patched[after]), "nothing follows from it"
    before, changed = losses(tmp_path / "plain"), losses(tmp_path / "patched")
    assert before[: STEP - 1] == changed[: STEP - 1] and before[STEP - 1] != changed[STEP - 1]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_patch_undoes_what_was_spoilt_before_it(ranks: int, flags: Flags, tmp_path: Path) -> None:
    """The embedding is spoilt for one step; with the recorded output of layer 1 all that comes behind
    it is that of the clean run, and with it the loss, bit for bit."""
    clean = record(flags, tmp_path / "clean", ranks)
    programs = patches(tmp_path, export(tmp_path / "clean", "HiddenStates"), "output")
    spoil = tmp_path / "spoil.tti"
    spoil.write_text(f'when(steps="{STEP}")\nembedding.output = 2 - embedding.output\n')
    files = {"intervention_files": str(tmp_path / "clean")}
    spoilt = record(flags, tmp_path / "spoilt", ranks, interventions=[str(spoil)])
    mended = record(flags, tmp_path / "mended", ranks, interventions=[str(spoil), *programs], **files)
    for first in (0, MICRO_BATCH):
        assert not np.array_equal(mended["MLP2", LAYER, first], clean["MLP2", LAYER, first])
        for behind in (("MLP2", LAYER + 1, first), ("HiddenStates", LAYER + 1, first)):
            assert np.array_equal(mended[behind], clean[behind]), behind
            assert not np.array_equal(spoilt[behind], clean[behind]), behind
    steps = slice(0, STEP)
    assert losses(tmp_path / "mended")[steps] == losses(tmp_path / "clean")[steps]
    assert losses(tmp_path / "spoilt")[STEP - 1] != losses(tmp_path / "clean")[STEP - 1]
