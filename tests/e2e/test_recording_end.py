"""What becomes of records that the disk does not take: a lock, a full queue, a bound, a full disk, the run's end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_harness import HubOfRun, Peer, big_record, binary, claim, running_hub, sanitized, wait_until, write_run_file
from program import command, environment, tiny_flags, write_text
from run_harness import started, two_ranks
from test_hub_metrics import scrape

KIB, MIB = 1024, 1024 * 1024


@contextlib.contextmanager
def locked(recording: Path) -> Iterator[None]:
    """Nobody else writes it."""
    other = sqlite3.connect(recording, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def kept(recording: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(recording)) as database:
        return [number for (number,) in database.execute("SELECT sequence FROM frames ORDER BY id")]


def send(worker: Peer, first: int, last: int, size: int) -> None:
    for sequence in range(first, last + 1):
        worker.connection.send(big_record(size, sequence, step=1 + sequence // 8, layer=sequence % 8))


def test_what_a_long_lock_makes_the_queue_drop_is_told_to_viewers_and_in_the_file(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--record", str(tmp_path)) as hub:
        worker, viewer = hub.worker(), hub.viewer()
        path = tmp_path / "run.ttrec"
        wait_until(path.is_file, "the recording")
        with locked(path):
            send(worker, 1, 100, MIB)
            viewer.receive_until(lambda: any(d["where"] == "recording" for d in viewer.named("dropped")), "the drops")
            time.sleep(2.5)  # longer than SQLite waits
        send(worker, 101, 101, KIB)
        viewer.drain(1.5)
        told = sum(d["records"] for d in viewer.named("dropped") if d["where"] == "recording")
        assert told >= 100 - 64 - 8
        assert worker.request("ping")["result"] == {}
    numbers = kept(path)
    assert numbers[-1] == 101 and len(numbers) == 101 - told
    with contextlib.closing(sqlite3.connect(path)) as database:
        lines = database.execute("SELECT detail FROM events WHERE kind = 'dropped'").fetchall()
    assert sum(json.loads(detail)["records"] for (detail,) in lines) == told


def test_a_bound_keeps_the_newest_steps(tmp_path: Path) -> None:
    bound = 4 * MIB
    with running_hub(tmp_path / "run", "--record", str(tmp_path), "--record-max-bytes", "4MB") as hub:
        worker = hub.worker()
        for first in range(1, 161, 16):
            send(worker, first, first + 15, 128 * KIB)
            time.sleep(0.3)
        assert worker.request("ping")["result"] == {}
    path = tmp_path / "run.ttrec"
    numbers = kept(path)
    assert numbers == list(range(numbers[0], 161)) and 16 <= len(numbers) <= 32
    with contextlib.closing(sqlite3.connect(path)) as database:
        [(pages, free, size)] = database.execute(
            "SELECT page_count, freelist_count, page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
    assert (pages - free) * size <= bound


@pytest.mark.nightly(suite="history")
def test_the_runs_end_waits_for_a_slow_disk(tmp_path: Path) -> None:
    """A hub that runs for a fortieth of the time takes longer than one that does nothing may."""
    with supervised(tmp_path) as (supervisor, alive):
        hub = HubOfRun(tmp_path)
        path, pid = tmp_path / "run.ttrec", hub.pid()
        worker = hub.worker()
        wait_until(path.is_file, "the recording")
        with locked(path):
            send(worker, 1, 40, MIB)
            assert worker.request("ping")["result"] == {}
            os.kill(pid, signal.SIGSTOP)
            os.close(alive)
        begin = time.monotonic()
        while supervisor.poll() is None:
            assert time.monotonic() - begin < 25, "it has not ended"
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.025)
                os.kill(pid, signal.SIGSTOP)
            time.sleep(1)
        assert time.monotonic() - begin > 2, "this hub was too quick to show anything"
    assert kept(path) == list(range(1, 41))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this user may mount nothing")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.nightly(suite="history")
@pytest.mark.skipif(sanitized(), reason="the program has no build with a sanitizer")
def test_a_run_whose_recordings_disk_is_full_goes_on(small_disk: Path, tmp_path: Path) -> None:
    with started(two_ranks(tmp_path) | {"record": str(small_disk)}, tmp_path) as (run, hub, viewer):
        viewer.receive_until(
            lambda: any("recording stopped" in log["message"] for log in viewer.named("log")), "the alarm", 120
        )
        stopped = viewer.named("step")[-1]["step"]
        viewer.receive_until(lambda: viewer.named("step")[-1]["step"] > stopped + 20, "more steps", 60)
        told = scrape(hub)
        assert told["recording_stopped"] == 1
        assert told['records_dropped_total{reason="recorder"}'] > 0
        assert told["recording_lines_dropped_total"] > 0
        assert "result" in claim(viewer)
        last = viewer.request("control.stop")["result"]["step"]
        viewer.receive_until(lambda: viewer.named("step")[-1]["step"] == last, "the last step")
        run.wait()
    assert [step["step"] for step in viewer.named("step")] == list(range(1, last + 1))
    assert not [told for told in viewer.named("dropped") if told["where"] == "trainer"]
    copied = tmp_path / "copied"
    shutil.copytree(small_disk, copied)  # a reader needs room beside it
    with contextlib.closing(sqlite3.connect(copied / "run.ttrec")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        steps = [n for (n,) in database.execute("SELECT step FROM scalars WHERE name = 'loss' ORDER BY step")]
    assert steps == list(range(1, len(steps) + 1)) and 0 < len(steps) <= stopped


@pytest.mark.skipif(sanitized(), reason="the program has no build with a sanitizer")
def test_a_run_without_viewers_says_that_its_recording_stopped(small_disk: Path, tmp_path: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(2_000_000))
    flags = tiny_flags(write_text(tmp_path / "text.txt")) | {
        "train_iters": 600, "record": str(small_disk), "run_dir": str(tmp_path / "run")
    }  # fmt: skip
    done = subprocess.run(command(flags), env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if "recording stopped" in line]
    assert len(told) == 1 and str(small_disk / "run.ttrec") in told[0] and "full" in told[0]


def test_a_trainer_is_told_what_failed_before_it_connected(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--record", str(tmp_path)) as hub:
        first = hub.worker()
        (tmp_path / "run.ttrec").unlink()
        send(first, 1, 1, KIB)
        first.receive_until(lambda: bool(first.named("alarm")), "the alarm")
        again = hub.worker()
        again.receive_until(lambda: bool(again.named("alarm")), "the alarm again")
        assert again.named("alarm") == first.named("alarm")


@pytest.mark.parametrize("replaced", [False, True])
def test_a_recording_that_is_deleted_while_it_is_written_is_told_once(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "run.ttrec"
    with running_hub(tmp_path / "run", "--record", str(tmp_path)) as hub:
        worker, viewer = hub.worker(), hub.viewer()
        send(worker, 1, 8, KIB)
        wait_until(lambda: scrape(hub)["records_recorded_total"] == 8, "the records")
        path.unlink()
        if replaced:
            path.write_bytes(b"")
        for sequence in range(9, 13):
            send(worker, sequence, sequence, KIB)
            wait_until(lambda number=sequence: scrape(hub)["records_recorded_total"] == number, "the commit")
        assert worker.request("ping")["result"] == viewer.request("ping")["result"] == {}
        told = [log["message"] for log in viewer.named("log") if "deleted or replaced" in log["message"]]
        assert len(told) == 1 and str(path) in told[0]
        assert [alarm["message"] for alarm in worker.named("alarm")] == told
        assert hub.log().count("alarm: ") == 1 and scrape(hub)["recording_stopped"] == 0


@contextlib.contextmanager
def supervised(run_dir: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A supervisor and its hub, and the descriptor whose end is the run's."""
    alive_read, alive_write = os.pipe()
    ready_read, ready_write = os.pipe()
    write_run_file(run_dir, record=str(run_dir))
    process = subprocess.Popen(
        [str(binary()), "supervise", "--run-dir", str(run_dir),
         "--alive-fd", str(alive_read), "--ready-fd", str(ready_write)],
        pass_fds=[alive_read, ready_write],
    )  # fmt: skip
    os.close(alive_read)
    os.close(ready_write)
    with open(ready_read) as ready:
        assert "port" in json.loads(ready.readline())
    try:
        yield process, alive_write
    finally:
        process.kill()
        process.wait(10)
