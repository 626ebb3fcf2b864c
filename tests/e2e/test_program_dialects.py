"""Legacy clients of a real run: what they get is what a native viewer of the same run gets."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import tiny_flags, write_text
from test_program import wait_until
from viewer import live_run
from websockets.sync.client import ClientConnection, connect

STEPS, MICRO_BATCHES, LAYERS = 3, 2, 2
TILE = {"compressor_type": "TileCompressor", "compressor_configs": {"tiles": 96}}
TENSOR_TRACER: dict[str, Any] = {
    "type": "run_training_step",
    "visualization_flags": {"InputTokens": "True", "QKV_mat_mul": "true", "HiddenStates": True},
    "compressor_config": {
        "QKV_mat_mul": TILE,
        "HiddenStates": {"compressor_type": "NoOpCompressor", "compressor_configs": {}},
    },
}
MEGASCOPE: dict[str, Any] = {
    "type": "run_training_step",
    "visualization_flags": {"QKV_mat_mul": "True", "RawAttentionScore_mat_mul": "True"},
    "disturbance_configs": {"weight_perturbation": False},
    "compressor_config": {
        "QKV": {"pixels": 12, "method": "data.abs().amax(dim=-1)"},
        "MLP": {"pixels": 5, "method": "data.mean(dim=-1)"},
    },
}
# Update types of one forward pass: before the layers, and in each.
ORDERS = {"tensor tracer": ([8], [1, 7]), "megascope": ([], [1, 2, 4, 5])}


def read_updates(socket: ClientConnection, count: int) -> tuple[list[dict[str, Any]], int]:
    """So many updates, and the number of `start`s between them."""
    updates, starts = [], 0
    while len(updates) < count:
        message = json.loads(socket.recv(30))
        if message["type"] == "update":
            updates.append(message)
        else:
            assert message["type"] == "start"
            starts += 1
    return updates, starts


@pytest.mark.parametrize(
    ("request_", "name"), [(TENSOR_TRACER, "tensor tracer"), (MEGASCOPE, "megascope")]
)
def test_a_run_that_waits_starts_and_sends_what_it_computed(
    request_: dict[str, Any], name: str, tmp_path: Path
) -> None:
    first, each = ORDERS[name]
    flags = tiny_flags(write_text(tmp_path / "text.txt"))
    flags |= {"train_iters": STEPS, "record": str(tmp_path)}
    with live_run(flags, tmp_path / "run") as run:
        token_file = run.run_dir / "token"
        address = run.address()
        headers = {"Authorization": f"Bearer {token_file.read_text().strip()}"}
        with connect(f"ws://{address}/", additional_headers=headers) as socket:
            socket.send(json.dumps(request_))
            start = json.loads(socket.recv(30))
            assert start == {"type": "start", "micro_batch_size": 4, "seq_length": 32,
                             "num_layers": LAYERS}  # fmt: skip
            passes = STEPS * MICRO_BATCHES
            socket.send(json.dumps(request_))
            updates, starts = read_updates(socket, passes * (len(first) + LAYERS * len(each)))
        run.wait()
    trail = sqlite3.connect(tmp_path / "run.ttrec")


    def asked() -> int:
        return int(trail.execute("SELECT count(*) FROM events WHERE kind = 'plan.set'").fetchone()[0])

    wait_until(lambda: asked() > 0, 10, "the hub's last commit")
    assert (starts, asked()) == (1, 1), "the trainer writes a plan back as the hub writes it"
    for begin in range(0, len(updates), len(updates) // passes):
        one = updates[begin : begin + len(updates) // passes]
        assert sorted((u["layer_id"], u["update_type"]) for u in one) == sorted(
            [(0, flag) for flag in first]
            + [(layer, flag) for layer in range(1, LAYERS + 1) for flag in each]
        )
    for update in updates:
        check_form(name, update)


def check_form(name: str, update: dict[str, Any]) -> None:
    numbers = np.array(update["result"])
    assert np.isfinite(numbers).all()
    args = update["args"]
    if name == "tensor tracer":
        expected = {8: [2, 4, 32], 1: [4, 32, 96], 7: [4, 32, 32]}[update["update_type"]]
        assert args == expected and numbers.size == np.prod(args)
        if update["update_type"] == 8:
            assert (numbers.reshape(args)[1] == np.arange(32)).all()
    elif update["update_type"] == 2:
        assert args == [4, 32, 32]
        rows = numbers.reshape(4, *args).sum(axis=-1)
        np.testing.assert_allclose(rows, 1, atol=1e-5)
    else:
        pixels = {1: 12, 4: 5, 5: 5}[update["update_type"]]
        assert args == [32] and numbers.size == 4 * 32 * pixels
