"""`tensor-tracer supervise` repeats a training command from its newest checkpoint until the run has ended."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkpoint_runs import DROPOUT, ENDS, Mesh, checkpoint, run, state_of, steps_of
from program import Flags, binary, command, environment

SAVED = 19  # the exit code of a run that SIGUSR1 has ended before its last step
NIGHTLY = pytest.mark.nightly(suite="checkpoints")


def ranks_of(save: Path) -> list[int]:
    """The ranks that train and save in this folder."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[1:2] == [b"train"] and b"tensor-tracer" in words[0] and str(save).encode() in words:
                found.append(int(folder.name))
    return found


@contextlib.contextmanager
def supervised(folder: Path, words: list[str], *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """The output is in the files `out` and `err` of the folder; runs/ is made there."""
    line = [str(binary()), "supervise", *options, "--", *words]
    with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
        process = subprocess.Popen(line, env=environment(), cwd=folder, stdout=out, stderr=err)
    try:
        yield process
    finally:
        for _ in range(2):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                time.sleep(0.2)
        process.wait(ENDS)


def training(flags: Flags, mesh: Mesh, steps: int, save: Path, interval: int) -> list[str]:
    mine = {"train_iters": steps, "save": str(save), "save_interval": interval, "log_format": "json"}
    return command(dict(flags) | DROPOUT | mine | {"tensor_model_parallel_size": mesh[0]}, mesh[0] * mesh[1])


def texts(folder: Path) -> tuple[str, str]:
    return (folder / "out").read_text(errors="replace"), (folder / "err").read_text(errors="replace")


def last_step(folder: Path) -> int:
    return max(steps_of(texts(folder)[0]), default=0)


@pytest.mark.parametrize(
    ("mesh", "steps", "kills"),
    [((2, 1), 120, 2), pytest.param((2, 2), 500, 10, marks=NIGHTLY), pytest.param((1, 1), 500, 10, marks=NIGHTLY)],
    ids=str,
)
def test_a_run_whose_ranks_are_killed_ends_with_the_same_bits(
    flags, mesh: Mesh, steps: int, kills: int, tmp_path: Path, record_property
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    record_property("seed", seed)
    print(f"seed {seed}")
    generator = random.Random(seed)
    whole = run(flags, tmp_path / "whole", mesh, train_iters=steps, save=tmp_path / "whole_saved").good().steps()
    save, interval = tmp_path / "saved", max(2, steps // 50)
    with supervised(tmp_path, training(flags, mesh, steps, save, interval), "--max-restarts", "30") as process:
        for kill in range(kills):
            aim = (kill + generator.random()) * steps / (kills + 1)
            end = time.monotonic() + 2 * ENDS
            while last_step(tmp_path) < aim or not (ranks := ranks_of(save)):
                assert process.poll() is None, texts(tmp_path)[1][-4000:]
                assert time.monotonic() < end, f"no step {aim}"
                time.sleep(0.005)
            os.kill(generator.choice(ranks), signal.SIGKILL)
            while set(ranks) & set(ranks_of(save)):
                time.sleep(0.005)
        assert process.wait(4 * ENDS) == 0, texts(tmp_path)[1][-4000:]
    output, errors = texts(tmp_path)
    assert len(re.findall(r"^supervise: the run ended with code", errors, re.M)) >= kills
    # A step that ran twice had the same bits both times.
    for line in output.splitlines():
        if line.endswith("}"):
            for step, bits in steps_of(line).items():
                assert bits == whole[step]
    assert max(steps_of(output)) == steps
    ours, theirs = (state_of(folder / checkpoint(steps)) for folder in (save, tmp_path / "whole_saved"))
    assert all(ours[name].equal(theirs[name]) for name in theirs)


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_and_ends_the_run(told: signal.Signals, flags, tmp_path: Path) -> None:
    save = tmp_path / "saved"
    with supervised(tmp_path, training(flags, (2, 1), 100_000, save, 0)) as process:
        end = time.monotonic() + ENDS
        while last_step(tmp_path) < 3 and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(told)
        assert process.wait(ENDS) == SAVED, texts(tmp_path)[1]
    assert (save / checkpoint(last_step(tmp_path))).is_dir()
    assert "restart" not in texts(tmp_path)[1]


def test_torchrun_gets_the_signal_that_it_passes_on(flags, tmp_path: Path) -> None:
    save = tmp_path / "saved"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node=2"]
    words = training(flags, (2, 1), 100_000, save, 0)
    with supervised(tmp_path, [*launcher, *words[words.index(str(binary())) :]]) as process:
        end = time.monotonic() + ENDS
        while last_step(tmp_path) < 3 and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.wait(ENDS)
    assert (save / checkpoint(last_step(tmp_path))).is_dir(), texts(tmp_path)[1]
    assert "restart" not in texts(tmp_path)[1]


def test_a_run_that_was_asked_to_end_is_not_repeated(flags, tmp_path: Path) -> None:
    """As Slurm does it, which sends the signal to the ranks. The next start of the same command goes on."""
    save = tmp_path / "saved"
    with supervised(tmp_path, training(flags, (2, 1), 100_000, save, 0)) as process:
        end = time.monotonic() + ENDS
        while last_step(tmp_path) < 3 and time.monotonic() < end:
            time.sleep(0.02)
        for rank in ranks_of(save):
            os.kill(rank, signal.SIGUSR1)
        assert process.wait(ENDS) == SAVED, texts(tmp_path)[1]
    last = last_step(tmp_path)
    assert (save / checkpoint(last)).is_dir() and "restart" not in texts(tmp_path)[1]
    with supervised(tmp_path, training(flags, (2, 1), last + 2, save, 0)) as process:
        assert process.wait(ENDS) == 0, texts(tmp_path)[1]
    assert sorted(steps_of(texts(tmp_path)[0])) == [last + 1, last + 2]


def test_a_second_interrupt_ends_a_run_that_does_not_listen(tmp_path: Path) -> None:
    words = ["sh", "-c", "trap '' USR1; echo begun; while :; do sleep 0.1; done", "sh", "--save", "x"]
    with supervised(tmp_path, words) as process:
        while "begun" not in texts(tmp_path)[0]:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 128 + signal.SIGTERM


def test_it_gives_up_after_the_restarts(tmp_path: Path) -> None:
    with supervised(tmp_path, ["sh", "-c", "echo run; exit 7", "sh", "--save=x"], "--max-restarts", "1") as process:
        assert process.wait(20) == 7
    output, errors = texts(tmp_path)
    assert output == "run\nrun\n"
    assert "supervise: the run ended with code 7; restart 1 of 1 in 1 s" in errors
    assert "supervise: the run ended with code 7 after 1 restarts; no more follow" in errors


def test_pauses_grow_only_without_a_new_checkpoint(tmp_path: Path) -> None:
    """The first three runs save one."""
    script = """count=$(ls save | wc -l)
                if [ $count -lt 3 ]; then mkdir save/step_0000000$count; touch save/step_0000000$count/manifest.json; fi
                exit 7"""
    (tmp_path / "save").mkdir()
    with supervised(tmp_path, ["sh", "-c", script, "sh", "--save=save"], "--max-restarts", "4") as process:
        assert process.wait(30) == 7
    assert re.findall(r"restart . of 4 in (\d+) s$", texts(tmp_path)[1], re.M) == ["1", "1", "1", "2"]


def test_the_first_start_goes_on_too(flags, tmp_path: Path) -> None:
    """A batch job that is queued again."""
    save = tmp_path / "saved"
    run(flags, tmp_path / "before", train_iters=4, save=save).good()
    with supervised(tmp_path, training(flags, (1, 1), 6, save, 0)) as process:
        assert process.wait(ENDS) == 0, texts(tmp_path)[1]
    assert sorted(steps_of(texts(tmp_path)[0])) == [5, 6]


def test_a_wrong_command_line_is_not_repeated(flags, tmp_path: Path) -> None:
    wrong = dict(flags) | {"num_layers": -1}
    with supervised(tmp_path, training(wrong, (1, 1), 5, tmp_path / "saved", 0)) as process:
        assert process.wait(ENDS) == 2
    assert "restart" not in texts(tmp_path)[1]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["true"], "--save: the command saves no checkpoints to go on from; add --save FOLDER"),
        (["true", "--save", "x", "--tensor-tracer-linger"], "--tensor-tracer-linger: the page of a run that failed"),
        (["no-such-program", "--save", "x"], "no-such-program: cannot be started: No such file or directory"),
    ],
    ids=["no checkpoints", "a lingering page", "no program"],
)
def test_refusals(words: list[str], error: str, tmp_path: Path) -> None:
    with supervised(tmp_path, words) as process:
        assert process.wait(10) == 2
    assert error in texts(tmp_path)[1]
