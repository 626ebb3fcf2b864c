"""The notebook of examples/, executed beside a real run of two ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from hub_harness import REPOSITORY
from nbclient import NotebookClient
from program import tiny_flags, write_text
from viewer import live_run

SETS = {"code": ["def f(x):", "return loss", "x"], "prose": ["Once upon a time", "é, he said"]}
# Compares what the notebook has made with numpy's own arithmetic on the records.
CHECKS = """
import numpy as np

def of(name, layer):
    found = [r for r in recording.records("HiddenStates", prompt_set=name, layers=layer, steps=f"{first}-{last}")]
    record = found[-1]
    lengths = [len(text.encode()) for text in SETS[name]]
    return record.step, np.mean([record.values[row, length - 1] for row, length in enumerate(lengths)], axis=0, dtype=float)

layer, step = 2, int(projection.step[-1])
(at, code), (other, prose) = of("code", layer), of("prose", layer)
assert at == other == int(last_tokens("code").step)
unit = (code - prose) / np.linalg.norm(code - prose)
[record] = recording.records("HiddenStates", compressor="none", prompt_set=0, layers=layer, steps=step)
expected = record.values[0].astype(float) @ unit
np.testing.assert_allclose(projection.sel(layer=layer, step=step), expected, rtol=1e-4, atol=1e-5)
assert list(projection.token_text.sel(step=step).values) == record.tokens[0]
losses = recording.scalars("loss")
print(len(expected), len(records), bool(np.isfinite(losses[1]).all()))
"""


def outputs_of(cell: Any, kind: str) -> list[str]:
    return [output["data"][kind] for output in cell.outputs if kind in output.get("data", {})]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the notebook looks for runs, beside it."""
    (tmp_path / "examples").mkdir()
    for name, texts in SETS.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(texts) + "\n")
    return tmp_path


def test_the_notebook_runs_beside_a_run(folder: Path) -> None:
    flags = tiny_flags(write_text(folder / "text.txt")) | {
        "train_iters": 1_000_000,
        "tensor_model_parallel_size": 2,
        "monitor_interval": 10,
        "monitor_prompts": str(folder / "code.txt"),
        "monitor-prompts": str(folder / "prose.txt"),  # the same flag once more
        "record": str(folder / "runs" / "run"),
    }
    notebook = nbformat.read(REPOSITORY / "examples" / "notebook.ipynb", as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(f"SETS = {SETS!r}\n{CHECKS}"))
    with live_run(flags, folder / "runs", ranks=2) as run:
        run.address()
        client = NotebookClient(notebook, timeout=120, kernel_name="python3",
                                resources={"metadata": {"path": str(folder / "examples")}})  # fmt: skip
        client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert "several entries of the trace plan match: entry 1 (stats), entry 2 (none)" in cells[3].outputs[0].text
    assert len([picture for cell in cells for picture in outputs_of(cell, "image/png")]) == 5
    shown = "".join(html for cell in cells for html in outputs_of(cell, "text/html"))
    assert "&lt;Run" in shown and "&lt;Recording" in shown and "xarray.DataArray" in shown and "loss" in shown
    tokens, records, finite = cells[-1].outputs[-1].text.split()
    assert (int(tokens), finite) == (32, "True") and int(records) > 2 * 50


def test_the_notebook_is_kept_without_results() -> None:
    notebook = nbformat.read(REPOSITORY / "examples" / "notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
