"""The parts of the export: what arrays are called, how numbers are written, which state is read."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording_maker import RUN, Maker, signed
from tensor_tracer_export.__main__ import main, open_database
from tensor_tracer_export.frames import MAX_STEP, Frames, Selection, Series
from tensor_tracer_export.names import RunNames, name_series

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
    names = name_series([*alike, gradient, unknown], RunNames(FACTS))
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
    assert RunNames(facts).point(7) == "point_7"
    assert RunNames(facts).prompt_set(1) == "1"


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


def test_what_is_damaged_is_an_error_and_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    maker = Maker(tmp_path / "run.ttrec")
    maker.add("HiddenStates", 1, "f32", np.zeros(2))
    maker.database.execute("UPDATE frames SET shape = 'x'")
    maker.close()
    with contextlib.closing(sqlite3.connect(maker.path)):
        assert main([str(maker.path), "--to", "npz", "--output", str(tmp_path / "out")]) == 2
    assert "shape is \"x\"" in capsys.readouterr().err
