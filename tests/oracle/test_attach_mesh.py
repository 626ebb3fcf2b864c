"""The tracer in trainings on a mesh of FSDP2 and tensor parallelism, without and with sequence parallelism: its records
beside what PyTorch's own hooks kept on the ranks, and beside a training with the same weights in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mesh_training import DATA, LAYERS, ROWS, STEPS, TENSOR
from tensor_tracer import open_recording
from tensor_tracer.attaching.wrappers import local_of
from tensor_tracer.record import Record
from test_attach import EVERYTHING, attach_environment
from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor

SCRIPT = Path(__file__).with_name("mesh_training.py")

# How this test puts the tensor of a module together from those of the ranks. In layers by the path after the layer.
WHOLE, COLUMNS, PART = "the same on all ranks", "columns in order", "tokens in order"
LOCAL = "not known to the tracer"
COLUMN_OUTPUTS = [
    "self_attn.q_proj.output", "self_attn.k_proj.output", "self_attn.v_proj.output", "mlp.gate_proj.output",
    "mlp.up_proj.output",
]  # fmt: skip
COLUMN_INPUTS = ["self_attn.o_proj.input", "mlp.down_proj.input"]
PROJECTION_INPUTS = [path.replace("output", "input") for path in COLUMN_OUTPUTS]
RESIDUALS = [
    "output", "input_layernorm.output", "self_attn.o_proj.output", "post_attention_layernorm.input",
    "post_attention_layernorm.output",
]  # fmt: skip
SHARED = dict.fromkeys(COLUMN_OUTPUTS + COLUMN_INPUTS, COLUMNS) | {"mlp.act_fn.output": LOCAL, "lm_head.input": WHOLE}
OUTSIDE = ["model.embed_tokens.output", "model.norm.output"]
PLACES = {
    "tensor": SHARED | dict.fromkeys(RESIDUALS + PROJECTION_INPUTS + OUTSIDE + ["input", "mlp.output", "lm_head.output"], WHOLE),
    "sequence": SHARED
    | dict.fromkeys(RESIDUALS + OUTSIDE + ["input_layernorm.input", "input", "mlp.down_proj.output", "model.norm.input"], PART)
    | {"self_attn.input": WHOLE, "mlp.input": WHOLE, "lm_head.output": COLUMNS},
}


class Trainings:
    """What mesh_training.py left for one way to share tensors."""

    def __init__(self, folder: Path, name: str) -> None:
        found = torch.load(folder / f"{name}.pt", weights_only=False)
        self.name, self.folder = name, folder
        self.watched, self.alone, self.single = found["watched"], found["alone"], found["single"]
        self.places = {(one["name"], one["layer"]): one for one in self.watched["points"] if not one["problem"]}

    def records(self) -> Iterator[tuple[Record, str, str]]:
        """Each record with the name of its tensor, and how the ranks share it."""
        with open_recording(next((self.folder / self.name / "record").glob("*.ttrec"))) as recording:
            for record in recording.records():
                place = self.places.get((record.point, record.layer))  # the tokens have none
                if place is not None and place["path"].endswith(("input", "output")):  # else it was computed
                    name = f"{place['module']}.{place['path'].rpartition('.')[2]}"
                    yield record, name, PLACES[self.name][in_layer(name)]

    def gathered(self, record: Record, name: str, how: str) -> Tensor:
        """The tensor that the ranks of data replica 0 kept parts of."""
        gradient = record.direction == "gradient"
        parts = self.watched["gradients" if gradient else "values"][record.step, name]
        if gradient and (record.step, name) in self.watched["partial"]:
            return parts[0] + parts[1]
        if how == WHOLE:
            assert torch.equal(parts[0], parts[1]), record
        return parts[0] if how in (WHOLE, LOCAL) else torch.cat(parts, dim={COLUMNS: -1, PART: 1}[how])

    def of_one_process(self, record: Record, name: str) -> np.ndarray[Any, Any]:
        """The rows of data replica 0. The loss of a replica is the mean over its rows, not over all."""
        gradient = record.direction == "gradient"
        tensor = self.single["gradients" if gradient else "values"][record.step, name][: ROWS // DATA]
        return (tensor * (DATA if gradient else 1)).numpy()


def in_layer(name: str) -> str:
    """The path after the layer."""
    return name.split(".", 3)[3] if name.startswith("model.layers.") else name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One job of all trainings."""
    out = tmp_path_factory.mktemp("mesh")
    line = [sys.executable, "-W", "ignore", str(SCRIPT), str(out), json.dumps({"plan": EVERYTHING})]
    done = subprocess.run(line, env=attach_environment(), capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module", params=["tensor", "sequence"])
def trainings(request: pytest.FixtureRequest, folder: Path) -> Trainings:
    return Trainings(folder, request.param)


def test_weights_are_sharded_on_both_axes(trainings: Trainings) -> None:
    weights = trainings.watched["weights"]
    assert all(placements["dp"].startswith(("S(", "_S(")) for placements in weights.values())
    on_both = {in_layer(name): one["tp"] for name, one in weights.items() if one.get("tp", "R") != "R"}
    columns = {path.replace("output", "weight"): "S(0)" for path in COLUMN_OUTPUTS}
    rows = {path.replace("input", "weight"): "S(1)" for path in COLUMN_INPUTS}
    assert on_both == columns | rows | {"model.embed_tokens.weight": "S(0)", "lm_head.weight": "S(0)"}


def test_records_have_the_bits_of_the_ranks(trainings: Trainings) -> None:
    seen = set()
    for record, name, how in trainings.records():
        expected = trainings.gathered(record, name, how).numpy()
        assert record.values.shape == expected.shape, (record, name)
        assert np.array_equal(record.values, expected), (record, name)
        seen.add((in_layer(name), record.direction, record.step))
    assert seen == {
        (path, direction, step)
        for path in PLACES[trainings.name] for direction in ("value", "gradient") for step in range(2, STEPS + 1)
    }  # fmt: skip


def test_records_are_those_of_one_process(trainings: Trainings) -> None:
    largest = 0.0
    for record, name, how in trainings.records():
        if how != LOCAL:
            expected = trainings.of_one_process(record, name)
            assert record.values.shape == expected.shape, (record, name)
            difference = float(np.abs(record.values - expected).max() / np.abs(expected).max())
            assert difference < 1e-5, (record, name)
            largest = max(largest, difference)
    print(f"largest relative difference {largest:.1e}")


def test_the_tracer_changes_no_loss(trainings: Trainings) -> None:
    assert trainings.watched["losses"] == trainings.alone["losses"]
    assert len(trainings.alone["losses"]) == DATA * TENSOR and len(trainings.alone["losses"][0]) == STEPS


SOURCES = {
    "tensor": {
        "self_attn.q_proj.output": ("shard(-1)", "its weight is Shard(0)"),
        "self_attn.o_proj.output": ("replicate", "its weight is Shard(1)"),
        "model.embed_tokens.output": ("replicate", "its weight is Shard(0)"),
        "lm_head.output": ("replicate", "its weight is Shard(0)"),
        "mlp.act_fn.output": ("rank-local", "no source knows it"),
    },
    "sequence": {
        "self_attn.q_proj.output": ("shard(-1)", "its weight is Shard(0)"),
        "self_attn.o_proj.output": ("shard(1)", "its weight is Shard(1), and a rank has a part of the sequence"),
        "model.embed_tokens.output": ("shard(1)", "its weight is Shard(0), and a rank has a part of the sequence"),
        "lm_head.output": ("shard(2)", "DTensor"),
        "output": ("shard(1)", "in the memory of model.norm.input: DTensor"),
        "mlp.act_fn.output": ("rank-local", "no source knows it"),
    },
}  # fmt: skip


def test_a_collective_is_waited_for() -> None:
    pending = AsyncCollectiveTensor(torch.ones(2))
    assert type(local_of(pending)) is Tensor and pending.completed


def test_pending_collectives_are_traced(trainings: Trainings) -> None:
    pending = {in_layer(name) for name in trainings.watched["pending"]}
    traced = {in_layer(name) for _, name, _ in trainings.records()}
    assert {"self_attn.o_proj.output", "model.embed_tokens.output"} <= pending & traced


def test_sums_that_nobody_has_reduced_are_refused(trainings: Trainings) -> None:
    problems = {one["module"]: one["problem"] for one in trainings.watched["points"] if "partial" in one["problem"]}
    layers = [f"model.layers.{layer}.mlp.down_proj" for layer in range(LAYERS)] if trainings.name == "tensor" else []
    assert problems == dict.fromkeys(layers, "the ranks hold partial sums, which this module does not reduce")


def test_places_name_the_source_of_their_layout(trainings: Trainings) -> None:
    found = {}
    for place in trainings.places.values():
        name = in_layer(f"{place['module']}.{place['path'].rpartition('.')[2]}")
        if name in SOURCES[trainings.name] and place["layer"] in (0, LAYERS):
            found[name] = place["layout"], place["source"]
    assert found == SOURCES[trainings.name]
