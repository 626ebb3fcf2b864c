"""What a sink gets of projections with `mean_over`: the means of the run's `projections` events, not of its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from hub_harness import FACTS, make_record
from tensor_tracer.facts import RunFacts
from tensor_tracer.readings import Bins, Reading
from tensor_tracer.record import Record, decode_records
from tensor_tracer.sinks.follow import Counts, follow
from tensor_tracer.sinks.sink import Alarm, Origin

PROJECTION = 4  # the compressor's code
TAG = "HiddenStates/layer_1/eval/prompts_probes/projection/last-prompt"


def mean(over: str, vectors: Sequence[str] = ("evil",), **compressor: bool) -> dict[str, Any]:
    kind = {"kind": "projection", "vectors": [*vectors]} | compressor
    return {"point": "HiddenStates", "prompts": "probes", "mean_over": over, "compressor": kind}


def facts(*entries: dict[str, Any]) -> dict[str, Any]:
    sets = [{"name": "probes", "prompts": ["Ada", "Grace H."]}]
    return FACTS | {"plan": {"number": 1, "entries": [*entries]}, "prompt_sets": sets}


def record_of(values: object, **fields: int) -> Record:
    array = np.array(values, "<f4")
    shape = {"ndim": array.ndim, "shape": [*array.shape, 1, 1, 1, 1][:4], "dtype": 2, "prompt_set": 1, "phase": 1}
    [record] = decode_records(make_record(array.tobytes(), **shape | fields), points={7: "HiddenStates"})
    return record


def series(**members: Any) -> dict[str, Any]:
    """Of a `projections` event."""
    return {
        "point": "HiddenStates", "vector": "evil", "prompts": "probes", "mean_over": "last-prompt",
        "scale": "normalized", "layers": [1], "values": [1.5], "baseline": [1.0], "change": [0.5],
    } | members  # fmt: skip


class ToldRun:
    """As much of a `Run` as `follow` takes. It ends when all has been told."""

    def __init__(self, told: dict[str, Any], events: Iterable[dict[str, Any]] = (), records: Iterable[Record] = ()):
        self.facts, self.names = told, RunFacts(told)
        self.asked: list[list[int]] = []  # the entries of each loop over records
        self._events, self._records = [*events], [*records]

    @property
    def has_ended(self) -> bool:
        return bool(self.asked) and not self._events and not self._records

    def alarms(self) -> list[dict[str, Any]]:
        return []

    def steps(self, timeout: float | None) -> Iterator[dict[str, Any]]:
        return iter(())

    alarm_changes = steps

    def waiting_projections(self) -> list[dict[str, Any]]:
        events, self._events = self._events, []
        return events

    def records(self, entry: list[int], timeout: float) -> Iterator[Record]:
        self.asked.append(entry)
        told, self._records = self._records, []
        return (record for record in told if record.entry in entry)


class Taken:
    """A sink that keeps what it gets: the values by step and name."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, str], float] = {}
        self.origins: list[Origin] = []

    def scalars(self, step: int, time_ns: int, values: Mapping[str, float]) -> None: ...

    def alarm(self, time_ns: int, alarm: Alarm) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def readings(self, step: int, time_ns: int, origin: Origin, readings: Sequence[Reading | Bins]) -> None:
        self.origins.append(origin)
        for one in readings:
            assert isinstance(one, Reading) and (step, f"{origin.tag}/{one.name}") not in self.values
            self.values[step, f"{origin.tag}/{one.name}"] = one.value


def taken_of(run: ToldRun) -> Taken:
    sink, given = Taken(), Counts()
    follow(run, sink, given)  # type: ignore[arg-type]
    return sink


def test_the_value_is_that_of_the_event_and_not_of_a_part_of_the_prompts() -> None:
    """A record has the prompts of one micro-batch."""
    parts = [record_of([[[number]]], compressor=PROJECTION, first_row=row, micro_batch=row, step=5, sequence=row + 1)
             for row, number in enumerate((9.0, -6.0))]  # fmt: skip
    run = ToldRun(facts(mean("last-prompt")), [{"step": 5, "series": [series()]}], parts)
    values = taken_of(run).values
    assert values == {(5, f"{TAG}/evil"): 1.5, (5, f"{TAG}/evil/baseline"): 1.0, (5, f"{TAG}/evil/change"): 0.5}


def test_each_layer_and_each_vector_has_its_numbers() -> None:
    one = series(layers=[1, 2], values=[1.5, 2.0], baseline=[1.0, None], change=[0.5, None])
    other = series(vector="vain", point="Embedding", layers=[0], values=[-3.0], baseline=[None], change=[None])
    run = ToldRun(facts(mean("last-prompt", ("evil", "vain"))), [{"step": 7, "series": [one, other]}])
    assert taken_of(run).values == {
        (7, f"{TAG}/evil"): 1.5,
        (7, f"{TAG}/evil/baseline"): 1.0,
        (7, f"{TAG}/evil/change"): 0.5,
        (7, f"{TAG.replace('layer_1', 'layer_2')}/evil"): 2.0,
        (7, f"{TAG.replace('HiddenStates/layer_1', 'Embedding')}/vain"): -3.0,
    }


def test_numbers_that_json_cannot_write_are_sent() -> None:
    broken = series(values=["NaN"], baseline=["-Infinity"], change=["NaN"])
    values = taken_of(ToldRun(facts(mean("last-prompt")), [{"step": 5, "series": [broken]}])).values
    assert values[5, f"{TAG}/evil/baseline"] == -np.inf and np.isnan(values[5, f"{TAG}/evil"])
    assert np.isnan(values[5, f"{TAG}/evil/change"])


def test_the_scale_tells_means_apart() -> None:
    told = {"normalized": 1.0, "raw": 2.0, "cosine": 0.25}
    three = [series(scale=scale, values=[value]) for scale, value in told.items()]
    entries = mean("last-prompt"), mean("last-prompt", normalize=False), mean("last-prompt", cosine=True)
    sink = taken_of(ToldRun(facts(*entries), [{"step": 5, "series": three}]))
    found = [sink.values[5, f"{TAG}{scale}/evil"] for scale in ("", "/raw", "/cosine")]
    assert found == [1.0, 2.0, 0.25] and len(sink.values) == 9
    assert [(one.mean_over, one.scale) for one in sink.origins] == [
        ("last-prompt", "normalized"), ("last-prompt", "raw"), ("last-prompt", "cosine"),
    ]  # fmt: skip


def test_records_of_means_are_not_asked_for() -> None:
    tokens = {"point": "HiddenStates", "prompts": "probes", "compressor": {"kind": "projection", "vectors": ["evil"]}}
    means_of_stats = mean("prompt") | {"compressor": {"kind": "stats"}}
    run = ToldRun(facts(mean("prompt"), tokens, means_of_stats))
    taken_of(run)
    assert run.asked[0] == [1, 2]


def test_without_other_records_it_asks_for_none() -> None:
    """Records that nobody takes fill the window of the client; then the hub sends no events either."""
    run = ToldRun(facts(mean("prompt"), {"point": "HiddenStates", "compressor": {"kind": "tile"}}))
    taken_of(run)
    assert run.asked[0] == []


def test_a_record_of_a_plan_to_come_is_left_out() -> None:
    """Its entry was another one in the plan in force."""
    told = facts({"point": "HiddenStates", "compressor": {"kind": "projection", "vectors": ["evil"]}})
    run = ToldRun(told, records=[record_of([[[9.0]]], compressor=PROJECTION, plan=2)])
    run.names.add_plan({"number": 2, "entries": [mean("last-prompt")]})
    assert taken_of(run).values == {} and run.asked[0] == [0]
