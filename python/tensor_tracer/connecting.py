"""Connects to a live run."""

from __future__ import annotations

import json
import re
import urllib.parse
from pathlib import Path

from tensor_tracer.endpoint import Endpoint
from tensor_tracer.errors import ConnectionLost
from tensor_tracer.run import Run


def connect(
    url: str | None = None, *, run_dir: str | Path | None = None, token: str | None = None,
    window: int | None = 64, reconnect: float = False, check: bool = True, timeout: float = 10.0,
) -> Run:  # fmt: skip
    """Connects to a live run, by its directory or by the address that the trainer printed.

    `window`: the number of binary messages that may be on the way or wait in the client; beyond it,
    the hub keeps only the latest record of each key. None: no limit. `reconnect`: the seconds during
    which the client looks for a lost hub; True: 300. `check`: verify the checksums of payloads.
    `timeout`: for connecting and for history, in seconds. Raises ValueError for a wrong address or token, and
    ConnectionLost.
    """
    if (url is None) == (run_dir is None):
        raise ValueError("connect: give either url or run_dir")
    if url and (url.startswith("/") or Path(url).is_dir()):
        raise ValueError(f"connect: {url} is a path, not an address; give it as run_dir")
    if run_dir is not None:
        folder = Path(run_dir)
        try:
            url = str(json.loads((folder / "hub.json").read_text())["url"])
            token = token or (folder / "token").read_text().strip()
        except (OSError, ValueError, KeyError) as error:
            remedy = "give the directory that the run printed; only its owner may read it"
            raise ConnectionLost("no_hub", str(error), str(folder), remedy) from error
    address, _, fragment = str(url).partition("#")
    given = (token or urllib.parse.parse_qs(fragment).get("token", [""])[0]).strip()
    if given and not re.fullmatch("[!-~]+", given):
        raise ValueError("connect: the token has a character that no token has; it is in <run_dir>/token")
    return Run(Endpoint(_base_of(address), given, timeout), window, reconnect, check)


def _base_of(address: str) -> str:
    """The address without its last part, that of the WebSocket. Raises ValueError."""
    whole = re.sub("^ws", "http", address if "://" in address else f"http://{address}")
    try:
        parts = urllib.parse.urlsplit(whole)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port
        is_address = False
    if not is_address:
        raise ValueError(f"connect: {address!r} is no address; write http://HOST:PORT/, as the trainer printed it")
    return whole.rstrip("/").removesuffix("/ws")
