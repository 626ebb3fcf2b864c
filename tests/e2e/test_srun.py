"""Ranks started by a real srun: a separate Slurm on loopback."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkpoint_runs import DROPOUT, assert_goes_on
from program import Flags, binary, environment, step_log, tiny_flags, to_arguments, train, write_text
from slurm_cluster import slurm_cluster, unpack_packages
from test_program import processes_naming, wait_until

pytestmark = pytest.mark.nightly(suite="runs")


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    if reason := unpack_packages():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as variables:
        yield variables


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    return tiny_flags(write_text(tmp_path_factory.mktemp("data") / "text.txt"))


def srun(flags: Flags, ranks: int, *options: str) -> list[str]:
    return ["srun", *options, "-n", str(ranks), str(binary()), "train", *to_arguments(flags)]


def run(line: list[str], cluster: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line, env=environment() | cluster, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(("ranks", "tensor"), [(1, 1), (2, 2), (4, 2)])
def test_srun_trains_as_mpirun_does(
    ranks: int, tensor: int, flags: Flags, cluster: dict[str, str], tmp_path: Path
) -> None:
    same = {**flags, "train_iters": 5, "tensor_model_parallel_size": tensor, "log_format": "json"}
    done = run(srun({**same, "run_dir": str(tmp_path / "srun")}, ranks, "--mpi=pmix"), cluster)
    assert done.returncode == 0, done.stderr
    losses = [step["loss"] for step in step_log(done.stdout)]
    assert len(losses) == 5
    assert losses == train(same, tmp_path / "mpirun", ranks).losses()


def test_without_the_plug_in_one_line_says_what_to_type(flags: Flags, cluster: dict[str, str]) -> None:
    done = run(srun({**flags, "tensor_model_parallel_size": 2}, 2, "--mpi=none"), cluster)
    assert done.returncode == 2
    ours = {line for line in done.stderr.splitlines() if line.startswith("tensor-tracer:")}
    assert len(ours) == 1 and "use srun --mpi=pmix" in ours.pop(), done.stderr


def test_a_mesh_that_does_not_fit_is_refused(flags: Flags, cluster: dict[str, str]) -> None:
    done = run(srun({**flags, "tensor_model_parallel_size": 2}, 3, "--mpi=pmix"), cluster)
    assert done.returncode == 2
    assert "world size 3, tensor-parallel size 2" in done.stderr


@pytest.mark.parametrize("how", ["scancel", "Ctrl-C"])
def test_a_cancelled_step_leaves_nothing(how: str, flags: Flags, tmp_path: Path) -> None:
    """scancel asks with SIGTERM; srun passes Ctrl-C on. On a separate Slurm: after a cancelled
    step it may fail to launch the next."""
    folder = tmp_path / "run"
    endless = {**flags, "train_iters": 1_000_000, "tensor_model_parallel_size": 2,
               "tensor_tracer_port": 0, "run_dir": str(folder)}
    with slurm_cluster(tmp_path / "slurm") as cluster, open(tmp_path / "output", "wb") as output:
        variables = environment() | cluster
        line = srun(endless, 2, "--mpi=pmix", "--job-name", "endless")
        process = subprocess.Popen(line, env=variables, stdout=output, stderr=subprocess.STDOUT)
        wait_until(lambda: (folder / "hub.json").is_file(), 60, "the hub")
        time.sleep(1)
        if how == "scancel":
            subprocess.run(["scancel", "--signal=TERM", "--name", "endless"], env=variables, check=True)
        else:
            process.send_signal(signal.SIGINT)  # srun tells how the tasks are
            time.sleep(0.3)  # two at once would be one
            process.send_signal(signal.SIGINT)  # the second one within a second ends them
        wait_until(lambda: processes_naming(str(folder)) == [], 30, how)
        assert process.wait(30) != 0


@pytest.mark.parametrize("how", ["scancel", "kill"])
def test_sigusr1_ends_a_step_of_slurm_after_its_step(how: str, flags: Flags, tmp_path: Path) -> None:
    """scancel sends it to all processes of the step, srun passes it on. The run saves, and its hub shows the end."""
    folder, output, saved = tmp_path / "run", tmp_path / "output", tmp_path / "saved"
    endless = {**flags, **DROPOUT, "save": str(saved), "train_iters": 1_000_000, "tensor_model_parallel_size": 2,
               "tensor_tracer_port": 0, "run_dir": str(folder)}  # fmt: skip
    with slurm_cluster(tmp_path / "slurm") as cluster, open(output, "wb") as written:
        variables = environment() | cluster
        line = srun(endless, 2, "--mpi=pmix", "--job-name", "endless")
        process = subprocess.Popen(line, env=variables, stdout=written, stderr=subprocess.STDOUT)
        wait_until(lambda: b"\nstep " in output.read_bytes(), 60, "a step")
        if how == "scancel":
            subprocess.run(["scancel", "--signal=USR1", "--name", "endless"], env=variables, check=True)
        else:
            process.send_signal(signal.SIGUSR1)
        assert process.wait(30) == 19, output.read_text()
        wait_until(lambda: processes_naming(str(folder)) == [], 30, how)
    assert "no contact with the hub" not in output.read_text()
    [step] = re.findall(r"^end    stopped after step (\d+) ", output.read_text(), re.M)
    assert_goes_on(flags, tmp_path / "more", (2, 1), saved, int(step))
