"""A live run of the program and a viewer of it, speaking docs/protocol.md through `websockets`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from decoder import Record, decode
from program import Flags, command, environment
from websockets.sync.client import ClientConnection, connect

HUB_ENDS = 10.0  # seconds; what a machine with other work may need


class RequestError(Exception):
    """The hub or the trainer refused a request; `code` is the protocol's error code."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.remedy: str = error["remedy"]


class Viewer:
    """One connection. Everything that arrives is kept, in order, in `events` and `records`."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._next_id = 1
        self._answers: dict[int, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.records: list[Record] = []
        self.hello = self.request(
            "hello", {"versions": [1], "role": "viewer", "client": "oracle tests"}
        )

    def request(
        self, method: str, params: dict[str, Any] | None = None, timeout: float = 30
    ) -> dict[str, Any]:
        """Sends a request and waits for its answer's result; raises RequestError."""
        return self.result_of(self.start(method, params), method, timeout)

    def start(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Sends a request; its number."""
        number, self._next_id = self._next_id, self._next_id + 1
        message: dict[str, Any] = {"id": number, "method": method}
        if params is not None:
            message["params"] = params
        self._connection.send(json.dumps(message))
        return number

    def result_of(self, number: int, what: str, timeout: float = 30) -> dict[str, Any]:
        """Waits for the answer to a request that was started; raises RequestError."""
        self.wait_for(lambda: number in self._answers, f"the answer to {what}", timeout)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RequestError(answer["error"])
        return answer["result"]

    def wait_for(self, condition: Callable[[], bool], what: str, timeout: float = 60) -> None:
        """Receives until the condition holds."""
        end = time.monotonic() + timeout
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{what} did not come within {timeout} s")
            self._receive(left)

    def drain(self, seconds: float) -> None:
        """Receives whatever comes within this time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._receive(left)

    def _receive(self, timeout: float) -> None:
        try:
            message = self._connection.recv(timeout=timeout)
        except TimeoutError:
            return
        if isinstance(message, bytes):
            self.records += decode(message, self.run)
            return
        content = json.loads(message)
        if "id" in content:
            assert content["id"] not in self._answers, f"answered twice: {content}"
            self._answers[content["id"]] = content
        else:
            self.events.append(content)

    @property
    def run(self) -> dict[str, Any] | None:
        """The run's facts, once the trainer has told the hub."""
        return next(reversed(self.named("run")), self.hello["run"])

    def named(self, event: str) -> list[dict[str, Any]]:
        """The params of all notifications of this name so far."""
        return [e["params"] for e in self.events if e["event"] == event]

    def steps(self) -> list[int]:
        """The steps that `step` notifications told of so far."""
        return [params["step"] for params in self.named("step")]


class LiveRun:
    """A running trainer with its hub."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.run_dir = folder / "run"

    def output(self) -> str:
        """The end of what the run has printed so far."""
        return (self.folder / "output.txt").read_text(errors="replace")[-4000:]

    def memory_mib(self) -> dict[int, float]:
        """Resident memory of every rank and the hub, by process."""
        found = {}
        for folder in Path("/proc").iterdir():
            try:
                line = (folder / "cmdline").read_bytes()
                if str(self.run_dir).encode() in line and b"tensor-tracer" in line.split(b"\0")[0]:
                    pages = int((folder / "statm").read_text().split()[1])
                    found[int(folder.name)] = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
            except (OSError, IndexError, ValueError):
                continue
        return found

    def wait(self, timeout: float = 60) -> None:
        """Waits for the run's own end, which must be a good one, and for its hub's: the recording is whole."""
        code = self.process.wait(timeout)
        assert code == 0, f"exit code {code}\n{self.output()}"
        end = time.monotonic() + HUB_ENDS
        while left := self.memory_mib():
            assert time.monotonic() < end, f"after {HUB_ENDS} s processes of the run are left: {list(left)}"
            time.sleep(0.02)

    def address(self, timeout: float = 90) -> str:
        """host:port of the hub, as soon as it has one."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            assert self.process.poll() is None, f"the run ended early\n{self.output()}"
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError, KeyError):
                port = json.loads((self.run_dir / "hub.json").read_text())["port"]
                if port and (self.run_dir / "token").is_file():
                    return f"127.0.0.1:{port}"
            time.sleep(0.05)
        raise TimeoutError(f"no hub after {timeout} s\n{self.output()}")

    @contextlib.contextmanager
    def viewer(self, max_queue: int | None = None) -> Iterator[Viewer]:
        """A new viewer that has said hello. `max_queue`: so many messages that it has not looked at
        are taken from the socket; all by default."""
        address = self.address()
        token = (self.run_dir / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        with connect(
            f"ws://{address}/ws", additional_headers=headers, max_size=None, max_queue=max_queue
        ) as connection:
            viewer = Viewer(connection)
            viewer.wait_for(lambda: viewer.run is not None, "the trainer")
            yield viewer


def assert_memory_is_flat(samples: list[dict[int, float]]) -> None:
    """No process's largest sample of the second half is above the first half's."""
    half = len(samples) // 2
    for process in samples[0]:
        early = max(sample[process] for sample in samples[:half])
        late = max(sample[process] for sample in samples[half:])
        assert late <= early * 1.05 + 4, (process, early, late)


@contextlib.contextmanager
def live_run(flags: Flags, folder: Path, ranks: int = 1) -> Iterator[LiveRun]:
    """Starts training with a hub on a free port; it waits for the first viewer."""
    folder.mkdir(parents=True, exist_ok=True)
    served = dict(flags) | {
        "run_dir": str(folder / "run"),
        "log_format": "json",
        "tensor_tracer_port": 0,
        "tensor_tracer_wait": True,
    }
    with open(folder / "output.txt", "wb") as output:
        process = subprocess.Popen(
            command(served, ranks), env=environment(), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield LiveRun(process, folder)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
