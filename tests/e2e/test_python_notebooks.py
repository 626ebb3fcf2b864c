"""What a notebook does with a recording: filters, sequences, arrays of pandas and xarray, texts, pictures."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas
import pytest
from hub_harness import REPOSITORY
from recording_maker import Maker, facts
from tensor_tracer import Recording, RecordError, open_recording

matplotlib.use("agg")

STEPS = (1, 2, 4)
PROMPTS = ["ab", "xyé"]  # 2 and 4 bytes
LINE = b"def f(x):\n"  # tokens 0 to 9 of row 0
ENTRIES = [
    {"point": "HiddenStates"},
    {"point": "HiddenStates", "compressor": {"kind": "stats"}},
    {"point": "HiddenStates", "prompts": "probes", "rows": 0, "tokens": [1, 4],
     "compressor": {"kind": "projection", "vectors": ["evil", "kind"]}},
    {"point": "InputTokens"},
    {"point": "RawAttentionScore", "tokens": [2, 5]},
]  # fmt: skip
PLAN = {"number": 1, "entries": ENTRIES}


def values_of(kind: int, step: int, layer: int) -> np.ndarray:
    shapes = [(1, 10, 6), (58,), (2, 3, 2), (2, 1, 10), (1, 2, 3, 10)]
    return np.random.default_rng([kind, step, layer]).normal(size=shapes[kind]).astype("f4")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Two layers, three steps, of every entry; layer 2 of step 4 is missing."""
    maker = Maker(tmp_path / "run.ttrec", PLAN)
    told = facts(PLAN) | {"prompt_sets": [{"name": "probes", "prompts": PROMPTS}]}
    maker.database.execute("UPDATE runs SET facts = ?", [json.dumps(told)])
    for step in STEPS:
        for layer in (1, 2) if step < 4 else (1,):
            maker.add("HiddenStates", step, "f32", values_of(0, step, layer), "tile", layer=layer)
            maker.add("HiddenStates", step, "f64", values_of(1, step, layer), "stats", layer=layer, entry=1)
            maker.add("HiddenStates", step, "f32", values_of(2, step, layer), "projection", layer=layer, entry=2,
                      prompt_set=1)  # fmt: skip
            maker.add("RawAttentionScore", step, "f32", values_of(4, step, layer), layer=layer, entry=4)
        ids = np.array([[list(LINE)], [range(10)]])
        maker.add("InputTokens", step, "i32", ids, layer=0, entry=3)
        maker.add_scalars(step, loss=1 / step, lr=0.5)
    maker.close()
    return maker.path


@pytest.fixture
def recording(made: Path) -> Recording:
    return open_recording(made)


# --- filters, and what is refused -------------------------------------------------------------------


def test_records_are_chosen_by_compressor_and_prompt_set(recording: Recording) -> None:
    def kinds(**chosen: object) -> set[tuple[str, int]]:
        return {(record.compressor, record.prompt_set) for record in recording.records("HiddenStates", **chosen)}

    assert kinds(compressor="tile") == {("tile", 0)} == kinds(entry=0)
    assert kinds(prompt_set="probes") == {("projection", 1)} == kinds(prompt_set=1)
    assert kinds(compressor=["tile", "stats"], entry="all") == {("tile", 0), ("stats", 0)}
    assert kinds(prompt_set=0, entry="0-1") == {("tile", 0), ("stats", 0)}
    assert len(recording.records(phase="eval")) == len(recording.records(direction="gradient")) == 0
    everything = recording.records()
    assert len(everything) == len(list(everything)) == 5 * 4 + 3
    assert len(recording.records(phase="train", direction="value")) == len(everything)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({}, r"HiddenStates: several entries .* match: entry 0 \(tile\), entry 1 \(stats\), "
             r"entry 2 \(projection, prompts probes\); choose with compressor="),
        ({"prompt_set": 0}, r"entry 0 \(tile\), entry 1 \(stats\);"),
        ({"compressor": "tiel"}, "compressor: there is no 'tiel'; there is tile"),
        ({"prompt_set": "probs"}, "prompt_set: there is no 'probs'; there is probes"),
        ({"phase": "test"}, "phase: there is no 'test'; there is train, eval"),
    ],
)  # fmt: skip
def test_a_choice_that_mixes_or_does_not_exist_is_refused(
    recording: Recording, chosen: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        recording.records("HiddenStates", **chosen)


def test_an_entry_goes_on_when_the_plan_changes(made: Path) -> None:
    """Its number may be another then; an entry with other members is another one."""
    later = {"number": 2, "entries": [{"point": "MLP1"}, ENTRIES[0] | {"every": 2}]}
    maker = Maker.__new__(Maker)
    maker.path, maker.database, maker.frames = made, sqlite3.connect(made), 100
    maker.tables = {table: [row[1] for row in maker.database.execute(f"PRAGMA table_info({table})")]
                    for table in ("frames", "events")}  # fmt: skip
    maker.add_plan(5, later)
    maker.add("HiddenStates", 6, "f32", values_of(0, 6, 1), "tile", layer=1, entry=1, plan=2)
    maker.database.commit()
    recording = open_recording(made)
    assert [r.step for r in recording.records("HiddenStates", layers=1, compressor="tile")] == [1, 2, 4, 6]
    later["entries"][1]["tokens"] = [1, 11]
    maker.database.execute("UPDATE events SET detail = ?", [json.dumps({"plan": later})])
    maker.database.commit()
    with pytest.raises(ValueError, match=r"entry 0 \(tile\), entry 1 \(tile\)"):
        open_recording(made).records("HiddenStates", compressor="tile")


def test_records_are_a_sequence(recording: Recording) -> None:
    records = recording.records("HiddenStates", compressor="tile")
    assert [record.step for record in records] == [1, 1, 2, 2, 4]
    assert records[-1].step == 4 and [record.layer for record in records[1:3]] == [2, 1]
    assert len(records[::2]) == 3 and len(recording.records("MLP1")) == 0
    with pytest.raises(IndexError):
        records[5]


def test_a_record_that_was_removed_meanwhile(made: Path) -> None:
    records = open_recording(made).records("HiddenStates", compressor="tile")
    with sqlite3.connect(made) as writer:
        writer.execute("DELETE FROM frames WHERE step = 1")
    writer.close()
    assert len(records) == 5 and [record.step for record in records] == [2, 2, 4]
    assert records.to_pandas().step.tolist() == [2, 2, 4]
    with pytest.raises(RecordError, match="no longer in the recording"):
        records[0]


# --- pandas -----------------------------------------------------------------------------------------


def test_columns_are_the_members_of_the_records(recording: Recording) -> None:
    records = recording.records()
    frame = records.to_pandas()
    assert len(frame) == len(records)
    for row, record in zip(frame.itertuples(), records, strict=True):
        for name in frame.columns.drop("values"):
            assert getattr(row, name) == getattr(record, name), name
        own = frame["values"][row.Index]
        assert own.dtype == record.values.dtype
        np.testing.assert_array_equal(own, record.values)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i32", "i64", "u8"])
def test_columns_of_every_dtype(dtype: str, tmp_path: Path) -> None:
    maker = Maker(tmp_path / "run.ttrec")
    numbers = np.random.default_rng(3).integers(0, 200, (4, 3, 5))
    for step, values in enumerate(numbers, 1):
        maker.add("MLP1", step, dtype, values)
    records = open_recording(maker.close()).records("MLP1")
    for own, record in zip(records.to_pandas()["values"], records, strict=True):
        assert own.dtype == record.values.dtype and own.tobytes() == record.values.tobytes()


def test_scalars_become_columns(recording: Recording) -> None:
    frame = recording.to_pandas()
    expected = pandas.DataFrame({"loss": [1, 0.5, 0.25], "lr": [0.5] * 3}, pandas.Index(STEPS, name="step"))
    pandas.testing.assert_frame_equal(frame, expected)


@pytest.mark.parametrize("at", [20, 130, 127])
def test_damage_is_told_by_columns(made: Path, at: int) -> None:
    with sqlite3.connect(made) as writer:
        [(record,)] = writer.execute("SELECT record FROM frames WHERE id = 1").fetchall()
        broken = bytearray(record)
        broken[at] ^= 1
        writer.execute("UPDATE frames SET record = ? WHERE id = 1", [bytes(broken)])
    writer.close()
    with pytest.raises(RecordError, match="checksum does not fit"):
        open_recording(made).records("HiddenStates", compressor="tile").to_pandas()


# --- xarray -----------------------------------------------------------------------------------------


def test_tiles_have_steps_layers_tokens_and_features(recording: Recording) -> None:
    array = recording.records("HiddenStates", compressor="tile").to_xarray()
    assert array.dims == ("step", "layer", "token", "feature") and array.name == "HiddenStates"
    assert array.step.values.tolist() == list(STEPS) and array.layer.values.tolist() == [1, 2]
    for step in STEPS:
        for layer in (1, 2):
            found = array.sel(step=step, layer=layer).values
            if (step, layer) == (4, 2):  # not recorded
                assert np.isnan(found).all()
            else:
                np.testing.assert_array_equal(found, values_of(0, step, layer)[0])
    assert "".join(array.token_text.sel(step=2).values) == LINE.decode()
    assert array.attrs["compressor"] == "tile" and array.attrs["prompt_set"] == ""


def test_projections_of_prompts_have_rows_and_names(recording: Recording) -> None:
    array = recording.records("HiddenStates", prompt_set="probes").to_xarray()
    assert array.dims == ("step", "layer", "row", "token", "feature")
    assert array.feature.values.tolist() == ["evil", "kind"] and array.token.values.tolist() == [1, 2, 3]
    expected = values_of(2, 2, 1)[1, :, 1]
    np.testing.assert_array_equal(array.sel(step=2, layer=1, row=1, feature="kind"), expected)
    assert array.token_text.values.tolist() == [["b", "", ""], ["y", "\\xc3", "\\xa9"]]


def test_statistics_of_an_earlier_version_have_names(recording: Recording) -> None:
    array = recording.records("HiddenStates", compressor="stats").to_xarray()
    assert array.dims == ("step", "layer", "feature") and array.sizes["feature"] == 66
    assert np.isnan(array.sel(step=1, layer=2, feature="rms"))
    assert array.sel(step=1, layer=2, feature="norm") == values_of(1, 1, 2)[5]
    assert array.sel(step=1, layer=2, feature="bin 47") == values_of(1, 1, 2)[57]


def test_statistics_of_two_rows_have_all_their_names(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "run.ttrec", PLAN)
    tables = np.random.default_rng(5).normal(size=(3, 2, 58))
    tables[:, 1, 8:] = np.nan  # the second row has 8 numbers
    for step, table in enumerate(tables, 1):
        maker.add("HiddenStates", step, "f64", table, "stats", layer=1, entry=1)
    records = open_recording(maker.close()).records("HiddenStates", compressor="stats")
    array = records.to_xarray().sel(layer=1)
    assert array.dims == ("step", "feature") and array.sizes["feature"] == 66 and not np.isnan(array).any()
    places = {"std": (0, 2), "norm": (0, 5), "bin 47": (0, 57), "rms": (1, 1), "column_norm_max": (1, 7)}
    for name, (row, column) in places.items():
        np.testing.assert_array_equal(array.sel(feature=name), tables[:, row, column])
        np.testing.assert_array_equal(records.plot(name).lines[0].get_ydata(), tables[:, row, column])
        matplotlib.pyplot.close("all")


def test_attention_and_tokens(recording: Recording) -> None:
    scores = recording.records("RawAttentionScore").to_xarray()
    assert scores.dims == ("step", "layer", "head", "token", "key")
    assert "".join(scores.token_text.sel(step=1).values) == LINE.decode()[2:5]
    ids = recording.records("InputTokens").to_xarray()
    assert ids.dims == ("step", "layer", "part", "token")
    assert bytes(ids.sel(step=4, layer=0, part="id").values.astype("u1")) == LINE


def test_rows_of_micro_batches_are_one_dim(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "run.ttrec")
    whole = np.random.default_rng(1).normal(size=(2, 5, 3, 4)).astype("f4")
    for step in (1, 2):
        for number, rows in enumerate((slice(0, 2), slice(2, 4), slice(4, 5))):
            maker.add("MLP1", step, "f32", whole[step - 1, rows], "tile", micro_batch=number, first_row=rows.start)
    records = open_recording(maker.close()).records("MLP1")
    array = records.to_xarray()
    assert array.dims == ("step", "layer", "row", "token", "feature") and array.row.values.tolist() == list(range(5))
    np.testing.assert_array_equal(array.sel(layer=1), whole)
    assert "token_text" not in array.coords


def test_what_else_tells_records_apart_is_a_dim(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "run.ttrec")
    for number in (0, 1):
        for step in (1, 2):
            maker.add("MLP1", step, "i64", np.full((1, 2, 2), 10 * number + step), micro_batch=number)
    maker.add("MLP1", 3, "i64", np.full((1, 2, 2), 3), micro_batch=1)
    array = open_recording(maker.close()).records("MLP1").to_xarray()
    assert array.dims == ("step", "micro_batch", "layer", "token", "feature")
    assert array.isel(token=0, feature=0, layer=0).values[:2].tolist() == [[1, 11], [2, 12]]
    assert np.isnan(array.sel(step=3, micro_batch=0)).all() and (array.sel(step=3, micro_batch=1) == 3).all()


def test_of_a_step_that_was_run_twice_the_later_counts(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "run.ttrec")
    for value in (1, 2):
        maker.add("MLP1", 7, "f32", np.full((1, 2, 2), value))
    records = open_recording(maker.close()).records("MLP1")
    assert len(records) == 2 and (records.to_xarray() == 2).all()


def test_what_does_not_fit_together_is_told(recording: Recording, tmp_path: Path) -> None:
    for entry, said in [("0-1", "differ in compressor: stats, tile"), ("9", "there are no records")]:
        with pytest.raises(ValueError, match=said):
            recording.records("HiddenStates", entry=entry).to_xarray()
    maker = Maker(tmp_path / "shapes.ttrec")
    for step in (1, 2):
        maker.add("MLP1", step, "f32", np.zeros((1, step, 2)))
    with pytest.raises(ValueError, match=r"several shapes: \(1, 2\), \(2, 2\)"):
        open_recording(maker.close()).records("MLP1").to_xarray()


# --- texts, and how things look -----------------------------------------------------------------------


def test_a_record_knows_the_text_of_its_tokens(recording: Recording) -> None:
    tile = recording.records("HiddenStates", compressor="tile")[0]
    assert tile.tokens == [list(LINE.decode())]
    projection = recording.records("HiddenStates", compressor="projection")[0]
    assert projection.tokens == [["b", "", ""], ["y", "\\xc3", "\\xa9"]]
    assert recording.records("HiddenStates", compressor="stats")[0].tokens is None


def change_tokenizer(recording: Path, tokenizer: dict[str, Any]) -> None:
    with sqlite3.connect(recording) as writer:
        [(told,)] = writer.execute("SELECT facts FROM runs").fetchall()
        writer.execute("UPDATE runs SET facts = ?", [json.dumps(json.loads(told) | {"tokenizer": tokenizer})])
    writer.close()


def test_tokens_of_another_tokenizer_have_no_text(made: Path) -> None:
    change_tokenizer(made, {"kind": "bpe"})
    records = open_recording(made).records("HiddenStates", compressor="tile")
    assert records[0].tokens is None and "token_text" not in records.to_xarray().coords


def test_tokens_have_the_texts_that_the_run_tells(made: Path) -> None:
    """An id without one is a number. Byte `LINE[n]` of the recording is an id here."""
    change_tokenizer(made, {"kind": "tokenizer.json", "texts": [f"<{id}>" for id in range(110)]})
    records = open_recording(made).records("HiddenStates", compressor="tile")
    wanted = [f"<{id}>" if id < 110 else f"#{id}" for id in LINE]
    assert any(id >= 110 for id in LINE) and any(id < 110 for id in LINE)
    assert records[0].tokens == [wanted]
    assert records.to_xarray().token_text.sel(step=records[0].step).values.ravel().tolist() == wanted


def test_what_a_notebook_shows(recording: Recording, made: Path) -> None:
    records = recording.records("HiddenStates", compressor="tile", layers="1-2")
    assert repr(recording) == f"<Recording {made} of run {recording.run} 'test'>"
    assert repr(records) == f"<5 records: HiddenStates, layers 1-2, tile, of run {recording.run}>"
    assert repr(records[0]) == "<Record of HiddenStates, layer 1, step 1: train, tile, f32 [1, 10, 6]>"
    for shown, said in [(recording, "5 records"), (records, "step 4"), (records[0], "micro_batch")]:
        assert said in shown._repr_html_() and "<table>" in shown._repr_html_()


def test_names_of_a_recording_are_no_html(made: Path) -> None:
    with sqlite3.connect(made) as writer:
        writer.execute("UPDATE runs SET facts = replace(facts, '\"test\"', '\"<script>\"')")
        writer.execute("UPDATE points SET name = '<i>'")
    writer.close()
    recording = open_recording(made)
    for shown in (recording, recording.records(), recording.records()[0]):
        assert "&lt;" in shown._repr_html_()
        assert "<script>" not in shown._repr_html_() and "<i>" not in shown._repr_html_()


def test_pictures(recording: Recording) -> None:
    losses = recording.plot("loss", "lr")
    assert [line.get_label() for line in losses.lines] == ["loss", "lr"]
    np.testing.assert_array_equal(losses.lines[0].get_xydata(), [[1, 1], [2, 0.5], [4, 0.25]])
    stds = recording.records("HiddenStates", compressor="stats").plot()
    expected = [values_of(1, step, 1)[2] for step in STEPS]
    np.testing.assert_array_equal(stds.lines[0].get_ydata(), expected)
    assert [line.get_label() for line in stds.lines] == ["layer 1", "layer 2"]
    projections = recording.records("HiddenStates", compressor="projection")
    evil = projections.plot("evil").lines[0].get_ydata()
    np.testing.assert_allclose(evil, [values_of(2, step, 1)[..., 0].mean() for step in STEPS], rtol=1e-5)
    with pytest.raises(ValueError, match="there is no 'evli'; there is evil, kind"):
        projections.plot("evli")
    picture = recording.records("HiddenStates", compressor="tile", steps=2, layers=1).plot()
    np.testing.assert_array_equal(picture.images[0].get_array(), values_of(0, 2, 1)[0])
    assert [label.get_text() for label in picture.get_yticklabels()] == [*LINE.decode()[:9], "\\n"]
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize(("package", "use"), [
    ("pandas", "recording.to_pandas()"), ("pandas", "recording.records().to_pandas()"),
    ("xarray", "recording.records('InputTokens').to_xarray()"), ("matplotlib", "recording.plot()"),
])  # fmt: skip
def test_a_package_that_is_missing_is_named(made: Path, package: str, use: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\nfrom tensor_tracer import open_recording\n"
        f"recording = open_recording({str(made)!r})\ntry: {use}\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY / "python", capture_output=True, text=True)
    assert done.stderr == "" and f"needs the package {package}" in done.stdout
    assert done.stdout.endswith(f" -m pip install {package}\n")
