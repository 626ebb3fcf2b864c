"""The Python client on bytes and files: golden records, damage, checksums, recordings."""

from __future__ import annotations

import contextlib
import functools
import json
import random
import re
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hub_harness import POINTS, REPOSITORY, make_record
from make_golden import crc32c as slow_crc32c
from tensor_tracer import RecordError, TensorTracerError, decode_records, open_recording

GOLDEN = json.loads((REPOSITORY / "tests/golden/record_v1.json").read_text())["records"]
GOLDEN_BYTES = (REPOSITORY / "tests/golden/record_v1.bin").read_bytes()
WIDENED = {"bf16": np.float32, "u8": np.float32}
CONTROL_KINDS = ["control.claim", "control.pause", "control.release"]
RUN_ID, RUN = "ff0c1234abcd5678", 0xFF0C1234ABCD5678 - 2**64
SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE runs(run INTEGER PRIMARY KEY, id TEXT, name TEXT, host TEXT, start_time TEXT, facts TEXT);
CREATE TABLE points(run INTEGER, flag INTEGER, name TEXT, facts TEXT, PRIMARY KEY(run, flag));
CREATE TABLE frames(id INTEGER PRIMARY KEY, run INTEGER, step INTEGER, plan INTEGER, entry INTEGER, point INTEGER,
                    layer INTEGER, compressor INTEGER, direction INTEGER, phase INTEGER, prompt_set INTEGER, record BLOB);
CREATE TABLE scalars(run INTEGER, step INTEGER, name TEXT, value REAL, time_ns INTEGER,
                     PRIMARY KEY(run, step, name)) WITHOUT ROWID;
CREATE TABLE events(id INTEGER PRIMARY KEY, run INTEGER, time_ns INTEGER, step INTEGER, kind TEXT,
                    session TEXT, who TEXT, detail TEXT);
"""


def test_the_golden_records() -> None:
    found = list(decode_records(GOLDEN_BYTES))
    [named, *_] = decode_records(GOLDEN_BYTES, points={GOLDEN[0]["header"]["point"]: "MLP1"})
    assert named.point == "MLP1"
    assert len(found) == len(GOLDEN)
    for record, golden in zip(found, GOLDEN, strict=True):
        header = golden["header"]
        assert record.run == f"{header['run']:016x}"
        for name in ("sequence", "step", "plan", "entry", "micro_batch", "prompt_set", "first_row",
                     "layer", "tensor_rank", "pipeline_rank", "data_rank", "features", "time"):  # fmt: skip
            assert getattr(record, name) == header[name], name
        assert record.shape == tuple(header["shape"][: header["ndim"]]) == record.values.shape
        assert record.point == f"point {header['point']}"
        assert record.payload.hex() == golden["payload_hex"]
        assert record.values.dtype == WIDENED.get(record.dtype, record.values.dtype)
        assert record.values.flags.writeable
        numbers = np.array([float(n) for n in golden["numbers"]]).reshape(record.shape)
        np.testing.assert_array_equal(record.values, numbers)
    dtypes = {"f64", "f32", "f16", "bf16", "i32", "i64", "u8"}
    assert {record.dtype for record in found} == dtypes
    compressors = {"none", "tile", "empty", "stats", "projection", "topk", "top_tokens"}
    assert {record.compressor for record in found} == compressors
    assert {record.direction for record in found} == {"value", "gradient"}
    assert {record.phase for record in found} == {"train", "eval"}


@pytest.mark.parametrize("at", range(0, 152, 3))
def test_every_flipped_byte_is_seen(at: int) -> None:
    damaged = bytearray(GOLDEN_BYTES[:152])
    damaged[at] ^= 0x10
    with pytest.raises(RecordError):
        list(decode_records(bytes(damaged)))


def test_truncation_and_what_came_before() -> None:
    for size in (1, 127, 128, 151):
        with pytest.raises(RecordError):
            list(decode_records(GOLDEN_BYTES[:size]))
    records = decode_records(GOLDEN_BYTES[:160])
    assert next(records).sequence == 1
    with pytest.raises(RecordError, match="record at byte 152"):
        next(records)


def test_what_this_version_does_not_know_is_kept_as_it_is() -> None:
    odd = make_record(b"12345678", dtype=200, compressor=77, point=99, direction=9)
    [record] = decode_records(odd)
    assert (record.dtype, record.compressor, record.point) == ("dtype 200", "compressor 77", "point 99")
    assert record.payload == b"12345678" and record.direction == "direction 9"
    assert record.run == "0000000000005f0c"
    with pytest.raises(RecordError, match="dtype 200 is not known; update this client"):
        _ = record.values


def test_a_longer_header_is_skipped() -> None:
    short = GOLDEN_BYTES[:152]
    longer = bytearray(short[:128] + b"new part" + short[128:])
    struct.pack_into("<H", longer, 6, 136)
    struct.pack_into("<I", longer, 124, slow_crc32c(bytes(longer[:124])))
    [record] = decode_records(bytes(longer))
    assert record.payload == short[128:]


def record_of(golden: dict, step: int, layer: int) -> bytes:
    """A golden record in another place."""
    header = {k: v for k, v in golden["header"].items() if not k.endswith("_crc")}
    return make_record(bytes.fromhex(golden["payload_hex"]), **header | {"step": step, "layer": layer})


def insert_frame(file: sqlite3.Connection, run: int, header: dict[str, int], record: bytes) -> None:
    """The row of a record."""
    names = ("step", "plan", "entry", "point", "layer", "compressor", "direction", "phase", "prompt_set")
    values = [run, *(header[name] for name in names), record]
    columns, marks = ", ".join(("run", *names, "record")), ", ".join("?" * len(values))
    file.execute(f"INSERT INTO frames ({columns}) VALUES ({marks})", values)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Every golden record in steps 1 to 4, written backwards; two scalars; events."""
    path = tmp_path / "run #1.ttrec"
    file = sqlite3.connect(path)
    file.executescript(SCHEMA)
    file.execute("INSERT INTO meta VALUES ('schema_version', '1')")
    facts = json.dumps({"id": RUN_ID, "name": "demo"})
    file.execute("INSERT INTO runs VALUES (?, ?, 'demo', 'node1', '', ?)", [RUN, RUN_ID, facts])
    for flag, name in [*((point["flag"], point["name"]) for point in POINTS), (99, "layers.3.mlp")]:
        file.execute("INSERT INTO points VALUES (?, ?, ?, '{}')", [RUN, flag, name])
    for step in (4, 3, 2, 1):
        for layer, golden in enumerate(GOLDEN):
            record = record_of(golden, step, layer)
            insert_frame(file, RUN, golden["header"] | {"step": step, "layer": layer}, record)
        loss = [RUN, step, None if step == 3 else step / 2]
        file.execute("INSERT INTO scalars VALUES (?, ?, 'loss', ?, 0)", loss)
    file.execute("INSERT INTO scalars VALUES (?, 2, 'valid_loss', 0.5, 0)", [RUN])
    event = "INSERT INTO events VALUES (NULL, ?, 7, 2, ?, 'v1', 'Ada', ?)"
    file.executemany(event, [(RUN, kind, '{"holder": null}') for kind in CONTROL_KINDS])
    file.executemany(event, [(RUN, "controls", None), (RUN, "drop", None)])
    file.commit()
    file.close()
    return path


def test_a_recording_is_bit_equal_to_what_was_streamed(recorded: Path) -> None:
    with open_recording(recorded) as recording:
        assert recording.run == RUN_ID and recording.facts["name"] == "demo"
        found = list(recording.records())
        streamed = [record_of(g, step, i) for step in (1, 2, 3, 4) for i, g in enumerate(GOLDEN)]
        assert len(found) == len(streamed)
        for record, [wanted] in zip(found, map(decode_records, streamed), strict=True):
            assert (record.step, record.layer) == (wanted.step, wanted.layer)
            assert record.values.tobytes() == wanted.values.tobytes()


def test_a_recording_is_searched(recorded: Path) -> None:
    recording = open_recording(recorded)
    assert [(r.step, r.layer) for r in recording.records(layers="0,2-3", steps=range(2, 4))] == [
        (step, layer) for step in (2, 3) for layer in (0, 2, 3)
    ]
    assert [r.layer for r in recording.records(layers=np.arange(1, 4), steps=1)] == [1, 2, 3]
    tokens = list(recording.records("InputTokens", steps=1))
    assert tokens and {r.point for r in tokens} == {"InputTokens"}
    assert {r.entry for r in recording.records(entry=3)} == {3}
    assert list(recording.records("layers.3.mlp")) == list(recording.records(layers="")) == []
    with pytest.raises(ValueError, match="there is HiddenStates"):
        recording.records("HiddenStats")


MANY_FORMS = {
    "more ranges than SQLite takes": (range(0, 20_000, 2), [2, 4]),
    "overlapping ones": (",".join(["2-3,3"] * 2_000), [2, 3]),
    "an array": (np.arange(2, 4), [2, 3]),
    "an array without dims": (np.array(2), [2]),
    "a set": ({4, 1}, [1, 4]),
    "a generator": ((step for step in (3, 4)), [3, 4]),
}


@pytest.mark.parametrize("form", MANY_FORMS)
def test_steps_in_many_forms(form: str, recorded: Path) -> None:
    given, wanted = MANY_FORMS[form]
    recording = open_recording(recorded)
    assert [r.step for r in recording.records(layers=0, steps=given)] == wanted


def test_scalars_and_events_of_a_recording(recorded: Path) -> None:
    recording = open_recording(recorded)
    steps, losses = recording.scalars("loss")
    assert steps.dtype == np.int64 and losses.dtype == np.float64
    np.testing.assert_array_equal(steps, [1, 2, 3, 4])
    np.testing.assert_array_equal(losses, [0.5, 1.0, np.nan, 2.0])
    with pytest.raises(ValueError, match="there is no 'los'; there is loss, valid_loss"):
        recording.scalars("los")
    assert [event["kind"] for event in recording.events()] == [*CONTROL_KINDS, "controls", "drop"]
    assert [event["kind"] for event in recording.events("control")] == CONTROL_KINDS
    [event] = recording.events("control.pause")
    assert event["detail"] == {"holder": None} and event["who"] == "Ada"
    assert [event["kind"] for event in recording.events("drop")] == ["drop"]


def test_a_recording_becomes_frames_of_pandas(recorded: Path) -> None:
    pytest.importorskip("pandas")
    recording = open_recording(recorded)
    scalars = recording.to_pandas()
    assert list(scalars.columns) == ["loss", "valid_loss"] and scalars.index.name == "step"
    assert scalars.loc[2].tolist() == [1.0, 0.5]
    records = recording.records("HiddenStates", layers=0).to_pandas()
    assert records.step.tolist() == [1, 2, 3, 4] and records.point[0] == "HiddenStates"
    assert records["values"][0].shape == (1, 2, 3)


def test_several_runs_must_be_told_apart(recorded: Path) -> None:
    file = sqlite3.connect(recorded)
    with file:
        file.execute("INSERT INTO runs VALUES (7, '0000000000000007', '', '', '', '{}')")
    file.close()
    with pytest.raises(RecordError, match=f'{RUN_ID}.*name one: run="'):
        open_recording(recorded)
    assert list(open_recording(recorded, run="0000000000000007").records()) == []


def test_a_run_that_is_not_in_the_file(recorded: Path) -> None:
    with pytest.raises(RecordError, match=f"the runs in it: {RUN_ID}") as refused:
        open_recording(recorded, run="wrong")
    assert refused.value.code == "which_run"
    assert open_recording(recorded, run=RUN_ID).run == RUN_ID


def test_a_recording_that_has_no_run_yet(recorded: Path) -> None:
    file = sqlite3.connect(recorded)
    with file:
        file.execute("DELETE FROM runs")
    file.close()
    for run in (None, RUN_ID):
        with pytest.raises(RecordError, match="no run is in it yet.*wait for the first step of the run"):
            open_recording(recorded, run=run)


def test_what_is_no_recording_of_this_version(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_recording(tmp_path / "nowhere.ttrec")
    with pytest.raises(RecordError, match="this is a folder; the recording of a run is the file run.ttrec"):
        open_recording(tmp_path)
    for content in (b"", b"no SQLite" * 100):
        (tmp_path / "odd").write_bytes(content)
        with pytest.raises(RecordError, match="odd"):
            open_recording(tmp_path / "odd")
    file = sqlite3.connect(recorded)
    with file:
        file.execute("UPDATE meta SET value = '2'")
    file.close()
    with pytest.raises(RecordError, match="schema version 2 is not known"):
        open_recording(recorded)


def test_a_recording_that_its_hub_has_for_itself(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = sqlite3.connect(recorded)
    writer.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, timeout=0))
    with pytest.raises(RecordError, match="for itself; wait until the run has ended") as refused:
        open_recording(recorded)
    assert refused.value.code == "recording_in_use"
    writer.close()


def test_a_recording_being_written_is_read(recorded: Path) -> None:
    writer = sqlite3.connect(recorded)
    writer.execute("PRAGMA journal_mode=WAL")
    recording = open_recording(recorded)
    with writer:
        writer.execute("INSERT INTO scalars VALUES (?, 5, 'loss', 2.5, 0)", [RUN])
    assert recording.scalars("loss")[1][-1] == 2.5
    writer.close()


def test_a_loop_holds_up_no_writer(recorded: Path) -> None:
    writer = sqlite3.connect(recorded, timeout=0.5)
    writer.execute("PRAGMA journal_mode=WAL")
    records = iter(open_recording(recorded).records())
    assert next(records).step == 1
    with writer:
        writer.execute("INSERT INTO scalars VALUES (?, 5, 'loss', 2.5, 0)", [RUN])
    [(busy, _, _)] = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert busy == 0
    with writer:  # as the bound on the file's bytes does
        writer.execute("DELETE FROM frames WHERE step = 2")
    assert {record.step for record in records} == {1, 3, 4}
    writer.close()


def test_a_recording_needs_numpy_alone(recorded: Path) -> None:
    program = (
        "import sys; sys.modules['websockets'] = sys.modules['pandas'] = None\n"
        "from tensor_tracer import open_recording\n"
        f"print(sum(r.values.size for r in open_recording({str(recorded)!r}).records(steps=1)))"
    )
    client = REPOSITORY / "python"
    done = subprocess.run([sys.executable, "-c", program], cwd=client, capture_output=True, text=True)
    assert done.stderr == "" and int(done.stdout) == sum(len(golden["numbers"]) for golden in GOLDEN)


def read_all(path: Path) -> None:
    """Reads everything that a recording has."""
    with open_recording(path) as recording:
        for record in recording.records():
            _ = record.values
        for name in recording.scalar_names():
            recording.scalars(name)
        recording.events()


@pytest.mark.parametrize("statement", [
    "UPDATE runs SET facts = NULL", "UPDATE runs SET facts = '['", "UPDATE runs SET facts = '7'",
    "UPDATE runs SET id = x'ff'", "UPDATE runs SET facts = replace(hex(zeroblob(50000)), '0', '[')",
    "UPDATE points SET name = x'ff'", "UPDATE OR REPLACE points SET flag = 'x'", "UPDATE meta SET value = NULL",
    "UPDATE frames SET record = 'text'", "UPDATE frames SET record = 7", "UPDATE frames SET record = x'00'",
    "UPDATE scalars SET value = 'text'", "UPDATE OR REPLACE scalars SET step = 'text'", "UPDATE OR REPLACE scalars SET step = 1e300",
    "UPDATE events SET detail = '{'", "UPDATE OR REPLACE scalars SET name = x'ff'",
    "DROP TABLE frames", "DROP TABLE points", "ALTER TABLE events RENAME COLUMN detail TO other",
])  # fmt: skip
def test_a_column_of_another_kind_is_told(statement: str, recorded: Path) -> None:
    file = sqlite3.connect(recorded)
    with file:
        file.execute("INSERT INTO events (run, time_ns, step, kind, session, who, detail) "
                     "SELECT run, 1, 1, 'log', '', '', '{}' FROM runs")  # fmt: skip
        file.execute("PRAGMA ignore_check_constraints = on")
        file.execute(statement)
    file.close()
    with pytest.raises(RecordError, match=re.escape(str(recorded))) as refused:
        read_all(recorded)
    assert refused.value.code in {"not_a_recording", "invalid_record", "unsupported_version"}


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_told_or_read(seed: int, recorded: Path) -> None:
    """Never an error of SQLite, JSON or Python."""
    dice = random.Random(seed)
    content = bytearray(recorded.read_bytes())
    for _ in range(dice.choice((1, 8, 200))):
        content[dice.randrange(16, len(content))] = dice.randrange(256)
    recorded.write_bytes(content[: dice.choice((len(content), len(content), len(content) // 2))])
    with contextlib.suppress(TensorTracerError):
        read_all(recorded)
