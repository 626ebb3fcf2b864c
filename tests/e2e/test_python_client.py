"""The Python client on a live run: against the hub, and against one that the test plays by hand."""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensor_tracer
from fake_hub import TOKEN, FakeHub
from hub_harness import FACTS, REPOSITORY, Hub, Peer, make_record, running_hub, wait_until
from tensor_tracer import ConnectionLost, HubError, RecordError, Run, connect, decode_records

GOLDEN = json.loads((REPOSITORY / "tests/golden/messages_v1.json").read_text())["messages"]
GOLDEN_BYTES = (REPOSITORY / "tests/golden/record_v1.bin").read_bytes()


def follow(hub: Hub, **options: object) -> Run:
    """A run of the hub. Without a window: every record of these short tests arrives."""
    return connect(run_dir=hub.run_dir, window=None, **options)


def make_floats(values: np.ndarray, **fields: int) -> bytes:
    shape = [*values.shape, 1, 1, 1, 1][:4]
    header = {"dtype": 2, "ndim": values.ndim, "shape": shape} | fields
    return make_record(values.astype("<f4").tobytes(), **header)


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


def serve_requests(worker: Peer, count: int) -> threading.Thread:
    """A trainer that answers so many requests."""

    def answer() -> None:
        for number in range(count):
            worker.receive_until(lambda n=number: len(worker.requests) > n, "a request")
            request = worker.requests[number]
            result = {"step": 10 + number, "ranks": 2}
            if request["method"] == "plan.set":
                result["plan"] = request["params"]["plan"] | {"number": 4}
            worker.send({"id": request["id"], "result": result})

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


# Against the hub


def test_records_and_steps_of_a_run(hub: Hub) -> None:
    worker = hub.worker()
    values = np.random.default_rng(1).normal(size=(1, 2, 4)).astype(np.float32)
    with follow(hub) as run:
        worker.notify("state", phase="training", step=1)
        for step in (1, 2):
            worker.notify("step", step=step, loss="NaN" if step == 2 else 3.5)
            for layer in (1, 2, 3):
                worker.connection.send(
                    make_floats(values * layer, step=step, layer=layer, sequence=3 * step + layer)
                )
        found = [next(records) for records in [run.records(timeout=10)] for _ in range(6)]
        assert [(r.step, r.layer) for r in found] == [(s, l) for s in (1, 2) for l in (1, 2, 3)]
        for record in found:
            assert record.values.tobytes() == (values * record.layer).tobytes()
        assert (found[0].point, found[0].phase, found[0].dtype) == ("HiddenStates", "train", "f32")
        steps = list(run.steps(timeout=0.5))
        assert steps[0] == {"step": 1, "loss": 3.5} and np.isnan(steps[1]["loss"])
        assert FACTS.items() <= run.facts.items() and run.state == ("training", 2) and not run.dropped


def test_a_late_client_has_the_past_at_once(hub: Hub) -> None:
    worker = hub.worker()
    for step in range(1, 6):
        worker.notify("step", step=step)
        worker.connection.send(make_record(step=step, sequence=step))
    worker.request("ping")
    with follow(hub) as run:
        assert [s["step"] for s in run.steps(timeout=0.5)] == [1, 2, 3, 4, 5]
        assert [r.step for r in run.records(timeout=0.5)] == [5]
        worker.connection.send(make_record(entry=1) + make_record(entry=2))
        assert [r.entry for r in run.records(entry=2, timeout=0.5)] == [2]


def test_the_viewers_of_a_run(hub: Hub) -> None:
    with follow(hub) as run:
        watcher = hub.viewer(hub.viewer_token)
        viewers = run.viewers()
        assert viewers[1]["session"] == watcher.hello["result"]["session"]
        assert [v["may_control"] for v in viewers] == [True, False]
        assert all(v["native"] and v["dropped_records"] == 0 for v in viewers)


def test_alarms_of_a_run(hub: Hub) -> None:
    worker = hub.worker()
    with follow(hub) as run, run.control("Ada"):
        alarm = run.set_alarm("high", "above", scalar="loss", value=5)
        assert (alarm["state"], alarm["fires"]) == ("waiting", 0)
        worker.notify("step", step=1, loss=6.0)
        wait_until(lambda: run.alarms()[0]["state"] == "firing", "the alarm")
        assert run.alarms()[0]["last"]["value"] == 6.0
        with pytest.raises(HubError, match="invalid_argument"):
            run.set_alarm("high", "abov", scalar="loss", value=5)
        run.remove_alarm("high")
        assert run.alarms() == []


def test_control_steers_and_gives_back(hub: Hub) -> None:
    worker = hub.worker()
    with follow(hub) as run, follow(hub) as other:
        with pytest.raises(HubError) as refused:
            run.request("control.pause")
        assert refused.value.code == "not_controller" and refused.value.message in str(refused.value)
        trainer = serve_requests(worker, 6)
        with run.control("Ada") as control:
            wait_until(lambda: other.holder is not None, "the holder")
            assert other.holder["name"] == "Ada"
            with pytest.raises(HubError, match="busy"):
                other.control("Bob")
            assert control.pause() == (10, 2, None)
            assert control.step(3).step == 11
            boundary = control.set_plan([{"point": "MLP1"}])
            assert boundary.plan == {"entries": [{"point": "MLP1"}], "number": 4}
            control.set_plan({"entries": []})
            assert control.resume().step == 14
            assert control.checkpoint() == (15, 2, None)
        trainer.join()
        assert [(r["method"], r["params"]) for r in worker.requests[1:3]] == [
            ("control.step", {"count": 3}), ("plan.set", {"plan": {"entries": [{"point": "MLP1"}]}})
        ]  # fmt: skip
        assert worker.requests[5]["method"] == "checkpoint.save"
        wait_until(lambda: other.holder is None, "nobody")
        with other.control("Bob"), run.control("Ada", take_over=True):
            wait_until(lambda: run.holder is not None and run.holder["name"] == "Ada", "Ada")


def test_the_lease_lasts_while_the_callers_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_hub(tmp_path / "run", "--lease-seconds", "0.6") as hub:
        hub.worker()
        for ping_seconds, lasts in [(0.2, True), (60.0, False)]:
            monkeypatch.setattr(tensor_tracer.run, "_PING_SECONDS", ping_seconds)
            with follow(hub) as run:
                control = run.control("Ada")
                time.sleep(1.5)
                assert (run.holder is not None) == lasts
                if lasts:
                    control.release()


def test_a_trainer_that_refuses_or_leaves(hub: Hub) -> None:
    worker = hub.worker()
    with follow(hub) as run, run.control("Ada") as control:
        error = {"code": "invalid_expression", "message": "no maen", "where": "entries[0]", "remedy": "mean?"}

        def refuse() -> None:
            worker.receive_until(lambda: bool(worker.requests), "the request")
            worker.send({"id": worker.requests[0]["id"], "error": error})

        trainer = threading.Thread(target=refuse)
        trainer.start()
        with pytest.raises(HubError) as refused:
            control.set_plan([{"point": "QKV", "compressor": {"kind": "tile", "method": "maen"}}])
        trainer.join()
        assert vars(refused.value) == error
        worker.connection.close()
        wait_until(lambda: run.state.phase == "lost", "lost")
        with pytest.raises(HubError, match="no_trainer"):
            control.pause()


def test_who_may_connect(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "run")
    url = f"http://127.0.0.1:{hub.port}/"
    for given in ({"token": hub.token, "url": url}, {"url": f"{url}#token={hub.token}"}):
        connect(**given, window=None).close()
    for token in ("wrong", None):
        with pytest.raises(HubError, match="<run_dir>/token") as refused:
            connect(url, token=token)
        assert refused.value.code == "unauthorized"
    with pytest.raises(ConnectionLost, match="no_hub"):
        connect(run_dir=tmp_path / "nowhere")
    with pytest.raises(ValueError, match="either url or run_dir"):
        connect()
    with pytest.raises(ValueError, match="give it as run_dir"):
        connect(str(hub.run_dir))
    hub.stop()
    with pytest.raises(ConnectionLost, match="see whether the run still goes"):
        connect(run_dir=hub.run_dir)


def test_a_loop_ends_with_the_hub(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "run")
    with follow(hub) as run:
        hub.worker().connection.send(make_record())
        records = run.records()
        next(records)
        hub.stop()
        assert list(records) == [] and list(run.steps()) == []
        with pytest.raises(ConnectionLost):
            run.request("ping")


def test_interventions_of_a_run(hub: Hub) -> None:
    """Through the real hub: requests reach the trainer, and what it tells comes back."""
    worker = hub.worker()
    with follow(hub) as run:
        with pytest.raises(HubError, match="not_controller"):
            run.intervene("steer", "layers[1].output *= 2")
        trainer = serve_requests(worker, 4)
        with run.control("Ada"):
            assert run.intervene("steer", "layers[1].output *= 2", {"a": 2.0}, ttl=5) == (10, 2, None)
            assert run.set_parameter("steer", "a", 2.5).step == 11
            assert run.remove_intervention().step == 12
            assert run.check_intervention({"version": 1, "nodes": []})["step"] == 13
        trainer.join()
        assert [(r["method"], r["params"]) for r in worker.requests[:4]] == [
            ("intervention.apply", {"name": "steer", "program": "layers[1].output *= 2",
                                    "parameters": {"a": 2.0}, "ttl": 5}),
            ("intervention.set", {"name": "steer", "parameter": "a", "value": 2.5}),
            ("intervention.remove", {}),
            ("intervention.check", {"program": {"version": 1, "nodes": []}}),
        ]  # fmt: skip
        worker.notify("interventions", step=10, programs=[{"name": "steer"}], reason="apply")
        worker.notify("saved", step=10, program="steer", name="n", shape=[2], values=[1.5, "NaN"])
        worker.notify("applied", step=10, programs=[{"name": "steer", "forwards": 4}])
        worker.notify("response", step=10, prompt_set=1, prompt=0, text=" Paris.")
        [applied] = run.applied(timeout=1)
        [saved] = run.saved(timeout=1)
        [response] = run.responses(timeout=1)
        assert response["text"] == " Paris."
        assert run.interventions == [{"name": "steer"}]
        assert saved["values"][0] == 1.5 and np.isnan(saved["values"][1])
        assert applied["programs"][0]["forwards"] == 4


# Against a hub that the test plays


def test_the_golden_messages(fake: FakeHub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    of = {form: [m for m in GOLDEN if m["form"] == form] for form in ("result", "error", "notification")}
    for result in (r for r in of["result"] if "session" in r["result"]):
        fake.hello = result["result"]
        with connect(fake.url) as run:
            assert run.facts == result["result"]["run"]
            state = result["result"]["state"]
            assert run.state == (state["phase"], state["step"])
            assert run.holder == result["result"]["control"]["holder"]
    with connect(fake.url) as run:
        run.holder = None
        for error in of["error"]:
            fake.answers["ping"] = error["error"]
            with pytest.raises(HubError) as refused:
                run.request("ping")
            assert vars(refused.value) == error["error"]
        for message in of["notification"]:
            fake.viewer.send(message["text"])
        fake.answers.clear()
        run.request("ping")
        assert run.state == ("training", 13) and run.holder == {"session": "v3", "name": "Ada"}
        assert run.dropped == {"viewer": 3, "trainer": 1} and run.dropped_entries == {0: 2, 4: 1}
        assert run.facts["plan"]["number"] == 4 and run.facts["points"][0]["name"] == "HiddenStates"
        first, second = run.steps(timeout=0)
        assert first["valid_loss"] == 3.25 and np.isnan(second["loss"]) and second["grad_norm"] == np.inf
        assert "entry 0 took 1.2 s and is disabled" in caplog.text
        params = {message["event"]: message["params"] for message in of["notification"]}
        assert run.interventions == params["interventions"]["programs"]
        assert list(run.applied(timeout=0)) == [params["applied"]]
        [saved] = run.saved(timeout=0)
        assert saved | {"values": saved["values"].tolist()} == params["saved"]


def test_the_golden_requests(fake: FakeHub) -> None:
    fake.answers = {"control.claim": {"lease_seconds": 30}}
    asked = [message for message in GOLDEN if message["form"] == "request"]
    with connect(fake.url) as run:
        assert fake.named("hello") == [asked[1]["params"]]
        for message in asked[4:]:
            run.request(message["method"], message["params"])
            sent = {"id": message["id"], "method": message["method"]}
            if message["params"] is not None:
                sent["params"] = message["params"]
            assert json.loads(message["text"]) == sent == fake.got[-1] | {"id": message["id"]}


def test_interventions_as_they_are_asked_for(fake: FakeHub, tmp_path: Path) -> None:
    program = tmp_path / "scale.tti"
    program.write_text("layers[1].output *= 2  # é\n", encoding="utf-8")
    boundary = {"step": 13, "ranks": 2, "removed": ["a"], "program": {}, "value": 1.0}
    fake.answers = {f"intervention.{method}": boundary for method in ("apply", "set", "remove")}
    fake.answers["intervention.preview"] = {"step": 12, "batches": [], "writes": []}
    with connect(fake.url) as run:
        assert run.interventions == []
        assert run.intervene("a", program, keep=True) == (13, 2, None)
        assert run.intervene("a", {"nodes": []}) == (13, 2, None)
        assert run.remove_intervention("a") == (13, 2, None)
        assert run.preview_intervention("x", {"b": 1.0})["batches"] == []
        run.preview_intervention("x")
        records = base64.b64encode(GOLDEN_BYTES).decode()
        fake.answers["intervention.preview"] |= {"records": {"off": records, "on": ""}}
        found = run.preview_intervention("x", plan=[{"point": "MLP1"}])["records"]
        assert found["on"] == [] and len(found["off"]) > 1
        for one, golden in zip(found["off"], decode_records(GOLDEN_BYTES), strict=True):
            assert (one.layer, one.payload) == (golden.layer, golden.payload)
        text = "layers[1].output *= 2  # é\n"
        assert fake.named("intervention.apply") == [
            {"name": "a", "program": text, "keep": True}, {"name": "a", "program": {"nodes": []}}]
        assert fake.named("intervention.remove") == [{"name": "a"}]
        assert fake.named("intervention.preview") == [
            {"program": "x", "parameters": {"b": 1.0}}, {"program": "x"},
            {"program": "x", "plan": {"entries": [{"point": "MLP1"}]}}]
        refusal = {"code": "invalid_expression", "message": "no maen\n  ^~~~", "where": "line 3", "remedy": ""}
        fake.answers["intervention.check"] = refusal
        with pytest.raises(HubError) as refused:
            run.check_intervention("layers[1].output = maen(h)")
        assert vars(refused.value) == refusal


def test_prompts_as_they_are_asked_for(fake: FakeHub) -> None:
    boundary = {"step": 13, "ranks": 2, "plan": {"number": 4, "entries": []}}
    records = base64.b64encode(GOLDEN_BYTES).decode()
    fake.answers = {"prompt.keep": boundary, "prompt.remove": boundary,
                    "prompt.run": {"step": 12, "tokens": [97], "records": {"off": records}}}  # fmt: skip
    fake.hello["run"] = FACTS | {"prompt_sets": []}
    with connect(fake.url) as run:
        answer = run.prompt("a", plan=[{"point": "MLP1"}])
        assert set(answer["records"]) == {"off"} and answer["tokens"] == [97]
        for one, golden in zip(answer["records"]["off"], decode_records(GOLDEN_BYTES), strict=True):
            assert (one.layer, one.payload) == (golden.layer, golden.payload)
        assert run.keep_prompt("mine", "a").step == run.remove_prompt("mine").step == 13
        assert fake.named("prompt.run") == [{"text": "a", "plan": {"entries": [{"point": "MLP1"}]}}]
        assert fake.named("prompt.keep") == [{"name": "mine", "text": "a"}]
        assert fake.named("prompt.remove") == [{"name": "mine"}]
        sets = [{"name": "mine", "prompts": ["a"], "removed": True}, {"name": "mine", "prompts": ["b"]}]
        fake.tell("prompts", step=14, prompt_sets=sets)
        wait_until(lambda: (run.facts or {}).get("prompt_sets") == sets, "the prompts")
        assert run._known.prompt_set_number("mine") == 2, "the set that is not removed"


def test_the_programs_in_force_are_kept_up_to_date(fake: FakeHub) -> None:
    fake.hello["run"] = FACTS | {"interventions": [{"name": "a"}]}
    with connect(fake.url) as run:
        assert run.interventions == [{"name": "a"}]
        for programs in ([{"name": "a"}, {"name": "b"}], [{"name": "b"}]):
            fake.tell("interventions", step=13, programs=programs, reason="apply")
            wait_until(lambda p=programs: run.interventions == p, "the programs")
        fake.tell("run", **FACTS)
        wait_until(lambda: run.interventions == [], "a trainer without programs")


def test_saved_and_applied_come_in_order(fake: FakeHub) -> None:
    with connect(fake.url) as run:
        for step in (1, 2):
            values = [[1.5, "NaN"], ["-Infinity", 2]][step - 1]
            fake.tell("saved", step=step, program="a", name="n", shape=[1, 2], values=values)
            fake.tell("applied", step=step, programs=[{"name": "a", "forwards": step}])
        fake.tell("saved", step=3, program="a", name="number", shape=[], values=[7])
        first, second, third = run.saved(timeout=0.5)
        assert first["values"].shape == (1, 2) and first["values"].dtype == np.float64
        assert np.array_equal(first["values"], [[1.5, np.nan]], equal_nan=True)
        assert np.array_equal(second["values"], [[-np.inf, 2.0]])
        assert third["values"] == 7.0 and third["values"].shape == ()
        assert [a["programs"][0]["forwards"] for a in run.applied(timeout=0.5)] == [1, 2]


def test_what_cannot_be_read_is_left_out(fake: FakeHub) -> None:
    with connect(fake.url) as run:
        for message in GOLDEN:
            if message["form"] == "malformed":
                fake.viewer.send(message["text"])
        fake.tell("state", phase="training")
        fake.tell("state")
        fake.tell("state", phase="paused", step=4)
        wait_until(lambda: run.state == ("paused", 4), "the state")


def test_credit_is_given_as_records_are_taken(fake: FakeHub) -> None:
    with connect(fake.url, window=4) as run:
        for step in range(1, 13):
            fake.viewer.send(make_record(step=step, sequence=step))
        run.request("ping")
        assert fake.named("hello")[0]["window"] == 4 and fake.named("ack") == []
        records = run.records(timeout=1)
        for step in range(1, 6):
            assert next(records).step == step
        run.request("ping")
        assert fake.named("ack") == [{"messages": 2}, {"messages": 4}]
        assert len(list(records)) == 7
        run.request("ping")
        assert fake.named("ack")[-1] == {"messages": 12}


def test_a_loop_asks_for_what_it_wants_and_gets_no_other(fake: FakeHub) -> None:
    fake.hello["run"] = FACTS | {"points": [*FACTS["points"], {"flag": 99, "name": "layers.3.mlp"}]}
    with connect(fake.url) as run:
        for layer in range(1, 10):
            fake.viewer.send(make_record(layer=layer) + make_record(layer=layer, point=99, entry=1))
        found = run.records(["layers.3.mlp"], layers="1-3,8", rate=5, timeout=0.5)
        assert [(r.point, r.layer) for r in found] == [("layers.3.mlp", n) for n in (1, 2, 3, 8)]
        for layers in (4, range(4, 7), [np.int64(4), 5], "4-6"):
            run.records("MLP1", layers=layers, entry=2)
        run.records()
        assert fake.named("subscribe") == [
            {"points": ["layers.3.mlp"], "layers": "1-3,8-8", "rate": 5},
            {"points": ["MLP1"], "layers": "4-4", "entries": [2]},
            {"points": ["MLP1"], "layers": "4-6", "entries": [2]},
            {"points": ["MLP1"], "layers": "4-5", "entries": [2]},
            {"points": ["MLP1"], "layers": "4-6", "entries": [2]},
            {},
        ]
        with pytest.raises(ValueError, match="there is no 'HiddenState'; there is HiddenStates"):
            run.records("HiddenState")
        for wrong in ("x", "4-1", "1-", "-1"):
            with pytest.raises(ValueError, match='write "1-4,8"'):
                run.records(layers=wrong)


def test_a_damaged_message_raises_after_what_came_before(fake: FakeHub) -> None:
    first, second, third = (make_record(step=step, sequence=step) for step in (1, 2, 3))
    damaged = second[:-1] + b"x"
    with connect(fake.url) as run:
        fake.viewer.send(first + damaged)
        records = run.records(timeout=1)
        with pytest.raises(RecordError, match="payload's checksum"):
            next(records)
        fake.viewer.send(third)
        assert [r.step for r in run.records(timeout=0.3)] == [1, 3]
    with connect(fake.url, check=False) as run:
        fake.viewer.send(first + damaged)
        assert [r.step for r in run.records(timeout=0.3)] == [1, 2]


def test_a_connection_that_breaks_raises(fake: FakeHub) -> None:
    with connect(fake.url) as run:
        fake.silent = {"ping"}
        with pytest.raises(tensor_tracer.TensorTracerError, match="no answer within 0.1 s"):
            run.request("ping", timeout=0.1)
        threading.Timer(0.2, lambda: fake.viewer.socket.close()).start()
        with pytest.raises(ConnectionLost):
            run.request("ping")
        with pytest.raises(ConnectionLost):
            list(run.records())
        with pytest.raises(ConnectionLost):
            list(run.steps())


def test_a_refused_hello(fake: FakeHub) -> None:
    fake.hello = {"code": "unsupported_version", "message": "this hub speaks version 2"}
    with pytest.raises(HubError, match="this hub speaks version 2"):
        connect(fake.url)


def test_history_comes_in_pages(fake: FakeHub) -> None:
    asked: list[dict[str, str]] = []

    def records(query: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        asked.append(query)
        page = int(query.get("after", 0))
        more = {"TT-Next": str(page + 1)} if page < 2 else {}
        return b"".join(make_record(point=4, step=2 * page + n) for n in (1, 2)), more

    def steps(query: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        return json.dumps([{"step": 1, "loss": 2.5}]).encode(), {}

    fake.pages = {"/history/records": records, "/history/steps": steps}
    with connect(fake.url) as run:
        found = list(run.history("MLP1", layers="1-4", entry=0, first=1, last=9))
        assert [record.step for record in found] == [1, 2, 3, 4, 5, 6]
        members = {"point": "MLP1", "layers": "1-4", "entry": "0", "first": "1", "last": "9"}
        assert asked == [members, members | {"after": "1"}, members | {"after": "2"}]
        assert run.get("/history/steps", first=1) == [{"step": 1, "loss": 2.5}]
        with pytest.raises(HubError, match="not_found"):
            run.get("/history")


def test_the_token_is_in_no_error_and_no_log(fake: FakeHub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tensor_tracer")
    with connect(fake.url, reconnect=True) as run:
        fake.viewer.socket.close()
        wait_until(lambda: run.reconnects == 1, "the reconnect")
        with pytest.raises(HubError) as refused:
            run.get("/history")
    assert TOKEN not in str(refused.value) and TOKEN not in caplog.text
