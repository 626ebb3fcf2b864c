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
    `timeout`: for connecting and for history, in seconds.
    """
    if (url is None) == (run_dir is None):
        raise ValueError("connect: give either url or run_dir")
    if url is not None and (url.startswith("/") or Path(url).is_dir()):
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
    given = urllib.parse.parse_qs(fragment).get("token", [""])[0]
    address = address if "://" in address else f"http://{address}"
    address = re.sub("^ws", "http", address).rstrip("/").removesuffix("/ws")
    return Run(Endpoint(address, token or given, timeout), window, reconnect, check)
