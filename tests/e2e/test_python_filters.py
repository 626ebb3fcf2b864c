"""What a live loop lets through, and what a notebook sees of a live run."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from fake_hub import FakeHub
from hub_harness import FACTS, RUN_ID, Hub, make_record, wait_until
from tensor_tracer import connect
from tensor_tracer.facts import RunFacts

matplotlib.use("agg")

TILE = {"point": "HiddenStates", "compressor": {"kind": "tile"}}
STATS = {"point": "HiddenStates", "compressor": {"kind": "stats"}}
PROBES = {"point": "HiddenStates", "prompts": "probes", "rows": 0}
TOKENS = {"point": "InputTokens"}
CODES = {"tile": 1, "stats": 3}
LINE = b"x = 1\n"


def facts(*entries: dict[str, Any]) -> dict[str, Any]:
    sets = [{"name": "probes", "prompts": ["a"]}]
    return FACTS | {"plan": {"number": 1, "entries": list(entries)}, "prompt_sets": sets}


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


def numbers(values: object, dtype: str = "<f4", **fields: int) -> bytes:
    array = np.array(values, dtype)
    header = {"dtype": {"<f4": 2, "<i4": 5}[dtype], "ndim": array.ndim, "shape": [*array.shape, 1, 1, 1, 1][:4]}
    return make_record(array.tobytes(), **header | fields)


def test_a_loop_over_several_entries_is_refused(fake: FakeHub) -> None:
    fake.hello["run"] = facts(TILE, STATS, TOKENS, PROBES)
    with connect(fake.url) as run:
        said = r"HiddenStates: several entries of the trace plan match: entry 0 \(tile\), entry 1 \(stats\), entry 3 \(tile, "
        with pytest.raises(ValueError, match=said):
            run.records("HiddenStates")
        assert fake.named("subscribe") == []


def test_a_loop_takes_what_its_filters_say(fake: FakeHub) -> None:
    fake.hello["run"] = facts(TILE, STATS, TOKENS, PROBES)
    with connect(fake.url) as run:
        fake.viewer.send(
            numbers([1], compressor=1, entry=0, sequence=1)
            + numbers([2], compressor=3, entry=1, sequence=2)
            + numbers([3], compressor=1, entry=3, sequence=3, prompt_set=1)
            + numbers([4], compressor=1, entry=0, sequence=4, phase=1)
        )

        def found(**chosen: Any) -> list[float]:
            return [record.values[0] for record in run.records("HiddenStates", timeout=0.3, **chosen)]

        assert found(compressor="stats") == [2]
        fake.viewer.send(numbers([5], compressor=1, entry=3, sequence=5, prompt_set=1) + numbers([6], sequence=6))
        assert found(prompt_set="probes") == [5]
        fake.viewer.send(numbers([7], compressor=1, sequence=7, phase=1) + numbers([8], compressor=1, sequence=8))
        assert found(entry="all", phase="eval") == [7]


def test_a_loop_ends_though_other_records_arrive(fake: FakeHub) -> None:
    """The hub leaves out other points and entries only; the client looks at the rest of a filter."""
    fake.hello["run"] = facts(TILE, STATS)
    ended = threading.Event()
    with connect(fake.url, window=None) as run:

        def send() -> None:
            for number in itertools.count(1):
                fake.viewer.send(numbers([number], compressor=1, sequence=number))
                if ended.wait(0.02):
                    return

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        try:
            begin = time.monotonic()
            assert list(run.records("HiddenStates", compressor="stats", timeout=0.3)) == []
            seconds = time.monotonic() - begin
        finally:
            ended.set()
            sender.join()
        assert seconds >= 0.3
        fake.viewer.send(numbers([5], compressor=3, entry=1))
        fake.viewer.send(numbers([6], compressor=1))
        run.request("ping")  # both are here
        assert [record.values[0] for record in run.records("HiddenStates", compressor="stats", timeout=0)] == [5]


def test_a_loop_goes_on_with_its_entry_in_another_plan(fake: FakeHub) -> None:
    fake.hello["run"] = facts(TILE, STATS)
    with connect(fake.url) as run:
        loop = run.records("HiddenStates", compressor="tile", timeout=5)
        fake.viewer.send(numbers([1], compressor=1, sequence=1))
        assert next(loop).values == [1]
        other = TILE | {"compressor": {"kind": "tile", "tiles": 8}}
        fake.tell("plan", plan={"number": 2, "entries": [other, STATS, TILE | {"every": 2}]}, step=2)
        fake.viewer.send(
            numbers([2], compressor=1, plan=2, sequence=2, step=2)
            + numbers([3], compressor=1, plan=2, entry=2, sequence=3, step=2)
        )
        assert next(loop).values == [3]
        fake.tell("plan", plan={"number": 3, "entries": [other, PROBES]}, step=3)
        fake.viewer.send(numbers([4], compressor=1, plan=3, sequence=4, step=3))
        with pytest.raises(ValueError, match=r"entry 0 \(tile\), entry 1 \(tile, prompts probes\)"):
            next(loop)


def test_history_is_a_sequence_of_what_was_asked_for(fake: FakeHub) -> None:
    fake.hello["run"] = facts(TILE, STATS)
    body = b"".join(
        numbers([[[step]]], compressor=code, entry=entry, step=step, sequence=step)
        for step in (1, 2)
        for entry, code in ((0, CODES["tile"]), (1, CODES["stats"]))
    )
    fake.pages = {"/history/records": lambda query: (body, {})}
    with connect(fake.url) as run:
        records = run.history("HiddenStates", compressor="tile")
        assert len(records) == 2 and [record.step for record in records[1:]] == [2]
        assert records.to_xarray().values.ravel().tolist() == [1, 2]
        assert records.to_pandas().step.tolist() == [1, 2]
        with pytest.raises(ValueError, match=r"entry 0 \(tile\), entry 1 \(stats\)"):
            run.history("HiddenStates")
        assert len(run.history("HiddenStates", entry="all")) == 4


# With a real hub


def test_a_live_record_knows_the_text_of_its_tokens(hub: Hub) -> None:
    worker = hub.worker(**facts(TILE, TOKENS, PROBES))
    ids = [[list(LINE)], [range(len(LINE))]]
    with connect(run_dir=hub.run_dir, window=None) as run:
        wait_until(lambda: run.facts is not None, "the facts")
        worker.notify("step", step=1, loss=2.0)
        own = {"run": int(RUN_ID, 16)}
        worker.connection.send(
            numbers([[[0.5]] * 6], compressor=1, sequence=1, **own)
            + numbers([[[1.5]]], compressor=1, entry=2, prompt_set=1, sequence=2, **own)
            + numbers(ids, "<i4", point=8, layer=0, entry=1, sequence=3, **own)
        )
        record = next(run.records("HiddenStates", prompt_set=0, timeout=10))
        assert record.tokens == [list(LINE.decode())]
        probes = run.history("HiddenStates", prompt_set="probes")
        assert probes[0].tokens == [["a"]]
        array = run.history("HiddenStates", prompt_set=0).to_xarray()
        assert "".join(array.token_text.sel(step=1).values) == LINE.decode()


def test_scalars_and_pictures_of_a_live_run(hub: Hub) -> None:
    worker = hub.worker(**facts(TILE))
    with connect(run_dir=hub.run_dir, window=None) as run:
        for step in (1, 2, 3):
            worker.notify("step", step=step, loss="NaN" if step == 2 else 4.0 / step)
        wait_until(lambda: run.get("/history").get("last_step") == 3, "the steps")
        steps, losses = run.scalars("loss")
        assert steps.tolist() == [1, 2, 3]
        np.testing.assert_array_equal(losses, [4.0, np.nan, 4.0 / 3])
        np.testing.assert_array_equal(run.plot().lines[0].get_ydata(), losses)
        with pytest.raises(ValueError, match="there is no 'los'; there is loss"):
            run.scalars("los")
        assert repr(run).startswith("<Run 'test': starting, step 3, http://127.0.0.1:")
        assert "entry 0" in run._repr_html_() and hub.token not in run._repr_html_() + repr(run)


def test_facts_tell_the_default_compressor_of_a_point() -> None:
    new = {"points": [{"flag": 1, "name": "Scores", "features": 256, "compressor": "topk"}]}
    assert RunFacts(new).default_compressor("Scores") == "topk"
    old: dict[str, Any] = {"model": {"vocab_size": 256}, "points": [
        {"flag": 1, "name": "Logits", "features": 256, "path": "logits"},
        {"flag": 2, "name": "LogitLens", "features": 256, "formula": "output_layer(final_norm(layers[n].output))"},
        {"flag": 3, "name": "InputTokens", "features": 0},
        {"flag": 4, "name": "Updates", "features": 9, "parameters": ["weight"]},
        {"flag": 5, "name": "HiddenStates", "features": 256, "path": "layers[n].output"},
    ]}
    found = [RunFacts(old).default_compressor(point["name"]) for point in old["points"]]
    assert found == ["topk", "topk", "none", "none", "tile"]
