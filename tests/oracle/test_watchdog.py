"""A rank that does not arrive at a collective: the watchdog's error, its exit code and the flight record."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_runs import Done, Mesh, run, started, steps_of
from program import Flags
from tensor_tracer import open_recording
from test_control import claim
from test_supervise import last_step, ranks_of, supervised, texts, training
from viewer import live_run

LONG = {"train_iters": 1_000_000}
CODE = 18
ENDS = 60.0  # seconds
NIGHTLY = pytest.mark.nightly(suite="crashes")
SOAK_SECONDS = float(os.environ.get("TT_WATCHDOG_SECONDS", "20"))
MISSING = re.compile(
    r"tensor-tracer: watchdog: rank (?P<rank>\d)( \([^)]*\))? did not arrive at (?P<operation>[a-z_ ]+) of (?P<bytes>\d+) "
    r"bytes, number (?P<sequence>\d+) of group (?P<group>\w+) \(ranks (?P<ranks>[\d, ]+)\), in step (?P<step>\d+); "
    r"rank (?P<waiter>\d) has waited for (?P<seconds>[\d.]+) s; process (?P<pid>\d+) of rank \d on \S+ is stopped \(SIGSTOP\)"
)


def rank_processes(folder: Path) -> dict[int, int]:
    """The process of each rank of the run in this folder."""
    found = {}
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if not words[0].endswith(b"/tensor-tracer") or str(folder / "run").encode() not in words:
                continue
            for variable in (process / "environ").read_bytes().split(b"\0"):
                name, _, value = variable.partition(b"=")
                if name == b"OMPI_COMM_WORLD_RANK":
                    found[int(value)] = int(process.name)
    return found


def trains(done: Done) -> bool:
    return len(steps_of(done.output)) > 3


@contextlib.contextmanager
def stopped(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def check_record(folder: Path, error: re.Match[str], ranks: int) -> None:
    """The parts of the ranks that were alive agree with the error."""
    missing, sequence = int(error["rank"]), int(error["sequence"])
    states = read_json(folder / "ranks.json")
    assert [state["rank"] for state in states] == list(range(ranks))
    waiting = read_json(folder / f"rank-{int(error['waiter']):05d}-collectives.json")
    path = waiting["wait"]["path"]
    assert waiting["wait"]["sequence"] == sequence and waiting["wait"]["operation"] == error["operation"]
    # A rank that has just begun has told nothing of its groups.
    assert states[missing]["calls"].get(path, 0) <= sequence and states[missing]["pid"] == int(error["pid"])
    assert states[int(error["waiter"])]["calls"][path] == sequence
    [stuck] = [one for one in waiting["collectives"] if one["group"] == path and one["sequence"] == sequence]
    assert stuck["ms"] is None and stuck["step"] == int(error["step"]) and stuck["bytes"] == int(error["bytes"])
    assert all(one["ms"] is not None for one in waiting["collectives"] if one["sequence"] < sequence - 10)
    for rank in set(range(ranks)) - {missing}:
        part = read_json(folder / f"rank-{rank:05d}-collectives.json")
        assert part["rank"] == rank and error["operation"] in part["reason"]
        assert part["wait"] is not None and 10 < len(part["collectives"]) <= 1024
        numbers = [one["number"] for one in part["collectives"]]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        stacks = (folder / f"rank-{rank:05d}-stacks.txt").read_text()
        assert "tt::train::Trainer::run()" in stacks and "tt::comm::" in stacks, stacks
        configuration = read_json(folder / f"rank-{rank:05d}-configuration.json")
        assert configuration["options"]["num-layers"] == "2" and configuration["launcher"] == "Open MPI"
    assert '"event"' in (folder / "hub.log").read_text()
    if missing != 0:
        assert '"step":3,' in (folder / "rank-00000-log.txt").read_text()


def check_recording(folder: Path, run_dir: Path, step: int) -> None:
    """It is valid, and holds the newest steps of the run's recording."""
    with open_recording(folder / "recording-end.ttrec") as end, open_recording(run_dir / "run.ttrec") as whole:
        steps, losses = end.scalars("loss")
        all_steps, all_losses = whole.scalars("loss")
        assert len(steps) > 3 and step - 2 <= steps[-1] <= step
        assert list(losses) == list(all_losses[list(all_steps).index(steps[0]) :][: len(losses)])


@pytest.mark.parametrize(
    ("mesh", "rank"),
    [((2, 1), 1), ((1, 2), 0), ((2, 2), 3), pytest.param((1, 4), 2, marks=NIGHTLY), pytest.param((4, 1), 0, marks=NIGHTLY)],
    ids=str,
)  # fmt: skip
def test_a_stopped_rank_is_named_and_ends_the_run(
    mesh: Mesh, rank: int, flags: Flags, tmp_path: Path, record_property
) -> None:
    with started(flags, tmp_path, mesh, watchdog_timeout=5, global_batch_size=16, **LONG) as process:
        process.wait_for(trains, "steps")
        begin = time.monotonic()
        with stopped(rank_processes(tmp_path)[rank]):
            process.wait_for(lambda done: "watchdog: " in done.errors, "error")
            record_property("found_after", found := round(time.monotonic() - begin, 2))
            print(f"found after {found} s")
            assert process.has_ended_within(ENDS)
    done = process.done()
    assert done.code == CODE, done.errors
    assert len(re.findall(r"^tensor-tracer: watchdog: ", done.errors, re.M)) == 1, done.errors
    error = MISSING.search(done.errors)
    assert error is not None and int(error["rank"]) == rank, done.errors
    record = tmp_path / "run" / "flight-record"
    assert f"see {record}; start the run again" in done.errors
    check_record(record, error, mesh[0] * mesh[1])
    check_recording(record, tmp_path / "run", int(error["step"]))
    assert max(steps_of(done.output)) in (int(error["step"]), int(error["step"]) - 1)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_dies_leaves_a_record_of_the_others(
    rank: int, how: signal.Signals, flags: Flags, tmp_path: Path
) -> None:
    """The launcher ends them within a second."""
    with started(flags, tmp_path, (3, 1), num_attention_heads=3, hidden_size=48, **LONG) as process:
        process.wait_for(trains, "steps")
        ranks = rank_processes(tmp_path)
        os.kill(ranks[rank], how)
        assert process.has_ended_within(ENDS)
    done, record = process.done(), tmp_path / "run" / "flight-record"
    assert done.code != 0
    told = rf"rank {rank} \(tensor {rank}\) has died in step \d+: its process {ranks[rank]} on \S+ was killed or has crashed"
    others = set(range(3)) - {rank}
    for one in others:
        part = read_json(record / f"rank-{one:05d}-collectives.json")
        assert part["rank"] == one and re.search(told, part["reason"]) and part["found_by_rank"] in others
        assert len(part["collectives"]) > 10
        assert "tt::train::Trainer::run()" in (record / f"rank-{one:05d}-stacks.txt").read_text()
        assert read_json(record / f"rank-{one:05d}-configuration.json")["launcher"] == "Open MPI"
    assert not (record / f"rank-{rank:05d}-collectives.json").exists()
    assert read_json(record / "ranks.json")[rank]["pid"] == ranks[rank]
    assert '"event"' in (record / "hub.log").read_text()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_is_told_to_end_leaves_none(how: signal.Signals, flags: Flags, tmp_path: Path) -> None:
    with started(flags, tmp_path, (2, 1), **LONG) as process:
        process.wait_for(trains, "steps")
        process.process.send_signal(how)
        assert process.has_ended_within(ENDS)
    assert process.done().code != 0
    assert not (tmp_path / "run" / "flight-record").exists() and not (tmp_path / "run" / ".watchdog").exists()


@NIGHTLY
def test_without_a_limit_a_rank_may_stop(flags: Flags, tmp_path: Path) -> None:
    with started(flags, tmp_path, (2, 1), watchdog_timeout=0, **LONG) as process:
        process.wait_for(trains, "steps")
        with stopped(rank_processes(tmp_path)[1]):
            time.sleep(6)
        step = max(steps_of(process.done().output))
        process.wait_for(lambda done: max(steps_of(done.output)) > step + 1, "more steps")
        assert process.ask_to_stop().code == 0
    assert not list((tmp_path / "run").glob("flight-record*")) and not (tmp_path / "run" / ".watchdog").exists()


@NIGHTLY
def test_a_pause_is_no_reason(flags: Flags, tmp_path: Path) -> None:
    changes = {"tensor_model_parallel_size": 2, "watchdog_timeout": 3, "watchdog_first_step_timeout": 30}
    with live_run(dict(flags) | LONG | changes, tmp_path, 2) as live, live.viewer() as viewer:
        viewer.wait_for(lambda: len(viewer.steps()) > 3, "steps")
        claim(viewer)
        viewer.request("control.pause")
        viewer.drain(7)
        step = viewer.request("control.continue")["step"]
        viewer.wait_for(lambda: viewer.steps()[-1] > step + 2, "more steps")
        viewer.request("control.stop")
        live.wait()
    assert not (tmp_path / "run" / "flight-record").exists()


@NIGHTLY
def test_a_run_that_waits_for_a_viewer_is_no_reason(flags: Flags, tmp_path: Path) -> None:
    changes = {"train_iters": 5, "tensor_model_parallel_size": 2, "watchdog_first_step_timeout": 5}
    with live_run(dict(flags) | changes, tmp_path, 2) as live:
        live.address()
        time.sleep(10)
        with live.viewer():
            live.wait()


@NIGHTLY
def test_a_long_evaluation_is_no_reason(flags: Flags, tmp_path: Path) -> None:
    """Each replica evaluates alone, for much longer than the limit."""
    begin = time.monotonic()
    run(flags, tmp_path, (1, 2), train_iters=2, eval_interval=2, eval_iters=8000, watchdog_timeout=3,
        watchdog_first_step_timeout=30).good()  # fmt: skip
    assert time.monotonic() - begin > 3, "the evaluation was not long"


def trace(request: int, process: int) -> None:
    """Attaches a debugger, or lets the process go on."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, process, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


@NIGHTLY
def test_a_debugger_is_no_reason(flags: Flags, tmp_path: Path) -> None:
    attach, detach = 16, 17
    with started(flags, tmp_path, (2, 1), watchdog_timeout=3, **LONG) as process:
        process.wait_for(trains, "steps")
        rank = rank_processes(tmp_path)[1]
        threads = [int(task.name) for task in Path(f"/proc/{rank}/task").iterdir()]
        for thread in threads:
            trace(attach, thread)
            os.waitpid(thread, 0x40000000)  # __WALL
        time.sleep(8)
        for thread in threads:
            trace(detach, thread)
        step = max(steps_of(process.done().output))
        process.wait_for(lambda done: max(steps_of(done.output)) > step + 1, "more steps")
        assert process.ask_to_stop().code == 0


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_loss_that_is_not_finite_leaves_a_record(ranks: int, flags: Flags, tmp_path: Path) -> None:
    wild = {"lr": 1e30, "lr_warmup_iters": 0, "clip_grad": 0, "train_iters": 50}
    done = run(flags, tmp_path, (ranks, 1), **wild)
    assert done.code == 17, done.errors
    record = tmp_path / "run" / "flight-record"
    for rank in range(ranks):
        part = read_json(record / f"rank-{rank:05d}-collectives.json")
        assert "not finite again (persistent)" in part["reason"]
        assert len(part["collectives"]) == 0 if ranks == 1 else part["collectives"][-1]["step"] >= 1
        assert (record / f"rank-{rank:05d}-stacks.txt").stat().st_size > 100
    assert "not finite again" in (record / "rank-00000-log.txt").read_text()
    with open_recording(record / "recording-end.ttrec") as end:
        assert list(end.scalars("loss")[0])[0] == 1


@NIGHTLY
def test_a_second_failure_has_a_second_record(flags: Flags, tmp_path: Path) -> None:
    wild = {"lr": 1e30, "lr_warmup_iters": 0, "clip_grad": 0, "train_iters": 50}
    for name in ("flight-record", "flight-record-2"):
        assert run(flags, tmp_path, (2, 1), **wild).code == 17
        assert (tmp_path / "run" / name / "rank-00001-collectives.json").is_file()


@NIGHTLY
def test_the_supervisor_starts_the_run_again(flags: Flags, tmp_path: Path) -> None:
    save = tmp_path / "saved"
    words = [*training(flags, (2, 1), 1_000_000, save, 5), "--watchdog-timeout", "3"]
    with supervised(tmp_path, words) as process:
        wait_until(lambda: last_step(tmp_path) > 10, process)
        first = set(ranks_of(save))
        with stopped(max(first)):
            wait_until(lambda: "the run ended with code 18; restart 1" in texts(tmp_path)[1], process)
            wait_until(lambda: len(set(ranks_of(save)) - first) == 2, process)
        step = last_step(tmp_path)
        wait_until(lambda: last_step(tmp_path) > step + 5, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(ENDS) == 19, texts(tmp_path)[1]


def wait_until(condition, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + ENDS
    while not condition():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)


@NIGHTLY
def test_a_busy_machine_is_no_reason(flags: Flags, tmp_path: Path) -> None:
    """scripts/soak.sh watchdog runs it for 10 minutes."""
    burn = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * (os.cpu_count() or 2))]
    try:
        saves = {"save": str(tmp_path / "saved"), "save_interval": 50, "keep_last": 1, "eval_interval": 100}
        with started(flags, tmp_path, (2, 2), watchdog_timeout=5, **LONG, **saves) as process:
            process.wait_for(trains, "steps")
            assert not process.has_ended_within(SOAK_SECONDS), process.done().errors
            assert process.ask_to_stop().code == 19
    finally:
        for one in burn:
            one.kill()
            one.wait()
    assert "watchdog" not in process.done().errors
    print(f"{max(steps_of(process.done().output))} steps in {SOAK_SECONDS:.0f} s")


def test_refusals(flags: Flags, tmp_path: Path) -> None:
    for name in ("watchdog_timeout", "watchdog_first_step_timeout"):
        done = run(flags, tmp_path, **{name: 2.5})
        assert done.code == 2 and "2.5 is neither 0 nor 3 or more" in done.errors
