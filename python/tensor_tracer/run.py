"""A live run."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import math
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

with contextlib.suppress(ImportError):  # a recording is read without websockets
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import ClientConnection

from tensor_tracer import notebook
from tensor_tracer.control import Control
from tensor_tracer.endpoint import Endpoint
from tensor_tracer.errors import ConnectionLost, HubError, RecordError, TensorTracerError
from tensor_tracer.facts import RunFacts
from tensor_tracer.messages import (Boundary, Plan, Program, State, boundary_of, encode_request, hub_error,
                                    numbers, plan_of, program_of)
from tensor_tracer.patience import Patience
from tensor_tracer.plots import plot_scalars
from tensor_tracer.prompts import PromptRequests
from tensor_tracer.record import Record, decode_records
from tensor_tracer.records import Records
from tensor_tracer.selection import Followed, Kind, Names, Ranges, Selection, Sets, refuse_several, select
from tensor_tracer.tokens import TokenTexts
from tensor_tracer.version import __version__

if TYPE_CHECKING:
    import matplotlib.axes

_PING_SECONDS = 10.0
_ACK_SECONDS = 0.02  # between acks, which count against the hub's rate limit
_ANSWER_SECONDS = 330.0  # the hub gives up on the trainer after 300
_MAX_STEPS = 100_000  # that wait for a loop over steps()
_RECONNECT_SECONDS = 300.0  # how long reconnect=True looks for a hub
_MAX_STEPS_OF_HISTORY = 100_000
_COMMIT_SECONDS = 2.0  # after which a record is in the hub's recording
_MAX_SAVED = 10_000  # values of programs, or alarms, that wait for a loop
_log = logging.getLogger("tensor_tracer")


class Run(PromptRequests):
    """A live run, from `connect`. A separate thread keeps its public members up to date and
    pings the hub. Any thread may call its methods."""

    def __init__(self, endpoint: Endpoint, window: int | None, reconnect: float, check: bool) -> None:
        self.facts: dict[str, Any] | None = None  # None until a trainer has connected
        self.state = State("starting", 0)
        self.holder: dict[str, str] | None = None  # of the control: session and name
        self.dropped: Counter[str] = Counter()  # records, by where: viewer, trainer or client
        self.dropped_entries: Counter[int] = Counter()
        self.dropped_events: Counter[str] = Counter()  # steps, saved and applied, by where
        self.reconnects = 0
        self._known = RunFacts(None)
        self._texts = TokenTexts(lambda: self._known, self._input_tokens)
        self._endpoint, self._window, self._check = endpoint, window, check
        self._patience = _RECONNECT_SECONDS if reconnect is True else float(reconnect)
        self._closing, self._changed = threading.Event(), threading.Condition()  # the latter guards what follows
        self._ended = False
        self._failure: TensorTracerError | None = None
        self._ids = itertools.count(1)
        self._answers: dict[int, dict[str, Any] | None] = {}  # by request; None: not yet
        self._steps: deque[dict[str, Any]] = deque(maxlen=_MAX_STEPS)
        self._newest = self._newest_before = 0  # step; that before this connection, while it begins
        # Notifications that wait for their loop, by event.
        self._waiting: dict[str, deque[dict[str, Any]]] = {
            "applied": deque(maxlen=_MAX_STEPS),
            **{event: deque(maxlen=_MAX_SAVED) for event in ("saved", "response", "projections", "alarm")},
        }
        self._messages: deque[bytes] = deque()
        self._records: deque[Record] = deque()
        self._said_records: dict[tuple[Any, ...], tuple[int, int]] = {}
        self._subscription: dict[str, Any] = {}
        self._taken = self._told = 0  # binary messages of this connection
        self._loops = 0  # over records
        self._session = ""
        self._controls = False  # until it is given back
        self._connection: ClientConnection
        self._greet()
        self._thread = threading.Thread(target=self._serve, name="tensor-tracer", daemon=True)
        self._thread.start()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection and every loop. The run continues."""
        self._closing.set()
        self._connection.close()
        self._thread.join()

    @property
    def has_ended(self) -> bool:
        """True if the run or the connection has ended. Loops first return the data that waits for them."""
        return self._ended

    @property
    def names(self) -> RunFacts:
        """The names of the numbers in records, for all plans since the connection began."""
        return self._known

    def __repr__(self) -> str:
        name = (self.facts or {}).get("name", "")
        return f"<Run {name!r}: {self.state.phase}, step {self.state.step}, {self._endpoint.url}>"

    def _repr_html_(self) -> str:
        facts = self.facts or {}
        rows = {"run": facts.get("id", "no trainer has connected"), **notebook.about(facts)}
        rows["control"] = self.holder["name"] if self.holder else "nobody"
        plan = (facts.get("plan") or {}).get("number", 0)
        for number, entry in enumerate(self._known.entries(plan)):
            rows[f"entry {number}"] = json.dumps(entry)
        return notebook.table(repr(self), rows)

    def records(
        self, point: Names | None = None, layers: Ranges | None = None, entry: Ranges | None = None,
        rate: float | None = None, timeout: float | None = None, *, compressor: Names | None = None,
        prompt_set: Sets | None = None, phase: Names | None = None, direction: Names | None = None,
    ) -> Iterator[Record]:  # fmt: skip
        """Records as they arrive; from now on, the hub sends only these records. The loop ends with the run, or when
        none of these records has arrived for `timeout` seconds. `rate`: the most records a second of each key.
        `prompt_set`: names, or 0 for the run's own data.

        Raises ValueError if several entries of the trace plan match a named point, because their numbers have different
        meanings; `entry="all"` allows this. When the plan changes, a loop continues with its entry. It raises the
        ValueError if its entry is not in the new plan and several other entries match.
        """
        selection = select(self._known, point, layers, entry, compressor, prompt_set, phase, direction)
        followed = Followed(selection)
        if plan := (self.facts or {}).get("plan"):
            followed.begin(self._known, plan.get("number", 0))
        if (wanted := selection.members(rate)) != self._subscription:
            self.request("subscribe", wanted)
            self._subscription = wanted
            self._said_records.clear()
        return self._loop(followed, timeout)

    def steps(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """The `step` notifications: at first the last 2,000, then new ones as they arrive."""
        return iter(lambda: self._next(self._steps, timeout), None)

    def saved(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """The `saved` notifications as they arrive, with an array in `values`."""
        while (saved := self._next_data(self._waiting["saved"], timeout)) is not None:
            values = np.array([float(value) for value in saved["values"]])
            yield saved | {"values": values.reshape(saved["shape"])}

    def applied(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """The `applied` notifications: after each step, the effect of the programs in force."""
        return iter(lambda: self._next_data(self._waiting["applied"], timeout), None)

    def responses(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """The `response` notifications as they arrive: the model's responses to the monitored prompts."""
        return iter(lambda: self._next_data(self._waiting["response"], timeout), None)

    def projections(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """The `projections` notifications as they arrive: means over monitored prompts, and their baselines."""
        return iter(lambda: self._next_data(self._waiting["projections"], timeout), None)

    def waiting_projections(self) -> list[dict[str, Any]]:
        """Those that have arrived and that no loop has taken. Waits for nothing, and drops no records."""
        with self._changed:
            waiting = list(self._waiting["projections"])
            self._waiting["projections"].clear()
        return waiting

    def viewers(self) -> list[dict[str, Any]]:
        """The connected viewers with this client, in the order in which they connected."""
        return list(self.request("viewers.list")["viewers"])

    def alarms(self) -> list[dict[str, Any]]:
        """The alarms of the run with their state, by name: docs/alarms.md."""
        return list(self.request("alarms.list")["alarms"])

    def alarm_changes(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """The `alarm` notifications as they arrive: an alarm was set or removed, fired or cleared."""
        return iter(lambda: self._next(self._waiting["alarm"], timeout), None)

    def set_alarm(self, name: str, test: str, **members: Any) -> dict[str, Any]:
        """Sets an alarm, or replaces the alarm with this name. Needs control.

        run.set_alarm("spike", "sigma", scalar="loss", k=6, window=100, side="above")
        """
        params = {"name": name, "test": test} | members
        return dict(self.request("alarms.set", params)["alarm"])

    def remove_alarm(self, name: str) -> None:
        """Removes an alarm. Needs control."""
        self.request("alarms.remove", {"name": name})

    @property
    def interventions(self) -> list[dict[str, Any]]:
        """The programs in force."""
        return list((self.facts or {}).get("interventions") or ())

    def check_intervention(self, program: Program) -> dict[str, Any]:
        """The values that a program reads, writes and saves; HubError if it is wrong. Changes nothing."""
        return self.request("intervention.check", {"program": program_of(program)})

    def intervene(
        self, name: str, program: Program, parameters: Mapping[str, float] | None = None,
        ttl: int | None = None, keep: bool = False,
    ) -> Boundary:  # fmt: skip
        """Puts a program in force; replaces a program with the same name. `ttl`: the number of steps.
        `keep`: the program stays in force when the lease ends. Needs control, like the methods below."""
        given = {"name": name, "program": program_of(program), "parameters": parameters, "ttl": ttl}
        params = {k: v for k, v in given.items() if v is not None} | ({"keep": True} if keep else {})
        return boundary_of(self.request("intervention.apply", params))

    def set_parameter(self, name: str, parameter: str, value: float) -> Boundary:
        """Sets a parameter of a program in force, from the step of the boundary on."""
        params = {"name": name, "parameter": parameter, "value": value}
        return boundary_of(self.request("intervention.set", params))

    def remove_intervention(self, name: str | None = None) -> Boundary:
        """Removes one program, or without a name all programs."""
        return boundary_of(self.request("intervention.remove", {"name": name} if name else {}))

    def preview_intervention(
        self, program: Program, parameters: Mapping[str, float] | None = None,
        plan: Plan | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The loss without and with the program, and the size of its changes. Nothing is kept. An attached run previews
        with prompts alone: "batches" is empty.

        With a plan, whose entries have the phase "eval" or a prompt set, "records" holds its records
        of the first evaluation batch and of these prompts: {"off": […], "on": […]}, each a list of
        Record.
        """
        given: dict[str, Any] = {"parameters": parameters} if parameters else {}
        given |= {"plan": plan_of(plan)} if plan else {}
        return self._with_records(self.request("intervention.preview", {"program": program_of(program)} | given))

    def control(self, name: str, take_over: bool = False) -> Control:
        """Claims control of the run; HubError `busy` if another client holds it."""
        self.request("control.claim", {"name": name, "take_over": take_over})
        self._controls = True
        return Control(self.request, self._give_control_back)

    def _give_control_back(self) -> None:
        self._controls = False

    def history(
        self, point: Names | None = None, layers: Ranges | None = None, entry: Ranges | None = None,
        first: int | None = None, last: int | None = None, *, compressor: Names | None = None,
        prompt_set: Sets | None = None, phase: Names | None = None, direction: Names | None = None,
    ) -> Records:  # fmt: skip
        """The records of the steps from `first` to `last`, from the hub's recording, in order. The call reads all of them
        before it returns. Raises ValueError as `records` does."""
        chosen = select(self._known, point, layers, entry, compressor, prompt_set, phase, direction)
        found = list(self._past(chosen, first, last))
        if not chosen.may_mix:
            refuse_several(self._kind_of(record) for record in found)
        return Records.in_memory(found, self._texts, self._known, f"{chosen}, of {self!r}")

    def _past(self, chosen: Selection, first: int | None, last: int | None) -> Iterator[Record]:
        members = chosen.members(None)
        points, entries = members.get("points") or [], members.get("entries") or []
        query = {"first": first, "last": last, "layers": members.get("layers")}
        query |= {"point": points[0] if len(points) == 1 else None, "entry": entries[0] if len(entries) == 1 else None}
        after: str | None = ""
        while after is not None:
            body, after = self._endpoint.get_if_there("/history/records", query | {"after": after or None})
            yield from filter(chosen.takes, self._decoded(body))

    def _decoded(self, message: bytes) -> Iterator[Record]:
        return decode_records(message, self._check, self._names(), self._texts)

    def _kind_of(self, record: Record) -> Kind:
        prompts, meaning = self._known.prompt_set(record.prompt_set), self._known.meaning(record.plan, record.entry)
        return Kind(record.point, record.entry, record.compressor, record.direction, prompts, meaning)

    def _input_tokens(self, first: int, last: int) -> Iterator[Record]:
        """From the hub's recording, which has the newest step a little later."""
        if "InputTokens" not in self._known.points:
            return
        chosen = select(self._known, "InputTokens", entry="all", prompt_set=0)
        end = time.monotonic() + _COMMIT_SECONDS * (last >= self.state.step - 1)
        while not (found := list(self._past(chosen, first, last))) and time.monotonic() < end:
            time.sleep(0.1)
        yield from found

    def scalars(self, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Steps and values of a scalar so far, from the hub's recording."""
        rows = [numbers(row) for row in self.get("/history/steps", limit=_MAX_STEPS_OF_HISTORY)]
        told = [(row["step"], row[name]) for row in rows if name in row]
        if not told:
            known = sorted({key for row in rows for key in row} - {"step"})
            raise ValueError(f"scalars: there is no {name!r}; there is {', '.join(known) or 'none yet'}")
        return np.array([step for step, _ in told], np.int64), np.array([value for _, value in told], np.float64)

    def plot(self, *names: str, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Plots scalars over the steps so far; default: the loss."""
        return plot_scalars({name: self.scalars(name) for name in names or ["loss"]}, ax)

    def get(self, path: str, **query: Any) -> Any:
        """The hub's answer to a GET of "/history", "/history/steps" or "/history/events"."""
        return json.loads(self._endpoint.get(path, query)[0])

    def request(
        self, method: str, params: Mapping[str, Any] | None = None,
        timeout: float | None = _ANSWER_SECONDS,
    ) -> dict[str, Any]:  # fmt: skip
        """The result of one request of docs/protocol.md; HubError if it is refused."""
        number = next(self._ids)
        with self._changed:
            self._answers[number] = None
        try:
            self._send(encode_request(number, method, params))
            with self._changed:
                self._changed.wait_for(lambda: self._answers[number] is not None, timeout)
        finally:
            answer = self._answers.pop(number)
        if answer is None:
            raise TensorTracerError("timeout", f"no answer within {timeout} s", method)
        if error := answer.get("error"):
            if error.get("code") == "disconnected":
                raise self._lost(method)
            if error.get("code") == "not_controller" and self.holder:
                now = {"message": f"{self.holder['name']} has the control", "remedy": error["message"]}
                error |= {"where": method} | now
            raise hub_error(error)
        result: dict[str, Any] = answer["result"]
        return result

    def _names(self) -> dict[int, str]:
        return {p["flag"]: p["name"] for p in (self.facts or {}).get("points", [])}

    def _lost(self, where: str) -> ConnectionLost:
        return ConnectionLost("disconnected", "the connection to the hub has ended", where)

    def _next(self, queue: deque[Any], timeout: float | None) -> Any:
        with self._changed:
            self._changed.wait_for(lambda: queue or self._ended, timeout)
            if not queue and self._failure is not None:
                raise self._failure
            self._taken += bool(queue) and queue is self._messages
            return queue.popleft() if queue else None

    def _next_data(self, queue: deque[Any], timeout: float | None) -> Any:
        """As `_next`, for records and data texts, which fill the window: records that no loop takes are dropped."""
        until = None if timeout is None else time.monotonic() + timeout
        full = self._window or math.inf

        def stuck() -> bool:
            unacknowledged = len(self._messages) + self._taken - self._told
            return unacknowledged >= full and self._loops == 0 and not self._ended

        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            with self._changed:
                self._changed.wait_for(lambda: queue or self._ended or stuck(), left)
                if queue or not stuck():
                    return self._next(queue, 0.0)
                untaken = list(self._messages)
                self._messages.clear()
                self._taken += len(untaken)
            self._acknowledge()
            for message in untaken:
                with contextlib.suppress(RecordError):  # of nobody's records
                    for _ in decode_records(message, False):
                        self.dropped["client"] += 1

    def _loop(self, followed: Followed, timeout: float | None) -> Iterator[Record]:
        with self._changed:
            self._loops += 1
        patience = Patience(timeout)
        try:
            while True:
                while self._records:
                    record = self._records.popleft()
                    if followed.takes(record, self._known) and self._is_new(record):
                        yield record
                        patience.renew()
                is_over = patience.is_over(len(self._messages))
                if is_over or (message := self._next(self._messages, patience.left())) is None:
                    return
                self._acknowledge()
                self._records.extend(self._decoded(message))
        finally:
            with self._changed:
                self._loops -= 1
                self._changed.notify_all()

    def _is_new(self, record: Record) -> bool:
        """False for a record that the hub sent again after a reconnect, because it is the latest of its key."""
        ranks = (record.tensor_rank, record.pipeline_rank, record.data_rank)
        place = (record.entry, record.layer, record.phase, record.prompt_set, record.direction)
        key, said = (record.run, ranks, place), (record.sequence, record.time)
        before, self._said_records[key] = self._said_records.get(key), said
        return before != said

    def _acknowledge(self) -> None:
        def due() -> bool:
            return self._taken - self._told >= max(1, (self._window or math.inf) // 2)

        if due():
            time.sleep(_ACK_SECONDS)
            with self._changed, contextlib.suppress(ConnectionLost):
                if due():  # a new connection may have begun to count
                    self._told = self._taken
                    self._send(json.dumps({"event": "ack", "params": {"messages": self._taken}}))

    def _send(self, text: str) -> None:
        try:
            self._connection.send(text)
        except (ConnectionClosed, OSError):
            raise self._failure or self._lost(self._endpoint.url) from None

    def _greet(self) -> None:
        """Opens a new connection in place of the last one, and repeats the requests that were in force there."""
        window = {} if self._window is None else {"window": self._window}
        who = {"versions": [1], "role": "viewer", "client": f"python {__version__}"} | window
        connection = self._endpoint.dial()
        heard: list[str | bytes] = []
        try:
            hello = self._ask_first(connection, heard, "hello", who)
            for request in self._asked_before(hello):
                connection.send(request)
            self._ask_first(connection, heard, "ping")  # comes after the steps that are said again
        except (ConnectionClosed, OSError, HubError) as error:
            connection.close()
            raise error if isinstance(error, HubError) else self._endpoint.unreachable(error)
        with self._changed:
            self._connection, self._session = connection, hello["session"]
            # Messages of the earlier connection do not count.
            self._taken, self._told = -len(self._messages), 0
            self._set_facts(hello["run"] or self.facts)
            self._newest_before = self._newest
            for event in ("state", "control"):
                self._on_event(event, hello[event])
            for message in heard:
                self._take(message)
            self._newest_before = 0

    def _ask_first(
        self, connection: ClientConnection, heard: list[str | bytes], method: str,
        params: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        number = next(self._ids)
        connection.send(encode_request(number, method, params))
        while True:
            message = connection.recv(self._endpoint.timeout)
            with contextlib.suppress(ValueError, AttributeError):
                if isinstance(message, str) and (answer := json.loads(message)).get("id") == number:
                    if "error" in answer:
                        raise hub_error(answer["error"])
                    return dict(answer["result"])
            heard.append(message)

    def _asked_before(self, hello: Mapping[str, Any]) -> Iterator[str]:
        """The requests that were in force on the connection that has ended."""
        if self._controls and self.holder and self.holder["session"] == self._session:
            # The hub may not know yet that this session has ended.
            take_over = hello["control"]["holder"] == self.holder
            claim = {"name": self.holder["name"], "take_over": take_over}
            yield self._unawaited("control.claim", claim)
        if self._subscription:
            yield self._unawaited("subscribe", self._subscription)

    def _unawaited(self, method: str, params: Mapping[str, Any] | None = None) -> str:
        return encode_request(next(self._ids), method, params)

    def _serve(self) -> None:
        failure: TensorTracerError | None = None
        try:
            while True:
                failure = self._receive()
                with self._changed:
                    none = {"error": {"code": "disconnected"}}
                    self._answers = {number: got or none for number, got in self._answers.items()}
                    self._changed.notify_all()
                # A hub that ends with its run reports the trainer as lost first, and then closes properly.
                ends = ("finished", "stopped", *(["lost"] if failure is None else []))
                if self._closing.is_set() or not self._patience or self.state.phase in ends:
                    break
                self._come_back()
        except TensorTracerError as error:
            failure = error
        finally:
            with self._changed:
                self._ended, self._failure = True, None if self._closing.is_set() else failure
                self._changed.notify_all()

    def _come_back(self) -> None:
        _log.warning("the connection to %s has ended; connecting again", self._endpoint.url)
        delay, end = 0.25, time.monotonic() + self._patience
        while not self._closing.wait(delay * random.uniform(0.5, 1.0)):
            try:
                self._greet()
            except ConnectionLost as error:
                if time.monotonic() < end:
                    delay = min(2 * delay, 2.5)
                    continue
                remedy = "the run may have ended; if it goes on, give `reconnect` more seconds"
                text = f"the hub did not come back within {self._patience:g} s"
                raise ConnectionLost("unreachable", text, self._endpoint.url, remedy) from error
            self.reconnects += 1
            if self._closing.is_set():  # close() may have closed the one before
                self._connection.close()
            return

    def _receive(self) -> ConnectionLost | None:
        """Receives until the connection ends. Returns None if the hub or this client closed it properly."""
        ping_at = time.monotonic() + _PING_SECONDS
        while True:
            try:
                self._take(self._connection.recv(max(0.0, ping_at - time.monotonic())))
            except TimeoutError:
                pass
            except ConnectionClosed as closed:
                if closed.rcvd is not None and closed.rcvd.code in (1000, 1001):
                    return None
                return ConnectionLost("disconnected", str(closed), self._endpoint.url)
            if time.monotonic() >= ping_at:
                ping_at = time.monotonic() + _PING_SECONDS
                with contextlib.suppress(ConnectionLost):
                    self._send(self._unawaited("ping"))

    def _take(self, message: str | bytes) -> None:
        try:
            with self._changed:
                self._on_message(message)
                self._changed.notify_all()
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            _log.warning("a message of the hub cannot be read: %r", error)

    def _on_message(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            self._messages.append(message)
        elif "event" in (content := json.loads(message)):
            self._on_event(content["event"], content.get("params", {}))
        elif content["id"] in self._answers:
            self._answers[content["id"]] = content
        elif "error" in content:
            _log.warning("the hub refused: %s", hub_error(content["error"]))

    def _on_event(self, event: str, params: Any) -> None:
        if event == "run":
            self._set_facts(params)
            if self._subscription:  # a hub that knew no points yet refused it
                with contextlib.suppress(ConnectionLost):
                    self._send(self._unawaited("subscribe", self._subscription))
        elif event == "state":  # as the phase changes; a new hub is told the last one once more
            newest = 0 if params["phase"] == "replay" else self._newest
            self.state = State(params["phase"], max(newest, params.get("step", 0)))
        elif event == "control":
            self.holder = params["holder"]
        elif event == "plan":
            self.facts = (self.facts or {}) | {"plan": params["plan"]}
            self._known.add_plan(params["plan"])
        elif event == "prompts":
            self._set_facts((self.facts or {}) | {"prompt_sets": params["prompt_sets"]})
        elif event == "interventions":
            self.facts = (self.facts or {}) | {"interventions": params["programs"]}
        elif event in self._waiting:
            self._wait_in(self._waiting[event], params)
        elif event == "step":
            self._on_step(params)
        elif event == "dropped":
            where = params.get("where", "viewer")
            self.dropped += Counter({where: params["records"]})
            self.dropped_events += Counter({where: params.get("events", 0)})
            self.dropped_entries.update({int(k): n for k, n in params.get("entries", {}).items()})
        elif event == "log":
            level = logging.getLevelName(str(params["level"]).upper())
            _log.log(level if isinstance(level, int) else logging.INFO, "%s", params["message"])

    def _set_facts(self, facts: dict[str, Any] | None) -> None:
        if self.facts and facts and self.facts.get("id") != facts.get("id"):
            self._newest = 0
            self._known = RunFacts(None)
        self.facts, self._known = facts, RunFacts(facts, [*self._known.plans.values(), (facts or {}).get("plan")])

    def _on_step(self, params: Mapping[str, Any]) -> None:
        """Leaves out what was said before. A replay goes back, but not at the start of a connection."""
        replay = self.state.phase == "replay"
        if (step := int(params["step"])) > (self._newest_before if replay else self._newest):
            self._newest = max(step, self._newest)
            self.state = self.state if replay else self.state._replace(step=step)
            self._wait_in(self._steps, numbers(params))

    def _wait_in(self, queue: deque[dict[str, Any]], params: dict[str, Any]) -> None:
        self.dropped_events += Counter({"client": len(queue) == queue.maxlen})
        queue.append(params)
