"""The programs of examples/, as a user starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_hub import FakeHub
from hub_harness import FACTS, REPOSITORY, make_record, wait_until


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "python")}
    command = [sys.executable, str(REPOSITORY / "examples" / program), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, **pipes)


def projection(values: list[list[float]], rows: int = 1, **fields: int) -> bytes:
    """A token for each pair of projections, row by row."""
    shape = [rows, len(values) // rows, 2, 1]
    header = dict(dtype=2, compressor=4, ndim=3, shape=shape, plan=4) | fields
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
            + projection([[9, 9]], entry=1, layer=2, step=3, sequence=4, prompt_set=1)
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


COMPRESSOR = {"kind": "projection", "vectors": ["kind", "evil"]}
PROMPT_SETS = [{"name": "calls", "prompts": ["abcd"]}, {"name": "prose", "prompts": ["é", "abc", "a"]}]


def test_follow_projection_on_prompts(tmp_path: Path) -> None:
    entry = {"point": "HiddenStates", "prompts": "prose", "rows": 0, "compressor": COMPRESSOR}
    plan = {"number": 4, "entries": [entry, entry | {"tokens": [1, 4]}]}
    filling = [99.0, 99.0]
    with FakeHub() as hub:
        hub.hello["run"] = FACTS | {"plan": plan, "prompt_sets": PROMPT_SETS}
        run_dir = str(hub.write_run_dir(tmp_path))
        arguments = ("--vector", "evil", "--threshold", "5", "--prompts", "prose")
        program = start("follow_projection.py", run_dir, *arguments)
        wait_until(lambda: bool(hub.named("subscribe")), "the subscription")
        prose = {"layer": 1, "prompt_set": 2}
        first = [[0, 1], [0, 3], filling, [0, 4], [0, 4], [0, 7]]
        hub.viewer.send(
            projection(first, 2, step=3, sequence=1, **prose)
            + projection([[0, 6], filling], step=3, sequence=2, first_row=2, **prose)
            # From token 1 on: "a" has none, and is left out.
            + projection([[0, 2], filling, [0, 4], [0, 6]], 2, entry=1, step=4, sequence=3, **prose)
            + projection([filling], entry=1, step=4, sequence=4, first_row=2, **prose)
            + projection([filling], layer=1, step=5, sequence=5, prompt_set=1)
            + projection([filling], layer=1, step=5, sequence=6)
        )
        hub.tell("state", phase="finished", step=5)
    printed, errors = program.communicate(timeout=20)
    assert errors == "" and printed.splitlines() == [
        "step      3  layer   1  +3.5000",
        "step      3  layer   1  +6.0000  ALARM",
        "step      4  layer   1  +3.5000",
    ]


BAD_OPTIONS = {
    "prompts": ({}, ("--prompts", "pros"), 'the run has no prompt set "pros"; it has calls, prose'),
    "layers": ({}, ("--layers", "x"), "layers: 'x' is no range"),
    "lengths": ({"tokenizer": {"kind": "bpe"}}, ("--prompts", "prose"), "only prompts of the byte tokenizer"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_follow_projection_of_what_there_is_not(case: str, tmp_path: Path) -> None:
    change, options, message = BAD_OPTIONS[case]
    with FakeHub() as hub:
        hub.hello["run"] = FACTS | {"prompt_sets": PROMPT_SETS} | change
        run_dir = str(hub.write_run_dir(tmp_path))
        program = start("follow_projection.py", run_dir, "--vector", "a", "--threshold", "2", *options)
        errors = program.communicate(timeout=20)[1]
    assert program.returncode == 1 and errors.count("\n") == 1
    assert errors.startswith("error: ") and message in errors


def test_follow_projection_without_a_run(tmp_path: Path) -> None:
    program = start("follow_projection.py", str(tmp_path), "--vector", "evil", "--threshold", "2")
    errors = program.communicate(timeout=20)[1]
    assert program.returncode == 1 and errors.startswith("error: ") and "[no_hub]" in errors
