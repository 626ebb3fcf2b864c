"""The parts of the export: what arrays are called, how numbers are written, which state is read."""

from __future__ import annotations

import contextlib
import io
import math
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording_maker import RUN, Maker, signed
from tensor_tracer import TensorTracerError
from tensor_tracer.export.arrays import DenseArray
from tensor_tracer.export.command import main
from tensor_tracer.export.frames import MAX_STEP, Frames, Selection, Series
from tensor_tracer.export.names import name_series
from tensor_tracer.facts import RunFacts
from tensor_tracer.recording_file import open_database

FACTS = {
    "points": [{"name": "MLP1", "flag": 4}, {"name": "HiddenStates", "flag": 7}],
    "prompt_sets": [{"name": "a/b"}],
}


def series(**members: Any) -> Series:
    members = {"point": 7, "layer": 3, "shape_text": "[1, 2]", "dtype": 2} | members
    return Series(*(members.get(name, 0) for name in Series._fields))


def test_series_that_share_a_name_are_told_apart() -> None:
    gradient = series(direction=1, prompt_set=1, compressor=3)
    unknown = series(point=99, layer=0, compressor=9)
    alike = [series(), series(entry=2, shape_text="[1, 4]")]
    names = name_series([*alike, gradient, unknown], RunFacts(FACTS))
    assert [array for array, _ in names] == [
        "HiddenStates.layers.3.entry.0.1x2",
        "HiddenStates.layers.3.entry.2.1x4",
        "HiddenStates.layers.3.gradient.prompts.a_b.stats",
        "point_99.compressor_9",
    ]
    assert names[1][1] == "HiddenStates/layer_3/entry_2/1x4"


@pytest.mark.parametrize(
    "facts",
    [None, 3, {"points": 3}, {"points": [1, {"flag": -1}]}, {"prompt_sets": [None]}],
)
def test_facts_of_any_shape_are_taken(facts: Any) -> None:
    assert RunFacts(facts).point(7) == "point_7"
    assert RunFacts(facts).prompt_set(1) == "1"


def test_a_run_that_goes_on_is_read_in_one_state(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "run.ttrec")
    maker.database.commit()
    maker.database.execute("PRAGMA journal_mode = WAL")
    for step in (1, 2):
        maker.add("HiddenStates", step, "f32", np.zeros(2))
    maker.database.commit()
    with contextlib.closing(open_database(maker.path)) as database:
        frames = Frames(database, Selection(signed(RUN), 0, MAX_STEP, None, None))
        (found,) = frames.series()
        maker.add("HiddenStates", 3, "f32", np.zeros(2))
        maker.database.commit()
        assert frames.series()[0].records == 2
        assert [record.step for record in frames.records(found)] == [1, 2]


def test_csv_is_exact_and_reports_what_is_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    maker = Maker(tmp_path / "run.ttrec")
    maker.add("HiddenStates", 3, "f32", np.array([0.1, 3]), layer=1)
    maker.insert("scalars", run=signed(RUN), step=3, name="loss", value=0.1, time_ns=1_500_000_007)
    maker.close()
    output = tmp_path / "out.csv"
    words = [str(maker.path), "--to", "csv", "--output", str(output)]
    assert main([*words, "--point", "HiddenStates"]) == 0
    assert capsys.readouterr().out == f"{output}: 1 records, scalars of 0 steps\n"
    assert output.read_bytes().decode() == (
        "step,micro_batch,point,layer,direction,phase,prompt_set,entry,data_rank,compressor,"
        "row,token,head,feature,value\n"
        "3,0,HiddenStates,1,value,train,,0,0,none,,,,0,0.1\n"
        "3,0,HiddenStates,1,value,train,,0,0,none,,,,1,3\n"
    )
    assert main([*words, "--force"]) == 0
    assert output.read_bytes().decode() == "step,time,loss\n3,1.500000007,0.1\n"


def test_halves_and_codes_widen_exactly(tmp_path: Path) -> None:
    halves = np.array([0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0xC000, 0x7BFF, 0x7C00, 0xFC00], "<u2")
    maker = Maker(tmp_path / "run.ttrec")
    maker.add("HiddenStates", 1, "f16", halves.view("<f2"))
    maker.add("MLP1", 1, "bf16", np.array([1, math.inf, math.ldexp(1, -133)]))
    maker.add("MLP2", 1, "u8", np.array([[0, 252, 254, 255, 253]]))
    maker.close()

    def texts(point: str) -> list[str]:
        output = tmp_path / f"{point}.csv"
        assert main([str(maker.path), "--to", "csv", "--output", str(output), "--point", point]) == 0
        return [line.rpartition(",")[2] for line in output.read_text().splitlines()[1:]]

    numbers = [0, -0.0, 2**-24, 1023 * 2**-24, 2**-14, 1, -2, 65504, math.inf, -math.inf]
    written = texts("HiddenStates")
    assert [float(np.float32(text)) for text in written] == numbers
    assert written[1] == "-0"
    assert [float(text) for text in texts("MLP1")] == pytest.approx([1, math.inf, 2.0**-133], rel=1e-6)
    widened = np.float32(np.float64(np.float32(0.1)) + 252 * np.float64(np.float32(0.3)))
    assert texts("MLP2") == ["0.1", str(widened), "inf", "-inf", "nan"]


def test_nan_keeps_its_bits(tmp_path: Path) -> None:
    halves = np.array([0x7E00, 0x7E01, 0xFE00, 0x7D00], "<u2")
    maker = Maker(tmp_path / "run.ttrec")
    maker.add("HiddenStates", 1, "f16", halves.view("<f2"))
    maker.close()
    for form in ("npz", "csv"):
        words = ["--to", form, "--output", str(tmp_path / f"out.{form}"), "--point", "HiddenStates"]
        assert main([str(maker.path), *words]) == 0
    with np.load(tmp_path / "out.npz") as arrays:
        assert (arrays["HiddenStates.layers.1"].view("<u2") == halves).all()
    lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert [line.rpartition(",")[2] for line in lines] == ["nan"] * 4


def small_recording(folder: Path, *statements: str) -> Path:
    """One record, its scalar and an event, changed by statements in SQL."""
    maker = Maker(folder / "run.ttrec")
    maker.add("HiddenStates", 1, "f64", np.zeros(14), "stats", layer=1)
    maker.add_scalars(1, loss=1.0)
    maker.add_plan(1, {"number": 1, "entries": []})
    for statement in statements:
        maker.database.execute(statement)
    return maker.close()


DEEP = f"{100_000 * '['}{100_000 * ']'}"


@pytest.mark.parametrize("form", ["npz", "safetensors", "csv", "tensorboard"])
@pytest.mark.parametrize(
    "facts",
    ["'{'", f"'{DEEP}'", "NULL", "x'ff'", "CAST(x'ff' AS TEXT)", """'{"points": [{"name": "\\ud800", "flag": 7}]}'"""],
    ids=["text", "deep", "null", "blob", "not UTF-8", "surrogate"],
)
def test_damaged_facts_and_events_leave_numbers_for_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, facts: str
) -> None:
    path = small_recording(tmp_path, f"UPDATE runs SET facts = {facts}", f"UPDATE events SET detail = {facts}")
    assert main([str(path), "--to", form, "--output", str(tmp_path / "out.npz")]) == 0, capsys.readouterr().err
    if form == "npz":
        with np.load(tmp_path / "out.npz") as arrays:
            assert "point_7.layers.1.stats" in arrays


@pytest.mark.parametrize(
    ("statement", "form", "code", "said"),
    [
        ("UPDATE frames SET shape = 'x'", "npz", 2, 'shape is "x"'),
        (f"UPDATE frames SET shape = '{DEEP}'", "npz", 2, "not a list of numbers"),
        ("UPDATE frames SET shape = CAST(x'ff' AS TEXT)", "npz", 2, "not a list of numbers"),
        ("UPDATE frames SET layer = '../3'", "npz", 2, 'layer is "../3"'),
        ("UPDATE frames SET entry = NULL", "npz", 2, 'entry is "None"'),
        ("UPDATE frames SET record = x''", "npz", 1, "frame 1 of step 1 is damaged: it has 0 records"),
        ("UPDATE frames SET record = 'x'", "npz", 1, "frame 1 of step 1 is damaged: it has 0 records"),
        ("UPDATE frames SET record = CAST(record || record AS BLOB)", "npz", 1, "damaged: it has 2 records"),
        ("UPDATE frames SET micro_batch = 'x'", "npz", 1, "frame 1 of step 1 is damaged: a column is not a number"),
        ("UPDATE frames SET dtype = 99", "tensorboard", 1, "frame 1 of step 1 is damaged: its columns"),
        ("UPDATE scalars SET value = 'x'", "csv", 2, 'scalar loss of step 1 is damaged: value "x"'),
        ("UPDATE scalars SET time_ns = 'x'", "csv", 2, "scalar loss of step 1 is damaged"),
        ("UPDATE runs SET id = NULL", "safetensors", 2, 'has the id "None"'),
        ("INSERT INTO scalars SELECT * FROM scalars", "csv", 2, "this recording cannot be read"),
        ("ALTER TABLE frames RENAME COLUMN plan TO other", "npz", 2, "no such column: plan"),
    ],
)
def test_what_is_damaged_is_an_error_and_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], statement: str, form: str, code: int, said: str
) -> None:
    path = small_recording(tmp_path, statement)
    assert main([str(path), "--to", form, "--output", str(tmp_path / "out")]) == code
    assert said in capsys.readouterr().err


def test_an_array_has_the_size_that_its_header_states() -> None:
    with pytest.raises(TensorTracerError, match="scalars.loss has 4 bytes, its shape 8"):
        DenseArray("scalars.loss", "f64", (1,), lambda: [b"1234"]).write(io.BytesIO())


def test_all_layers_and_points_may_be_chosen(tmp_path: Path) -> None:
    everything = set(range(0x10000))
    with contextlib.closing(open_database(small_recording(tmp_path))) as database:
        database.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)  # of SQLite before 3.32
        frames = Frames(database, Selection(signed(RUN), 0, MAX_STEP, everything, everything))
        assert [one.records for one in frames.series()] == [1]


@pytest.mark.parametrize("opens", [True, False])
def test_a_file_that_does_not_open_is_tried_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: bool
) -> None:
    path, connect = small_recording(tmp_path), sqlite3.connect

    def refuse(address: str, *words: Any, **options: Any) -> sqlite3.Connection:
        if opens and "immutable" in address:
            return connect(address, *words, **options)
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(sqlite3, "connect", refuse)
    if opens:
        open_database(path).close()
        return
    with pytest.raises(TensorTracerError, match="unable to open database file") as refusal:
        open_database(path)
    assert refusal.value.code == "not_a_recording"
