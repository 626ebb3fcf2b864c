"""Who gets in: tokens, Host, Origin, limits, and what the page's files come with."""

from __future__ import annotations

import itertools
import json
import os
import stat
import time
from pathlib import Path

import pytest
from hub_harness import RUN_ID, Hub, RawSocket, running_hub, sanitized

UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)


def ask(hub: Hub, line: str, headers: str = "", host: str | None = "localhost", body: str = ""):
    """One request on a connection of its own."""
    connection = RawSocket(hub.port)
    host_line = "" if host is None else f"Host: {host}\r\n"
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    answer = connection.http(
        f"{line} HTTP/1.1\r\n{host_line}{headers}{length}\r\n{body}".encode()
    )
    connection.socket.close()
    return answer


GOOD_HOSTS = ["localhost", "localhost:9000", "127.0.0.1:8765", "[::1]", "[::1]:80", "LocalHost:1"]
BAD_HOSTS = [
    None, "", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2",
    "localhost:", "localhost:123456", "localhost:80x", "[::2]", "0.0.0.0", "a@localhost",
]  # fmt: skip


@pytest.mark.parametrize("path", ["/ws", "/worker"])
def test_host_and_origin_matrix(hub: Hub, path: str) -> None:
    token = hub.token if path == "/ws" else hub.worker_token
    auth = f"Authorization: Bearer {token}\r\n"
    cases = 0
    for host in GOOD_HOSTS:
        origins = {
            None: 101,
            f"http://{host}": 101,
            f"https://{host}": 403,
            "null": 403,
            "": 403,
            "http://evil.example": 403,
            f"http://{host}.evil.example": 403,
            f"http://{host}1": 403,
        }
        for origin, expected in origins.items():
            header = "" if origin is None else f"Origin: {origin}\r\n"
            answer = ask(hub, f"GET {path}", UPGRADE + auth + header, host)
            assert answer.status == expected, (host, origin, answer.text)
            cases += 1
    for host in BAD_HOSTS:
        answer = ask(hub, f"GET {path}", UPGRADE + auth, host)
        assert answer.status in (400, 403), (host, answer.text)
        cases += 1
    assert cases == 60


def test_two_host_headers_are_refused(hub: Hub) -> None:
    auth = f"Authorization: Bearer {hub.token}\r\n"
    twice = ask(hub, "GET /ws", UPGRADE + auth + "Host: evil.example\r\n")
    assert twice.status in (400, 403)


def test_every_route_needs_the_right_token(hub: Hub) -> None:
    tokens = {"none": None, "viewer": hub.token, "worker": hub.worker_token, "wrong": "0" * 64,
              "empty": "", "prefix": hub.token[:-1]}  # fmt: skip
    right = {("/ws", "viewer"), ("/worker", "worker")}
    for path, (name, token) in itertools.product(["/ws", "/worker"], tokens.items()):
        auth = "" if token is None else f"Authorization: Bearer {token}\r\n"
        allowed = (path, name) in right
        assert ask(hub, f"GET {path}", UPGRADE + auth).status == (101 if allowed else 401), name
        assert ask(hub, f"GET {path}", auth).status == (426 if allowed else 401), name
        query = ask(hub, f"GET {path}?token={token}", UPGRADE)
        assert query.status == 401, "a token in the address must not count"


def test_foreign_pages_get_nothing_at_all(hub: Hub) -> None:
    for line in ["GET /", "GET /healthz", "POST /auth", "GET /ws"]:
        assert ask(hub, line, "Origin: http://evil.example\r\n").status == 403
        assert ask(hub, line, host="evil.example").status == 403


def test_auth_gives_a_cookie_that_opens_the_viewers_socket(hub: Hub) -> None:
    answer = ask(hub, "POST /auth", body=json.dumps({"token": hub.token}))
    assert answer.status == 204
    name_value, *attributes = [part.strip() for part in answer.headers["set-cookie"].split(";")]
    assert name_value.split("=")[0] == f"tt-{RUN_ID}"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    cookie = f"Cookie: other=1; {name_value}\r\n"
    assert ask(hub, "GET /ws", UPGRADE + cookie).status == 101
    assert ask(hub, "GET /worker", UPGRADE + cookie).status == 401
    assert ask(hub, "GET /ws", UPGRADE + f"Cookie: tt-other={hub.token}\r\n").status == 401


@pytest.mark.parametrize(
    "body", ["", "{", "[]", '"x"', '{"token": 1}', '{"token": "wrong"}', "[" * 3000]
)
def test_auth_refuses(hub: Hub, body: str) -> None:
    answer = ask(hub, "POST /auth", body=body)
    assert answer.status == 401 and "set-cookie" not in answer.headers


def test_auth_of_too_many_bytes_is_refused(hub: Hub) -> None:
    assert ask(hub, "POST /auth", body="x" * 5000).status == 400
    assert ask(hub, "GET /", "X: " + "y" * 9000 + "\r\n").status == 400


def test_token_files_are_private_and_the_token_is_nowhere_else(hub: Hub) -> None:
    for name in ["token", "worker_token", "hub.json", "hub.log"]:
        mode = stat.S_IMODE(os.stat(hub.run_dir / name).st_mode)
        assert mode == 0o600, (name, oct(mode))
    hub.viewer()
    ask(hub, "POST /auth", body=json.dumps({"token": hub.token}))
    process = Path(f"/proc/{hub.process.pid}")
    for text in [hub.log(), (hub.run_dir / "hub.json").read_text(),
                 (process / "cmdline").read_text(), (process / "environ").read_text()]:  # fmt: skip
        assert hub.token not in text and hub.worker_token not in text
    assert len(hub.token) == 64 and len(hub.worker_token) == 64


def test_it_listens_on_loopback_only(hub: Hub) -> None:
    listening = [
        line.split()[1].split(":")
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    ]
    assert [ip for ip, port in listening if int(port, 16) == hub.port] == ["0100007F"]
    assert all(
        int(line.split()[1].split(":")[1], 16) != hub.port
        for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]
    )


def test_page_files(tmp_path: Path) -> None:
    page = tmp_path / "dist"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("<!doctype html>page")
    (page / "assets" / "index-a_B1.js").write_text("let x")
    (page / ".hidden").write_text("no")
    (tmp_path / "outside.txt").write_text("no")
    with running_hub(tmp_path / "run", "--page-dir", str(page)) as hub:
        index = ask(hub, "GET /", host="localhost:8765")
        assert index.status == 200 and index.body == b"<!doctype html>page"
        assert index.headers["content-type"] == "text/html; charset=utf-8"
        policy = index.headers["content-security-policy"]
        for part in ["default-src 'self'", "frame-ancestors 'none'", "worker-src 'self' blob:",
                     "img-src 'self' data: blob:", "connect-src 'self' ws://localhost:8765;"]:  # fmt: skip
            assert part in policy
        assert index.headers["x-content-type-options"] == "nosniff"
        assert index.headers["referrer-policy"] == "no-referrer"
        script = ask(hub, "GET /assets/index-a_B1.js?v=1")
        assert script.status == 200 and script.headers["content-type"].startswith("text/javascript")
        head = ask(hub, "HEAD /")
        assert head.status == 200 and head.headers["content-length"] == "19" and head.body == b""
        for path in ["/.hidden", "/../outside.txt", "/assets/../../outside.txt", "/%2e%2e/outside.txt",
                     "/assets", "/assets/", "//etc/passwd", "/nothing", "/assets/.."]:  # fmt: skip
            assert ask(hub, f"GET {path}").status == 404, path
        for line in ["POST /", "DELETE /", "GET /auth", "PUT /healthz"]:
            assert ask(hub, line).status == 405, line
        assert json.loads(ask(hub, "GET /healthz").body) == {"status": "ok"}


def test_the_sixty_fifth_client_is_refused_and_a_free_place_is_given_again(hub: Hub) -> None:
    auth = f"Authorization: Bearer {hub.token}\r\n"
    open_sockets = []
    for _ in range(64):
        connection = RawSocket(hub.port)
        connection.upgrade("/ws", hub.token)
        open_sockets.append(connection)
    assert ask(hub, "GET /ws", UPGRADE + auth).status == 503
    assert ask(hub, "GET /healthz").status == 200
    open_sockets.pop().socket.close()
    time.sleep(0.2)
    assert ask(hub, "GET /ws", UPGRADE + auth).status == 101


def test_half_open_connections_keep_nobody_out_and_are_cut_off(hub: Hub) -> None:
    idle = [RawSocket(hub.port) for _ in range(200)]
    for connection in idle[::2]:
        connection.socket.sendall(b"GET / HT")
    start = time.monotonic()
    assert ask(hub, "GET /healthz").status == 200
    assert time.monotonic() - start < 1
    assert all(connection.is_closed_within(7) for connection in idle)


@pytest.mark.skipif(sanitized(), reason="the sanitizers need descriptors of their own")
def test_out_of_descriptors_passes(tmp_path: Path) -> None:
    import resource

    with running_hub(tmp_path / "run") as hub:
        resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE, (24, 24))
        idle = [RawSocket(hub.port) for _ in range(40)]
        time.sleep(0.3)
        assert hub.process.poll() is None
        for connection in idle:
            connection.socket.close()
        assert ask(hub, "GET /healthz").status == 200
        assert "could not be accepted" in hub.log()
