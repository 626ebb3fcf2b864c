"""A real tensor-tracer-hub process, and clients of it that stand in for viewers and trainers."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "golden"))
from make_golden import crc32c  # noqa: E402
from make_golden import record as encode_record  # noqa: E402

RUN_ID = "5f0c00000000abcd"
POINTS = [{"name": name, "flag": flag} for flag, name in (
    (1, "QKV"), (2, "RawAttentionScore"), (3, "ContextLayer"), (4, "MLP1"), (5, "MLP2"),
    (6, "AttentionOutput"), (7, "HiddenStates"), (8, "InputTokens"), (20, "Embedding"), (23, "Logits"),
)]  # fmt: skip
FACTS = {"id": RUN_ID, "name": "test", "plan": {"number": 1, "entries": []}, "points": POINTS}
RECORD = dict(
    run=0x5F0C, sequence=1, step=1, plan=1, entry=0, micro_batch=0, prompt_set=0, first_row=0,
    point=7, layer=1, tensor_rank=0, pipeline_rank=0, data_rank=0, phase=0, direction=0, dtype=200,
    compressor=0, ndim=1, features=0, time=0,
)  # fmt: skip


@contextlib.contextmanager
def in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """In a separate thread, which is to end when the event is set."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)


def binary(name: str = "tensor-tracer-hub") -> Path:
    """The program in `TT_BIN_DIR`, by default build/release/bin; absent is an error, not a skip."""
    path = REPOSITORY / os.environ.get("TT_BIN_DIR", "build/release/bin") / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: build it, or set TT_BIN_DIR")
    return path


def sanitized() -> bool:
    """Whether the hub was built with a sanitizer."""
    return any(name in binary().read_bytes() for name in (b"__asan_init", b"__tsan_init"))


def make_record(payload: bytes = b"12345678", **fields: int) -> bytes:
    """One record of a dtype that the hub does not know, so that any number of bytes fits."""
    header = RECORD | {"shape": [len(payload), 1, 1, 1]} | fields
    return encode_record(header, payload)[0]


def big_record(size: int, sequence: int, **fields: int) -> bytes:
    """A record of `size` zero bytes, fast: its payload's CRC is left 0, which the hub ignores."""
    whole = bytearray(make_record(b"", sequence=sequence, **fields))
    struct.pack_into("<IIII", whole, 68, size, 1, 1, 1)
    struct.pack_into("<Q", whole, 88, size)
    struct.pack_into("<I", whole, 124, crc32c(bytes(whole[:124])))
    return bytes(whole) + bytes((size + 7) // 8 * 8)


def split_records(message: bytes) -> list[dict[str, int]]:
    """step, sequence, entry and layer of every record of a binary message."""
    out = []
    while message:
        assert message[:4] == b"TTF1"
        size = struct.unpack_from("<Q", message, 88)[0]
        out.append(
            {
                "sequence": struct.unpack_from("<Q", message, 16)[0],
                "step": struct.unpack_from("<Q", message, 24)[0],
                "entry": struct.unpack_from("<I", message, 36)[0],
                "layer": struct.unpack_from("<H", message, 54)[0],
                "bytes": size,
            }
        )
        message = message[128 + (size + 7) // 8 * 8 :]
    return out


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 10) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"not within {timeout} s: {what}"
        time.sleep(0.01)


def error_code(answer: dict[str, Any]) -> str:
    assert "result" not in answer, answer
    return answer["error"]["code"]


class Peer:
    """One WebSocket that keeps everything it gets."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.events: list[dict[str, Any]] = []
        self.records: list[dict[str, int]] = []
        self.answers: dict[int, dict[str, Any]] = {}
        self.requests: list[dict[str, Any]] = []
        self.binary_messages = 0
        self._last_id = 0

    def send(self, message: dict[str, Any]) -> None:
        self.connection.send(json.dumps(message))

    def notify(self, event: str, **params: Any) -> None:
        self.send({"event": event, "params": params})

    def start_request(self, method: str, params: dict[str, Any] | None = None) -> int:
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return self._last_id

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The whole answer."""
        return self.answer_to(self.start_request(method, params))

    def answer_to(self, number: int) -> dict[str, Any]:
        self.receive_until(lambda: number in self.answers, f"answer {number}")
        return self.answers.pop(number)

    def receive_until(
        self, condition: Callable[[], bool], what: str, timeout: float = 10
    ) -> None:
        end = time.monotonic() + timeout
        while not condition():
            left = end - time.monotonic()
            assert left > 0, f"not within {timeout} s: {what}"
            with contextlib.suppress(TimeoutError):
                self._take(self.connection.recv(timeout=left))

    def drain(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                self._take(self.connection.recv(timeout=left))

    def _take(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            self.binary_messages += 1
            self.records += split_records(message)
            return
        content = json.loads(message)
        if "method" in content:
            self.requests.append(content)
        elif "id" in content:
            assert content["id"] not in self.answers, f"answered twice: {content}"
            self.answers[content["id"]] = content
        else:
            self.events.append(content)

    def named(self, event: str) -> list[dict[str, Any]]:
        return [e["params"] for e in self.events if e["event"] == event]


def claim(viewer: Peer, **params: Any) -> dict[str, Any]:
    return viewer.request("control.claim", {"name": "Ada", **params})


def write_run_file(run_dir: Path, **settings: Any) -> None:
    """The settings of a supervised hub, as a trainer writes them; by default on a free port."""
    (run_dir / "run.json").write_text(json.dumps({"version": 1, "run_id": RUN_ID, "port": 0} | settings))


class Hub:
    """`tensor-tracer-hub serve`, by default on a free port."""

    def __init__(self, run_dir: Path, *flags: str, port: int = 0) -> None:
        self.run_dir = run_dir
        run_dir.mkdir(parents=True, exist_ok=True)
        command = [str(binary()), "serve", "--run-dir", str(run_dir), "--port", str(port)]
        self.process = subprocess.Popen(
            [*command, "--run-id", RUN_ID, *flags], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.printed = self.process.stdout.readline()
        self._read_run_dir()

    def _read_run_dir(self) -> None:
        run_dir = self.run_dir
        self.port = int(json.loads((run_dir / "hub.json").read_text())["port"])
        self.token = (run_dir / "token").read_text().strip()
        self.viewer_token = (run_dir / "viewer_token").read_text().strip()
        self.worker_token = (run_dir / "worker_token").read_text().strip()

    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> float:
        """Ends it politely; the seconds that took."""
        start = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return time.monotonic() - start

    def log(self) -> str:
        return (self.run_dir / "hub.log").read_text()

    def connect(self, path: str = "/ws", token: str | None = None, **options: Any) -> Peer:
        """A WebSocket that has not said hello."""
        given = token or (self.token if path == "/ws" else self.worker_token)
        opening = connect(
            f"ws://127.0.0.1:{self.port}{path}",
            additional_headers={"Authorization": f"Bearer {given}"},
            max_size=None,
            compression=None,
            ping_interval=None,  # a peer may read nothing for long; the hub's pings are answered
            **options,
        )
        return Peer(opening.__enter__())  # the test's hub ends it

    def viewer(self, token: str | None = None, **options: Any) -> Peer:
        peer = self.connect("/ws", token, **options)
        peer.hello = peer.request("hello", {"versions": [1], "role": "viewer", "client": "test"})
        return peer

    def worker(self, **facts: Any) -> Peer:
        peer = self.connect("/worker")
        params = {"versions": [1], "role": "worker", "rank": 0, "run": FACTS | facts}
        peer.hello = peer.request("hello", params)
        return peer


class HubOfRun(Hub):
    """The hub of a run that has started, which ends with it."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._read_run_dir()

    def pid(self) -> int:
        return int(json.loads((self.run_dir / "hub.json").read_text())["pid"])


@contextlib.contextmanager
def running_hub(run_dir: Path, *flags: str) -> Iterator[Hub]:
    hub = Hub(run_dir, *flags)
    try:
        yield hub
        assert hub.process.poll() is None, "the hub died"
    finally:
        hub.stop()


class RawSocket:
    """A TCP connection that sends what no WebSocket library would."""

    def __init__(self, port: int, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(10)
        self.socket.connect(("127.0.0.1", port))

    def upgrade(self, path: str, token: str) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        answer = self.http(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Extensions: permessage-deflate\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        assert answer.status == 101, answer.text
        assert "sec-websocket-extensions" not in answer.headers

    def http(self, request: bytes) -> HttpAnswer:
        self.socket.sendall(request)
        return HttpAnswer(self.socket, has_body=not request.startswith(b"HEAD "))

    def send_frame(self, opcode: int, payload: bytes, mask: bool = True, fin: bool = True) -> None:
        head = bytes([(0x80 if fin else 0) | opcode])
        bit = 0x80 if mask else 0
        if len(payload) < 126:
            head += bytes([bit | len(payload)])
        else:
            head += bytes([bit | 127]) + struct.pack(">Q", len(payload))
        # The mask 0000 leaves the payload as it is.
        self.socket.sendall(head + (bytes(4) if mask else b"") + payload)

    def receive_frame(self) -> tuple[int, bytes]:
        first, second = self._exactly(2)
        size = second & 0x7F
        if size == 126:
            size = struct.unpack(">H", self._exactly(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self._exactly(8))[0]
        return first & 0x0F, self._exactly(size)

    def receive_close_code(self) -> int | None:
        """The code of the close frame; None if the connection just ended."""
        try:
            while True:
                opcode, payload = self.receive_frame()
                if opcode == 8:
                    return struct.unpack(">H", payload[:2])[0]
        except (ConnectionError, EOFError):
            return None

    def is_closed_within(self, seconds: float) -> bool:
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data


class HttpAnswer:
    """Status, headers (lower case) and body of one HTTP answer."""

    def __init__(self, connection: socket.socket, has_body: bool = True) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            part = connection.recv(65536)
            if not part:
                break
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        self.text = head.decode()
        lines = self.text.split("\r\n")
        self.status = int(lines[0].split()[1]) if len(lines[0].split()) > 1 else 0
        pairs = (line.partition(":") for line in lines[1:])
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        while has_body and len(body) < int(self.headers.get("content-length", 0)):
            part = connection.recv(65536)
            if not part:
                break
            body += part
        self.body = body
