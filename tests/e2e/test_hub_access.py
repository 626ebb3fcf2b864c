"""Who gets in: tokens, Host, Origin, limits, and what the page's files come with."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest
from hub_harness import (REPOSITORY, RUN_ID, Hub, Peer, RawSocket, binary, claim, error_code,
                         running_hub, sanitized)
from websockets.sync.client import connect

UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)


def ask(hub: Hub, line: str, headers: str = "", host: str | None = "localhost", body: str = ""):
    """One request on a new connection."""
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
    tokens = {"none": None, "control": hub.token, "view": hub.viewer_token, "worker": hub.worker_token, "wrong": "0" * 64,
              "empty": "", "prefix": hub.token[:-1]}  # fmt: skip
    right = {("/ws", "control"), ("/ws", "view"), ("/worker", "worker")}
    for path, (name, token) in itertools.product(["/ws", "/worker"], tokens.items()):
        auth = "" if token is None else f"Authorization: Bearer {token}\r\n"
        allowed = (path, name) in right
        assert ask(hub, f"GET {path}", UPGRADE + auth).status == (101 if allowed else 401), name
        assert ask(hub, f"GET {path}", auth).status == (426 if allowed else 401), name
        query = ask(hub, f"GET {path}?x=1&token={token}", UPGRADE)
        assert query.status == (101 if allowed and path == "/ws" else 401), (path, name)


ROUTES = {
    "/": "page", "/nothing": "page", "/assets/x.js": "page", "/healthz": "open",
    "/readyz": "viewer", "/metrics": "viewer", "/history": "viewer", "/history/runs": "viewer",
    "/history/steps": "viewer", "/history/events": "viewer", "/history/records": "viewer",
    "/auth": "page", "/ws": "viewer", "/worker": "worker",
}  # fmt: skip


def test_every_path_of_the_hub_is_in_the_table_below() -> None:
    found: set[str] = set()
    for source in (REPOSITORY / "src/hub").rglob("*.cpp"):
        found |= set(re.findall(r'"(/(?!proc/)[a-z]*(?:/[a-z]+)*)"', source.read_text()))
    assert len(found) >= 10 and found <= ROUTES.keys(), found - ROUTES.keys()


@pytest.mark.parametrize("route", ROUTES)
def test_no_route_tells_anything_without_its_token(hub: Hub, route: str) -> None:
    kind = ROUTES[route]
    tokens = {"viewer": hub.viewer_token, "worker": hub.worker_token}
    for given in [None, "viewer", "worker", "wrong"]:
        token = tokens.get(given or "", "0" * 64)
        auth = "" if given is None else f"Authorization: Bearer {token}\r\n"
        for upgrade in ["", UPGRADE]:
            answer = ask(hub, f"GET {route}", upgrade + auth)
            if upgrade and route == "/":  # where clients of the legacy dialects connect
                assert (answer.status == 401) == (given != "viewer"), (given, answer.text)
            elif upgrade and route not in ("/ws", "/worker"):
                assert answer.status == 404, answer.text
            elif kind in tokens:
                assert (answer.status == 401) == (given != kind), (given, answer.text)
            else:
                assert answer.status in ((200,) if kind == "open" else (200, 404, 405)), answer.text
            assert ask(hub, f"GET {route}", upgrade + auth, host="evil.example").status == 403
        for method in ["HEAD", "POST", "DELETE"]:
            answer = ask(hub, f"{method} {route}", auth)
            refused = kind in tokens and given != kind
            assert (answer.status == 401) == (refused or (method, route) == ("POST", "/auth")), method


def test_the_first_token_that_is_there_decides(hub: Hub) -> None:
    good, bad = f"tt-{RUN_ID}={hub.token}", f"tt-{RUN_ID}={'0' * 64}"
    assert ask(hub, "GET /readyz?token=x", f"Cookie: {good}\r\n").status == 401
    assert ask(hub, f"GET /readyz?token={hub.token}", f"Cookie: {bad}\r\n").status == 503
    bearer = "Authorization: Bearer x\r\n"
    assert ask(hub, f"GET /readyz?token={hub.token}", bearer).status == 401


def test_a_viewer_token_views_and_a_token_controls(hub: Hub) -> None:
    watcher = hub.viewer(token=hub.viewer_token)
    assert watcher.hello["result"]["may_control"] is False
    refused = watcher.request("control.claim", {"name": "Eve", "take_over": True})
    assert error_code(refused) == "not_allowed"
    assert error_code(watcher.request("control.pause")) == "not_controller"
    assert "result" in claim(hub.viewer())
    assert watcher.request("ping")["result"] == {}


def test_auth_gives_each_token_its_own_right(hub: Hub) -> None:
    for token, right in [(hub.token, True), (hub.viewer_token, False)]:
        answer = ask(hub, "POST /auth", body=json.dumps({"token": token}))
        cookie = answer.headers["set-cookie"].split(";")[0]
        with connect(
            f"ws://127.0.0.1:{hub.port}/ws", additional_headers={"Cookie": cookie}
        ) as socket:
            peer = Peer(socket)
            hello = peer.request("hello", {"versions": [1], "role": "viewer"})
            assert hello["result"]["may_control"] is right


def test_wrong_tokens_are_slowed_down_and_right_ones_never(hub: Hub) -> None:
    def status(token: str) -> int:
        return ask(hub, "POST /auth", body=json.dumps({"token": token})).status

    assert [status("0" * 64) for _ in range(12)] == [401] * 10 + [429] * 2
    limited = ask(hub, "POST /auth", body="{}")
    assert limited.status == 429 and 50 <= int(limited.headers["retry-after"]) <= 60
    assert status(hub.token) == 204 and status(hub.viewer_token) == 204


def test_a_viewer_that_floods_is_refused_and_then_closed(hub: Hub) -> None:
    good = hub.viewer()
    flood = hub.viewer()
    numbers = [flood.start_request("ping") for _ in range(400)]
    codes = ["ok" if "result" in (a := flood.answer_to(n)) else error_code(a) for n in numbers]
    assert codes[:199] == ["ok"] * 199, "a burst"
    assert "rate_limited" in codes[200:] and set(codes) == {"ok", "rate_limited"}
    assert good.request("ping")["result"] == {}
    stubborn = RawSocket(hub.port)
    stubborn.upgrade("/ws", hub.token)
    for _ in range(3000):
        stubborn.send_frame(1, b'{"event": "ack"}')
    assert stubborn.receive_close_code() == 1008
    assert good.request("ping")["result"] == {}


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
    for name in ["token", "viewer_token", "worker_token", "hub.json", "hub.log"]:
        mode = stat.S_IMODE(os.stat(hub.run_dir / name).st_mode)
        assert mode == 0o600, (name, oct(mode))
    hub.viewer()
    ask(hub, "POST /auth", body=json.dumps({"token": hub.token}))
    process = Path(f"/proc/{hub.process.pid}")
    for text in [hub.log(), (hub.run_dir / "hub.json").read_text(),
                 (process / "cmdline").read_text(), (process / "environ").read_text()]:  # fmt: skip
        assert hub.token not in text and hub.worker_token not in text
    assert len(hub.token) == 64 and len(hub.worker_token) == 64


def listening_on(port: int) -> set[str]:
    """The addresses, as the kernel writes them."""
    found = set()
    for table in ["tcp", "tcp6"]:
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            address, local_port = line.split()[1].split(":")
            if line.split()[3] == "0A" and int(local_port, 16) == port:
                found.add(address)
    return found


LOOPBACK_4, LOOPBACK_6 = "0100007F", "00000000000000000000000001000000"


def has_ipv6_loopback() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


def test_it_listens_on_loopback_only(hub: Hub) -> None:
    expected = {LOOPBACK_4, LOOPBACK_6} if has_ipv6_loopback() else {LOOPBACK_4}
    assert listening_on(hub.port) == expected


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no ::1")
def test_it_serves_on_ipv6_too(hub: Hub) -> None:
    with socket.create_connection(("::1", hub.port), 5) as connection:
        connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: [::1]:{hub.port}\r\n\r\n".encode())
        assert b" 200 " in connection.recv(4096)
    uri = f"ws://[::1]:{hub.port}/ws?token={hub.token}"
    with connect(uri, origin=f"http://[::1]:{hub.port}") as opened:
        assert "result" in Peer(opened).request("hello", {"versions": [1], "role": "viewer"})


def test_bind_opens_other_addresses_and_says_what_that_means(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with (tmp_path / "stderr").open("w") as told:
        saved = os.dup(2)
        os.dup2(told.fileno(), 2)
        try:
            hub = Hub(tmp_path / "run", "--bind", "0.0.0.0", "--allow-host", "hub.example")
        finally:
            os.dup2(saved, 2)
            os.close(saved)
    warning = (tmp_path / "stderr").read_text()
    assert "not encrypted" in warning and "ssh -L" in warning and hub.token not in warning
    assert "00000000" in listening_on(hub.port)
    auth = f"Authorization: Bearer {hub.token}\r\n"
    for host, status in [("hub.example:1", 101), (socket.gethostname(), 101),
                         ("localhost", 101), ("evil.example", 403), ("10.9.8.7", 403)]:  # fmt: skip
        assert ask(hub, "GET /ws", UPGRADE + auth, host).status == status, host
    page = ask(hub, "GET /", host="hub.example:1")
    assert "connect-src 'self' ws://hub.example:1;" in page.headers["content-security-policy"]
    assert ask(hub, "GET /ws", UPGRADE).status == 401
    hub.stop()


@pytest.mark.parametrize(("flags", "named"), [
    (["--auth", "none", "--bind", "0.0.0.0"], ["--auth none", "--bind"]),
    (["--auth", "none", "--bind", "::"], ["--auth none", "--bind"]),
    (["--auth", "perhaps"], ["--auth"]),
    (["--bind", "nowhere"], ["--bind", "nowhere"]),
    (["--bind", "192.0.2.1"], ["--bind", "192.0.2.1"]),
    (["--allow-origin", "*"], ["--allow-origin"]),
    (["--allow-host", "http://x"], ["--allow-host"]),
])  # fmt: skip
def test_what_cannot_be_is_refused_by_name(
    tmp_path: Path, flags: list[str], named: list[str]
) -> None:
    command = [str(binary()), "serve", "--run-dir", str(tmp_path), "--port", "0", *flags]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=10)
    assert ended.returncode == 2, ended.stderr
    assert all(name in ended.stderr for name in named), ended.stderr


def test_without_auth_viewers_need_no_token_and_all_else_holds(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--auth", "none") as hub:
        assert "token" not in hub.printed
        with connect(f"ws://127.0.0.1:{hub.port}/ws") as opened:
            peer = Peer(opened)
            hello = peer.request("hello", {"versions": [1], "role": "viewer"})
            assert hello["result"]["may_control"] is True
            assert "result" in claim(peer)
        assert ask(hub, "GET /metrics").status == 200
        assert ask(hub, "GET /worker", UPGRADE).status == 401
        assert ask(hub, "GET /ws", UPGRADE, "evil.example").status == 403
        assert ask(hub, "GET /ws", UPGRADE + "Origin: http://evil.example\r\n").status == 403
        assert hub.viewer(token=hub.viewer_token).hello["result"]["may_control"] is False


def test_allowed_origins_and_no_others(tmp_path: Path) -> None:
    flags = ["--allow-origin", "http://localhost:5173", "--allow-origin", "https://a.example"]
    with running_hub(tmp_path / "run", *flags) as hub:
        auth = f"Authorization: Bearer {hub.token}\r\n"
        for origin, status in {
            "http://localhost:5173": 101, "https://a.example": 101, "http://a.example": 403,
            "http://localhost:5174": 403, "null": 403, "http://localhost": 101,
        }.items():  # fmt: skip
            answer = ask(hub, "GET /ws", f"{UPGRADE}{auth}Origin: {origin}\r\n")
            assert answer.status == status, origin
        allowed = "Origin: https://a.example\r\n"
        assert ask(hub, "GET /ws", UPGRADE + allowed).status == 401, "the token is still needed"


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


def test_who_only_watches_leaves_places_for_who_controls(hub: Hub) -> None:
    watchers = []
    for _ in range(60):
        watchers.append(RawSocket(hub.port))
        watchers[-1].upgrade("/ws", hub.viewer_token)
    bearer = "Authorization: Bearer "
    assert ask(hub, "GET /ws", UPGRADE + f"{bearer}{hub.viewer_token}\r\n").status == 503
    controllers = [RawSocket(hub.port) for _ in range(4)]
    for controller in controllers:
        controller.upgrade("/ws", hub.token)
    assert ask(hub, "GET /ws", UPGRADE + f"{bearer}{hub.token}\r\n").status == 503


def test_half_open_connections_keep_nobody_out_and_are_cut_off(hub: Hub) -> None:
    idle = [RawSocket(hub.port) for _ in range(200)]
    for connection in idle[::2]:
        connection.socket.sendall(b"GET / HT")
    start = time.monotonic()
    assert ask(hub, "GET /healthz").status == 200
    assert time.monotonic() - start < 1
    assert all(connection.is_closed_within(7) for connection in idle)


@pytest.mark.skipif(sanitized(), reason="the sanitizers need more descriptors")
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
