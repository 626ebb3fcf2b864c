"""What the hub of a real run tells and hides: metrics, log, and the tokens, which nobody tells; and clients
of the legacy dialects, which can set no header."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hub_harness import HubOfRun, Peer, RawSocket, claim, wait_until
from program import Flags
from run_harness import RANKS, started, two_ranks
from test_hub_access import UPGRADE, ask
from test_hub_dialects import MEGASCOPE, PING, PONG, TENSOR_TRACER
from test_hub_metrics import faults, get, scrape
from test_program import processes_naming
from viewer import LiveRun, live_run
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    return two_ranks(tmp_path_factory.mktemp("data"))


def test_metrics_and_log_of_a_run(flags: Flags, tmp_path: Path) -> None:
    with started(flags, tmp_path) as (_, hub, viewer):
        assert "result" in claim(viewer)
        stats = {"point": "HiddenStates", "compressor": {"kind": "stats"}}
        answer = viewer.request("plan.set", {"plan": {"entries": [stats]}})["result"]
        viewer.drain(1.5)
        calm = scrape(hub)
        assert faults(get(hub, "/metrics").body.decode()) == []
        # The loss of a model whose second layer gives no numbers is no number either.
        program = {"name": "break", "program": "layers[2].output *= 1e39 * 1e39", "ttl": 3}
        assert "result" in viewer.request("intervention.apply", program)
        wait_until(lambda: scrape(hub)['nonfinite_steps_total{number="loss"}'] >= 1, "a loss that is no number")
        broken = scrape(hub)
        log = [json.loads(line) for line in hub.log().splitlines()]
    assert 0 < calm['worker_send_seconds_total{rank="0"}'] < 60 and 'worker_queue_bytes{rank="0"}' in calm
    assert calm['worker_heartbeat_age_seconds{rank="0"}'] < 10
    assert calm['nonfinite_values_total{kind="NaN"}'] == calm['nonfinite_steps_total{number="loss"}'] == 0
    bad = sum(broken[f'nonfinite_values_total{{kind="{kind}"}}'] for kind in ("NaN", "+Inf", "-Inf"))
    assert bad > 0
    places = {line["event"]: (line.get("rank"), line.get("step")) for line in log}
    assert places["trainer_joined"][0] == 0
    rank, step = places["plan.set"]
    assert rank is None and 3 < step <= answer["step"]


# Tokens


def secrets_of(hub: HubOfRun) -> list[str]:
    return [hub.token, hub.viewer_token, hub.worker_token]


def try_all_ways_in(hub: HubOfRun) -> None:
    """Right and wrong ones, wherever a client may put them."""
    for secret in secrets_of(hub):
        for path in ("/ws", "/worker", "/metrics", "/history/events", "/nothing"):
            for sent in (secret, f"{secret}x"):
                ask(hub, f"GET {path}?token={sent}")
                ask(hub, f"GET {path}?token={sent}", UPGRADE)
                ask(hub, f"GET {path}", f"Authorization: Bearer {sent}\r\n")
        ask(hub, "POST /auth", body=json.dumps({"token": secret}))
        ask(hub, "GET /ws", f"{UPGRADE}Origin: http://evil.example/#{secret}\r\n")
        ask(hub, f"GET /{secret}")
        with contextlib.suppress(OSError):
            raw = RawSocket(hub.port)
            raw.upgrade(f"/ws?token={hub.token}", hub.token)
            raw.send_frame(1, f"not json {secret}".encode())


def everything_told(run: LiveRun, hub: HubOfRun, peers: list[Peer]) -> dict[str, bytes]:
    """Each text by the place it stands in, but for the files that are there to hold tokens."""
    own = {"token", "viewer_token", "worker_token", "open.html"}
    files = [path for path in run.folder.rglob("*") if path.is_file() and path.name not in own]
    told = {str(path): path.read_bytes() for path in files}
    for path in ("/metrics", "/readyz", "/healthz", "/history", "/history/events", "/history/steps"):
        told[path] = get(hub, path).body
    told["viewers"] = json.dumps([[peer.events, peer.hello] for peer in peers]).encode()
    lines = processes_naming(str(run.run_dir))
    assert len(lines) >= 2 + RANKS, lines
    told["command lines"] = "\n".join(lines).encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(run.run_dir).encode() in (process / "cmdline").read_bytes() and process.name != str(os.getpid()):
                told[f"environment of {process.name}"] = (process / "environ").read_bytes()
    return told


def test_no_token_of_a_run_is_told(flags: Flags, tmp_path: Path) -> None:
    with started({**flags, "record": str(tmp_path)}, tmp_path) as (run, hub, viewer):
        watcher = hub.viewer(token=hub.viewer_token)
        assert "result" in claim(viewer)
        viewer.request("control.pause")
        try_all_ways_in(hub)
        viewer.request("control.continue")
        viewer.drain(1.2)  # a commit
        told = everything_told(run, hub, [viewer, watcher])
        # The run's id is no secret: the search finds it where it should.
        run_id = json.loads((run.run_dir / "hub.json").read_text())["run_id"].encode()
        found = " ".join(where for where, text in told.items() if run_id in text)
        for where in ("hub.log", "run.json", "run.ttrec", "/metrics", "/history", "viewers"):
            assert where in found, where
        assert any(where.endswith("output.txt") for where in told) and any("environment" in where for where in told)
        for secret, (where, text) in itertools.product(secrets_of(hub), told.items()):
            assert len(secret) == 64 and secret.encode() not in text, where
        viewer.request("control.stop")
        run.wait()
    # The end's own files: a recording of one piece, the whole log.
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        holds = [name for name, secret in zip(("token", "viewer_token", "worker_token"), secrets_of(hub), strict=True)
                 if secret.encode() in path.read_bytes()]  # fmt: skip
        assert holds == ([path.name] if path.name.endswith("token") else ["token"] if path.name == "open.html" else [])


# Clients that can set no header


@pytest.mark.nightly(suite="dialects")
@pytest.mark.parametrize("request_", [TENSOR_TRACER, MEGASCOPE], ids=["tensor tracer", "megascope"])
@pytest.mark.parametrize("auth", ["token", "none"])
def test_legacy_clients_of_a_run(auth: str, request_: dict[str, Any], flags: Flags, tmp_path: Path) -> None:
    """As their users type it: an address with a token in it, or without one where none is needed."""
    with live_run({**flags, "tensor_tracer_auth": auth}, tmp_path, RANKS) as run:
        address = f"ws://{run.address()}/"
        token = (run.run_dir / "token").read_text().strip()
        if auth == "token":
            for wrong in ("", "?token=", f"?token={token}x", f"?Token={token}"):
                with pytest.raises(InvalidStatus) as refused, connect(address + wrong):
                    pass
                assert refused.value.response.status_code == 401, wrong
        for origin in ("http://evil.example", "null"):
            with pytest.raises(InvalidStatus) as refused, connect(f"{address}?token={token}", origin=origin):
                pass
            assert refused.value.response.status_code == 403, origin
        with connect(address + (f"?token={token}" if auth == "token" else "")) as client:
            client.send(json.dumps(PING))
            assert json.loads(client.recv(10)) == PONG
            client.send(json.dumps(request_))
            start = json.loads(client.recv(60))
            assert start["type"] == "start" and start["num_layers"] == flags["num_layers"]
            update = json.loads(client.recv(60))
            assert update["type"] == "update" and update["result"]


def test_a_run_lets_a_page_of_another_origin_in_and_tells_the_way_from_afar(
    flags: Flags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.8 22")
    page = "https://notebook.example"
    served = {**flags, "tensor_tracer_auth": "none", "tensor_tracer_allow_origin": page}
    with live_run(served, tmp_path, RANKS) as run:
        address = run.address()
        with connect(f"ws://{address}/", origin=page) as client:
            client.send(json.dumps(PING))
            assert json.loads(client.recv(10)) == PONG
        with pytest.raises(InvalidStatus) as refused, connect(f"ws://{address}/", origin=f"{page}:444"):
            pass
        assert refused.value.response.status_code == 403
        port = address.rpartition(":")[2]
        way = f"ssh -L {port}:127.0.0.1:{port} "
        wait_until(lambda: way in (tmp_path / "output.txt").read_text(), "the way from afar", 60)


@pytest.mark.nightly(suite="dialects")
def test_a_legacy_client_with_the_viewers_token_watches_only(flags: Flags, tmp_path: Path) -> None:
    with started(flags, tmp_path) as (run, hub, viewer):
        with connect(f"ws://{run.address()}/?token={hub.viewer_token}") as client:
            client.send(json.dumps(TENSOR_TRACER))
            assert json.loads(client.recv(60))["type"] == "start"
            assert json.loads(client.recv(60))["type"] == "update"
        viewer.drain(0.3)
        assert viewer.named("control") == viewer.named("plan") == [], "no lease, no plan"
