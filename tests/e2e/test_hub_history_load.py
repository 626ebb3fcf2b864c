"""What many questions about the history cost the hub, and what those get that it cannot answer."""

from __future__ import annotations

import sqlite3
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from hub_harness import RUN_ID, Hub, RawSocket, big_record, running_hub, wait_until
from recording_maker import RUN_ID as OTHER_RUN
from recording_maker import Maker

pytestmark = pytest.mark.nightly(suite="attacks")

MIB = 1 << 20


def request(target: str, token: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


def ask(hub: Hub, target: str) -> tuple[int, str, str]:
    """Status, Retry-After and text."""
    asked = urllib.request.Request(
        f"http://127.0.0.1:{hub.port}{target}", headers={"Authorization": f"Bearer {hub.token}"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, "", answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Retry-After"], error.read().decode()


def ask_and_read_nothing(hub: Hub, target: str) -> RawSocket:
    connection = RawSocket(hub.port, receive_buffer=4096)
    connection.socket.settimeout(60)
    connection.socket.sendall(request(target, hub.token))
    return connection


def status_of(connection: RawSocket) -> int:
    """As soon as the answer has begun; the rest of it stays unread."""
    return int(connection.socket.recv(12).split()[1])


def test_answers_that_nobody_reads_are_bounded_together(tmp_path: Path) -> None:
    with running_hub(tmp_path) as hub:
        worker = hub.worker()
        for step in range(1, 34):
            worker.connection.send(big_record(2 * MIB, step, run=int(RUN_ID, 16), step=step))
        wait_until(lambda: '"frames":33' in ask(hub, "/history")[2], "the records", timeout=60)
        target = f"/history/records?limit={64 * MIB}"
        asked = [ask_and_read_nothing(hub, target) for _ in range(8)]
        answers = [status_of(connection) for connection in asked]
        assert answers == [200] * 5 + [503] * 3, "256 MiB, and the one that went above"
        status, retry, text = ask(hub, target)
        assert (status, retry) == (503, "1") and "too much is being sent" in text
        for connection in asked:
            connection.socket.close()
        wait_until(lambda: ask(hub, "/history/steps")[0] == 200, "room again", timeout=60)


def test_what_nobody_waits_for_is_not_read(tmp_path: Path) -> None:
    Maker(tmp_path / "other.ttrec", {"number": 1, "entries": []}).close()
    with running_hub(tmp_path, "--compare", str(tmp_path / "other.ttrec")) as hub:
        target = f"/history?run={OTHER_RUN}"
        assert ask(hub, target)[0] == 200
        locked = sqlite3.connect(tmp_path / "other.ttrec", isolation_level=None)
        locked.execute("BEGIN EXCLUSIVE")
        first = ask_and_read_nothing(hub, target)  # SQLite waits for the lock for seconds
        for _ in range(5):
            ask_and_read_nothing(hub, target).socket.close()
        status, retry, text = ask(hub, target)
        assert (status, retry) == (503, "1") and "cannot be read" in text
        assert status_of(first) == 503
        failures = hub.log().count("a query of the recording failed")
        assert failures == 2, "the first and the last"
        locked.execute("ROLLBACK")
        assert ask(hub, target)[0] == 200


@pytest.mark.smoke
def test_a_recording_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "other.ttrec"
    Maker(path, {"number": 1, "entries": []}).close()
    with running_hub(tmp_path, "--compare", str(path)) as hub:
        path.write_bytes(b"no recording")
        status, retry, text = ask(hub, f"/history?run={OTHER_RUN}")
        assert (status, retry) == (503, "1") and "cannot be read" in text
        assert "history_unreadable" in hub.log()
