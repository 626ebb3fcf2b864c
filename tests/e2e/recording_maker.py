"""Recordings as docs/recording.md describes them, made with Python's sqlite3 alone."""

from __future__ import annotations

import json
import re
import sqlite3
import struct
from pathlib import Path
from typing import Any

import numpy as np
from hub_harness import RECORD, REPOSITORY, encode_record

RUN = 0x8F0C00000000ABCD  # negative as SQLite's number
RUN_ID = f"{RUN:016x}"
START_NS = 1_795_230_000_123_456_789
DTYPES = {"f64": 1, "f32": 2, "f16": 3, "bf16": 4, "i32": 5, "i64": 6, "u8": 7}
COMPRESSORS = {"none": 0, "tile": 1, "empty": 2, "stats": 3, "projection": 4, "topk": 5}
POINTS = {"HiddenStates": 7, "MLP1": 4, "MLP2": 5, "InputTokens": 8, "RawAttentionScore": 2,
          "Logits": 23}  # fmt: skip
DIMS = {
    "InputTokens": ["ids_positions", "batch", "sequence"],
    "RawAttentionScore": ["batch", "heads", "sequence", "keys"],
}
U8_NAMES = {253: np.nan, 254: np.inf, 255: -np.inf}


def documented_tables() -> dict[str, list[str]]:
    """Table -> columns, from docs/recording.md."""
    text = (REPOSITORY / "docs" / "recording.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|", text, re.MULTILINE)
    return {table: re.findall(r"\w+", columns) for table, columns in rows}


def facts(plan: dict[str, Any]) -> dict[str, Any]:
    """A run's facts with every point of POINTS."""
    points = [
        {"name": name, "flag": flag, "dims": DIMS.get(name, ["batch", "sequence", "features"])}
        for name, flag in POINTS.items()
    ]
    return {"id": RUN_ID, "name": "test", "points": points, "plan": plan,
            "prompt_sets": [{"name": "probes"}]}  # fmt: skip


def payload_of(dtype: str, values: np.ndarray) -> bytes:
    """The payload of `values`; of u8 these are codes, with offset 0.1 + line and scale 0.3."""
    if dtype == "bf16":
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    if dtype == "u8":
        lines = values.size // values.shape[-1]
        heads = b"".join(struct.pack("<2f", 0.1 + line, 0.3) for line in range(lines))
        return heads + values.astype("u1").tobytes()
    return values.astype(f"<{dtype[0]}{int(dtype[1:]) // 8}").tobytes()


def numbers_of(dtype: str, values: np.ndarray) -> np.ndarray:
    """What a reader without bf16 must get of payload_of()."""
    if dtype == "bf16":
        return (values.astype("<f4").view("<u4") >> 16 << 16).view("<f4")
    if dtype == "u8":
        lines = np.arange(values.size // values.shape[-1]).reshape(*values.shape[:-1], 1)
        offset = (0.1 + lines).astype("<f4").astype("f8")
        numbers = (offset + values * np.float64(np.float32(0.3))).astype("<f4")
        for code, number in U8_NAMES.items():
            numbers[values == code] = number
        return numbers
    return values.astype(f"<{dtype[0]}{int(dtype[1:]) // 8}")


class Maker:
    """One recording of one run."""

    def __init__(self, path: Path, plan: dict[str, Any] | None = None) -> None:
        self.path = path
        self.database = sqlite3.connect(path)
        self.tables = documented_tables()
        self.frames = 0
        for table, columns in self.tables.items():
            self.database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        self.insert("meta", key="schema_version", value="1")
        self.add_run(RUN, plan or {"number": 1, "entries": []})

    def insert(self, table: str, **row: Any) -> None:
        """One row; the documented columns and no others."""
        assert set(row) == set(self.tables[table])
        marks = ", ".join("?" * len(row))
        self.database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})",
                              tuple(row.values()))  # fmt: skip

    def add_run(self, run: int, plan: dict[str, Any]) -> None:
        """A run and its points."""
        self.insert("runs", run=signed(run), id=f"{run:016x}", name="test", host="here",
                    start_time="2026-11-21T03:00:00Z", facts=json.dumps(facts(plan)))  # fmt: skip
        for name, flag in POINTS.items():
            self.insert("points", run=signed(run), flag=flag, name=name, facts="{}")

    def add(self, point: str, step: int, dtype: str, values: np.ndarray,
            compressor: str = "none", **fields: int) -> None:  # fmt: skip
        """One record."""
        self.frames += 1
        header = RECORD | {
            "run": RUN, "sequence": self.frames, "step": step, "point": POINTS[point],
            "dtype": DTYPES[dtype], "compressor": COMPRESSORS[compressor], "ndim": values.ndim,
            "time": START_NS + step * 10**9,
        } | fields  # fmt: skip
        shape = list(values.shape)
        header["shape"] = shape + [1] * (4 - len(shape))
        record = encode_record(header, payload_of(dtype, values))[0]
        self.add_frame(header, shape, record)

    def add_frame(self, header: dict[str, Any], shape: list[int], record: bytes) -> None:
        """The row of a record."""
        columns = set(self.tables["frames"]) - {"id", "shape", "time_ns", "record", "run"}
        self.insert("frames", id=self.frames, run=signed(RUN), shape=json.dumps(shape),
                    time_ns=header["time"], record=record,
                    **{name: header[name] for name in columns})  # fmt: skip

    def add_scalars(self, step: int, **numbers: float) -> None:
        """A `step` notification."""
        for name, value in numbers.items():
            kept = None if np.isnan(value) else value
            self.insert("scalars", run=signed(RUN), step=step, name=name, value=kept,
                        time_ns=START_NS + step * 10**9)  # fmt: skip

    def add_plan(self, step: int, plan: dict[str, Any]) -> None:
        """A `plan` event."""
        self.insert("events", id=step, run=signed(RUN), time_ns=START_NS, step=step, kind="plan",
                    session="", who="", detail=json.dumps({"plan": plan, "step": step}))  # fmt: skip

    def add_projections(self, step: int, detail: str) -> None:
        """A `projections` event."""
        self.insert("events", id=10**6 + step, run=signed(RUN), time_ns=START_NS + step * 10**9, step=step,
                    kind="projections", session="", who="", detail=detail)  # fmt: skip

    def close(self) -> Path:
        """The file, whole."""
        self.database.commit()
        self.database.close()
        return self.path


def signed(number: int) -> int:
    """The same 64 bits as SQLite has them."""
    return number - 2**64 if number >= 2**63 else number
