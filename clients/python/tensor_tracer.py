"""Follow and steer a Tensor Tracer run, or read its recording. README.md says how it is used.

    with connect(run_dir="runs/x") as run:
        for record in run.records(point="HiddenStates", layers="1-4"):
            print(record.step, record.layer, record.values.mean())

    steps, losses = open_recording("runs/x/run.ttrec").scalars("loss")

Messages and records are those of docs/protocol.md, recordings those of docs/recording.md.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import difflib
import functools
import importlib
import itertools
import json
import logging
import math
import random
import re
import sqlite3
import struct
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple, SupportsInt

import numpy as np
import numpy.typing as npt

with contextlib.suppress(ImportError):  # a recording is read without websockets
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
    from websockets.sync.client import ClientConnection
    from websockets.sync.client import connect as open_websocket

__version__ = "0.1.0"

Array = npt.NDArray[Any]
Ranges = str | SupportsInt | Iterable[SupportsInt]  # "1-4,8", 3 or range(1, 5)
Points = str | Iterable[str]
Program = str | Path | Mapping[str, Any]  # the text, a .tti file, or the JSON form
Pairs = list[tuple[int, int]]  # first and last of each range
Plan = Mapping[str, Any] | Iterable[Mapping[str, Any]]  # whole, or its entries

_PHASES = dict(enumerate(("train", "eval")))
_DIRECTIONS = dict(enumerate(("value", "gradient")))
_COMPRESSORS = dict(enumerate(("none", "tile", "empty", "stats", "projection", "topk")))
_DTYPES = {1: "f64", 2: "f32", 3: "f16", 4: "bf16", 5: "i32", 6: "i64", 7: "u8"}
# The elements on the wire; numpy has no bf16.
_WIRE = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "bf16": "<u2", "i32": "<i4", "i64": "<i8", "u8": "u1"}
_U8_LINE_BYTES = 8  # offset and scale of a line, before all codes

_PING_SECONDS = 10.0
_ACK_SECONDS = 0.02  # between acks, which count against the hub's rate limit
_ANSWER_SECONDS = 330.0  # the hub gives up on the trainer after 300
_MAX_STEPS = 100_000  # that wait for a loop over steps()
_RECONNECT_SECONDS = 300.0  # how long reconnect=True looks for a hub
_MOST_RANGES = 100  # in one condition: SQLite takes no more than 1,000 parts
_MAX_SAVED = 10_000  # values of programs that wait for a loop over saved()

_log = logging.getLogger("tensor_tracer")


class TensorTracerError(Exception):
    """`code` is a stable word for programs, `where` names the thing, `remedy` says what to do."""

    def __init__(self, code: str, message: str, where: str = "", remedy: str = "") -> None:
        text = (f"{where}: " if where else "") + message + (f"; {remedy}" if remedy else "")
        super().__init__(f"{text} [{code}]")
        self.code, self.message, self.where, self.remedy = code, message, where, remedy


class HubError(TensorTracerError):
    """The hub or the trainer refused."""


class ConnectionLost(TensorTracerError, ConnectionError):
    """The hub cannot be reached, or not any more."""


class RecordError(TensorTracerError, ValueError):
    """These bytes are not what docs/protocol.md or docs/recording.md says."""


_native_crc32c: Any = None
with contextlib.suppress(ImportError):
    _native_crc32c = importlib.import_module("google_crc32c")
_CRC_START = bytes.fromhex("54641f64")  # brings a state of 0 to all ones


@functools.cache
def _crc_tables() -> tuple[Array, list[list[int]]]:
    """[p, b]: what byte b at place p of a block of 256 adds to the block's CRC. The state before a
    block comes in at its first four places."""
    last: Array = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        last = (last >> 1) ^ ((last & 1) * np.uint32(0x82F63B78))
    tables = np.empty((256, 256), np.uint32)
    tables[255] = last
    for place in range(254, -1, -1):
        tables[place] = (tables[place + 1] >> 8) ^ last[tables[place + 1] & 255]
    return tables.ravel(), tables[:4].tolist()


def _crc32c_numpy(data: bytes) -> int:
    data = bytes(-(len(data) + 4) % 256) + _CRC_START + data
    table, (c0, c1, c2, c3) = _crc_tables()
    places, state = np.arange(256, dtype=np.int32) * 256, 0
    for at in range(0, len(data), 1 << 15):  # chunks that stay in the cache
        piece = np.frombuffer(data, np.uint8, min(1 << 15, len(data) - at), at).reshape(-1, 256)
        for block in np.bitwise_xor.reduce(table.take(piece + places), axis=1).tolist():
            low, high = c0[state & 255] ^ c1[state >> 8 & 255], c2[state >> 16 & 255] ^ c3[state >> 24]
            state = block ^ low ^ high
    return state ^ 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli): by the package google-crc32c if it is installed, else by numpy."""
    return int(_native_crc32c.value(data)) if _native_crc32c else _crc32c_numpy(data)


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """One tensor as it travelled; docs/protocol.md, Binary messages, says what each field means."""

    run: str  # as in facts["id"]
    sequence: int
    step: int
    plan: int
    entry: int
    micro_batch: int
    prompt_set: int
    first_row: int
    point: str
    layer: int
    tensor_rank: int
    pipeline_rank: int
    data_rank: int
    phase: str
    direction: str
    dtype: str
    compressor: str
    shape: tuple[int, ...]
    features: int
    time: int  # nanoseconds since 1970
    payload: bytes = dataclasses.field(repr=False)

    @functools.cached_property
    def values(self) -> Array:
        """The numbers, in an array of your own; bf16 and u8 as float32."""
        if self.dtype not in _WIRE:
            raise _unknown("unknown_dtype", self.dtype, "dtype")
        lines = _u8_lines(self.shape) if self.dtype == "u8" else 0
        wire = np.frombuffer(self.payload, _WIRE[self.dtype], offset=_U8_LINE_BYTES * lines)
        if self.dtype == "bf16":
            wire = (wire.astype(np.uint32) << 16).view(np.float32)
        elif lines:
            wire = _numbers_of_codes(wire, np.frombuffer(self.payload, "<f4", 2 * lines))
        elif self.dtype == "u8":
            wire = wire.astype(np.float32)
        return wire.astype(wire.dtype.newbyteorder("=")).reshape(self.shape)


def _u8_lines(shape: tuple[int, ...]) -> int:
    """How many lines an array has along its last dim: 1 without dims, 0 if the array is empty."""
    return 0 if 0 in shape else math.prod(shape[:-1])


def _numbers_of_codes(codes: Array, heads: Array) -> Array:
    by_line = codes.reshape(len(heads) // 2, -1)
    offset, scale = heads.astype(np.float64).reshape(-1, 2, 1).transpose(1, 0, 2)
    numbers = (offset + by_line * scale).astype(np.float32)
    for code, number in ((253, np.nan), (254, np.inf), (255, -np.inf)):
        numbers[by_line == code] = number
    return numbers


_HEADER = struct.Struct("<IHH QQQ IIIII HHHHH BBBBB x 4I I QQ 16x II")


def decode_records(
    message: bytes, check: bool = True, points: Mapping[int, str] = {}
) -> Iterator[Record]:
    """The records of one binary message, in order. `check`: the payloads' checksums too. `points`: names of
    their points by "flag" of the run's facts; without one a point is "point 7". Raises
    RecordError at the first byte that cannot be trusted, after what came before it."""
    at = 0
    while at < len(message):
        record, at = _decode_one(message, at, check, points)
        yield record


def _decode_one(message: bytes, at: int, check: bool, points: Mapping[int, str]) -> tuple[Record, int]:
    if len(message) - at < _HEADER.size:
        raise _damaged(at, f"{len(message) - at} bytes are left, a header has {_HEADER.size}")
    magic, version, header_bytes, *fields = _HEADER.unpack_from(message, at)
    if magic != 0x31465454 or version != 1:
        found = f"magic {magic:#010x}, version {version}"
        raise _unknown("unsupported_version", found, f"record at byte {at}")
    *names, ndim, d0, d1, d2, d3, features, payload_bytes, stamp, payload_crc, header_crc = fields
    if crc32c(message[at : at + _HEADER.size - 4]) != header_crc:
        raise _damaged(at, "the header's checksum does not fit")
    begin, shape = at + header_bytes, (d0, d1, d2, d3)[:ndim]
    end = begin + payload_bytes
    if header_bytes < _HEADER.size or ndim > 4 or end > len(message):
        raise _damaged(at, f"{ndim} dims, {payload_bytes} bytes of payload after {header_bytes}")
    payload = message[begin:end]
    if check and crc32c(payload) != payload_crc:
        raise _damaged(at, "the payload's checksum does not fit")
    run, *numbers, point, layer, tp, pp, dp, phase, direction, dtype, compressor = names
    values = [
        f"{run:016x}", *numbers, _name(points, point, "point"), layer, tp, pp, dp,
        _name(_PHASES, phase, "phase"), _name(_DIRECTIONS, direction, "direction"),
        _name(_DTYPES, dtype, "dtype"), _name(_COMPRESSORS, compressor, "compressor"),
        shape, features, stamp, payload,
    ]  # fmt: skip
    record = Record(*values)
    _check_size(at, record)
    return record, end + -payload_bytes % 8


def _name(names: Mapping[int, str], code: int, what: str) -> str:
    return names.get(code) or f"{what} {code}"


def _damaged(at: int, message: str) -> RecordError:
    return RecordError("invalid_record", message, f"record at byte {at}")


def _unknown(code: str, what: str, where: str) -> RecordError:
    return RecordError(code, f"{what} is not known", where, "update this client")


def _check_size(at: int, record: Record) -> None:
    if record.dtype in _WIRE:
        expected = math.prod(record.shape) * np.dtype(_WIRE[record.dtype]).itemsize
        expected += _U8_LINE_BYTES * _u8_lines(record.shape) if record.dtype == "u8" else 0
        if expected != len(record.payload):
            raise _damaged(at, f"{len(record.payload)} bytes of payload, {record.shape} has {expected}")


def _pairs(value: Ranges | None, what: str) -> Pairs | None:
    """None is all."""
    if value is None:
        return None
    if not isinstance(value, str):
        # An array is SupportsInt, but holds many numbers. NumPy takes no set.
        numbers = np.ravel(np.asarray(value if isinstance(value, SupportsInt) else list(value)))
        value = ",".join(str(int(n)) for n in numbers)
    pairs: Pairs = []
    for part in value.split(",") if value else ():
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError(f'{what}: {part!r} is no range; write "1-4,8"')
        if pairs and first == pairs[-1][1] + 1:
            first = pairs.pop()[0]
        pairs.append((first, last))
    return pairs


class _Selection(NamedTuple):
    """What a loop asked for; None is all."""

    points: list[str] | None
    layers: Pairs | None
    entry: int | None

    def takes(self, record: Record) -> bool:
        return (
            (self.points is None or record.point in self.points)
            and (self.entry is None or record.entry == self.entry)
            and (self.layers is None or any(a <= record.layer <= b for a, b in self.layers))
        )

    def members(self, rate: float | None) -> dict[str, Any]:
        """Of a subscription."""
        layers = None if self.layers is None else ",".join(f"{a}-{b}" for a, b in self.layers)
        entries = None if self.entry is None else [self.entry]
        members = {"entries": entries, "points": self.points, "layers": layers, "rate": rate}
        return {name: value for name, value in members.items() if value is not None}


def _select(
    point: Points | None, layers: Ranges | None, entry: int | None, known: Mapping[int, str]
) -> _Selection:
    names = None if point is None else [point] if isinstance(point, str) else list(point)
    for name in (name for name in names or () if name not in known.values()):
        near = difflib.get_close_matches(name, known.values(), 1) or list(known.values())
        raise ValueError(f"point: there is no {name!r}; there is {', '.join(near)}")
    return _Selection(names, _pairs(layers, "layers"), entry)


class State(NamedTuple):
    """Where the run stands, and its newest step."""

    phase: str  # starting, waiting, training, paused, evaluating, finished, lost
    step: int


class Boundary(NamedTuple):
    """After which step, and on how many ranks, something took effect; of a plan and of interventions
    the first step with it."""

    step: int
    ranks: int
    plan: dict[str, Any] | None = None


class _Endpoint:
    """Where the hub is, and the token for it."""

    def __init__(self, url: str, token: str, timeout: float) -> None:
        self.url, self.timeout = url, timeout
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def dial(self) -> ClientConnection:
        importlib.import_module("websockets")  # says so where it is not installed
        options: dict[str, Any] = {"max_size": None, "compression": None, "proxy": None}
        options |= {"additional_headers": self.headers, "open_timeout": self.timeout}
        try:
            opening = open_websocket("ws" + self.url.removeprefix("http") + "/ws", **options)
            connection: ClientConnection = opening.__enter__()  # Run ends it
            return connection
        except InvalidStatus as refused:
            body = bytes(refused.response.body or b"")
            raise self.refusal(refused.response.status_code, body) from None
        except (OSError, InvalidHandshake) as error:
            raise self.unreachable(error) from error

    def get(self, path: str, query: Mapping[str, Any]) -> tuple[bytes, str | None]:
        """The body, and where the rest begins."""
        given = urllib.parse.urlencode({k: v for k, v in query.items() if v is not None})
        request = urllib.request.Request(f"{self.url}{path}?{given}", headers=self.headers)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=self.timeout) as answer:
                return answer.read(), answer.headers.get("TT-Next")
        except urllib.error.HTTPError as refused:
            raise self.refusal(refused.code, refused.read()) from None
        except (OSError, HTTPException) as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: Exception) -> ConnectionLost:
        remedy = "see whether the run still goes, and on which machine"
        return ConnectionLost("unreachable", str(error) or repr(error), self.url, remedy)

    def refusal(self, status: int, body: bytes) -> HubError:
        codes = {401: "unauthorized", 403: "forbidden", 404: "not_found", 429: "rate_limited"}
        text = body.decode(errors="replace").strip()[:200] or f"HTTP status {status}"
        remedy = "the token is in <run_dir>/token" if status == 401 else ""
        return HubError(codes.get(status, f"http_{status}"), text, self.url, remedy)


def _hub_error(error: Mapping[str, Any]) -> HubError:
    return HubError(*(str(error.get(part) or "") for part in ("code", "message", "where", "remedy")))


def _encode_request(number: int, method: str, params: Mapping[str, Any] | None) -> str:
    request = {"id": number, "method": method}
    return json.dumps(request if params is None else request | {"params": params})


def _numbers(params: Mapping[str, Any]) -> dict[str, Any]:
    """With the numbers that JSON cannot write."""
    named = ("NaN", "Infinity", "-Infinity")
    return {k: float(v) if isinstance(v, str) and v in named else v for k, v in params.items()}


class Run:
    """A live run, from `connect`. Its own thread keeps its public members up to date and
    pings the hub; any thread may call its methods."""

    def __init__(self, endpoint: _Endpoint, window: int | None, reconnect: float, check: bool) -> None:
        self.facts: dict[str, Any] | None = None  # None until a trainer has connected
        self.state = State("starting", 0)
        self.holder: dict[str, str] | None = None  # of the control: session and name
        self.dropped: Counter[str] = Counter()  # records, by where: viewer, trainer or client
        self.dropped_entries: Counter[int] = Counter()
        self.dropped_events: Counter[str] = Counter()  # steps, saved and applied, by where
        self.reconnects = 0
        self._endpoint, self._window, self._check = endpoint, window, check
        self._patience = _RECONNECT_SECONDS if reconnect is True else float(reconnect)
        self._closing = threading.Event()
        self._changed = threading.Condition()  # guards what follows
        self._ended = False
        self._failure: TensorTracerError | None = None
        self._ids = itertools.count(1)
        self._answers: dict[int, dict[str, Any] | None] = {}  # by request; None: not yet
        self._steps: deque[dict[str, Any]] = deque(maxlen=_MAX_STEPS)
        self._newest = self._newest_before = 0  # step; that before this connection, while it begins
        self._applied: deque[dict[str, Any]] = deque(maxlen=_MAX_STEPS)
        self._saved: deque[dict[str, Any]] = deque(maxlen=_MAX_SAVED)
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
        """Ends the connection and every loop. The run goes on."""
        self._closing.set()
        self._connection.close()
        self._thread.join()

    def records(
        self, point: Points | None = None, layers: Ranges | None = None, entry: int | None = None,
        rate: float | None = None, timeout: float | None = None,
    ) -> Iterator[Record]:  # fmt: skip
        """Records as they arrive; the hub sends no others from here on. Ends with the run, or when
        nothing came for `timeout` seconds. `rate`: so many a second of each key."""
        selection = _select(point, layers, entry, self._names())
        if (wanted := selection.members(rate)) != self._subscription:
            self.request("subscribe", wanted)
            self._subscription = wanted
            self._said_records.clear()
        return self._loop(selection, timeout)

    def steps(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """The `step` notifications: first the last 2,000, then as they arrive."""
        return iter(lambda: self._next(self._steps, timeout), None)

    def saved(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """What programs save, as it arrives: `saved` notifications with an array as `values`."""
        while (saved := self._next_data(self._saved, timeout)) is not None:
            values = np.array([float(value) for value in saved["values"]])
            yield saved | {"values": values.reshape(saved["shape"])}

    def applied(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """The `applied` notifications: after each step what the programs in force did in it."""
        return iter(lambda: self._next_data(self._applied, timeout), None)

    def viewers(self) -> list[dict[str, Any]]:
        """The connected viewers and this client, in the order in which they came."""
        return list(self.request("viewers.list")["viewers"])

    @property
    def interventions(self) -> list[dict[str, Any]]:
        """The programs in force."""
        return list((self.facts or {}).get("interventions") or ())

    def check_intervention(self, program: Program) -> dict[str, Any]:
        """What a program reads, writes and saves; HubError if it is wrong. Changes nothing."""
        return self.request("intervention.check", {"program": _program(program)})

    def intervene(
        self, name: str, program: Program, parameters: Mapping[str, float] | None = None,
        ttl: int | None = None, keep: bool = False,
    ) -> Boundary:  # fmt: skip
        """Puts a program in force, instead of one of the same name. `ttl`: for so many steps.
        `keep`: also when nobody holds the control any more. Needs the control, as all below."""
        given = {"name": name, "program": _program(program), "parameters": parameters, "ttl": ttl}
        params = {k: v for k, v in given.items() if v is not None} | ({"keep": True} if keep else {})
        return _boundary(self.request("intervention.apply", params))

    def set_parameter(self, name: str, parameter: str, value: float) -> Boundary:
        """Of a program in force, from the boundary's step on."""
        params = {"name": name, "parameter": parameter, "value": value}
        return _boundary(self.request("intervention.set", params))

    def remove_intervention(self, name: str | None = None) -> Boundary:
        """One program, or all."""
        return _boundary(self.request("intervention.remove", {"name": name} if name else {}))

    def preview_intervention(
        self, program: Program, parameters: Mapping[str, float] | None = None,
        plan: Plan | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The loss without and with it, and how far it moves what it writes. Nothing stays.

        With a plan, whose entries take the phase "eval", "records" holds what it watches of the
        first evaluation batch: {"off": […], "on": […]}, each a list of Record.
        """
        given: dict[str, Any] = {"parameters": parameters} if parameters else {}
        given |= {"plan": _plan(plan)} if plan else {}
        answer = self.request("intervention.preview", {"program": _program(program)} | given)
        if "records" in answer:
            sides = answer["records"].items()
            answer["records"] = {
                side: list(decode_records(base64.b64decode(text), points=self._names())) for side, text in sides
            }
        return answer

    def control(self, name: str, take_over: bool = False) -> Control:
        """Claims the control of the run; `busy` if another holds it."""
        self.request("control.claim", {"name": name, "take_over": take_over})
        self._controls = True
        return Control(self)

    def history(
        self, point: str | None = None, layers: Ranges | None = None, entry: int | None = None,
        first: int | None = None, last: int | None = None,
    ) -> Iterator[Record]:  # fmt: skip
        """Records of past steps, in order of steps, from the hub's recording."""
        layers = _select(point, layers, entry, self._names()).members(None).get("layers")
        query = {"first": first, "last": last, "point": point, "entry": entry, "layers": layers}
        after: str | None = ""
        while after is not None:
            body, after = self._endpoint.get("/history/records", query | {"after": after or None})
            yield from decode_records(body, self._check, self._names())

    def get(self, path: str, **query: Any) -> Any:
        """What the hub answers to a GET: "/history", "/history/steps", "/history/events"."""
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
            self._send(_encode_request(number, method, params))
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
            raise _hub_error(error)
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
        """As `_next`, of what waits for the window as records do: those that no loop takes make room."""
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

    def _loop(self, selection: _Selection, timeout: float | None) -> Iterator[Record]:
        with self._changed:
            self._loops += 1
        try:
            while True:
                while self._records:
                    record = self._records.popleft()
                    if selection.takes(record) and self._is_new(record):
                        yield record
                if (message := self._next(self._messages, timeout)) is None:
                    return
                self._acknowledge()
                self._records.extend(decode_records(message, self._check, self._names()))
        finally:
            with self._changed:
                self._loops -= 1
                self._changed.notify_all()

    def _is_new(self, record: Record) -> bool:
        """False for the latest of a key that a reconnect brought once more."""
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
        """Puts a new connection in the place of the one before, with what was asked for there."""
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
            # Those of the connection before count for nothing.
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
        connection.send(_encode_request(number, method, params))
        while True:
            message = connection.recv(self._endpoint.timeout)
            with contextlib.suppress(ValueError, AttributeError):
                if isinstance(message, str) and (answer := json.loads(message)).get("id") == number:
                    if "error" in answer:
                        raise _hub_error(answer["error"])
                    return dict(answer["result"])
            heard.append(message)

    def _asked_before(self, hello: Mapping[str, Any]) -> Iterator[str]:
        """What holds on the connection that has ended."""
        if self._controls and self.holder and self.holder["session"] == self._session:
            # The hub may not know yet that this session has ended.
            take_over = hello["control"]["holder"] == self.holder
            claim = {"name": self.holder["name"], "take_over": take_over}
            yield self._unawaited("control.claim", claim)
        if self._subscription:
            yield self._unawaited("subscribe", self._subscription)

    def _unawaited(self, method: str, params: Mapping[str, Any] | None = None) -> str:
        return _encode_request(next(self._ids), method, params)

    def _serve(self) -> None:
        failure: TensorTracerError | None = None
        try:
            while True:
                failure = self._receive()
                with self._changed:
                    none = {"error": {"code": "disconnected"}}
                    self._answers = {number: got or none for number, got in self._answers.items()}
                    self._changed.notify_all()
                # Of a hub that is gone with its run the trainer is lost first, and it says goodbye.
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
        """Until the connection ends; None where the hub or we ended it properly."""
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
            _log.warning("the hub refused: %s", _hub_error(content["error"]))

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
        elif event == "interventions":
            self.facts = (self.facts or {}) | {"interventions": params["programs"]}
        elif event == "applied":
            self._wait_in(self._applied, params)
        elif event == "saved":
            self._wait_in(self._saved, params)
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
        self.facts = facts

    def _on_step(self, params: Mapping[str, Any]) -> None:
        """Leaves out what was said before. A replay goes back, but not at the start of a connection."""
        replay = self.state.phase == "replay"
        if (step := int(params["step"])) > (self._newest_before if replay else self._newest):
            self._newest = max(step, self._newest)
            self.state = self.state if replay else self.state._replace(step=step)
            self._wait_in(self._steps, _numbers(params))

    def _wait_in(self, queue: deque[dict[str, Any]], params: dict[str, Any]) -> None:
        self.dropped_events += Counter({"client": len(queue) == queue.maxlen})
        queue.append(params)


def _boundary(result: Mapping[str, Any]) -> Boundary:
    return Boundary(result["step"], result["ranks"], result.get("plan"))


def _plan(plan: Plan) -> Mapping[str, Any]:
    return plan if isinstance(plan, Mapping) else {"entries": list(plan)}


def _program(program: Program) -> str | dict[str, Any]:
    if isinstance(program, Path):
        return program.read_text(encoding="utf-8")
    return program if isinstance(program, str) else dict(program)


class Control:
    """The control of a run, from `Run.control`: held until the block ends, which ends a pause."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(TensorTracerError):  # taken over, or the run is gone
            self.release()

    def release(self) -> None:
        self._run._controls = False
        self._run.request("control.release")

    def pause(self) -> Boundary:
        """The boundary's step was the last before the pause."""
        return self._ask("control.pause")

    def resume(self) -> Boundary:
        return self._ask("control.continue")

    def step(self, count: int = 1) -> Boundary:
        """Does so many steps and pauses; returns when they are done."""
        return _boundary(self._run.request("control.step", {"count": count}, timeout=None))

    def set_plan(self, plan: Plan) -> Boundary:
        """In force from the boundary's step on, as `plan` of the boundary."""
        return self._ask("plan.set", {"plan": _plan(plan)})

    def stop(self) -> Boundary:
        """The run ends after the current step."""
        return self._ask("control.stop")

    def _ask(self, method: str, params: Mapping[str, Any] | None = None) -> Boundary:
        return _boundary(self._run.request(method, params))


def connect(
    url: str | None = None, *, run_dir: str | Path | None = None, token: str | None = None,
    window: int | None = 64, reconnect: float = False, check: bool = True, timeout: float = 10.0,
) -> Run:  # fmt: skip
    """A live run, by its directory or by the address that the trainer printed.

    `window`: binary messages under way or waiting here before the hub keeps only the latest of each
    key; None: all of them are sent and wait here. `reconnect`: for so many seconds a hub that is gone
    is looked for, True: 300. `check`: verify payloads. `timeout`: of connecting and of history, in
    seconds.
    """
    if (url is None) == (run_dir is None):
        raise ValueError("connect: give either url or run_dir")
    if run_dir is not None:
        folder = Path(run_dir)
        try:
            url = str(json.loads((folder / "hub.json").read_text())["url"])
            token = token or (folder / "token").read_text().strip()
        except (OSError, ValueError, KeyError) as error:
            remedy = "give the directory that the run printed; only its owner may read it"
            raise ConnectionLost("no_hub", str(error), str(folder), remedy) from error
    address, _, fragment = str(url).partition("#")
    given = urllib.parse.parse_qs(fragment).get("token", [""])[0]
    address = address if "://" in address else f"http://{address}"
    address = re.sub("^ws", "http", address).rstrip("/").removesuffix("/ws")
    return Run(_Endpoint(address, token or given, timeout), window, reconnect, check)


class Recording:
    """One run of a recording, from `open_recording`. Reads while the run still writes."""

    def __init__(self, path: Path, run: str | None, check: bool) -> None:
        self._check, uri = check, f"{path.resolve(strict=True).as_uri()}?mode=ro"
        try:
            self._file = sqlite3.connect(uri, uri=True)
            [(version,)] = self._file.execute("SELECT value FROM meta WHERE key = 'schema_version'")
            runs = {row[1]: row for row in self._file.execute("SELECT run, id, facts FROM runs")}
        except (sqlite3.DatabaseError, ValueError) as error:
            if "locked" in str(error):
                remedy = "wait until the run has ended, or ask its hub: connect(…).history()"
                text = "the hub of a run has this file for itself"
                raise RecordError("recording_in_use", text, str(path), remedy) from error
            raise RecordError("invalid_recording", str(error), str(path)) from error
        if version != "1":
            raise _unknown("unsupported_version", f"schema version {version}", str(path))
        if (run or len(runs) != 1) and run not in runs:
            names = ", ".join(runs) or "none"
            raise RecordError("which_run", f"the runs in it: {names}", str(path), 'name one: run="…"')
        self._run, self.run, facts = runs[run or next(iter(runs))]
        self.facts: dict[str, Any] = json.loads(facts)
        rows = self._file.execute("SELECT flag, name FROM points WHERE run = ?", [self._run])
        self._points = dict(rows)

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def records(
        self, point: Points | None = None, layers: Ranges | None = None, steps: Ranges | None = None,
        entry: int | None = None,
    ) -> Iterator[Record]:  # fmt: skip
        """In order of steps."""
        chosen = _select(point, layers, entry, self._points)
        flags = [(f, f) for f, n in self._points.items() if chosen.points is None or n in chosen.points]
        wanted = {
            "layer": chosen.layers, "step": _pairs(steps, "steps"),
            "entry": None if entry is None else [(entry, entry)],
            "point": None if chosen.points is None else flags,
        }  # fmt: skip
        where = "".join(f" AND {self._between(name, pairs)}" for name, pairs in wanted.items())
        query = f"SELECT id FROM frames WHERE run = ?{where} ORDER BY step, id"
        # An open query would hold the log of a run that still writes, and sort all that it finds.
        found = array("q", (number for (number,) in self._file.execute(query, [self._run])))
        query = "SELECT record FROM frames WHERE id = ?"
        for number in found:
            # None where the bound on the file's bytes took it meanwhile.
            for (record,) in self._file.execute(query, [number]).fetchall():
                yield from decode_records(record, self._check, self._points)

    def _between(self, column: str, pairs: Pairs | None) -> str:
        if pairs is None:
            return "1"
        if len(pairs) <= _MOST_RANGES:
            return f"({' OR '.join(f'{column} BETWEEN {a} AND {b}' for a, b in pairs) or 0})"
        chosen = {n for first, last in pairs for n in range(first, last + 1)}
        self._file.create_function(f"is_{column}", 1, chosen.__contains__, deterministic=True)
        return f"is_{column}({column})"

    def scalars(self, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Steps and values; SQLite keeps NaN as NULL."""
        query = "SELECT step, value FROM scalars WHERE run = ? AND name = ? ORDER BY step"
        rows = self._file.execute(query, [self._run, name]).fetchall()
        if not rows:
            raise ValueError(f"scalars: there is no {name!r}; there is {', '.join(self.scalar_names())}")
        steps, values = zip(*rows, strict=True)
        return np.array(steps, np.int64), np.array(values, np.float64)

    def scalar_names(self) -> list[str]:
        query = "SELECT DISTINCT name FROM scalars WHERE run = ? ORDER BY name"
        return [name for (name,) in self._file.execute(query, [self._run])]

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The audit trail: control, interventions, drops, log. `kind`: "control.pause", or
        "control" for all of control."""
        names = ("time_ns", "step", "kind", "session", "who", "detail")
        chosen = "run = ?1 AND (?2 IS NULL OR kind = ?2 OR kind LIKE ?2 || '.%')"
        query = f"SELECT {', '.join(names)} FROM events WHERE {chosen} ORDER BY id"
        found = self._file.execute(query, [self._run, kind])
        rows = (dict(zip(names, row, strict=True)) for row in found)
        return [row | {"detail": json.loads(row["detail"] or "null")} for row in rows]

    def to_pandas(
        self, point: Points | None = None, layers: Ranges | None = None, steps: Ranges | None = None
    ) -> Any:
        """A DataFrame: without a point of the scalars, one column each; with one of its records,
        one row each."""
        pandas = importlib.import_module("pandas")
        if point is None:
            series = {name: self.scalars(name) for name in self.scalar_names()}
            columns = {name: pandas.Series(values, steps) for name, (steps, values) in series.items()}
            return pandas.DataFrame(columns).rename_axis("step")
        fields = [f.name for f in dataclasses.fields(Record) if f.name != "payload"] + ["values"]
        records = self.records(point, layers, steps)
        return pandas.DataFrame([[getattr(r, n) for n in fields] for r in records], columns=fields)


def open_recording(path: str | Path, run: str | None = None, check: bool = True) -> Recording:
    """A recording (run.ttrec). `run`: the id, where the file holds several."""
    return Recording(Path(path), run, check)
