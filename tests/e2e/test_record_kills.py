"""kill -9 at any moment of a recording (REC-1): the file is whole, both our readers and Python's sqlite3
open it, and what is lost is the last second at most.

TT_RECORD_KILLS says how often a hub is killed under a trainer that the test plays; real runs of two
ranks are killed a twentieth as often, and at least once in each way.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hub_harness import RUN_ID, Hub, crc32c, make_record, running_hub
from program import Flags, tiny_flags, write_text
from test_hub_history import POINTS, ask_json
from test_hub_replay import replaying
from test_program import is_rank
from test_recording_export import export
from viewer import LiveRun, Viewer, live_run

pytestmark = pytest.mark.nightly(suite="kills")

KILLS = int(os.environ.get("TT_RECORD_KILLS", "8"))
MAX_LOST = 1.0  # seconds
LATEST = 1.6  # of a kill, in seconds: past two commits
RANDOM = random.Random(int(os.environ.get("TT_RECORD_SEED", "1")))


class Sender:
    """A trainer that does nothing but send; `times` says when it sent which record."""

    def __init__(self, hub: Hub) -> None:
        self._worker = hub.worker(points=POINTS)
        self._template = bytearray(
            make_record(bytes(4096), run=int(RUN_ID, 16), dtype=2, ndim=1, shape=[1024, 1, 1, 1])
        )
        self.times: list[float] = []

    def send(self) -> None:
        number = len(self.times) + 1
        struct.pack_into("<QQ", self._template, 16, number, number)
        struct.pack_into("<Q", self._template, 96, time.time_ns())
        struct.pack_into("<I", self._template, 124, crc32c(bytes(self._template[:124])))
        self.times.append(time.monotonic())
        self._worker.connection.send(bytes(self._template))

    def longest_pause(self) -> float:
        """The machine's own: nothing here waits."""
        return max(np.diff(self.times), default=0.0)


def copied(file: Path, folder: Path) -> Path:
    """The recording with what SQLite keeps beside it."""
    folder.mkdir()
    for part in file.parent.glob(f"{file.name}*"):
        shutil.copy2(part, folder)
    return folder / file.name


def read_by_sqlite(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return database


def steps_by_us(file: Path) -> list[int]:
    """The steps of all records, as `export` gives them; `replay` must know as many records."""
    output = file.parent / "all.npz"
    done = export(file, "--to", "npz", "--output", output, "--force")
    if done.returncode == 2 and done.stderr.endswith("no run has been recorded\n"):
        return []  # it was killed before its first commit
    assert done.returncode == 0, done.stderr
    arrays = np.load(output)
    names = [name for name in arrays if name.endswith(".steps")]
    steps = sorted(int(step) for name in names for step in arrays[name])
    with replaying(file, "--paused") as shown:
        header = {"Authorization": f"Bearer {shown.token}"}
        request = urllib.request.Request(f"{shown.address}history", headers=header)
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert json.loads(answer.read())["frames"] == len(steps)
    return steps


@pytest.mark.parametrize(
    ("bound", "kills"),
    [pytest.param(None, 1, marks=pytest.mark.smoke), (None, KILLS), (2_000_000, KILLS)],
)
def test_the_hub_is_killed(bound: int | None, kills: int, tmp_path: Path) -> None:
    """With --record, and without it; a restarted hub goes on with the file."""
    ages = []
    for kill in range(kills):
        folder = tmp_path / str(kill)
        # A bounded file is full long before the end, so its oldest steps go all the time.
        flags = ["--record", str(folder)] if bound is None else ["--record-max-bytes", str(bound)]
        hub = Hub(folder, *flags)
        sender = Sender(hub)
        end = time.monotonic() + RANDOM.uniform(0.05, LATEST)
        while time.monotonic() < end:
            sender.send()
        hub.process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        hub.process.wait()
        hub.stop()
        ours = steps_by_us(copied(folder / "run.ttrec", folder / "copy"))
        database = read_by_sqlite(folder / "run.ttrec")
        found = [n for (n,) in database.execute("SELECT sequence FROM frames ORDER BY id")]
        database.close()
        first = found[0] if found and bound else 1
        assert found == list(range(first, first + len(found))), "a hole"
        assert ours == found
        assert bound is None or (folder / "run.ttrec").stat().st_size <= bound
        kept = found[-1] if found else 0
        age = killed - sender.times[kept] if kept < len(sender.times) else 0.0
        ages.append(age)
        assert age <= MAX_LOST + sender.longest_pause(), f"{len(sender.times) - kept} records"
        if kill == kills - 1 and found:
            with running_hub(folder, *flags) as again:
                assert ask_json(again, "/history")["last_step"] == found[-1]
        shutil.rmtree(folder)
    print(f"bound {bound}: killed {kills} times; lost at most {max(ages):.2f} s, median {np.median(ages):.2f} s")


# Real runs


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    text = write_text(tmp_path_factory.mktemp("data") / "text.txt")
    return {**tiny_flags(text), "train_iters": 1_000_000, "tensor_model_parallel_size": 2}


def processes_of(run: LiveRun) -> Iterator[int]:
    """Launcher, ranks, supervisor and hub."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if str(run.run_dir).encode() in line and int(folder.name) != os.getpid():
            yield int(folder.name)


def kill_everything(run: LiveRun) -> None:
    doomed = list(processes_of(run))
    assert len(doomed) >= 5, "mpirun, two ranks, supervisor, hub"
    for number in (signal.SIGSTOP, signal.SIGKILL):  # first, so that nobody sees another one die
        for process in doomed:
            os.kill(process, number)


def kill_rank(run: LiveRun) -> None:
    [rank] = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ")
              if is_rank(path, 1, str(run.folder))]  # fmt: skip
    os.kill(rank, signal.SIGKILL)


def kill_hub(run: LiveRun) -> None:
    os.kill(json.loads((run.run_dir / "hub.json").read_text())["pid"], signal.SIGKILL)


def all_gone(run: LiveRun) -> None:
    end = time.monotonic() + 20
    while any(True for _ in processes_of(run)):
        assert time.monotonic() < end, "somebody stays"
        run.process.poll()  # or it is a zombie
        time.sleep(0.02)


def longest_step(database: sqlite3.Connection) -> float:
    """In seconds, as the trainer measured it."""
    return (database.execute("SELECT max(value) FROM scalars WHERE name = 'step_ms'").fetchone()[0] or 0) / 1e3


def has_frames(file: Path) -> bool:
    """Kills before the first commit are tried above, where the age of what is lost is known."""
    live = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return bool(live.execute("SELECT EXISTS (SELECT 1 FROM frames)").fetchone()[0])
    finally:
        live.close()


def watched_until_kill(run: LiveRun, kill: Callable[[LiveRun], None]) -> tuple[int, int]:
    """The time of the kill in nanoseconds since 1970, and the last step that a viewer had seen."""
    with run.viewer() as viewer:
        viewer.wait_for(lambda: len(viewer.steps()) > 3 and has_frames(run.folder / "run.ttrec"), "a commit")
        viewer.drain(RANDOM.uniform(0, LATEST))
        seen = viewer.steps()[-1]
        kill(run)
        return time.time_ns(), seen


WAYS = {"a rank": kill_rank, "everything": kill_everything}


@pytest.mark.parametrize("way", WAYS)
def test_a_run_of_two_ranks_is_killed(way: str, flags: Flags, tmp_path: Path) -> None:
    for kill in range(max(1, KILLS // 20)):
        folder = tmp_path / str(kill)
        with live_run({**flags, "record": str(folder)}, folder, 2) as run:
            killed_ns, seen = watched_until_kill(run, WAYS[way])
            all_gone(run)
        file = folder / "run.ttrec"
        ours = steps_by_us(copied(file, folder / "copy"))
        database = read_by_sqlite(file)
        steps = [n for (n,) in database.execute("SELECT step FROM frames ORDER BY step")]
        assert ours == steps and set(steps) == set(range(1, steps[-1] + 1)), "a step without records"
        [last] = database.execute("SELECT max(time_ns) FROM frames").fetchone()
        age = (killed_ns - last) / 1e9
        print(f"{way} killed: the newest record is {age:.2f} s old; step {steps[-1]}, a viewer saw {seen}")
        assert age <= MAX_LOST + longest_step(database)
        scalars = [n for (n,) in database.execute("SELECT step FROM scalars WHERE name = 'loss' ORDER BY step")]
        assert scalars == list(range(1, len(scalars) + 1)) and abs(len(scalars) - steps[-1]) <= 1
        database.close()


def test_the_hub_of_a_run_is_killed_and_the_run_goes_on(flags: Flags, tmp_path: Path) -> None:
    for kill in range(max(1, KILLS // 20)):
        folder = tmp_path / str(kill)
        with live_run({**flags, "record": str(folder)}, folder, 2) as run:
            killed_ns, seen = watched_until_kill(run, kill_hub)
            stop_after(run, seen + 50)
            run.wait()
        file = folder / "run.ttrec"
        ours = steps_by_us(copied(file, folder / "copy"))
        database = read_by_sqlite(file)
        rows = database.execute("SELECT step, max(time_ns) FROM frames GROUP BY step ORDER BY step").fetchall()
        assert sorted(set(ours)) == [step for step, _ in rows]
        gaps = [(first, second) for first, second in zip(rows, rows[1:], strict=False)
                if second[0] != first[0] + 1]  # fmt: skip
        assert len(gaps) <= 1 and rows[-1][0] >= seen + 50, "more than the one hole of the kill"
        lost = (killed_ns - gaps[0][0][1]) / 1e9 if gaps else 0.0
        missing = gaps[0][1][0] - gaps[0][0][0] - 1 if gaps else 0
        print(f"the hub killed: the newest record before the hole was {lost:.2f} s old; {missing} steps miss")
        assert lost <= MAX_LOST + longest_step(database)
        database.close()


def stop_after(run: LiveRun, step: int) -> None:
    """By the new hub, which comes within two seconds."""
    end = time.monotonic() + 20
    while True:
        try:
            with run.viewer() as viewer:
                stop_by(viewer, step)
                return
        except (OSError, TimeoutError):
            assert time.monotonic() < end, "no new hub"
            time.sleep(0.05)


def stop_by(viewer: Viewer, step: int) -> None:
    viewer.wait_for(lambda: max(viewer.steps(), default=0) >= step, f"step {step}")
    viewer.request("control.claim", {"name": "Ada"})
    viewer.request("control.stop")
