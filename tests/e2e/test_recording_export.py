"""`export` against readers that know nothing of it: numpy, safetensors, csv, TensorBoard's protos."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import resource
import sqlite3
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors
from hub_harness import RUN_ID as HUB_RUN_ID
from hub_harness import REPOSITORY, make_record, running_hub, wait_until
from recording_maker import DTYPES, POINTS, RUN_ID, START_NS, Maker, facts, numbers_of, payload_of
from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event

pytestmark = pytest.mark.nightly(suite="export")

PACKAGE = REPOSITORY / "python" / "tensor_tracer"
STEPS = (1, 2, 3, 5)
PLAN = {
    "number": 1,
    "entries": [
        {"point": "HiddenStates", "compressor": {"kind": "projection", "vectors": ["evil", "kind"]}},
        {"point": "HiddenStates", "compressor": {"kind": "stats", "range": [-1, 3], "bins": 4}},
    ],
}
NEXT_PLAN = {
    "number": 2,
    "entries": [
        {"point": "HiddenStates", "compressor": {"kind": "projection", "vectors": ["evil", "dry"]}},
        PLAN["entries"][1],
    ],
}


class Expected:
    """A recording and what must come out of it."""

    def __init__(self, path: Path) -> None:
        self.random = np.random.default_rng(5)
        self.maker = Maker(path, PLAN)
        self.arrays: dict[str, np.ndarray] = {}
        self.wire: dict[str, tuple[str, np.ndarray]] = {}

    def series(self, name: str, point: str, dtype: str, shape: tuple[int, ...],
               compressor: str = "none", **fields: int) -> None:  # fmt: skip
        """Records of one kind in each of STEPS."""
        if dtype == "u8":
            values = self.random.integers(0, 256, (len(STEPS), *shape))
        elif dtype[0] == "i":
            values = self.random.integers(-1000, 1000, (len(STEPS), *shape))
        else:
            values = self.random.standard_normal((len(STEPS), *shape))
            values.flat[:4] = np.nan, np.inf, -0.0, np.copysign(np.nan, -1)
        for step, record in zip(STEPS, values, strict=True):
            plan = {"plan": 2} if step == 5 and compressor == "projection" else {}
            self.maker.add(point, step, dtype, record, compressor, **(fields | plan))
        self.wire[name] = dtype, values
        self.arrays[name] = np.stack([numbers_of(dtype, record) for record in values])
        self.arrays[f"{name}.steps"] = np.array(STEPS, "<i8")

    def scalars(self) -> None:
        """Loss in every step but 3, NaN in step 2; valid_loss in step 5 only."""
        for step in STEPS:
            loss = np.nan if step == 2 else 1 / step
            numbers = {} if step == 3 else {"loss": loss}
            extra = {"valid_loss": 0.1 + 0.2} if step == 5 else {}
            self.maker.add_scalars(step, lr=6e-4, **numbers, **extra)
        self.arrays["scalars.step"] = np.array(STEPS, "<i8")
        self.arrays["scalars.time_ns"] = START_NS + 10**9 * self.arrays["scalars.step"]
        self.arrays["scalars.lr"] = np.full(4, 6e-4)
        self.arrays["scalars.loss"] = np.array([1, np.nan, np.nan, 1 / 5])
        self.arrays["scalars.valid_loss"] = np.array([np.nan] * 3 + [0.1 + 0.2])


@pytest.fixture
def made(tmp_path: Path) -> Expected:
    """One record of everything."""
    out = Expected(tmp_path / "run.ttrec")
    for layer in (1, 2, 10):
        out.series(f"HiddenStates.layers.{layer}", "HiddenStates", "f32", (1, 4, 8), "tile",
                   layer=layer)  # fmt: skip
    out.series("MLP1.layers.1", "MLP1", "u8", (1, 4, 8), layer=1)
    out.series("MLP2.layers.1.gradient", "MLP2", "bf16", (1, 4, 8), layer=1, direction=1)
    out.series("MLP2.layers.1.eval", "MLP2", "f16", (1, 4, 8), layer=1, phase=1)
    out.series("InputTokens", "InputTokens", "i32", (2, 1, 4), layer=0)
    out.series("RawAttentionScore.layers.1", "RawAttentionScore", "f64", (1, 2, 4, 4), layer=1)
    # Alike but for the entry, and but for the shape: each gets what tells it apart.
    out.series("MLP1.layers.2.entry.3", "MLP1", "f32", (1, 4, 8), layer=2, entry=3)
    out.series("MLP1.layers.2.entry.4", "MLP1", "f32", (1, 4, 8), layer=2, entry=4)
    out.series("MLP1.layers.3.1x4x8", "MLP1", "i64", (1, 4, 8), layer=3)
    out.series("MLP1.layers.3.1x6x8", "MLP1", "i64", (1, 6, 8), layer=3)
    out.series("MLP1.layers.3.1x0x8", "MLP1", "i64", (1, 0, 8), layer=3)
    projection = "HiddenStates.layers.3.prompts.probes.projection"
    out.series(projection, "HiddenStates", "f32", (2, 4, 2), "projection", layer=3, prompt_set=1,
               first_row=6, micro_batch=3)  # fmt: skip
    out.arrays[f"{projection}.plans"] = np.array([1, 1, 1, 2], "<i8")
    out.arrays[f"{projection}.micro_batches"] = np.full(4, 3)
    out.arrays[f"{projection}.first_rows"] = np.full(4, 6)
    out.series("HiddenStates.layers.3.stats", "HiddenStates", "f64", (14,), "stats", layer=3,
               entry=1)  # fmt: skip
    out.series("Logits.topk", "Logits", "f32", (2, 1, 4, 3), "topk", layer=0)
    out.scalars()
    out.maker.add_plan(5, NEXT_PLAN)
    out.maker.close()
    return out


def export(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs the command that `tensor-tracer export` starts."""
    command = [sys.executable, str(PACKAGE), "export", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def exported(made: Expected, form: str, *words: object) -> Path:
    """The output of a command that must succeed."""
    output = made.maker.path.parent / f"out.{form}"
    done = export(made.maker.path, "--to", form, "--output", output, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(output))
    return output


def same(got: np.ndarray, expected: np.ndarray) -> bool:
    """Bit for bit, but for which NaN it is."""
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return False
    if got.dtype.kind != "f":
        return got.tobytes() == expected.tobytes()
    nan = np.isnan(got)
    return bool((nan == np.isnan(expected)).all()) and (
        np.where(nan, 0, got).tobytes() == np.where(nan, 0, expected).tobytes()
    )


def check_arrays(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert sorted(got) == sorted(expected)
    assert [name for name in got if not same(got[name], expected[name])] == []


def test_the_documented_query_reads_a_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Maker(tmp_path / "run.ttrec")
    values = np.arange(1, 10, dtype="f4").reshape(1, 3, 3)
    for step in (1, 2):
        for other in ({"entry": 1}, {"phase": 1}, {"prompt_set": 1}, {"plan": 2}, {"micro_batch": 1}, {}):
            maker.add("HiddenStates", step, "f32", values * (-step if other else step), layer=3, **other)
    maker.close()
    monkeypatch.chdir(tmp_path)
    text = (REPOSITORY / "docs" / "recording.md").read_text()
    names: dict[str, dict[int, np.ndarray]] = {}
    exec(textwrap.dedent(text[text.index("    import json") : text.index("## Schema")]), names)
    assert names["values"].keys() == {1, 2}
    assert all(np.array_equal(names["values"][step], step * values) for step in (1, 2))


# --- NPZ and safetensors --------------------------------------------------------------------------


@pytest.mark.smoke
def test_numpy_reads_every_array(made: Expected) -> None:
    with np.load(exported(made, "npz"), allow_pickle=False) as arrays:
        check_arrays(dict(arrays), made.arrays)


def test_numpy_reads_codes_offsets_and_scales(made: Expected) -> None:
    with np.load(exported(made, "npz", "--raw", "--point", "MLP1"), allow_pickle=False) as arrays:
        codes, lines = arrays["MLP1.layers.1"], arrays["MLP1.layers.1.lines"]
    assert same(codes, made.wire["MLP1.layers.1"][1].astype("u1"))
    assert lines.shape == (4, 1, 4, 2) and lines.dtype == np.dtype("<f4")
    assert (lines[..., 0] == (0.1 + np.arange(4)).astype("<f4")).all()
    assert (lines[..., 1] == np.float32(0.3)).all()


def tensors_of(path: Path) -> dict[str, tuple[str, list[int], bytes]]:
    """dtype, shape and bytes of every tensor, by the format's own library."""
    with safetensors.safe_open(path, framework="np") as file:
        assert file.metadata() == {"format": "tensor-tracer recording", "run": RUN_ID}
    return {
        name: (tensor["dtype"], tensor["shape"], bytes(tensor["data"]))
        for name, tensor in safetensors.deserialize(path.read_bytes())
    }


def test_safetensors_keeps_the_dtypes_of_the_wire(made: Expected) -> None:
    names = {"f8": "F64", "f4": "F32", "f2": "F16", "i4": "I32", "i8": "I64"}
    expected = {
        name: (names[array.dtype.str[1:]], list(array.shape), array.tobytes())
        for name, array in made.arrays.items()
    }
    halves = made.arrays["MLP2.layers.1.gradient"].view("<u4") >> 16
    expected["MLP2.layers.1.gradient"] = "BF16", [4, 1, 4, 8], halves.astype("<u2").tobytes()
    path = exported(made, "safetensors")
    (other := path.with_name("other")).touch()
    assert path.stat().st_mode == other.stat().st_mode, "who may read it"
    got = tensors_of(path)
    assert sorted(got) == sorted(expected)
    for name, tensor in got.items():
        if "F" not in expected[name][0]:
            assert tensor == expected[name], name
            continue
        assert tensor[:2] == expected[name][:2], name
        floats = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}[tensor[0]]
        assert same(np.frombuffer(tensor[2], floats), np.frombuffer(expected[name][2], floats)), name
    header = struct.unpack("<Q", path.read_bytes()[:8])[0]
    assert header % 8 == 0


def test_safetensors_aligns_every_tensor(made: Expected) -> None:
    raw = exported(made, "safetensors", "--raw").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    widths = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "U8": 1}
    for name, tensor in header.items():
        if name != "__metadata__":
            assert tensor["data_offsets"][0] % widths[tensor["dtype"]] == 0, name


# --- CSV --------------------------------------------------------------------------------------------


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_csv_of_scalars_is_one_step_a_line(made: Expected) -> None:
    rows = rows_of(exported(made, "csv"))
    assert list(rows[0]) == ["step", "time", "loss", "lr", "valid_loss"]
    assert [int(row["step"]) for row in rows] == list(STEPS)
    assert [row["loss"] for row in rows] == ["1", "nan", "", "0.2"]
    assert [float(row["valid_loss"] or 0) for row in rows] == [0, 0, 0, 0.1 + 0.2]
    assert rows[0]["time"] == f"{START_NS // 10**9 + 1}.123456789"


def test_csv_of_a_point_is_one_value_a_line(made: Expected) -> None:
    rows = rows_of(exported(made, "csv", "--point", "HiddenStates", "--layers", "10"))
    expected = made.arrays["HiddenStates.layers.10"]
    assert len(rows) == expected.size
    assert {"nan", "-nan"} & {row["value"] for row in rows} == {"nan"}
    for row in rows:
        assert row["point"] == "HiddenStates" and row["layer"] == "10" and row["head"] == ""
        at = (STEPS.index(int(row["step"])), int(row["row"]), int(row["token"]), int(row["feature"]))
        np.testing.assert_equal(np.float32(row["value"]), expected[at])


def test_csv_says_head_and_best_column_and_row_of_the_batch(made: Expected) -> None:
    output = exported(made, "csv", "--point", "RawAttentionScore", "--point", "Logits",
                      "--point", "HiddenStates", "--steps", "3")  # fmt: skip
    rows = rows_of(output)
    assert {row["step"] for row in rows} == {"3"}
    attention = [row for row in rows if row["point"] == "RawAttentionScore"]
    expected = made.arrays["RawAttentionScore.layers.1"][2]
    for row in attention:
        at = tuple(int(row[name]) for name in ("row", "head", "token", "feature"))
        assert float(row["value"]) == expected[at]
    assert len(attention) == expected.size
    best = made.arrays["Logits.topk"][2].astype("f8")
    found = [(int(r["feature"]), float(r["value"])) for r in rows if r["point"] == "Logits"]
    assert [value for _, value in found] == [float(str(v)) for v in best[0].astype("<f4").ravel()]
    assert len(found) == 12
    prompts = [row for row in rows if row["prompt_set"] == "probes"]
    assert {int(row["row"]) for row in prompts} == {6, 7}  # first_row is 6
    stats = [row for row in rows if row["compressor"] == "stats"]
    assert [(row["row"], row["token"], row["feature"]) for row in stats] == [
        ("", "", str(i)) for i in range(14)
    ]


# --- TensorBoard ------------------------------------------------------------------------------------


def events_of(folder: Path) -> Iterator[Event]:
    """Every event of the folder's one file; both checksums by tensorboardX's table."""
    (path,) = folder.iterdir()
    assert "tfevents" in path.name
    data = path.read_bytes()
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        for begin, end in ((0, 8), (12, 12 + size)):
            crc = crc32c(data[begin:end])
            masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
            assert struct.unpack("<I", data[end : end + 4])[0] == masked
        event = Event.FromString(data[12 : 12 + size])
        known = event.ByteSize()
        event.DiscardUnknownFields()
        assert event.ByteSize() == known
        yield event
        data = data[16 + size :]


def test_tensorboard_gets_scalars_statistics_and_projections(made: Expected) -> None:
    events = list(events_of(exported(made, "tensorboard")))
    assert events[0].file_version == "brain.Event:2"
    values = {
        (value.tag, event.step): (event.wall_time, value)
        for event in events[1:]
        for value in event.summary.value
    }
    time, loss = values["loss", 5]
    assert time == (START_NS + 5 * 10**9) / 1e9
    assert np.float32(loss.simple_value) == np.float32(0.2)
    assert np.isnan(values["loss", 2][1].simple_value)
    assert ("loss", 3) not in values
    projections = made.arrays["HiddenStates.layers.3.prompts.probes.projection"]
    tag = "HiddenStates/layer_3/prompts_probes/projection"
    for step, last in ((3, "kind"), (5, "dry")):
        means = projections[STEPS.index(step)].astype("f8").mean(axis=(0, 1))
        for name, mean in zip(("evil", last), means, strict=True):
            assert np.float32(values[f"{tag}/{name}", step][1].simple_value) == np.float32(mean)
    stats = made.arrays["HiddenStates.layers.3.stats"][3]
    tag = "HiddenStates/layer_3/stats"
    assert np.float32(values[f"{tag}/mean", 5][1].simple_value) == np.float32(stats[1])
    histogram = values[f"{tag}/histogram", 5][1].histo
    assert list(histogram.bucket_limit) == [0, 1, 2, 3]
    assert list(histogram.bucket) == list(stats[10:])
    assert (histogram.min, histogram.max) == (-1, 3)
    assert len([key for key in values if key[1] == 5]) == 3 + 2 + 11


def test_tensorboard_leaves_out_what_fills_up_shorter_prompts(tmp_path: Path) -> None:
    prompts = ["Ada", "unused", "Grace H.", "é", "K"]  # of 3, 6, 8, 2 and 1 bytes
    entry = {"point": "HiddenStates", "prompts": "probes", "rows": 0, "tokens": [1, 9],
             "compressor": {"kind": "projection", "vectors": ["evil", "kind"]}}  # fmt: skip
    maker = Maker(tmp_path / "run.ttrec", {"number": 1, "entries": [entry]})
    told = facts({"number": 1, "entries": [entry]}) | {"prompt_sets": [{"name": "probes", "prompts": prompts}]}
    maker.database.execute("UPDATE runs SET facts = ?", (json.dumps(told),))
    values = np.random.default_rng(3).standard_normal((3, 7, 2)).astype("f4")
    maker.add("HiddenStates", 1, "f32", values, "projection", layer=3, prompt_set=1, first_row=2)
    maker.close()
    done = export(maker.path, "--to", "tensorboard", "--output", tmp_path / "logs")
    assert done.returncode == 0, done.stderr
    found = {v.tag: v.simple_value for event in events_of(tmp_path / "logs") for v in event.summary.value}
    rows = [row[: length - 1].mean(axis=0) for row, length in zip(values.astype("f8"), (8, 2), strict=False)]
    tag = "HiddenStates/layer_3/prompts_probes/projection"
    for name, mean in zip(("evil", "kind"), np.mean(rows, axis=0), strict=True):
        assert np.isclose(found[f"{tag}/{name}"], mean, rtol=1e-6)


def test_a_plan_is_known_that_a_reconnected_trainer_brought(made: Expected) -> None:
    def tags() -> set[str]:
        events = list(events_of(exported(made, "tensorboard", "--force")))
        return {value.tag for event in events for value in event.summary.value}

    def change(statement: str) -> None:
        with contextlib.closing(sqlite3.connect(made.maker.path)) as file, file:
            assert file.execute(statement).rowcount > 0

    known = tags()
    change("UPDATE events SET kind = 'run' WHERE kind = 'plan'")
    assert tags() == known
    change("DELETE FROM events WHERE kind = 'run'")
    assert tags() != known


# --- what is chosen, and what is refused ------------------------------------------------------------


def test_points_layers_and_steps_are_chosen(made: Expected) -> None:
    output = exported(made, "npz", "--point", "HiddenStates", "--point", "InputTokens",
                      "--layers", "1-2", "--steps", "2-4")  # fmt: skip
    names = ["HiddenStates.layers.1", "HiddenStates.layers.2", "InputTokens"]
    expected = {
        name: array[1:3]
        for name, array in made.arrays.items()
        if name.removesuffix(".steps") in names or name.startswith("scalars.")
    }
    del expected["scalars.valid_loss"]
    with np.load(output) as arrays:
        check_arrays(dict(arrays), expected)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--point", "HidenStates"], "did you mean HiddenStates?"),
        (["--point", "Nothing"], "it has HiddenStates, InputTokens, Logits, MLP1"),
        (["--point", "MLP2", "--layers", "9"], "no records of MLP2"),
        (["--steps", "100-200"], "widen --steps"),
        (["--steps", "1-2,3"], "one range such as 10-200"),
        (["--steps", "9" * 5000], "one range such as 10-200"),
        (["--layers", "one"], "ranges such as 1-4,8"),
        (["--layers", "1-4,1-70000"], "up to 65535"),
        (["--run", "0000000000000001"], f"it has {RUN_ID}"),
        (["--to", "tensorboard", "--point", "MLP1"], "no stats, projection or Updates records of MLP1"),
        (["--to", "csv", "--raw"], "--raw is of npz and safetensors only"),
    ],
)
def test_a_wrong_choice_is_told_and_writes_nothing(
    made: Expected, words: list[str], said: str
) -> None:
    output = made.maker.path.parent / "out"
    form = [] if "--to" in words else ["--to", "npz"]
    done = export(made.maker.path, *form, "--output", output, *words)
    assert done.returncode == 2
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in output.parent.iterdir()) == ["run.ttrec"]


def test_nothing_is_overwritten_without_force(made: Expected) -> None:
    for form in ("npz", "tensorboard"):
        output = exported(made, form)
        before = sorted(path.stat().st_mtime_ns for path in [output, *output.glob("*")])
        done = export(made.maker.path, "--to", form, "--output", output)
        assert done.returncode == 2 and "--force" in done.stderr
        assert before == sorted(path.stat().st_mtime_ns for path in [output, *output.glob("*")])
        exported(made, form, "--force")
    recording = made.maker.path.read_bytes()
    done = export(made.maker.path, "--to", "npz", "--output", made.maker.path, "--force")
    assert done.returncode == 2 and "the recording itself" in done.stderr
    assert made.maker.path.read_bytes() == recording


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    for name, text in (("absent", None), ("text", "x" * 5000)):
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        done = export(path, "--to", "npz", "--output", tmp_path / "out")
        assert done.returncode == 2 and str(path) in done.stderr
        assert "give a .ttrec file that `train --record` wrote" in done.stderr
        assert not (tmp_path / "out").exists()


def test_two_runs_must_be_chosen_from(made: Expected) -> None:
    made.maker.database = sqlite3.connect(made.maker.path)
    made.maker.add_run(1, PLAN)
    made.maker.close()
    output = made.maker.path.parent / "out"
    done = export(made.maker.path, "--to", "csv", "--output", output)
    assert done.returncode == 2 and RUN_ID in done.stderr and "--run" in done.stderr
    exported(made, "csv", "--run", RUN_ID)


def test_a_damaged_record_is_named(made: Expected) -> None:
    database = sqlite3.connect(made.maker.path)
    (record,) = database.execute("SELECT record FROM frames WHERE id = 6").fetchone()
    broken = bytearray(record)
    broken[140] ^= 1
    database.execute("UPDATE frames SET record = ? WHERE id = 6", (bytes(broken),))
    database.commit()
    output = made.maker.path.parent / "out"
    for form in ("npz", "safetensors"):
        done = export(made.maker.path, "--to", form, "--output", output)
        assert done.returncode == 1
        assert "frame 6 of step 2 is damaged" in done.stderr
        assert "export the steps before it and those after it, each with --steps" in done.stderr
    assert not list(output.parent.glob("out*"))
    exported(made, "npz", "--steps", "1")
    exported(made, "npz", "--steps", "3-5", "--force")


def test_where_sorting_has_no_room_it_is_the_disk_that_is_named(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "run.ttrec")
    maker.add("HiddenStates", 1, "f32", np.zeros((1, 2, 2)), layer=1)
    columns = ", ".join(column for column in maker.tables["frames"] if column != "id")
    counted = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
    maker.database.execute(f"INSERT INTO frames ({columns}) {counted} SELECT {columns} FROM frames, n")
    maker.close()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = export(maker.path, "--to", "npz", "--output", tmp_path / "out", preexec_fn=limit,
                  restore_signals=False)  # fmt: skip
    assert done.returncode == 1
    assert "full disk" in done.stderr and "SQLITE_TMPDIR" in done.stderr
    assert "integrity_check" not in done.stderr


def test_a_file_that_is_damaged_is_to_be_checked(made: Expected) -> None:
    data = bytearray(made.maker.path.read_bytes())
    half = len(data) // 2
    data[half:] = b"\xff" * (len(data) - half)
    made.maker.path.write_bytes(data)
    done = export(made.maker.path, "--to", "npz", "--output", made.maker.path.parent / "out")
    assert done.returncode == 2 and "integrity_check" in done.stderr


@pytest.mark.parametrize("form", ["npz", "safetensors", "csv", "tensorboard"])
def test_a_full_disk_leaves_nothing_behind(made: Expected, form: str) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    output = made.maker.path.parent / "out"
    done = export(made.maker.path, "--to", form, "--output", output, preexec_fn=limit,
                  restore_signals=False)  # fmt: skip
    assert done.returncode == 1 and "space on its disk" in done.stderr
    assert [path for path in output.parent.rglob("*") if path.is_file()] == [made.maker.path]


@pytest.mark.parametrize("form", ["npz", "safetensors", "csv", "tensorboard"])
@pytest.mark.parametrize("name", ["run.ttrec/out", "x" * 300])
def test_an_output_that_has_no_place_is_named(made: Expected, form: str, name: str) -> None:
    output = made.maker.path.parent / name
    done = export(made.maker.path, "--to", form, "--output", output)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert str(output) in done.stderr and "cannot be written" in done.stderr


def test_a_run_id_does_not_lead_out_of_the_folder(made: Expected) -> None:
    with contextlib.closing(sqlite3.connect(made.maker.path)) as database, database:
        database.execute("UPDATE runs SET id = '/../../escaped'")
    done = export(made.maker.path, "--to", "tensorboard", "--output", made.maker.path.parent / "logs")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (made.maker.path.parent / "logs").iterdir()] == [
        "events.out.tfevents.0._.._.._escaped"
    ]


@pytest.mark.parametrize("words", [
    ("--to", "npz", "--run", "none"),  # names the runs
    ("--to", "npz", "--point", "none"),  # names the points
    ("--to", "csv", "--point", "\x1b[31mred"),
])  # fmt: skip
def test_control_characters_of_a_recording_do_not_reach_the_terminal(made: Expected, words: tuple[str, ...]) -> None:
    with contextlib.closing(sqlite3.connect(made.maker.path)) as database, database:
        database.execute("UPDATE runs SET id = ?", ("\x1b]0;title\x07",))
        database.execute("UPDATE runs SET facts = replace(facts, 'MLP1', ?)", (r"\u001b[2J",))
    done = export(made.maker.path, *words, "--output", made.maker.path.parent / "out")
    assert done.returncode == 2 and "\\x1b" in done.stderr, done.stderr
    assert all(c.isprintable() for c in done.stderr.removesuffix("\n")) and not done.stdout


@pytest.mark.parametrize("form", ["npz", "safetensors"])
def test_memory_does_not_grow_with_the_recording(tmp_path: Path, form: str) -> None:
    def peak_bytes(records: int) -> int:
        maker = Maker(tmp_path / f"{records}.ttrec")
        maker.add("HiddenStates", 1, "f32", np.zeros((1, 256, 1024)), layer=1)  # 1 MiB
        copy = f"SELECT ?, {', '.join(maker.tables['frames'][1:])} FROM frames WHERE id = 1"
        for number in range(2, records + 1):
            maker.database.execute(f"INSERT INTO frames {copy}", (number,))
        words = [maker.close(), "--to", form, "--output", tmp_path / f"{records}.out"]
        running = subprocess.Popen([sys.executable, str(PACKAGE), "export", *map(str, words)])
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        assert running.returncode == 0
        return used.ru_maxrss << 10

    assert peak_bytes(128) - peak_bytes(1) < 24 << 20
    assert (tmp_path / "128.out").stat().st_size > 128 << 20


# --- a recording of a real hub ----------------------------------------------------------------------


@pytest.mark.smoke
def test_what_a_hub_records_comes_out_bit_for_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(6).standard_normal((3, 1, 4, 8)).astype("<f4")
    recording, output = tmp_path / "run.ttrec", tmp_path / "out.npz"
    words = (recording, "--to", "npz", "--output", output, "--force")

    def is_recorded() -> bool:
        with (
            contextlib.suppress(sqlite3.OperationalError),
            contextlib.closing(sqlite3.connect(f"{recording.as_uri()}?mode=ro", uri=True)) as database,
        ):
            query = "SELECT (SELECT count(*) FROM frames), (SELECT count(DISTINCT step) FROM scalars)"
            return database.execute(query).fetchone() == (3, 3)
        return False

    with running_hub(tmp_path / "run", "--record", str(tmp_path)) as hub:
        worker = hub.worker(points=facts(PLAN)["points"])
        for step, record in enumerate(values, 1):
            worker.notify("step", step=step, loss=1 / step)
            fields = {"run": int(HUB_RUN_ID, 16), "step": step, "point": POINTS["MLP1"], "ndim": 3,
                      "dtype": DTYPES["f32"], "shape": [1, 4, 8, 1]}  # fmt: skip
            worker.connection.send(make_record(payload_of("f32", record), **fields))
        wait_until(is_recorded, "3 records and scalars of 3 steps", timeout=120)
        live = export(*words)
        assert live.returncode == 0, live.stderr
        assert ": 3 records, scalars of 3 steps" in live.stdout
    with np.load(output) as arrays:
        while_it_ran = dict(arrays)
    assert export(*words).returncode == 0
    with np.load(output) as finished:
        check_arrays(dict(finished), while_it_ran)
        assert same(finished["MLP1.layers.1"], values)
        assert list(finished["MLP1.layers.1.steps"]) == [1, 2, 3]
        assert list(finished["scalars.loss"]) == [1, 1 / 2, 1 / 3]
