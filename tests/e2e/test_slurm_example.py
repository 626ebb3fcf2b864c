"""The example for Slurm, with a fake sbatch, srun and scontrol: a job whose time is over saves, is queued again, goes on."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import REPOSITORY, Flags, binary, environment, step_log, tiny_flags, to_arguments, train, write_text
from test_program import processes_naming, wait_until

pytestmark = pytest.mark.nightly(suite="runs")

SCRIPT = REPOSITORY / "examples" / "slurm" / "train.sbatch"
STEPS, JOB = 120, "4711"
# The variables would make mpirun look for a real Slurm.
SRUN = """#!/bin/bash
[[ $1 == --mpi=pmix ]] || exit 64
shift
ranks=$SLURM_NTASKS
unset ${!SLURM_@}
exec mpirun --oversubscribe --bind-to none -np "$ranks" "$@"
"""
SCONTROL = """#!/bin/bash
echo "$@" >> "$FAKE_SLURM/requeued"
"""


class FakeSlurm:
    """Runs one batch script as often as it is submitted or queued again."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder, self._arguments = folder, arguments
        self.options = dict(re.findall(r"^#SBATCH --([\w-]+)=?(.*)$", SCRIPT.read_text(), re.M))
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    @contextlib.contextmanager
    def job(self, ranks: int) -> Iterator[subprocess.Popen[bytes]]:
        """The batch script on the first node. Nothing of the job outlives the block."""
        variables = environment() | {
            "SLURM_JOB_ID": JOB, "SLURM_NTASKS": str(ranks), "FAKE_SLURM": str(self._folder),
            "PATH": f"{self._folder}:{binary().parent}:{os.environ['PATH']}",
        }  # fmt: skip
        with open(self._folder / "output", "ab" if self.options.get("open-mode") == "append" else "wb") as output:
            job = subprocess.Popen(["bash", str(SCRIPT), *self._arguments], cwd=self._folder, env=variables,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        try:
            yield job
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGTERM)  # supervise ends the launcher at the second one
                time.sleep(0.5)
                os.killpg(job.pid, signal.SIGTERM)
                job.wait(60)

    def time_is_almost_over(self, job: subprocess.Popen[bytes]) -> int:
        """Sends what --signal asks for: B: is to the script, not to the ranks. Returns the seconds that are left."""
        asked = re.fullmatch(r"B:(\w+)@(\d+)", self.options["signal"])
        assert asked is not None, self.options
        job.send_signal(signal.Signals[f"SIG{asked[1]}"])
        return int(asked[2])

    def losses(self) -> dict[int, float]:
        """By step; no step was done twice."""
        found = [(step["step"], step["loss"]) for step in step_log(self.output())]
        assert len(dict(found)) == len(found)
        return dict(found)

    def output(self) -> str:
        """All whole lines so far."""
        return (self._folder / "output").read_text().rpartition("\n")[0]

    def requeued(self) -> list[str]:
        calls = self._folder / "requeued"
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    data = write_text(tmp_path_factory.mktemp("data") / "text.txt")
    return {**tiny_flags(data), "train_iters": STEPS, "tensor_model_parallel_size": 2}


def test_a_job_whose_time_is_over_goes_on_in_the_next(flags: Flags, tmp_path: Path) -> None:
    """The losses of both jobs are those of one run."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    slurm = FakeSlurm(folder, *to_arguments({**flags, "log_format": "json"}))
    assert "requeue" in slurm.options
    with slurm.job(2) as first:
        wait_until(lambda: first.poll() is not None or bool(slurm.losses()), 60, "steps")
        seconds = slurm.time_is_almost_over(first)
        assert first.wait(seconds) == 19, slurm.output()
    done = max(slurm.losses())
    assert done < STEPS, "the training ended before its job"
    assert max(path.name for path in (folder / "checkpoints").glob("step_*")) == f"step_{done:08d}"
    assert processes_naming(str(folder)) == []
    assert slurm.requeued() == [f"requeue {JOB}"]
    with slurm.job(2) as second:
        assert second.wait(60) == 0, slurm.output()
    assert slurm.requeued() == [f"requeue {JOB}"], "the training has ended"
    whole = train(flags, tmp_path / "whole", 2).losses()
    assert slurm.losses() == dict(enumerate(whole, 1))


def test_a_job_that_fails_is_not_queued_again(flags: Flags, tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path, *to_arguments({**flags, "num_layers": -1}))
    with slurm.job(1) as job:
        assert job.wait(60) == 2, slurm.output()
    assert "--num-layers" in slurm.output() and slurm.requeued() == []
