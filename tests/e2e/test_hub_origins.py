"""Who may connect (SEC-2): host x origin as an attacker or an ssh tunnel makes them, token, role.

`test_hub_access.py` holds the forms of Host and Origin; here each meets every token on both paths.
`frontend/e2e/live_foreign.spec.ts` tries the same with a page in Chromium.
"""

from __future__ import annotations

import pytest
from hub_harness import RUN_ID, Hub, RawSocket
from raw_websocket import UPGRADE

# name: (Host, Origin, allowed). PORT is the hub's own; 9999 stands for `ssh -L 9999:…`.
SITES: dict[str, tuple[str, str | None, bool]] = {
    "the page": ("127.0.0.1:PORT", "http://127.0.0.1:PORT", True),
    "the page as localhost": ("localhost:PORT", "http://localhost:PORT", True),
    "the page over IPv6": ("[::1]:PORT", "http://[::1]:PORT", True),
    "through ssh": ("localhost:9999", "http://localhost:9999", True),
    "through ssh by address": ("127.0.0.1:9999", "http://127.0.0.1:9999", True),
    "through ssh over IPv6": ("[::1]:9999", "http://[::1]:9999", True),
    "a program": ("127.0.0.1:PORT", None, True),
    "a program through ssh": ("localhost:9999", None, True),
    "null": ("127.0.0.1:PORT", "null", False),
    "a file": ("127.0.0.1:PORT", "file://", False),
    "an extension": ("127.0.0.1:PORT", "chrome-extension://abcdefgh", False),
    "another port": ("127.0.0.1:PORT", "http://127.0.0.1:1", False),
    "another port through ssh": ("localhost:9999", "http://localhost:PORT", False),
    "another name of loopback": ("127.0.0.1:PORT", "http://localhost:PORT", False),
    "IPv6 for IPv4": ("127.0.0.1:PORT", "http://[::1]:PORT", False),
    "https": ("localhost:PORT", "https://localhost:PORT", False),
    "a foreign page": ("127.0.0.1:PORT", "http://evil.example", False),
    "a name that begins so": ("127.0.0.1:PORT", "http://127.0.0.1:PORT.evil.example", False),
    "a user part": ("127.0.0.1:PORT", "http://127.0.0.1:PORT@evil.example", False),
    "rebound name": ("evil.example:PORT", "http://evil.example:PORT", False),
    "rebound name, no origin": ("evil.example:PORT", None, False),
    "rebound name of an address": ("127.0.0.1.nip.io:PORT", "http://127.0.0.1.nip.io:PORT", False),
    "localhost with a dot": ("localhost.:PORT", "http://localhost.:PORT", False),
    "a name under localhost": ("evil.localhost:PORT", "http://evil.localhost:PORT", False),
    "any address": ("0.0.0.0:PORT", "http://0.0.0.0:PORT", False),
    "another loopback address": ("127.0.0.2:PORT", "http://127.0.0.2:PORT", False),
    "mapped IPv6": ("[::ffff:127.0.0.1]:PORT", "http://[::ffff:127.0.0.1]:PORT", False),
    "a number as address": ("2130706433:PORT", "http://2130706433:PORT", False),
}
TOKENS = ["none", "wrong", "viewer's", "worker's", "cookie", "worker's as cookie"]
RIGHT = {("/ws", "viewer's"), ("/ws", "cookie"), ("/worker", "worker's")}


def credentials(hub: Hub, token: str) -> dict[str, str]:
    return {
        "none": {},
        "wrong": {"Authorization": "Bearer " + "0" * 64},
        "viewer's": {"Authorization": f"Bearer {hub.token}"},
        "worker's": {"Authorization": f"Bearer {hub.worker_token}"},
        "cookie": {"Cookie": f"tt-{RUN_ID}={hub.token}"},
        "worker's as cookie": {"Cookie": f"tt-{RUN_ID}={hub.worker_token}"},
    }[token]


def status(hub: Hub, line: str, headers: dict[str, str]) -> int:
    connection = RawSocket(hub.port)
    lines = "".join(f"{n}: {v.replace('PORT', str(hub.port))}\r\n" for n, v in headers.items())
    answer = connection.http(f"{line} HTTP/1.1\r\n{lines}\r\n".encode())
    connection.socket.close()
    return answer.status


def site(name: str) -> tuple[dict[str, str], bool]:
    host, origin, allowed = SITES[name]
    return {"Host": host} | ({} if origin is None else {"Origin": origin}), allowed


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("path", ["/ws", "/worker"])
@pytest.mark.parametrize("name", SITES)
def test_upgrades(shared_hub: Hub, name: str, path: str, token: str) -> None:
    headers, allowed = site(name)
    headers = UPGRADE | headers | credentials(shared_hub, token)
    expected = 403 if not allowed else 101 if (path, token) in RIGHT else 401
    assert status(shared_hub, f"GET {path}", headers) == expected


@pytest.mark.parametrize("name", SITES)
def test_other_routes(shared_hub: Hub, name: str) -> None:
    """Not even the page or /healthz tell a foreign page anything."""
    headers, allowed = site(name)
    for line in ["GET /healthz", "GET /nothing"]:
        assert (status(shared_hub, line, headers) == 403) != allowed, line
