"""The tracer inside a training by Megatron-Core with two tensor-parallel ranks: its records beside what PyTorch's own
hooks kept on the ranks, and beside a training with the same weights in one process."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from megatron_training import LAYERS, PIPELINE_LAYERS, TOKENS, VOCABULARY
from own_environment import make_environment
from program import REPOSITORY, environment
from shared_sequences import order_of_whole
from tensor_tracer import open_recording
from tensor_tracer.record import Record
from torch import Tensor

NIGHTLY = pytest.mark.nightly(suite="attach")
SCRIPT = Path(__file__).with_name("megatron_training.py")
EVERYTHING = {
    "entries": [
        {"point": "*", "rows": 0, "compressor": {"kind": "none"}},
        {"point": "*", "rows": 0, "direction": "gradient", "compressor": {"kind": "none"}},
    ]
}

# How this test puts the tensor of a module together from those of the ranks. In layers by the path after the layer.
WHOLE, COLUMNS, HALVES = "the same on all ranks", "columns in order", "columns of two halves"
HEADS, PART = "heads in order", "tokens in order"
MASKED = "self_attention.core_attention.scale_mask_softmax.input"  # in place, so that no hook gets its gradient
LAYER = {
    "input_layernorm.output": WHOLE, "self_attention.linear_qkv.output": COLUMNS,
    MASKED: HEADS,
    "self_attention.core_attention.scale_mask_softmax.output": HEADS,
    "self_attention.core_attention.output": COLUMNS, "self_attention.linear_proj.output": WHOLE,
    "pre_cross_attn_layernorm.input": WHOLE, "pre_mlp_layernorm.output": WHOLE, "mlp.linear_fc1.output": COLUMNS,
    "mlp.linear_fc2.input": COLUMNS, "mlp.linear_fc2.output": WHOLE, "output": WHOLE,
}  # fmt: skip
OUTSIDE = {
    "embedding.word_embeddings.output": WHOLE, "embedding.embedding_dropout.input": WHOLE,
    "decoder.final_layernorm.output": WHOLE, "output_layer.output": COLUMNS,
}  # fmt: skip
PLACES = {
    "gpt": LAYER | OUTSIDE | {"embedding.position_embeddings.output": WHOLE},
    "llama": LAYER | OUTSIDE | {"mlp.linear_fc1.output": HALVES},
}
# With sequence parallelism, each rank has the whole of no tensor.
PARTS = {path: PART if how == WHOLE else how for path, how in PLACES["llama"].items()}
BATCH_FIRST = {"embedding.word_embeddings.output", "embedding.position_embeddings.output"}
# Weights: the dim by which ranks share them, else they are the same.
WEIGHTS = {
    "word_embeddings.weight": 0, "output_layer.weight": 0, "linear_qkv.weight": 0, "linear_qkv.bias": 0,
    "linear_fc1.weight": 0, "linear_fc1.bias": 0, "linear_proj.weight": 1, "linear_fc2.weight": 1,
}  # fmt: skip


def join(parts: list[Tensor], how: str, dim: int = -1) -> Tensor:
    if how == WHOLE:
        assert all(torch.equal(part, parts[0]) for part in parts)
        return parts[0]
    if how == HALVES:
        firsts, seconds = zip(*(part.chunk(2, dim=dim) for part in parts), strict=True)
        return torch.cat([*firsts, *seconds], dim=dim)
    return torch.cat(parts, dim={HEADS: 1, PART: 0}.get(how, dim))


@dataclass
class Training:
    """A finished run of megatron_training.py."""

    model: str
    options: dict[str, Any]
    folder: Path
    ranks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def places(self) -> dict[tuple[str, int], dict[str, Any]]:
        """By name and layer."""
        points = json.loads((self.folder / "points0.json").read_text())
        return {(point["name"], point["layer"]): point for point in points if not point["problem"]}

    @property
    def order(self) -> dict[str, str]:
        """By the path of the place."""
        return PARTS if self.options.get("sequence_parallel") else PLACES[self.model]

    def records(self) -> list[Record]:
        with open_recording(next((self.folder / "record").glob("*.ttrec"))) as recording:
            return [record for record in recording.records() if not record.point.startswith("LogitLens")]

    def scalars(self, name: str) -> list[float]:
        with open_recording(next((self.folder / "record").glob("*.ttrec"))) as recording:
            return list(recording.scalars(name)[1])

    def witnessed(self, record: Record, place: dict[str, Any]) -> np.ndarray[Any, Any]:
        """What the hooks of this training kept of the record's tensor, in the order of a record's dims."""
        end = place["path"].rpartition(".")[2]
        key = record.step, f"{place['module']}.{end}"
        kind = "gradients" if record.direction == "gradient" else "values"
        path = place["path"].removeprefix(f"layers[{record.layer}].")
        tensor = join([rank[kind][key] for rank in self.ranks], self.order[path])
        is_sequence_first = tensor.dim() == 3 and (path not in BATCH_FIRST or self.order[path] == PART)
        return (tensor.transpose(0, 1) if is_sequence_first else tensor).float().numpy()

    def joined_weights(self) -> dict[str, Tensor]:
        joined = {}
        for name in self.ranks[0]["weights"]:
            dim = WEIGHTS.get(".".join(name.split(".")[-2:]))
            is_gated = self.model == "llama" and "linear_fc1" in name
            how = WHOLE if dim is None else HALVES if is_gated else COLUMNS
            joined[name] = join([rank["weights"][name] for rank in self.ranks], how, dim or 0)
        return joined


@pytest.fixture(scope="session")
def python() -> Path:
    return make_environment("megatron", "--no-deps")


Train = Callable[..., Training]


@pytest.fixture(scope="session")
def train(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Runs a training once for each combination of arguments."""
    finished: dict[str, Training] = {}

    def run(model: str, ranks: int, attached: bool = True, **options: Any) -> Training:
        key = json.dumps([model, ranks, attached, options])
        if key not in finished:
            finished[key] = start(python, tmp_path_factory.mktemp(model), model, ranks, attached, options)
        return finished[key]

    return run


def start(python: Path, folder: Path, model: str, ranks: int, attached: bool, options: dict[str, Any]) -> Training:
    asked = {"model": model, "steps": 3} | options
    if attached:
        asked["attach"] = {
            "port": 0, "run_dir": str(folder / "run"), "record": str(folder / "record"), "plan": EVERYTHING,
        }  # fmt: skip
    build = os.environ.get("TENSOR_TRACER_BUILD", str(REPOSITORY / "build/release"))
    variables = environment() | {"TENSOR_TRACER_BUILD": build, "PYTHONPATH": str(REPOSITORY / "python")}
    launcher = [str(python), "-W", "ignore", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    line = [*launcher, str(SCRIPT), str(folder), json.dumps(asked)]
    done = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Training(model, options, folder, [torch.load(folder / f"rank{rank}.pt") for rank in range(ranks)])


def compare(training: Training, expected: Callable[[Record, dict[str, Any]], None]) -> None:
    """Calls `expected` for each record but tokens. Every place was recorded in every layer, with its gradient."""
    places, seen = training.places, set()
    for record in training.records():
        if record.point == "InputTokens":
            continue
        place = places[record.point, record.layer]
        expected(record, place)
        seen.add((place["path"].removeprefix(f"layers[{record.layer}]."), record.layer, record.direction, record.step))
    wanted = {
        (path, layer, direction, step)
        for path in PLACES[training.model]
        for layer in (range(1, LAYERS + 1) if path in LAYER else (0,))
        for direction in (("value",) if path == MASKED else ("value", "gradient"))
        for step in (2, 3)
    }
    assert seen == wanted


CASES = [
    pytest.param("gpt", {}, id="gpt"),
    pytest.param("llama", {}, id="llama"),
    # Shapes do not tell [sequence, batch] from [batch, sequence].
    pytest.param("gpt", {"rows": TOKENS}, id="as many rows as tokens"),
    pytest.param("llama", {"sequence_parallel": True, "rows": TOKENS // 2}, id="sequence parallel"),
    pytest.param("gpt", {"recompute": True}, id="recomputation"),
    pytest.param("llama", {"wrapped": True}, id="Float16Module in DistributedDataParallel"),
]


@NIGHTLY
@pytest.mark.parametrize(("model", "options"), CASES)
def test_records_have_the_bits_of_the_ranks(model: str, options: dict[str, Any], train: Train) -> None:
    watched = train(model, 2, **options)

    def check(record: Record, place: dict[str, Any]) -> None:
        assert np.array_equal(record.values, watched.witnessed(record, place)), record

    compare(watched, check)


@NIGHTLY
@pytest.mark.parametrize("options", [{}, {"wrapped": True}])
def test_the_tracer_changes_no_loss(options: dict[str, Any], train: Train) -> None:
    watched, alone = train("llama", 2, **options), train("llama", 2, attached=False, **options)
    assert len(set(watched.ranks[0]["losses"])) == 3, "the weights do not change"
    assert [rank["losses"] for rank in watched.ranks] == [rank["losses"] for rank in alone.ranks]


@NIGHTLY
@pytest.mark.parametrize(("model", "options"), [CASES[0], CASES[1], CASES[3]])
def test_records_are_those_of_one_process(model: str, options: dict[str, Any], train: Train) -> None:
    watched = train(model, 2, **options)
    weights = watched.folder.parent / f"{model}.pt"
    torch.save(watched.joined_weights(), weights)
    single = train(model, 1, attached=False, weights=str(weights))
    largest = 0.0

    def check(record: Record, place: dict[str, Any]) -> None:
        nonlocal largest
        expected = single.witnessed(record, place)
        assert record.values.shape == expected.shape, record
        largest = max(largest, float(np.abs(record.values - expected).max() / np.abs(expected).max()))
        assert largest < 1e-5, record

    compare(watched, check)
    print(f"largest relative difference {largest:.1e}")


@NIGHTLY
def test_column_k_carries_k(train: Train) -> None:
    """Megatron's own code shares a weight that makes column k of the output k: of grouped queries, keys and values, of
    gate and values, and of the logits."""
    watched = train("llama", 2, marked=True)
    names = {"self_attention.linear_qkv.output": 64, "mlp.linear_fc1.output": 80, "output_layer.output": VOCABULARY}
    found = set()
    for record in watched.records():
        if record.point == "InputTokens":
            continue
        path = watched.places[record.point, record.layer]["path"].removeprefix(f"layers[{record.layer}].")
        if path in names and record.direction == "value" and record.step == 2:
            assert np.array_equal(record.values, np.broadcast_to(np.arange(names[path]), record.shape)), record
            found.add((path, record.layer))
    assert len(found) == 2 * LAYERS + 1


@NIGHTLY
@pytest.mark.parametrize("chunks", [1, 2])
def test_pipeline_stages(chunks: int, train: Train) -> None:
    """Of the first micro-batch, which the hooks of this training keep. Megatron's own schedule runs the stages."""
    watched, alone = train("llama", 2, chunks=chunks), train("llama", 2, attached=False, chunks=chunks)
    assert watched.ranks[1]["losses"] == alone.ranks[1]["losses"]
    assert np.allclose(watched.scalars("loss"), watched.ranks[1]["losses"], rtol=1e-12)
    seen = set()
    for record in watched.records():
        if record.point == "InputTokens":
            continue
        place = watched.places[record.point, record.layer]
        path = place["path"].removeprefix(f"layers[{record.layer}].")
        end, stage = path.rpartition(".")[2], int(place["stage"])
        assert record.pipeline_rank == stage % 2
        key = record.step, f"{stage // 2}.{place['module']}.{end}"
        found = watched.ranks[stage % 2]["gradients" if record.direction == "gradient" else "values"][key]
        expected = found.transpose(0, 1) if found.dim() == 3 and path not in BATCH_FIRST else found
        assert np.array_equal(record.values, expected.numpy()), record
        seen.add((path, record.layer, record.direction, record.step))
    assert seen == {
        (path, layer, direction, step)
        for path in (LAYER | OUTSIDE)
        for layer in (range(1, PIPELINE_LAYERS + 1) if path in LAYER else (0,))
        for direction in (("value",) if path == MASKED else ("value", "gradient"))
        for step in (2, 3)
    }  # fmt: skip


@NIGHTLY
def test_the_numbers_of_a_step_are_logged(train: Train) -> None:
    watched = train("llama", 2)
    assert np.allclose(watched.scalars("loss"), watched.ranks[0]["losses"], rtol=1e-12)
    assert watched.scalars("lr") == [0.05] * 3
    assert watched.scalars("grad_norm")[-1] == watched.ranks[0]["norm"]


def of_modules(training: Training) -> Iterator[tuple[Record, dict[str, Any], str]]:
    """The records of what modules take and return, with the place and its path in the layer."""
    for record in training.records():
        place = training.places.get((record.point, record.layer))
        if place is not None and place["path"].endswith(("input", "output")):
            yield record, place, place["path"].removeprefix(f"layers[{record.layer}].")


@NIGHTLY
@pytest.mark.parametrize("ranks", [2, 4])
def test_context_parallel_ranks(ranks: int, train: Train) -> None:
    """With two context-parallel ranks, and one or two tensor-parallel ranks in each."""
    watched = train("gpt", ranks, contexts=2)
    weights = watched.folder.parent / f"contexts{ranks}.pt"
    torch.save(replace(watched, ranks=watched.ranks[: ranks // 2]).joined_weights(), weights)
    single = train("gpt", 1, attached=False, weights=str(weights))
    seen = set()
    for record, place, path in of_modules(watched):
        contexts = [replace(watched, ranks=watched.ranks[first : first + ranks // 2]) for first in (0, ranks // 2)]
        wanted = np.concatenate([one.witnessed(record, place) for one in contexts], 1)[:, order_of_whole(TOKENS, 2)]
        assert np.array_equal(record.values, wanted), record
        expected = single.witnessed(record, place)
        assert np.abs(record.values - expected).max() <= 1e-5 * np.abs(expected).max(), record
        seen.add((path, record.layer, record.direction, record.step))
    shared = {path for path, how in PLACES["gpt"].items() if how != HEADS}
    assert seen == {
        (path, layer, direction, step)
        for path in shared for layer in (range(1, LAYERS + 1) if path in LAYER else (0,))
        for direction in ("value", "gradient") for step in (2, 3)
    }  # fmt: skip


@NIGHTLY
def test_pipeline_stages_of_context_parallel_ranks(train: Train) -> None:
    """Two by two virtual stages of two context-parallel ranks. Of the first micro-batch, which the training's hooks keep."""
    watched, alone = train("gpt", 4, chunks=2, contexts=2), train("gpt", 4, attached=False, chunks=2, contexts=2)
    assert watched.ranks[2]["losses"] == alone.ranks[2]["losses"]
    seen = set()
    for record, place, path in of_modules(watched):
        stage = int(place["stage"])
        assert record.pipeline_rank == stage % 2
        key = record.step, f"{stage // 2}.{place['module']}.{path.rpartition('.')[2]}"
        kind = "gradients" if record.direction == "gradient" else "values"
        parts = [watched.ranks[2 * (stage % 2) + rank][kind][key] for rank in (0, 1)]
        parts = [part if path in BATCH_FIRST else part.transpose(0, 1) for part in parts]
        assert np.array_equal(record.values, torch.cat(parts, 1)[:, order_of_whole(TOKENS, 2)].numpy()), record
        seen.add((path, record.layer, record.direction, record.step))
    assert {key[1] for key in seen} == set(range(PIPELINE_LAYERS + 1))
    assert {key[0] for key in seen} == {path for path, how in PLACES["gpt"].items() if how != HEADS}
