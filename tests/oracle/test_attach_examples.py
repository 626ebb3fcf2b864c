"""The scripts of examples/attach, started as a user does."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from program import REPOSITORY
from stopping import pause_step_and_stop
from tensor_tracer import open_recording
from test_attach import attach_environment

NIGHTLY = pytest.mark.nightly(suite="attach")
EXAMPLES = REPOSITORY / "examples/attach"
OF_TRACER = re.compile(r"\b(tt|run|tracer|tensor_tracer)\b")
CALLBACKS = ", callbacks=[tracer]"


def losses_of(script: str, ranks: int, steps: int, folder: Path) -> list[float]:
    """What the script prints: every 10 steps, or after each step."""
    launcher = [] if ranks == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    options = ["--steps", str(steps), "--port", "0", "--run-dir", str(folder / "run")]
    line = [sys.executable, *launcher, str(EXAMPLES / script), *options]
    done = subprocess.run(
        line, env=attach_environment(), cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is off" not in done.stdout + done.stderr and "not traced" not in done.stdout + done.stderr
    return [float(found) for found in re.findall(r"\bloss'?:? '?(\d+\.\d+)", done.stdout)]


@NIGHTLY
@pytest.mark.cpu_only
@pytest.mark.parametrize(("script", "ranks", "steps", "printed"), [("train_fsdp.py", 2, 20, 2), ("train_trainer.py", 1, 8, 8)])
def test_the_loss_falls(script: str, ranks: int, steps: int, printed: int, tmp_path: Path) -> None:
    losses = losses_of(script, ranks, steps, tmp_path)
    assert len(losses) == printed and losses[0] > 3 and losses[-1] < losses[0] - 0.3


@NIGHTLY
@pytest.mark.cpu_only
def test_a_viewer_pauses_and_stops_a_trainer(tmp_path: Path) -> None:
    """In a pause, the page has the loss of the last step."""
    options = ["--steps", "100000", "--port", "0", "--run-dir", str(tmp_path / "run")]
    stopped = pause_step_and_stop([sys.executable, str(EXAMPLES / "train_trainer.py"), *options], tmp_path / "run")
    with open_recording(tmp_path / "run/run.ttrec") as recording:
        steps, _ = recording.scalars("loss")
    assert steps[-1] == stopped


def without_tracer(script: str) -> tuple[str, int]:
    """The plain script, and the number of lines that are not in it or differ."""
    kept, changed, inside = [], 0, None
    text = (EXAMPLES / script).read_text()
    for line in text[text.index("from __future__") :].splitlines():
        indent = len(line) - len(line.lstrip())
        inside = inside if inside is not None and (not line or indent > inside) else None
        if not OF_TRACER.search(line):
            kept.append(line[4:] if inside is not None else line)
            continue
        changed += 1
        if "with run.step()" in line:
            inside = indent
        elif CALLBACKS in line:
            kept.append(line.replace(CALLBACKS, ""))
    return "\n".join(kept), changed


@pytest.mark.parametrize(("script", "lines"), [("train_ddp.py", 5), ("train_fsdp.py", 5), ("train_trainer.py", 3)])
def test_few_lines_are_the_tracers(script: str, lines: int) -> None:
    """README.md says five. A block under `with run.step():` is only moved."""
    plain, changed = without_tracer(script)
    names = {one.id for one in ast.walk(ast.parse(plain)) if isinstance(one, ast.Name)}
    assert changed == lines and names.isdisjoint({"tt", "run", "tracer", "TracerCallback"})
