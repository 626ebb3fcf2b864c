"""A trainer that dies, or whose disk is full, at any one of the calls by which it changes the folder of its
checkpoints. `crash_points.c` numbers these calls. A run resumes from step 4 and saves step 6 with --keep-last 1;
whatever happens to it, the folder then has a whole checkpoint, and no damaged one."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from checkpoint_runs import Bits, Done, checkpoint, checkpoints, flip, hidden, line_of, run
from program import Flags, environment

NIGHTLY = pytest.mark.nightly(suite="crashes")
OLD, NEW, LAST = 4, 6, 8  # steps
# One call writes one tensor. The model has few tensors, so the tests can try every call in a few minutes.
SMALL = {"num_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 8, "micro_batch_size": 1,
         "global_batch_size": 1, "disable_bias_linear": True, "normalization": "RMSNorm",
         "position_embedding_type": "rope"}  # fmt: skip
CRASHED = 137
PATIENCE = 60.0  # seconds; a run takes less than one
LIST = "files_of_rank_00000.json"
LOCK, PROBE = "/checkpoints.lock", "/.saving-probe-"  # before the first step
HOWS = ("before", "half", "after")
RESUMED = 12  # at night, of so many states one is loaded by a run


@dataclasses.dataclass(frozen=True)
class Call:
    """A change of the folder. `path` is below the folder."""

    number: int
    name: str
    path: str

    def is_write(self) -> bool:
        return "write" in self.name


@dataclasses.dataclass(frozen=True)
class Crash:
    """Where a run dies: before or after a call, or when half of the bytes of a write are written."""

    call: Call
    how: str
    power_fails: bool

    def last_done(self) -> int:
        """The number of the last call that has been done."""
        return self.call.number - (self.how != "after")

    def variables(self) -> dict[str, str]:
        return {"CRASH_AT": str(self.call.number), "CRASH_HOW": self.how, "POWER": str(int(self.power_fails))}


def files_of(path: Path) -> list[dict[str, Any]]:
    """Names, sizes and checksums of a checkpoint, from its manifest, after they were compared with the files."""
    text = (path / "manifest.json").read_bytes()
    assert (path / "manifest.crc32c").read_bytes() == b"%08x\n" % google_crc32c.value(text), path
    manifest = json.loads(text)
    assert checkpoint(manifest["step"]) == path.name
    for file in manifest["files"]:
        contents = (path / file["name"]).read_bytes()
        assert (len(contents), google_crc32c.value(contents)) == (file["bytes"], file["crc32c"]), path / file["name"]
    names = {path.name for path in path.iterdir()} - {LIST, "manifest.json", "manifest.crc32c"}
    assert names == {file["name"] for file in manifest["files"]}
    return list(manifest["files"])


class Points:
    """An uninterrupted run, whose checkpoint of step OLD others resume from, and the calls of a resumed run."""

    def __init__(self, flags: Flags, folder: Path) -> None:
        self.flags, self.folder = dict(flags) | SMALL, folder
        self._library = folder / "crash_points.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", str(Path(__file__).with_name("crash_points.c")), "-o",
                        str(self._library)], check=True)  # fmt: skip
        whole = run(self.flags, folder / "whole", train_iters=LAST, save=folder / "whole/saved", save_interval=2).good()
        self.steps: dict[int, Bits] = whole.steps()
        self.files = {step: files_of(folder / "whole/saved" / checkpoint(step)) for step in (OLD, NEW, LAST)}
        self.calls = self._count()
        self.placed = self._find("rename", f"/{checkpoint(NEW)}")
        self.durable = self._find("fsync", "")  # of the folder: the new name lasts
        self.removing = self._find("rename", "/.removed-")
        assert self.placed < self.durable < self.removing < len(self.calls)

    def _count(self) -> list[Call]:
        saved = self.prepare(self.folder / "counted")
        self.run(saved, COUNT_TO=str(self.folder / "calls")).good()
        assert self.verified(saved) == [NEW] and hidden(saved) == []
        lines = [line.split(" ", 2) for line in (self.folder / "calls").read_text().splitlines()]
        assert [int(number) for number, _, _ in lines] == list(range(1, len(lines) + 1))
        return [Call(int(number), name, path) for number, name, path in lines]

    def _find(self, name: str, path: str) -> int:
        """The number of the last such call before the removal of the old checkpoint ends."""
        return [one.number for one in self.calls if one.name == name
                and (one.path == path or (path.endswith("-") and one.path.startswith(path)))][-1]  # fmt: skip

    def prepare(self, folder: Path) -> Path:
        """A folder with the checkpoint of step OLD alone."""
        shutil.copytree(self.folder / "whole/saved" / checkpoint(OLD), folder / "saved" / checkpoint(OLD))
        return folder / "saved"

    def run(self, saved: Path, **variables: str) -> Done:
        """Resumes from `saved`, trains to step NEW and saves there."""
        line = line_of(self.flags, saved.parent, (1, 1), {"train_iters": NEW, "load": saved, "save": saved,
                                                           "keep_last": 1})  # fmt: skip
        more = {"LD_PRELOAD": str(self._library), "CRASH_FOLDER": str(saved)} | variables
        done = subprocess.run(line, env=environment() | more, capture_output=True, text=True, timeout=PATIENCE,
                              check=False)  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def verified(self, saved: Path) -> list[int]:
        """The steps of the checkpoints, which are those of the uninterrupted run, byte for byte."""
        steps = [step for step in self.files if (saved / checkpoint(step)).exists()]
        assert sorted(path.name for path in saved.glob("step_*")) == [checkpoint(step) for step in steps]
        for step in steps:
            assert files_of(saved / checkpoint(step)) == self.files[step], step
        return steps

    def crashed(self, crash: Crash, folder: Path) -> Path:
        """The folder that a dead run leaves. No checkpoint in it is damaged, and it has all that it should have."""
        saved = self.prepare(folder)
        done = self.run(saved, **crash.variables())
        assert done.code == CRASHED, done.errors
        last = crash.last_done()
        # A power failure undoes a renaming until the folder is on the disk, or what it renamed changes.
        has_old = last < self.removing + crash.power_fails
        has_new = last >= (self.durable if crash.power_fails else self.placed)
        assert self.verified(saved) == [OLD] * has_old + [NEW] * has_new
        checkpoints(saved)  # have no other files
        return saved

    def assert_resumes(self, saved: Path) -> None:
        """From the newest checkpoint, with the bits of the uninterrupted run. Its save removes what is left."""
        newest = self.verified(saved)[-1]
        done = run(self.flags, saved.parent / "more", load=saved, save=saved, keep_last=1, train_iters=LAST).good()
        assert "passed over" not in done.errors
        assert done.resumed_after() == newest
        assert done.steps() == {step: bits for step, bits in self.steps.items() if step > newest}
        assert self.verified(saved) == [LAST] and hidden(saved) == []

    def assert_full(self, call: Call, once: bool, folder: Path) -> Path:
        """The disk is full at one call or from then on. The run goes on and says that it has not saved. If only a
        removal failed, it has saved."""
        saved = self.prepare(folder)
        done = self.run(saved, FAIL_AT=str(call.number), FAIL_ONCE=str(int(once)))
        steps = self.verified(saved)
        assert steps, "no checkpoint is left"
        if self._refuses_to_start(call, once):
            assert done.code == 2 and not done.steps() and steps == [OLD], (call, done.errors)
            assert str(saved) in done.errors
            return saved
        assert done.steps() == {step: bits for step, bits in self.steps.items() if OLD < step <= NEW}
        told = ["tensor-tracer: no checkpoint was saved: " in done.errors,
                "the last checkpoint was not saved" in done.errors]  # fmt: skip
        if done.code == 0:
            assert NEW in steps and told == [False, False], done.errors
            # The lock's contents, the list of a rank's files and old checkpoints do not matter to the new one.
            matters = call.number <= self.durable and not (once and (call.path == LOCK or call.path.startswith(PROBE)
                                                                     or LIST in call.path
                                                                     or self._is_sync_of_list(call)))  # fmt: skip
            assert not matters, f"{call} failed"
        else:
            assert done.code == 20 and told == [True, True], done.errors
            assert call.number <= self.durable, "the new checkpoint was complete"
            assert OLD in steps and hidden(saved) == []
        return saved

    def _refuses_to_start(self, call: Call, once: bool) -> bool:
        """Without the lock, and if the ranks cannot see a file of rank 0. The contents of the lock do not matter."""
        if call.path == LOCK:
            return call.name == "open" or not once
        return call.path.startswith(PROBE) and call.name != "remove"

    def _is_sync_of_list(self, call: Call) -> bool:
        """Of the hidden folder, after the list was put there: the next file is followed by another."""
        return call.name == "fsync" and LIST in self.calls[call.number - 2].path

    def spread(self, count: int, generator: random.Random) -> list[Call]:
        """One call of each of `count` equal parts."""
        bounds = [len(self.calls) * part // count for part in range(count + 1)]
        return [self.calls[generator.randrange(bounds[part], bounds[part + 1])] for part in range(count)]


@pytest.fixture(scope="module")
def points(flags, tmp_path_factory: pytest.TempPathFactory) -> Points:
    return Points(flags, tmp_path_factory.mktemp("points").resolve())


@pytest.fixture
def generator(record_property) -> random.Random:
    seed = random.SystemRandom().randrange(2**32)
    record_property("seed", seed)
    print(f"seed {seed}")
    return random.Random(seed)


def try_all(cases: dict[str, Callable[[Path], object]], folder: Path) -> None:
    """Tries all, each in a folder that is removed if it goes well; then fails with those that failed."""
    failed: dict[str, str] = {}
    for name, case in cases.items():
        try:
            case(folder / name)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            failed[name] = f"{type(error).__name__}: {error}"[:500]
        else:
            shutil.rmtree(folder / name, ignore_errors=True)  # the hub of a dead run may yet remove some files
    assert not failed, f"{len(failed)} of {len(cases)}: {json.dumps(failed, indent=1)}"


@pytest.mark.parametrize("how", ["flipped", "shorter", "missing"])
def test_the_check_finds_damage(how: str, points: Points, tmp_path: Path) -> None:
    """The check of the tests below: in every file of a checkpoint, and a checkpoint of other contents."""
    names = [path.name for path in points.prepare(tmp_path / "names").glob("*/*")]
    assert len(names) == len(points.files[OLD]) + 2
    for name in names:
        saved = points.prepare(tmp_path / name)
        assert points.verified(saved) == [OLD]
        file = saved / checkpoint(OLD) / name
        contents = file.read_bytes()
        file.unlink()
        if how != "missing":
            file.write_bytes(contents[:-1] if how == "shorter" else flip(contents, random.Random(name)))
        with pytest.raises((AssertionError, OSError)):
            points.verified(saved)
    (tmp_path / "renamed").mkdir()
    points.prepare(tmp_path / "other").rename(tmp_path / "renamed/saved")
    (tmp_path / "renamed/saved" / checkpoint(OLD)).rename(tmp_path / "renamed/saved" / checkpoint(NEW))
    with pytest.raises(AssertionError):
        points.verified(tmp_path / "renamed/saved")


def test_some_crashes(points: Points, generator: random.Random, tmp_path: Path) -> None:
    """After each a run resumes."""
    cases: dict[str, Callable[[Path], object]] = {}
    for call in points.spread(6, generator):
        crash = Crash(call, generator.choice(HOWS), generator.random() < 0.5)
        cases[f"{call.number}-{crash.how}-{crash.power_fails}"] = (
            lambda folder, crash=crash: points.assert_resumes(points.crashed(crash, folder)))  # fmt: skip
    try_all(cases, tmp_path)


@NIGHTLY
@pytest.mark.parametrize("power_fails", [False, True], ids=["power stays", "power fails"])
@pytest.mark.parametrize("how", HOWS)
def test_all_crashes(how: str, power_fails: bool, points: Points, tmp_path: Path) -> None:
    """At every call. Only a write can be half done, and the state after a write is that before the next call, so
    `after` leaves out the writes."""
    calls = [call for call in points.calls if how == "before" or call.is_write() == (how == "half")]
    cases: dict[str, Callable[[Path], object]] = {}
    for index, call in enumerate(calls):
        crash = Crash(call, how, power_fails)
        resumes = index % RESUMED == 0 or call.number >= points.placed and how == "before"
        cases[str(call.number)] = lambda folder, crash=crash, resumes=resumes: (
            points.assert_resumes(saved) if (saved := points.crashed(crash, folder)) and resumes else None)  # fmt: skip
    try_all(cases, tmp_path)


@pytest.mark.parametrize("once", [False, True], ids=["stays full", "is freed"])
def test_some_full_disks(once: bool, points: Points, generator: random.Random, tmp_path: Path) -> None:
    """After each a run resumes."""
    cases: dict[str, Callable[[Path], object]] = {
        str(call.number): lambda folder, call=call: points.assert_resumes(points.assert_full(call, once, folder))
        for call in points.spread(2, generator)
    }
    try_all(cases, tmp_path)


@NIGHTLY
@pytest.mark.parametrize("once", [False, True], ids=["stays full", "is freed"])
def test_all_full_disks(once: bool, points: Points, tmp_path: Path) -> None:
    """At every call."""
    cases: dict[str, Callable[[Path], object]] = {}
    for index, call in enumerate(points.calls):
        cases[str(call.number)] = lambda folder, call=call, resumes=index % RESUMED == 0: (
            points.assert_resumes(saved) if (saved := points.assert_full(call, once, folder)) and resumes else None
        )
    try_all(cases, tmp_path)
