"""A training that a viewer pauses, steps and stops."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tensor_tracer import connect
from test_attach import FOLDER, attach_environment


def pause_step_and_stop(line: list[str], run_dir: Path) -> int:
    """Starts a training with far more steps than are waited for. Returns the step after which it was stopped."""
    with subprocess.Popen(line, cwd=FOLDER, env=attach_environment()) as training:
        try:
            deadline = time.monotonic() + 60
            while not (run_dir / "hub.json").exists():
                assert training.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
            step = steer(run_dir)
            assert training.wait(60) == 0
            return step
        finally:
            training.kill()


def steer(run_dir: Path) -> int:
    with connect(run_dir=run_dir, timeout=30) as run, run.control("oracle") as control:
        next(run.steps(timeout=60))
        paused = control.pause()
        time.sleep(0.5)
        assert run.scalars("loss")[0][-1] == paused.step
        assert control.step(2).step == paused.step + 2
        while next(run.steps(timeout=30))["step"] < paused.step + 2:
            pass
        time.sleep(0.5)
        assert run.scalars("loss")[0][-1] == paused.step + 2
        return control.stop().step
