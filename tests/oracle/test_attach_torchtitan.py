"""The tracer inside a training of torchtitan's Llama with two tensor-parallel ranks: its records beside what PyTorch's
own hooks kept on the ranks, and beside a training with the same weights in one process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_environment import make_environment
from stopping import pause_step_and_stop
from tensor_tracer import open_recording
from tensor_tracer.record import Record
from test_attach import EVERYTHING, attach_environment
from titan_training import LAYERS, MARKED
from torch import Tensor

NIGHTLY = pytest.mark.nightly(suite="attach")
SCRIPT = Path(__file__).with_name("titan_training.py")

# How this test puts the tensor of a module together from those of the ranks. In layers by the path after the layer.
WHOLE, COLUMNS, PART = "the same on all ranks", "columns in order", "tokens in order"
RESIDUALS = [
    "attention_norm.output", "attention.wo.output", "ffn_norm.input", "ffn_norm.output", "feed_forward.w2.output",
    "output", "tok_embeddings.output",
]  # fmt: skip
GATHERED = ["attention.qkv_linear.input", "feed_forward.w1.input", "norm.output"]
SHARED = [
    "attention.qkv_linear.wqkv.output", "attention.wo.input", "feed_forward.w1.output", "feed_forward.w3.output",
    "feed_forward.w2.input", "lm_head.output",
]  # fmt: skip
NAMES = {
    "tok_embeddings.output": "Embedding", "attention_norm.output": "attention.input",
    "attention.qkv_linear.wqkv.output": "QKV", "attention.wo.input": "ContextLayer",
    "attention.wo.output": "AttentionOutput", "ffn_norm.input": "ResidualMid", "ffn_norm.output": "mlp.input",
    "feed_forward.w2.input": "MLPActivation", "feed_forward.w2.output": "MLP2", "output": "HiddenStates",
    "norm.output": "FinalNorm", "lm_head.output": "Logits",
}  # fmt: skip


@dataclass
class Training:
    """A finished run of titan_training.py."""

    options: dict[str, Any]
    folder: Path
    ranks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def order(self) -> dict[str, str]:
        residual = PART if self.options["sequence_parallel"] else WHOLE
        return dict.fromkeys(RESIDUALS, residual) | dict.fromkeys(GATHERED, WHOLE) | dict.fromkeys(SHARED, COLUMNS)

    @property
    def places(self) -> dict[tuple[str, int], dict[str, Any]]:
        """By name and layer."""
        points = json.loads((self.folder / "points0.json").read_text())
        return {(point["name"], point["layer"]): point for point in points if not point["problem"]}

    def records(self) -> Iterator[tuple[Record, str]]:
        """Each record with the name of its tensor."""
        places = self.places
        with open_recording(next((self.folder / "record").glob("*.ttrec"))) as recording:
            for record in recording.records():
                place = places.get((record.point, record.layer))  # the tokens have none
                if place is not None and place["path"].endswith(("input", "output")):  # else it was computed
                    yield record, f"{place['module']}.{place['path'].rpartition('.')[2]}"

    def witnessed(self, record: Record, name: str) -> np.ndarray[Any, Any]:
        """What the hooks of this training kept."""
        key, kind = (record.step, name), "gradients" if record.direction == "gradient" else "values"
        parts: list[Tensor] = [rank[kind][key] for rank in self.ranks]
        if kind == "gradients" and key in self.ranks[0]["partial"]:
            return torch.stack(parts).sum(0).numpy()
        how = self.order[in_layer(name)]
        if how == WHOLE:
            assert all(torch.equal(part, parts[0]) for part in parts), record
            return parts[0].numpy()
        return torch.cat(parts, dim={COLUMNS: -1, PART: 1}[how]).numpy()


def in_layer(name: str) -> str:
    """The path after the layer."""
    return name.split(".", 2)[2] if name.startswith("layers.") else name


Train = Callable[..., Training]


@pytest.fixture(scope="session")
def python() -> Path:
    return make_environment("torchtitan", "--no-deps")


@pytest.fixture(scope="session")
def train(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Runs a training once for each combination of arguments."""
    finished: dict[str, Training] = {}

    def run(ranks: int, attached: bool = True, **options: Any) -> Training:
        key = json.dumps([ranks, attached, options])
        if key not in finished:
            finished[key] = start(python, tmp_path_factory.mktemp("titan"), ranks, attached, options)
        return finished[key]

    return run


def start(python: Path, folder: Path, ranks: int, attached: bool, options: dict[str, Any]) -> Training:
    asked = {"steps": 3} | options | {"ranks": ranks}
    done = subprocess.run(line_of(python, folder, asked, attached), env=attach_environment(), capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Training(options, folder, [torch.load(folder / f"rank{rank}.pt") for rank in range(ranks)])


def line_of(python: Path, folder: Path, asked: dict[str, Any], attached: bool) -> list[str]:
    attach = {"port": 0, "run_dir": str(folder / "run"), "record": str(folder / "record"), "plan": EVERYTHING}
    return [str(python), "-W", "ignore", str(SCRIPT), str(folder), json.dumps(asked | ({"attach": attach} if attached else {}))]


CASES = [
    pytest.param({"backend": backend, "sequence_parallel": sequence}, id=f"{backend}-{'sequence' if sequence else 'tensor'}")
    for backend in ("spmd_types", "partial_dtensor") for sequence in (True, False)
]  # fmt: skip


def wanted(options: dict[str, Any]) -> set[tuple[str, int, str, int]]:
    """With plain tensors, the gradient of what every rank has gathered is a sum of which each rank has a part. A DTensor
    that is whole before is not gathered: it is the norm's output."""
    is_plain = options["backend"] == "spmd_types"
    without = set(GATHERED) if is_plain else set()
    gathered = GATHERED if is_plain or options["sequence_parallel"] else ["norm.output"]
    return {
        (path, layer, direction, step)
        for path in [*RESIDUALS, *gathered, *SHARED]
        for layer in ((0,) if path in ("tok_embeddings.output", "norm.output", "lm_head.output") else range(1, LAYERS + 1))
        for direction in (("value",) if path in without else ("value", "gradient"))
        for step in (2, 3)
    }  # fmt: skip


@NIGHTLY
@pytest.mark.parametrize("options", CASES)
def test_records_have_the_bits_of_the_ranks(options: dict[str, Any], train: Train) -> None:
    watched, seen = train(2, **options), set()
    for record, name in watched.records():
        assert np.array_equal(record.values, watched.witnessed(record, name)), (record, name)
        seen.add((in_layer(name), record.layer, record.direction, record.step))
    assert seen == wanted(options)
    kinds = watched.ranks[0]["kinds"]
    assert kinds == ({"Tensor"} if options["backend"] == "spmd_types" else kinds | {"DTensor"})


@NIGHTLY
@pytest.mark.parametrize("options", CASES)
def test_records_are_those_of_one_process(options: dict[str, Any], train: Train) -> None:
    watched, single = train(2, **options), train(1, attached=False, backend="spmd_types", sequence_parallel=False)
    largest = 0.0
    for record, name in watched.records():
        expected = single.witnessed(record, name)
        assert record.values.shape == expected.shape, (record, name)
        largest = max(largest, float(np.abs(record.values - expected).max() / np.abs(expected).max()))
        assert largest < 1e-5, (record, name)
    print(f"largest relative difference {largest:.1e}")


@NIGHTLY
@pytest.mark.parametrize("options", [CASES[0], CASES[2]])
def test_the_tracer_changes_no_loss(options: dict[str, Any], train: Train) -> None:
    watched, alone = train(2, **options), train(2, attached=False, **options)
    assert [rank["losses"] for rank in watched.ranks] == [rank["losses"] for rank in alone.ranks]


@NIGHTLY
@pytest.mark.parametrize("options", CASES)
def test_places_have_standard_names_and_name_their_source(options: dict[str, Any], train: Train) -> None:
    places = train(2, **options).places.values()
    names = {in_layer(f"{one['module']}.{one['path'].rpartition('.')[2]}"): one["name"] for one in places}
    assert {path: names[path] for path in NAMES} == NAMES
    is_plain = options["backend"] == "spmd_types"
    problem = "each rank has a part of the sum that is the gradient" if is_plain else ""
    assert [one["gradient_problem"] for one in places if one["name"] == "FinalNorm"] == [problem]
    source = "the sharding configuration of layers.1.attention.wo" if is_plain else "DTensor"
    assert [one["source"] for one in places if (one["name"], one["layer"]) == ("ContextLayer", 2)] == [source]


@NIGHTLY
def test_column_k_carries_k(train: Train) -> None:
    watched, seen = train(2, backend="spmd_types", sequence_parallel=True, marked=True, steps=2), set()
    for record, name in watched.records():
        if name.endswith(tuple(f"{one}.output" for one in MARKED)) and record.direction == "value":
            columns = sum(rank["values"][2, name].shape[-1] for rank in watched.ranks)
            assert record.values.shape[-1] == columns
            in_units = record.values / record.values[..., 1:2]
            assert np.allclose(in_units, np.arange(columns), rtol=1e-6), record
            seen.add((in_layer(name), record.layer))
    layers = range(1, LAYERS + 1)
    paths = ("attention.qkv_linear.wqkv", "feed_forward.w1", "feed_forward.w3")
    assert seen == {("lm_head.output", 0), *((f"{path}.output", layer) for path in paths for layer in layers)}


def attention_of(watched: Training, step: int, layer: int) -> dict[str, Tensor]:
    """Of the whole layer, by the definition, from what its attention got on the ranks."""
    path = f"layers.{layer - 1}.attention.inner_attention"
    queries, keys, values = (
        torch.cat([rank["values"][step, f"{path}.{name}"] for rank in watched.ranks], dim=2).transpose(1, 2)
        for name in ("queries", "keys", "values")
    )
    scores = (queries @ keys.mT / queries.shape[-1] ** 0.5).masked_fill(torch.ones(8, 8).triu(1).bool(), -torch.inf)
    shares = scores.softmax(-1)
    by_head = {
        "attention.entropy": torch.special.entr(shares).sum(-1), "attention.largest_score": scores.amax(-1),
        "attention.first_token_share": shares[..., 0],
    }  # fmt: skip
    context = (shares @ values).transpose(1, 2).flatten(2)
    return {"RawAttentionScore": shares, "ContextLayer": context} | {name: one.mT for name, one in by_head.items()}


@NIGHTLY
@pytest.mark.parametrize("options", CASES)
def test_recomputed_attention_is_that_of_the_layer(options: dict[str, Any], train: Train) -> None:
    """ContextLayer is what torchtitan computed with the same attention."""
    watched, seen = train(2, **options), set()
    with open_recording(next((watched.folder / "record").glob("*.ttrec"))) as recording:
        for record in recording.records(direction="value"):
            expected = attention_of(watched, record.step, max(record.layer, 1)).get(record.point)
            if expected is not None:
                assert record.values == pytest.approx(expected.numpy(), abs=2e-6), record
                seen.add((record.point, record.layer, record.step))
    assert seen == {(point, layer, step) for point in attention_of(watched, 2, 1) for layer in (1, 2) for step in (2, 3)}


TRAINER = {"backend": "spmd_types", "sequence_parallel": True, "trainer": True}


@NIGHTLY
def test_a_trainer_of_torchtitan_logs_the_same_and_its_numbers_are_shown(train: Train) -> None:
    watched, alone = train(2, **TRAINER), train(2, attached=False, **TRAINER)
    logged = watched.ranks[0]["logged"]
    assert [rank["logged"] for rank in watched.ranks] == [rank["logged"] for rank in alone.ranks]
    with open_recording(next((watched.folder / "record").glob("*.ttrec"))) as recording:
        for name, column in (("loss", 1), ("grad_norm", 2), ("lr", 3)):
            steps, values = recording.scalars(name)
            assert list(steps) == [1, 2, 3] and np.allclose(values, [one[column] for one in logged], rtol=1e-12), name
        points = {record.point for record in recording.records()}
    assert {"HiddenStates", "ContextLayer", "Logits"} <= points
    assert watched.ranks[0]["hooks"] == 0, "hooks are left"


@NIGHTLY
def test_a_viewer_pauses_and_stops_a_trainer_of_torchtitan(python: Path, tmp_path: Path) -> None:
    asked = TRAINER | {"ranks": 2, "steps": 100_000}
    stopped = pause_step_and_stop(line_of(python, tmp_path, asked, attached=True), tmp_path / "run")
    saved = torch.load(tmp_path / "rank0.pt")["saved"]
    assert saved[-1] == ((stopped,), {"last_step": True}) and saved[-2] == ((stopped,), {"last_step": False})


@NIGHTLY
def test_context_parallel_ranks_of_a_trainer(train: Train) -> None:
    """torchtitan divides the sequences of its batches. Of the first micro-batch of each step."""
    options = {"backend": "partial_dtensor", "sequence_parallel": False, "trainer": True}
    found = [train(2, contexts=2, **options), train(1, **options)]
    alone = train(2, attached=False, contexts=2, **options)
    assert [rank["logged"] for rank in found[0].ranks] == [rank["logged"] for rank in alone.ranks]
    two, one = ({key_of(record): record for record in records_of(training.folder)} for training in found)
    assert {key[0] for key in two} >= {"HiddenStates", "Embedding", "FinalNorm", "Logits", "LogitLens"}
    for key, record in two.items():
        values = one[key].values
        assert record.values.shape == values.shape, record
        assert np.abs(record.values - values).max() <= 1e-5 * np.abs(values).max(), record


def records_of(folder: Path) -> list[Record]:
    with open_recording(next((folder / "record").glob("*.ttrec"))) as recording:
        return list(recording.records())


def key_of(record: Record) -> tuple[Any, ...]:
    return record.point, record.layer, record.direction, record.step
