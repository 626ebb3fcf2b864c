"""A hub that a test plays by hand: one viewer, whose requests are kept and answered as told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hub_harness import FACTS, wait_until
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

TOKEN = "t0ken"
HELLO = {
    "version": 1, "session": "v1", "hub": "0.1.0", "run": FACTS, "control": {"holder": None},
    "state": {"phase": "training", "step": 1},
}  # fmt: skip


class FakeHub:
    """`answers` maps methods to results, or to errors with a `code`; what is missing gets {}.
    `past` are the steps that a hello is followed by. `pages` maps paths to functions from query to body and headers."""

    def __init__(self, port: int = 0) -> None:
        self.hello: dict[str, Any] = dict(HELLO)
        self.answers: dict[str, dict[str, Any]] = {}
        self.past: list[int] = []
        self.silent: set[str] = set()
        self.pages: dict[str, Callable[[dict[str, str]], tuple[bytes, dict[str, str]]]] = {}
        self.got: list[dict[str, Any]] = []
        self.viewers: list[ServerConnection] = []
        self._server = serve(
            self._talk, "127.0.0.1", port, process_request=self._answer_http, compression=None
        )
        self.port = self._server.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/#token={TOKEN}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def __enter__(self) -> FakeHub:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()

    def write_run_dir(self, folder: Path) -> Path:
        """What a client looks for."""
        url = f"http://127.0.0.1:{self.port}/"
        (folder / "hub.json").write_text(json.dumps({"url": url, "port": self.port}))
        (folder / "token").write_text(TOKEN + "\n")
        return folder

    @property
    def viewer(self) -> ServerConnection:
        """The last one that said hello."""
        wait_until(lambda: bool(self.viewers), "a hello")
        return self.viewers[-1]

    def named(self, method: str) -> list[dict[str, Any]]:
        """The params of all requests and notifications of this name."""
        found = [m for m in list(self.got) if m.get("method", m.get("event")) == method]
        return [message.get("params", {}) for message in found]

    def hang_up(self) -> None:
        """As a network does."""
        self.viewer.socket.close()

    def tell(self, event: str, **params: Any) -> None:
        self.viewer.send(json.dumps({"event": event, "params": params}))

    def _talk(self, connection: ServerConnection) -> None:
        try:
            for text in connection:
                self._answer(connection, json.loads(text))
        except ConnectionClosed:
            pass

    def _answer(self, connection: ServerConnection, message: dict[str, Any]) -> None:
        self.got.append(message)
        method = message.get("method")
        if method is not None and method not in self.silent:
            given = self.hello if method == "hello" else self.answers.get(method, {})
            kind = "error" if "code" in given else "result"
            connection.send(json.dumps({"id": message["id"], kind: given}))
        if method == "hello":
            for step in self.past:
                connection.send(json.dumps({"event": "step", "params": {"step": step, "loss": 2.5}}))
            self.viewers.append(connection)

    def _answer_http(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return connection.respond(401, "a token is needed\n")
        address = urlsplit(request.path)
        if address.path == "/ws":
            return None
        if address.path not in self.pages:
            return connection.respond(404, "not found\n")
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        body, headers = self.pages[address.path](query)
        given = Headers({"Content-Length": str(len(body)), "Connection": "close", **headers})
        return Response(200, "OK", given, body)
