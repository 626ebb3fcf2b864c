"""The run directory: one live run at a time, private tokens, and what the hub does where it cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_link import Trainer


@pytest.mark.parametrize("name", ["token", "worker_token"])
def test_a_token_that_others_may_read_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("0123456789abcdef" * 4)
    (tmp_path / name).chmod(0o666)
    error = Trainer(tmp_path).said["error"]
    assert error["code"] == "invalid_secret" and error["where"] == str(tmp_path / name)
    assert "0666" in error["message"] and "delete the file" in error["remedy"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_token_of_another_user_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef" * 4)
    token.chmod(0o600)
    os.chown(token, 12345, -1)
    error = Trainer(tmp_path).said["error"]
    assert error["code"] == "invalid_secret" and "12345" in error["message"]
