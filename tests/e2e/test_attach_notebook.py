"""The notebook of examples/attach/, executed as a user does."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from hub_harness import REPOSITORY
from nbclient import NotebookClient
from tensor_tracer import Recording, open_recording

EXAMPLES = REPOSITORY / "examples" / "attach"
NOTEBOOK = EXAMPLES / "hf_finetune.ipynb"
STEERED = 171  # the first step with the program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the notebook leaves its run."""
    return tmp_path_factory.mktemp("notebook") / "attach"


@pytest.fixture(scope="module")
def executed(folder: Path) -> Iterator[Any]:
    """The notebook in a fresh copy of the examples, also at a second try, on one thread: two threads wait for each other
    at every operation, which takes minutes where other tests use the same CPUs."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(EXAMPLES, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONPATH", str(REPOSITORY / "python"))
        patch.setenv("TENSOR_TRACER_BUILD", os.environ.get("TENSOR_TRACER_BUILD", str(REPOSITORY / "build/release")))
        notebook = nbformat.read(folder / NOTEBOOK.name, as_version=4)
        NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
        yield notebook


@pytest.fixture(scope="module")
def recording(executed: Any, folder: Path) -> Recording:
    [file] = folder.glob("runs/*/run.ttrec")
    return open_recording(file)


def test_the_loss_falls_until_a_program_raises_it(recording: Recording) -> None:
    steps, losses = recording.scalars("loss")
    assert list(steps) == list(range(1, 211))
    before = losses[STEERED - 21 : STEERED - 1]
    assert losses[0] > 5 and before.mean() < 0.65 * losses[:5].mean()
    assert losses[STEERED - 1] > before.max() + 0.5 and losses[-10:].mean() < losses[STEERED - 1] - 0.5


def test_it_ends_with_plots(executed: Any, recording: Recording) -> None:
    outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 5 and len(set(pictures)) == 5 and min(map(len, pictures)) > 10_000
    probabilities = recording.records("RawAttentionScore", layers=2)[-1].values
    assert probabilities.shape == (1, 4, 64, 64) and np.allclose(probabilities.sum(-1), 1, atol=1e-5)


def test_no_output_has_a_token(executed: Any, folder: Path) -> None:
    tokens = [file.read_text().strip() for file in folder.glob("runs/*/*token")]
    assert len(tokens) == 3 and all(len(token) > 20 for token in tokens)
    shown = json.dumps([cell.get("outputs", ()) for cell in executed.cells])
    assert "token in runs/" in shown and not any(token in shown for token in tokens) and "#token" not in shown


def test_the_notebook_is_kept_without_results() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
