"""A number that is not finite ends the program with the code of its kind (16, 17); `nonfinite_test.cpp` has the
100 trials of the classification."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from checkpoint_runs import Done, checkpoints, line_of, run
from program import Flags, environment
from test_supervise import supervised, texts

STEPS = 9
ALL = 1_000_000
# Sums; a step has 20. The last one of step 3 belongs to the gradient of the position embedding, of which the gradient
# norm counts the copy of rank 0 only.
FAULTS = {"forward": 62, "backward": 66, "a gradient that all ranks have": 60}


@pytest.fixture(scope="module")
def nan_reduction(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes a sum over the ranks NaN."""
    library = tmp_path_factory.mktemp("nan") / "nan_reduction.so"
    source = Path(__file__).with_suffix(".py").with_name("nan_reduction.c")
    subprocess.run(["mpicc", "-shared", "-fPIC", "-O1", str(source), "-o", str(library)], check=True)
    return library


def variables(library: Path, fault: str, count: int) -> dict[str, str]:
    at = {"TT_NAN_RANK": "1", "TT_NAN_CALL": str(FAULTS[fault]), "TT_NAN_COUNT": str(count)}
    return {"LD_PRELOAD": str(library)} | at


def train(flags: Flags, folder: Path, library: Path, fault: str, count: int) -> Done:
    changes = {"train_iters": STEPS, "save": folder / "saved", "save_interval": STEPS, "eval_interval": 0}
    done = subprocess.run(line_of(flags, folder, (2, 1), changes), env=environment() | variables(library, fault, count),
                          capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def test_no_fault_is_a_good_run(nan_reduction: Path, flags: Flags, tmp_path: Path) -> None:
    """So the codes below are those of the fault."""
    assert len(train(flags, tmp_path, nan_reduction, "forward", 0).good().steps()) == STEPS


@pytest.mark.parametrize("fault", FAULTS)
def test_a_transient_fault_ends_the_program_with_16(fault: str, nan_reduction: Path, flags: Flags, tmp_path: Path) -> None:
    """One sum of one rank. The state before the step is saved, and the run goes on from it."""
    done = train(flags, tmp_path, nan_reduction, fault, 1)
    assert done.code == 16, done.errors
    found = re.search(r"is not finite at step (\d+); repeated from the same state, the step is finite \(transient\)", done.errors)
    assert found is not None, done.errors
    step = int(found[1])
    good = {number: bits for number, bits in done.steps().items() if number < step}
    assert 1 < step < STEPS and max(good) == step - 1
    assert checkpoints(tmp_path / "saved") == [f"step_{step - 1:08d}"]
    whole = run(flags, tmp_path / "whole", (2, 1), train_iters=STEPS, eval_interval=0).good().steps()
    rest = run(flags, tmp_path / "rest", (2, 1), train_iters=STEPS, eval_interval=0, load=tmp_path / "saved").good().steps()
    assert good | rest == whole


@pytest.mark.parametrize("fault", FAULTS)
def test_a_persistent_fault_ends_the_program_with_17(fault: str, nan_reduction: Path, flags: Flags, tmp_path: Path) -> None:
    done = train(flags, tmp_path, nan_reduction, fault, ALL)
    assert done.code == 17, done.errors
    assert re.search(r"not finite again \(persistent\): the first such number is in \S+ on rank 1\b", done.errors), done.errors
    assert checkpoints(tmp_path / "saved") == []


def test_the_supervisor_repeats_a_run_after_a_transient_fault(nan_reduction: Path, flags: Flags, tmp_path: Path) -> None:
    """In each start the same sum fails, and each start is some steps farther."""
    changes = {"train_iters": STEPS, "save": tmp_path / "saved", "eval_interval": 0}
    words = ["env", *(f"{name}={value}" for name, value in variables(nan_reduction, "backward", 1).items()),
             *line_of(flags, tmp_path / "runs", (2, 1), changes)]  # fmt: skip
    with supervised(tmp_path, words, "--max-restarts", "20") as process:
        assert process.wait(120) == 0, texts(tmp_path)[1]
    assert "the run ended with code 16; restart 1 of 20" in texts(tmp_path)[1]
