"""The hub's address: opens the WebSocket and reads over HTTP."""

from __future__ import annotations

import contextlib
import importlib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

with contextlib.suppress(ImportError):  # a recording is read without websockets
    from websockets.exceptions import InvalidHandshake, InvalidStatus
    from websockets.sync.client import ClientConnection
    from websockets.sync.client import connect as open_websocket

from tensor_tracer.errors import ConnectionLost, HubError


class Endpoint:
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

    def get_if_there(self, path: str, query: Mapping[str, Any]) -> tuple[bytes, str | None]:
        """As get(); nothing while the hub has written nothing of the run."""
        try:
            return self.get(path, query)
        except HubError as error:
            if error.code == "not_found":
                return b"", None
            raise

    def get(self, path: str, query: Mapping[str, Any]) -> tuple[bytes, str | None]:
        """The body, and where the rest begins. ValueError for a path that does not begin with "/"."""
        if not path.startswith("/"):
            raise ValueError(f'get: {path!r} is no path; write "/{path}"')
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
