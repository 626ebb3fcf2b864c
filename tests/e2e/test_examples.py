"""The programs of examples/, as a user starts them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
from fake_hub import FakeHub
from hub_harness import FACTS, REPOSITORY, make_record, wait_until
from test_python_records import SCHEMA


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "clients" / "python")}
    command = [sys.executable, str(REPOSITORY / "examples" / program), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, **pipes)


def projection(values: list[list[float]], **fields: int) -> bytes:
    """One row, a token for each pair of projections."""
    header = dict(dtype=2, compressor=4, ndim=3, shape=[1, len(values), 2, 1], plan=4) | fields
    return make_record(np.array(values, "<f4").tobytes(), **header)


def test_follow_projection(tmp_path: Path) -> None:
    entry = {"point": "HiddenStates", "compressor": {"kind": "projection", "vectors": ["kind", "evil"]}}
    plan = {"number": 4, "entries": [{"point": "MLP1"}, entry]}
    with FakeHub() as hub:
        hub.hello["run"] = FACTS | {"plan": plan}
        hub.answers = {"plan.set": {"step": 3, "ranks": 2, "plan": plan}}
        arguments = ("--vector", "evil", "--threshold", "2", "--claim", "--layers", "2-3")
        program = start("follow_projection.py", str(hub.write_run_dir(tmp_path)), *arguments)
        wait_until(lambda: bool(hub.named("subscribe")), "the subscription")
        asked = {"point": "HiddenStates", "layers": "2-3"}
        asked["compressor"] = {"kind": "projection", "vectors": ["evil"]}
        assert hub.named("plan.set") == [{"plan": {"entries": [asked]}}]
        hub.viewer.send(
            projection([[9, 1], [9, 2]], entry=1, layer=2, step=3, sequence=1)
            + projection([[0, 5], [0, 1]], entry=1, layer=3, step=3, sequence=2)
            + projection([[9, 9]], entry=1, layer=2, step=2, sequence=3, plan=3)
        )
        hub.tell("dropped", records=2, where="viewer")
        hub.tell("state", phase="finished", step=3)
    printed, errors = program.communicate(timeout=20)
    assert printed.splitlines() == [
        "plan in force from step 3 on 2 ranks",
        "step      3  layer   2  +1.5000",
        "step      3  layer   3  +3.0000  ALARM",
    ]
    assert program.returncode == 1 and errors == "not seen: {'viewer': 2}\n"


def test_follow_projection_without_a_run(tmp_path: Path) -> None:
    program = start("follow_projection.py", str(tmp_path), "--vector", "evil", "--threshold", "2")
    errors = program.communicate(timeout=20)[1]
    assert program.returncode == 1 and errors.startswith("error: ") and "[no_hub]" in errors


def test_recording_to_numpy(tmp_path: Path) -> None:
    file = sqlite3.connect(tmp_path / "run.ttrec")
    file.executescript(SCHEMA)
    file.execute("INSERT INTO meta VALUES ('schema_version', '1')")
    file.execute("INSERT INTO runs VALUES (1, ?, '', '', '', ?)", [FACTS["id"], json.dumps(FACTS)])
    values = np.random.default_rng(3).normal(size=(2, 4)).astype("<f4")
    for step in (1, 2):
        record = make_record(values[step - 1].tobytes(), dtype=2, shape=[4, 1, 1, 1], step=step)
        file.execute("INSERT INTO frames VALUES (NULL, 1, ?, 0, 7, 4, ?)", [step, record])
    file.commit()
    file.close()
    output = tmp_path / "hidden.npz"
    arguments = (str(tmp_path / "run.ttrec"), "HiddenStates", "4")
    program = start("recording_to_numpy.py", *arguments, str(output))
    assert program.communicate(timeout=20)[1] == "" and program.returncode == 0
    written = np.load(output)
    assert written["values"].tobytes() == values.tobytes() and written["steps"].tolist() == [1, 2]
    program = start("recording_to_numpy.py", arguments[0], "MLP1", "4", str(output))
    assert "MLP1 of layer 4: nothing was recorded" in program.communicate(timeout=20)[1]
