"""How fast the Python client makes a table of pandas of a recording: `to_pandas` of many records, beside the client of
an older commit, in turns.

The older client verified checksums with numpy where the package google-crc32c, then optional, was not installed: it is
measured both ways. Every measurement is a separate process; importing is not counted. The times are CPU times, which other
programs disturb less.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from candidates import REPOSITORY
from google_crc32c import value as crc32c

SHAPES = {"statistics, 232 bytes": (58,), "maps of 64 tokens and 64 tiles, 16 KiB": (1, 64, 64)}
OLD_FILE = "clients/python/tensor_tracer.py"
WAYS = ("old, numpy", "old, google-crc32c", "new")
RUN_ID = "5f0c00000000abcd"

PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
if sys.argv[3] == "old, numpy": sys.modules["google_crc32c"] = None
import pandas, tensor_tracer
recording = tensor_tracer.open_recording(sys.argv[2])
begin = time.process_time()
if sys.argv[3] == "new": frame = recording.records("HiddenStates").to_pandas()
else: frame = recording.to_pandas("HiddenStates")
end = time.process_time()
print(len(frame), end - begin, sum(float(values.sum()) for values in frame["values"][:100]))
"""


def record_of(step: int, layer: int, values: np.ndarray) -> bytes:
    """docs/protocol.md, "Binary messages"."""
    payload = values.tobytes()
    shape = [*values.shape, 1, 1, 1][:4]
    places = (int(RUN_ID, 16), step, step, 1, 0, 0, 0, 0, 7, layer, 0, 0, 0)
    kind = (0, 0, 2, 3 if values.ndim == 1 else 1, values.ndim, *shape)
    head = struct.pack("<IHHQQQIIIIIHHHHHBBBBBx4IIQQ16xI", 0x31465454, 1, 128, *places, *kind, 256, len(payload),
                       10**18 + step, crc32c(payload))  # fmt: skip
    return head + struct.pack("<I", crc32c(head)) + payload + bytes(-len(payload) % 8)


def write_recording(path: Path, records: int, shape: tuple[int, ...]) -> None:
    """One entry, four layers."""
    facts = {"id": RUN_ID, "points": [{"name": "HiddenStates", "flag": 7}], "plan": {"number": 1, "entries": []}}
    file = sqlite3.connect(path)
    file.execute("PRAGMA page_size = 32768")  # as the hub has it
    file.executescript("""
        CREATE TABLE meta(key, value); CREATE TABLE runs(run, id, name, host, start_time, facts);
        CREATE TABLE points(run, flag, name, facts); CREATE TABLE events(id, run, step, kind, detail);
        CREATE TABLE scalars(run, step, name, value, time_ns);
        CREATE TABLE frames(id INTEGER PRIMARY KEY, run, step, plan, entry, point, layer, compressor, direction, phase,
                            prompt_set, record);
        INSERT INTO meta VALUES ('schema_version', '1'); INSERT INTO points VALUES (1, 7, 'HiddenStates', '{}')""")
    file.execute("INSERT INTO runs VALUES (1, ?, '', '', '', ?)", [RUN_ID, json.dumps(facts)])
    random = np.random.default_rng(1)
    code = 3 if len(shape) == 1 else 1
    rows = ((1 + n // 4, 1 + n % 4, code, record_of(1 + n // 4, 1 + n % 4, random.random(shape, "f4")))
            for n in range(records))  # fmt: skip
    file.executemany("INSERT INTO frames VALUES (NULL, 1, ?, 1, 0, 7, ?, ?, 0, 0, 0, ?)", rows)
    file.execute("CREATE INDEX frames_by_point ON frames(run, point, layer, step, entry)")
    file.commit()
    file.close()


def old_client(folder: Path, commit: str) -> Path:
    shown = subprocess.run(["git", "show", f"{commit}:{OLD_FILE}"], cwd=REPOSITORY, capture_output=True, check=True)
    (folder / "tensor_tracer.py").write_bytes(shown.stdout)
    return folder


def measure(package: Path, recording: Path, way: str) -> tuple[str, float]:
    """What the table holds, and the seconds."""
    command = [sys.executable, "-c", PROGRAM, str(package), str(recording), way]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows, seconds, total = done.stdout.split()
    return f"{rows} {total}", float(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--old", default="6eefb87", help="commit of the older client (6eefb87, 2026-11-23)")
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    lines = ["| records | old client, numpy's checksums | old client, google-crc32c | this client | ratios |",
             "|---|---:|---:|---:|---:|"]  # fmt: skip
    with tempfile.TemporaryDirectory(dir=REPOSITORY / "build") as name:
        folder = Path(name)
        old = old_client(folder, options.old)
        for title, shape in SHAPES.items():
            recording = folder / "run.ttrec"
            recording.unlink(missing_ok=True)
            write_recording(recording, options.records, shape)
            seconds: dict[str, list[float]] = {way: [] for way in WAYS}
            told = set()
            for turn in range(options.rounds):
                for way in WAYS[turn % 3 :] + WAYS[: turn % 3]:
                    content, taken = measure(REPOSITORY / "python" if way == "new" else old, recording, way)
                    seconds[way].append(taken)
                    told.add(content)
            assert len(told) == 1, told
            medians = [statistics.median(seconds[way]) for way in WAYS]
            ratios = ", ".join(f"{medians[n] / medians[2]:.1f}" for n in (0, 1))
            lines.append(f"| {options.records:,} of {title} | " + " | ".join(f"{m:.2f} s" for m in medians) + f" | {ratios} |")
    print(f"### to_pandas of {options.records:,} records\n")
    load = f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} after"
    print(f"{datetime.date.today()}, {load}; {options.rounds} rounds, medians of CPU time.\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
