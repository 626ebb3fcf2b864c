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
from viewer import Viewer, live_run
from websockets.sync.client import ClientConnection, connect

pytestmark = pytest.mark.nightly(suite="dialects")

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


# The first example of Tensor Tracer's document.
EXAMPLE = {"tiles": 96, "method": "data.mean(dim=-1)",
           "tiles_one_rank": 96, "method_one_rank": "data.mean(dim=-1)"}  # fmt: skip
# By update type: its flag, and the last of `args` for a model of 32 hidden columns.
EVERY_FLAG = {
    1: ("QKV_mat_mul", 96), 3: ("ContextLayer_mat_mul", 32), 4: ("MLP1_mat_mul", 96),
    5: ("MLP2_mat_mul", 32), 6: ("AttentionOutput_mat_mul", 32), 7: ("HiddenStates", 32),
    8: ("InputTokens", 16),
}  # fmt: skip


def test_the_documents_example_with_every_flag(tmp_path: Path) -> None:
    """On two ranks, which hold fewer columns than tiles are asked for, and with all forwards of an evaluation."""
    flags = tiny_flags(write_text(tmp_path / "text.txt"))
    flags |= {"train_iters": 2, "tensor_model_parallel_size": 2, "eval_interval": 2, "eval_iters": 2,
              "seq_length": 16, "micro_batch_size": 2, "global_batch_size": 4}  # fmt: skip
    configs = {name: dict(EXAMPLE) for name, _ in EVERY_FLAG.values()}
    configs["HiddenStates"]["method"] = "data.abs().amax(dim=3)"
    request = {
        "type": "run_training_step",
        "visualization_flags": dict.fromkeys(configs, True),
        "compressor_config": {
            name: {"compressor_type": "TileCompressor", "compressor_configs": config}
            for name, config in configs.items()
        },
    }
    with live_run(flags, tmp_path / "run", RANKS) as run:
        address = run.address()
        headers = {"Authorization": f"Bearer {(run.run_dir / 'token').read_text().strip()}"}
        with connect(f"ws://{address}/", additional_headers=headers) as socket:
            assert ask(socket, request)["type"] == "start"
            updates = [json.loads(text) for text in socket]
        run.wait()
    passes = 2 * MICRO_BATCHES + 2 * MICRO_BATCHES
    assert len(updates) == passes * (1 + 6 * LAYERS)
    for update in updates:
        last = EVERY_FLAG[update["update_type"]][1]
        assert update["args"] == ([2, 2, last] if update["update_type"] == 8 else [2, 16, last])
        assert len(update["result"]) == np.prod(update["args"])
        assert update["update_type"] != 7 or min(update["result"]) >= 0, "the largest of absolute values"


NOISE = {
    f"{what}_perturbation{member}": value
    for what in ("weight", "calculation", "system")
    for member, value in (("", True), ("_fn", "noise1"), ("_coef", 0.01))
}
# Three matrices of each of two layers, but for the one of the whole model; one place of each layer.
PLACES = {"megascope weight": 2 * LAYERS + 1, "megascope calculation": LAYERS, "megascope system": LAYERS}
PIXELS, THIRDS_DO_NOT_FIT = 48, 50
RANKS = 2


def noisy(**more: Any) -> dict[str, Any]:
    """MegaScope's message with all three kinds of noise and other numbers of pixels."""
    compressors = {"QKV": {"pixels": THIRDS_DO_NOT_FIT, "method": "data.mean(dim=-1)"},
                   "MLP": {"pixels": PIXELS, "method": "data.mean(dim=-1)"}}  # fmt: skip
    return MEGASCOPE | {"disturbance_configs": NOISE | more, "compressor_config": compressors}


def malformed() -> list[dict[str, Any]]:
    """What left MegaScope's own ranks waiting for each other."""
    without_fn = {name: value for name, value in NOISE.items() if name != "system_perturbation_fn"}
    pixels = {"QKV": {"pixels": -3, "method": "data.mean(dim=-1)"}}
    method = {"QKV": {"pixels": 12, "method": "data.nope(dim=-1)"}}
    return [
        MEGASCOPE | {"disturbance_configs": without_fn},
        MEGASCOPE | {"disturbance_configs": NOISE | {"weight_perturbation_fn": "noise3"}},
        MEGASCOPE | {"compressor_config": pixels},
        MEGASCOPE | {"compressor_config": method},
        MEGASCOPE | {"compressor_config": []},
    ]


def ask(socket: ClientConnection, message: dict[str, Any]) -> dict[str, Any]:
    """The next answer; updates may come before it."""
    socket.send(json.dumps(message))
    while True:
        answer = json.loads(socket.recv(30))
        if answer["type"] != "update":
            return answer


def act_in(viewer: Viewer, step: int) -> dict[str, dict[str, Any]]:
    """What each program in force did in a step."""
    told = [one["programs"] for one in viewer.named("applied") if one["step"] == step]
    return {program["name"]: program for programs in told for program in programs}


def assert_all_act_once(programs: dict[str, dict[str, Any]]) -> None:
    """In every forward, on all ranks, in all layers, and wherever a place has positions on all."""
    positions = MICRO_BATCHES * 4 * 32
    assert programs.keys() == PLACES.keys()
    for name, one in programs.items():
        assert (one["forwards"], one["ranks"], one["of_ranks"]) == (MICRO_BATCHES, RANKS, RANKS), one
        assert (one["identity"], one["waiting"], one["failed"]) == (0, 0, 0), one
        assert len(one["writes"]) == PLACES[name], one
        if name != "megascope weight":
            assert {write["positions"] for write in one["writes"]} == {positions}, one


def test_noise_of_a_client_acts_and_ends(tmp_path: Path) -> None:
    """On two ranks: wrong messages are errors and nothing more, then noise at all of its places, in
    every forward, and none when the client has switched it off."""
    flags = tiny_flags(write_text(tmp_path / "text.txt"))
    flags |= {"train_iters": 100_000, "tensor_model_parallel_size": RANKS, "hidden_size": 64}
    with live_run(flags, tmp_path / "run", RANKS) as run:
        address = run.address()
        headers = {"Authorization": f"Bearer {(run.run_dir / 'token').read_text().strip()}"}
        with connect(f"ws://{address}/", additional_headers=headers) as socket:
            for message in malformed():
                assert ask(socket, message)["type"] == "error", message
            assert ask(socket, noisy())["type"] == "start"
            for update in read_updates(socket, 3 * LAYERS)[0]:
                columns = len(update["result"]) / (4 * 32)
                assert update["update_type"] == 2 or columns == (
                    THIRDS_DO_NOT_FIT if update["update_type"] == 1 else PIXELS)  # fmt: skip
            with run.viewer() as viewer:
                viewer.wait_for(lambda: len(viewer.named("applied")) > 3, "what the noise did")
                assert ask(socket, malformed()[0])["type"] == "error"
                begin = viewer.named("applied")[0]["step"]
                for step in range(begin, begin + 3):
                    assert_all_act_once(act_in(viewer, step))
                losses = [one["loss"] for one in viewer.named("step")]
                assert losses and np.isfinite(losses).all()
                assert ask(socket, noisy() | {"disturbance_configs": {}})["type"] == "start"
                viewer.wait_for(
                    lambda: viewer.named("interventions")[-1:] != []
                    and viewer.named("interventions")[-1]["programs"] == [], "the end of the noise"
                )  # fmt: skip
                off = viewer.named("interventions")[-1]["step"]
                viewer.wait_for(lambda: max(viewer.steps()) > off + 3, "steps without noise")
                assert max(one["step"] for one in viewer.named("applied")) < off
                assert run.process.poll() is None
