"""Other recordings beside the hub's own run: `--compare FILE`."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np
import pytest
from hub_harness import RUN_ID, Hub, binary, running_hub, split_records
from recording_maker import RUN_ID as OTHER_ID
from recording_maker import Maker, facts
from program import tiny_flags, write_text
from test_hub_history import ask, ask_json, feed, wait_for_frames
from test_hub_replay import replaying
from viewer import live_run


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A finished recording of another run: steps 3 to 5 of MLP1, two layers."""
    plan = {"number": 1, "entries": [{"point": "MLP1"}]}
    maker = Maker(tmp_path / "other.ttrec", plan)
    for step in (3, 4, 5):
        maker.add_scalars(step, loss=1.5)
        for layer in (1, 2):
            maker.add("MLP1", step, "f32", np.full((1, 2, 3), step * 10.0 + layer), layer=layer)
    return maker.close()


def test_its_runs_are_told_and_its_history_is_served(other: Path, tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--compare", str(other)) as hub:
        feed(hub, range(1, 3))
        wait_for_frames(hub, 12)
        [told] = ask_json(hub, "/history/runs")["runs"]
        plan = {"number": 1, "entries": [{"point": "MLP1"}]}
        assert told == {"id": OTHER_ID, "name": "test", "facts": facts(plan), "first_step": 3,
                        "last_step": 5}  # fmt: skip
        assert [s["step"] for s in ask_json(hub, f"/history/steps?run={OTHER_ID}")] == [3, 4, 5]
        assert ask_json(hub, f"/history?run={OTHER_ID}")["last_step"] == 5
        status, headers, body = ask(hub, f"/history/records?run={OTHER_ID}&point=MLP1&first=4&last=4")
        assert (status, headers["TT-Records"]) == (200, "2")
        assert [(r["step"], r["layer"]) for r in split_records(body)] == [(4, 1), (4, 2)]
        assert np.frombuffer(body[-24:], "<f4")[0] == 42.0


def test_its_plan_is_the_one_that_was_in_force_last(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "other.ttrec", {"number": 1, "entries": [{"point": "MLP1"}]})
    maker.add_scalars(1, loss=1.5)
    for step, point in [(2, "MLP2"), (3, "Logits")]:
        maker.add_plan(step, {"number": step, "entries": [{"point": point}]})
        maker.add_scalars(step, loss=1.5)
    with running_hub(tmp_path / "run", "--compare", str(maker.close())) as hub:
        [told] = ask_json(hub, "/history/runs")["runs"]
        assert told["facts"]["plan"] == {"number": 3, "entries": [{"point": "Logits"}]}


def test_the_hubs_own_run_stays_what_is_asked_for_without_a_name(
    other: Path, tmp_path: Path
) -> None:
    with running_hub(tmp_path / "run", "--compare", str(other)) as hub:
        feed(hub, range(1, 3))
        wait_for_frames(hub, 12)
        assert ask_json(hub, "/history")["run"] == RUN_ID
        assert [s["step"] for s in ask_json(hub, "/history/steps")] == [1, 2]
        assert ask(hub, "/history/steps?run=0000000000000001")[0] == 404


def test_it_is_served_where_the_hub_cannot_record(other: Path, tmp_path: Path) -> None:
    for name in ("run.ttrec", f"run-{RUN_ID}.ttrec"):
        (tmp_path / "run" / name).mkdir(parents=True)
    with running_hub(tmp_path / "run", "--compare", str(other)) as hub:
        assert ask(hub, "/history/steps")[0] == 404
        assert len(ask_json(hub, f"/history/steps?run={OTHER_ID}")) == 3


def test_nobody_reads_it_without_a_token(other: Path, tmp_path: Path, hub: Hub) -> None:
    assert ask_json(hub, "/history/runs") == {"runs": []}
    assert ask(hub, "/history/runs?x=1")[0] == 400
    with running_hub(tmp_path / "second", "--compare", str(other)) as second:
        assert ask(second, "/history/runs", token=None)[0] == 401
        assert ask(second, f"/history/steps?run={OTHER_ID}", token="x")[0] == 401


@pytest.mark.parametrize("content", [None, b"no recording"], ids=["missing", "foreign"])
def test_a_file_that_is_no_recording_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "file.ttrec"
    if content is not None:
        path.write_bytes(content)
    (tmp_path / "run").mkdir()
    done = subprocess.run(
        [str(binary()), "serve", "--run-dir", str(tmp_path / "run"), "--port", "0",
         "--compare", str(path)], capture_output=True, text=True, timeout=10, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert str(path) in done.stderr


def runs_of(address: str, token: str) -> Any:
    request = urllib.request.Request(f"http://{address}/history/runs")
    request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())["runs"]


def test_a_training_run_passes_its_files_on(other: Path, tmp_path: Path) -> None:
    flags = tiny_flags(write_text(tmp_path / "text.txt")) | {"tensor_tracer_compare": str(other)}
    with live_run(flags, tmp_path / "live") as live:
        address = live.address()
        token = (live.run_dir / "token").read_text().strip()
        assert [run["id"] for run in runs_of(address, token)] == [OTHER_ID]
        with live.viewer():
            live.wait()


def recorded(folder: Path, run_id: int, loss: float) -> Path:
    """The recording of a run that was lost at step 2."""
    folder.mkdir(parents=True)
    maker = Maker(folder / "run.ttrec")
    maker.database.execute("DELETE FROM runs")
    maker.add_run(run_id, {"number": 1, "entries": []})
    for step in (1, 2):
        maker.insert("scalars", run=run_id, step=step, name="loss", value=loss / step, time_ns=step)
    return maker.close()


def test_the_other_runs_of_the_folder_are_offered(tmp_path: Path) -> None:
    file = recorded(tmp_path / "a", 0xA, 4.0)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "run.ttrec").write_text("no recording")
    with running_hub(tmp_path / "run") as hub:
        feed(hub, range(1, 3))
        wait_for_frames(hub, 12)
        [told] = ask_json(hub, "/history/runs")["runs"]
        assert (told["id"], told["state"], told["loss"], told["last_step"]) == (f"{0xA:016x}", "lost", 2.0, 2)
        assert told["facts"]["plan"] == {"number": 1, "entries": []} and told["recording"] == str(file)
        steps = ask_json(hub, f"/history/steps?run={told['id']}")
        assert [(step["step"], step["loss"]) for step in steps] == [(1, 4.0), (2, 2.0)]
        recorded(tmp_path / "c", 0xC, 8.0)  # while this hub runs
        assert ask_json(hub, f"/history/steps?run={0xC:016x}")[-1]["loss"] == 4.0
        assert {run["id"][-1] for run in ask_json(hub, "/history/runs")["runs"]} == {"a", "c"}
        assert ask(hub, f"/history/steps?run={0xD:016x}")[0] == 404
        file.unlink()
        assert ask(hub, f"/history/steps?run={told['id']}")[0] == 404
        assert [s["step"] for s in ask_json(hub, "/history/steps")] == [1, 2]


def test_a_replay_of_a_kept_run_offers_the_others(tmp_path: Path) -> None:
    file = recorded(tmp_path / "a", 0xA, 4.0)
    recorded(tmp_path / "b", 0xB, 4.0)
    for is_run_directory in (False, True):
        if is_run_directory:
            (tmp_path / "a" / "hub.json").write_text("{}")
        with replaying(file, "--paused") as shown:
            hub = cast(Hub, SimpleNamespace(port=urlsplit(shown.address).port, token=shown.token))
            offered = [run["id"][-1] for run in ask_json(hub, "/history/runs")["runs"]]
            assert offered == (["b"] if is_run_directory else []), "a file elsewhere has no runs beside it"
