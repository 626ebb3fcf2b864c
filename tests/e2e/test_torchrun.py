"""Ranks started by a real torchrun: libtorch's gloo groups instead of MPI."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from checkpoint_runs import DROPOUT, assert_goes_on
from hub_harness import HubOfRun
from program import Flags, binary, command, environment, step_log, tiny_flags, to_arguments, train, write_text
from test_program import processes_naming, wait_until


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    return tiny_flags(write_text(tmp_path_factory.mktemp("data") / "text.txt"))


def torchrun(ranks: int, program: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python"]
    return [*launcher, f"--nproc-per-node={ranks}", *options, str(binary(program)), *arguments]


def run(line: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=120, check=False)


NIGHTLY = pytest.mark.nightly(suite="runs")


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=NIGHTLY), pytest.param(8, marks=NIGHTLY)])
def test_the_group_suite_passes(ranks: int) -> None:
    done = run(torchrun(ranks, "mpi_tests"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[  PASSED  ] 21 tests" in done.stdout


@pytest.mark.parametrize(("ranks", "tensor"), [pytest.param(2, 2, marks=NIGHTLY), (4, 2)])
def test_torchrun_trains_as_mpirun_does(ranks: int, tensor: int, flags: Flags, tmp_path: Path) -> None:
    same = {**flags, "train_iters": 5, "tensor_model_parallel_size": tensor, "log_format": "json"}
    done = run(torchrun(ranks, "tensor-tracer", "train", *to_arguments({**same, "run_dir": str(tmp_path / "run"),
                                                                    "distributed_backend": "gloo"})))
    assert done.returncode == 0, done.stderr
    losses = [step["loss"] for step in step_log(done.stdout)]
    assert losses == train(same, tmp_path / "mpirun", ranks).losses() and len(losses) == 5


REFUSALS = [
    pytest.param(True, "mpi", "torchrun connects ranks by gloo, not by mpi", id="torchrun-mpi"),
    pytest.param(False, "gloo", "Open MPI connects ranks by mpi, not by gloo", id="mpirun-gloo"),
    pytest.param(True, "nccl", "nccl moves tensors between GPUs", id="nccl"),
]


@pytest.mark.parametrize(("by_torchrun", "asked", "words"), REFUSALS)
def test_a_backend_that_the_launcher_does_not_offer_is_refused(
    by_torchrun: bool, asked: str, words: str, flags: Flags
) -> None:
    asking = {**flags, "distributed_backend": asked}
    line = torchrun(2, "tensor-tracer", "train", *to_arguments(asking)) if by_torchrun else command(asking, 2)
    done = run(line)
    assert done.returncode != 0 and words in done.stderr and "--distributed-backend" in done.stderr


class Endless:
    """A run of two ranks that does not end by itself, with its hub."""

    def __init__(self, flags: Flags, folder: Path, *options: str) -> None:
        self.folder, self.output = folder / "run", folder / "output"
        endless = {**flags, "train_iters": 1_000_000, "tensor_model_parallel_size": 2, "tensor_tracer_port": 0,
                   "run_dir": str(self.folder)}  # fmt: skip
        line = torchrun(2, "tensor-tracer", "train", *to_arguments(endless), options=options)
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(line, env=environment(), stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: "\nstep " in self.text(), 60, "a step")
        except AssertionError:
            self.close()
            raise

    def __enter__(self) -> Endless:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Torchrun ends its ranks."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)

    def text(self) -> str:
        return self.output.read_text() if self.output.exists() else ""

    def rank(self, rank: int) -> int:
        for folder in Path("/proc").iterdir():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                variables = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"/tensor-tracer") and str(self.folder).encode() in words:
                if f"RANK={rank}".encode() in variables:
                    return int(folder.name)
        raise AssertionError(f"rank {rank} does not run")

    def ends(self) -> int:
        code = self.process.wait(60)
        wait_until(lambda: processes_naming(str(self.folder)) == [], 30, "the end of all processes")
        return code


def test_a_viewer_sees_and_steers_the_run(flags: Flags, tmp_path: Path) -> None:
    with Endless(flags, tmp_path) as endless:
        viewer = HubOfRun(endless.folder).viewer()
        assert viewer.hello["result"]["run"]["mesh"]["tensor"] == 2
        viewer.receive_until(lambda: len(viewer.records) > 20, "records", 60)
        viewer.request("control.claim", {"name": "test"})
        assert viewer.request("control.pause", {})["result"]["ranks"] == 2
        before = viewer.request("control.step", {"count": 2})["result"]["step"]
        assert viewer.request("control.step", {"count": 1})["result"]["step"] == before + 1
        viewer.request("control.stop", {})
        assert endless.ends() == 0, endless.text()
        assert "end    stopped after step" in endless.text()


@NIGHTLY
@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_ends_all_ranks_after_their_step(which: signal.Signals, flags: Flags, tmp_path: Path) -> None:
    """They save it. SIGTERM and SIGINT are to torchrun, SIGUSR1 is to rank 0."""
    saved = tmp_path / "saved"
    with Endless({**flags, **DROPOUT, "save": str(saved)}, tmp_path) as endless:
        os.kill(endless.rank(0) if which == signal.SIGUSR1 else endless.process.pid, which)
        code = endless.ends()
        [step] = re.findall(r"^end    stopped after step (\d+) ", endless.text(), re.M)
    assert (code == 0) == (which == signal.SIGUSR1), endless.text()
    assert_goes_on(flags, tmp_path / "more", (2, 1), saved, int(step))


def test_a_killed_rank_ends_the_run_with_its_place(flags: Flags, tmp_path: Path) -> None:
    with Endless(flags, tmp_path) as endless:
        os.kill(endless.rank(1), signal.SIGKILL)
        assert endless.ends() != 0
        assert " on rank 0 of 2: " in endless.text()


def test_a_stopped_rank_is_named(flags: Flags, tmp_path: Path) -> None:
    with Endless({**flags, "watchdog_timeout": 3}, tmp_path) as endless:
        stopped = endless.rank(1)
        os.kill(stopped, signal.SIGSTOP)
        try:
            wait_until(lambda: "flight record: " in endless.text(), 30, "the watchdog")
        finally:
            os.kill(stopped, signal.SIGCONT)  # torchrun gives it 30 s
        assert endless.ends() != 0
    assert "watchdog: rank 1 (tensor 1) did not arrive at " in endless.text()
    assert re.search(r"exitcode *: 18", endless.text()), endless.text()
    calls = json.loads((endless.folder / "flight-record" / "rank-00000-collectives.json").read_text())
    assert calls["wait"]["ranks"] == [0, 1] and calls["collectives"][-1]["ms"] is None


@NIGHTLY
def test_torchrun_starts_killed_ranks_again(flags: Flags, tmp_path: Path) -> None:
    with Endless(flags, tmp_path, "--max-restarts=1") as endless:
        os.kill(endless.rank(1), signal.SIGKILL)
        wait_until(lambda: endless.text().count("\nstep      1/") == 2, 60, "the second attempt")
        time.sleep(0.5)
        endless.process.send_signal(signal.SIGTERM)
        endless.ends()


def test_a_missing_variable_of_torchrun_is_one_line(flags: Flags) -> None:
    ranks = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    line = [str(binary()), "train", *to_arguments(flags)]
    done = subprocess.run(line, env=environment() | ranks, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "MASTER_ADDR: is not set; start the program with mpirun -np N, or with torchrun" in done.stderr
    assert len(done.stderr.splitlines()) == 1
