"""How a run ends before its last step: by a signal, by the page; what viewers and the terminal are told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from checkpoint_runs import DROPOUT, assert_goes_on, checkpoints, step_of
from checkpoint_runs import run as resume
from program import environment
from test_control import claim
from viewer import LiveRun, Viewer, live_run

LONG = {"train_iters": 100_000}
ENDS = 20  # seconds
ENDS_AT_ONCE = 5.0  # seconds; 2 are promised
STARTS = 120  # with the check of the set-up
ROOT = Path(__file__).resolve().parents[2]
Record = Callable[[str, object], None]


@contextmanager
def training(flags, folder: Path, ranks: int = 1, **more) -> Iterator[tuple[LiveRun, Viewer]]:
    """A run that a viewer follows and that has done a few steps."""
    changes = LONG | {"tensor_model_parallel_size": ranks} | more
    with live_run(flags | changes, folder, ranks) as run, run.viewer() as viewer:
        viewer.wait_for(lambda: len(viewer.steps()) > 3, "steps")
        yield run, viewer


def phase_of(viewer: Viewer) -> str:
    return str(next(reversed(viewer.named("state")), viewer.hello["state"])["phase"])


def end_of(run: LiveRun, viewer: Viewer) -> tuple[int, int]:
    """The exit code, and the step that viewers were told as the last."""
    code = run.process.wait(ENDS)
    viewer.wait_for(lambda: phase_of(viewer) == "stopped", "stopped")
    return code, viewer.named("state")[-1]["step"]


def summary_of(run: LiveRun) -> int:
    """The step that the run's summary names."""
    found = re.findall(r"^end    stopped after step (\d+) of 100000, in \d+:\d\d; loss \d+\.\d{4}", run.output(), re.M)
    assert len(found) == 1, run.output()
    return int(found[0])


@pytest.mark.parametrize("ranks", [1, 2])
def test_sigusr1_ends_a_run_after_its_step(ranks: int, flags, tmp_path: Path) -> None:
    """To the launcher or to the program; the exit code is that of a run that is done."""
    with training(flags, tmp_path, ranks) as (run, viewer):
        run.process.send_signal(signal.SIGUSR1)
        code, step = end_of(run, viewer)
    assert code == 0, run.output()
    assert summary_of(run) == step == viewer.steps()[-1]


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("is_paused", [False, True], ids=["trains", "paused"])
def test_without_a_launcher_sigterm_and_sigint_end_a_run_after_its_step(
    which: signal.Signals, is_paused: bool, flags, tmp_path: Path
) -> None:
    """It saves that step."""
    saved = tmp_path / "saved"
    with training(flags | DROPOUT, tmp_path, record=str(tmp_path / "kept"), save=str(saved)) as (run, viewer):
        if is_paused:
            claim(viewer)
            viewer.request("control.pause")
        run.process.send_signal(which)
        code, step = end_of(run, viewer)
    assert code == 128 + which
    assert summary_of(run) == step
    file = tmp_path / "kept" / "run.ttrec"
    assert file.is_file()
    assert f"recorded in {file}; to see it again: tensor-tracer replay {file}" in run.output()
    assert_goes_on(flags, tmp_path / "more", (1, 1), saved, step)


def test_a_second_signal_ends_the_program_at_once(flags, tmp_path: Path) -> None:
    """The first waits for the step to end, which here lasts long."""
    slow = {"eval_interval": 5, "eval_iters": 10_000_000}
    with training(flags, tmp_path, **slow) as (run, viewer):
        viewer.wait_for(lambda: phase_of(viewer) == "evaluating", "the evaluation")
        run.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert run.process.poll() is None, "the first signal waits for the end of the step"
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(2) == 128 + signal.SIGINT


def test_sigterm_to_the_launcher_is_told_as_stopped(flags, tmp_path: Path) -> None:
    """The ranks have a second, in the middle of a step. mpirun 4.1 reads no output meanwhile, so it
    may not pass the summary on (docs/errors.md). The checkpoints from before stay good."""
    saved = tmp_path / "saved"
    with training(flags | DROPOUT, tmp_path, 2, save=str(saved), save_interval=2) as (run, viewer):
        viewer.wait_for(lambda: bool(viewer.named("checkpoint")), "a checkpoint")
        run.process.send_signal(signal.SIGTERM)
        code, step = end_of(run, viewer)
    assert code != 0
    assert viewer.steps()[-1] in (step, step + 1), "a step may end while this is told"
    last = step_of(saved / checkpoints(saved)[-1])
    assert viewer.named("checkpoint")[-1]["step"] <= last <= step + 1 and last % 2 == 0
    more = resume(flags, tmp_path / "more", (2, 1), load=saved, train_iters=last + 1).good()
    assert more.resumed_after() == last


def test_a_run_that_waits_for_a_viewer_ends(flags, tmp_path: Path) -> None:
    with live_run(flags | LONG, tmp_path, 1) as run:
        run.address()
        time.sleep(1)
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(ENDS) == 128 + signal.SIGTERM
    assert "end    stopped after step 0 of 100000" in run.output()


def test_the_page_stops_a_run(flags, tmp_path: Path) -> None:
    with training(flags, tmp_path, 2) as (run, viewer):
        claim(viewer)
        last = viewer.request("control.stop")["step"]
        code, step = end_of(run, viewer)
    assert (code, step) == (0, last)
    assert summary_of(run) == last


def test_a_run_that_is_done_says_so(flags, tmp_path: Path) -> None:
    with live_run(flags | {"train_iters": 7}, tmp_path, 1) as run:
        with run.viewer() as viewer:
            viewer.wait_for(lambda: viewer.named("state")[-1:] == [{"phase": "finished", "step": 7}], "the end")
        assert run.process.wait(ENDS) == 0
    assert re.search(r"^end    7 steps in \d+:\d\d; loss \d+\.\d{4}", run.output(), re.M), run.output()
    recording = run.run_dir / "run.ttrec"
    assert f"kept   {recording}, at most 256 MB: the oldest traced data goes first" in run.output()
    assert f"recorded in {recording}; to see it again: tensor-tracer replay {recording}" in run.output()


@contextmanager
def demo(folder: Path, until: str, *flags: str) -> Iterator[LiveRun]:
    """scripts/demo.sh in a separate session, as in a terminal, once it has printed `until`. A shell gives a command that
    it starts with & an ignored SIGINT."""
    line = ["scripts/demo.sh", "--train-iters", "100000", "--tensor-tracer-port", "0", "--run-dir",
            str(folder / "run"), *flags]  # fmt: skip
    with open(folder / "output.txt", "wb") as output:
        process = subprocess.Popen(line, cwd=ROOT, env=environment(), start_new_session=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                                   stdout=output, stderr=subprocess.STDOUT)  # fmt: skip
    run = LiveRun(process, folder)
    try:
        end = time.monotonic() + STARTS
        while until not in run.output():
            assert process.poll() is None and time.monotonic() < end, run.output()
            time.sleep(0.1)
        yield run
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            for one in run.memory_mib():
                os.kill(one, signal.SIGKILL)


def ctrl_c(run: LiveRun) -> None:
    """As the terminal does."""
    os.killpg(run.process.pid, signal.SIGINT)


def test_ctrl_c_ends_the_demo_after_its_step(tmp_path: Path) -> None:
    with demo(tmp_path, "\nstep ", "--log-interval", "1") as run:
        ctrl_c(run)
        run.wait()
    assert "The run ends after this step. Ctrl-C again ends it at once." in run.output()
    summary_of(run)


def test_a_second_ctrl_c_ends_the_demo_at_once(tmp_path: Path, record_property: Record) -> None:
    """In an evaluation that takes long, which is part of its step."""
    with demo(tmp_path, "\npage ", "--eval-interval", "1", "--eval-iters", "1000000") as run:
        with run.viewer() as viewer:
            viewer.wait_for(lambda: phase_of(viewer) == "evaluating", "the evaluation")
        ctrl_c(run)
        time.sleep(2)
        assert run.process.poll() is None, run.output()
        begin = time.monotonic()
        ctrl_c(run)
        assert run.process.wait(ENDS) != 0
        while run.memory_mib() and time.monotonic() < begin + ENDS:
            time.sleep(0.05)
        seconds = time.monotonic() - begin
        record_property("seconds", f"{seconds:.2f}")
        assert seconds < ENDS_AT_ONCE, f"the processes of the run were there for {seconds:.1f} s"
