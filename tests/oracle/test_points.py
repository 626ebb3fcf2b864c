"""Every trace point, direction and compressor of a live run against PyTorch, at TP 1, 2 and 4."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from decoder import Record, decode
from hf_models import FAMILIES, imported
from hf_models import HIDDEN as IMPORTED_HIDDEN
from program import train
from reference_gpt import Export, activation_gradients, activations, tile_means
from safetensors.torch import save_file
from test_stream import LLAMA
from torch import Tensor
from viewer import LiveRun, live_run

NIGHTLY = pytest.mark.nightly(suite="meshes")

LAYERS, HIDDEN = 2, 32
MICRO_BATCH, MICRO_BATCHES = 3, 2
WATCHED = 2
PROMPTS = ["def f(x):", "é", "a longer prompt, with é in it"]

POINTS = ("QKV", "Query", "Key", "Value", "ContextLayer", "AttentionOutput", "ResidualMid", "MLP1")
POINTS += ("MLPActivation", "MLP2", "HiddenStates", "Embedding", "FinalNorm", "Logits")
POINTS += ("attention.input", "mlp.input", "attention.logits")
SHAPES = [{}, LLAMA, LLAMA | {"num_query_groups": 1}]
F16, U8 = 3, 7  # dtypes on the wire
WORDS = "embedding.word_embeddings.output"
NO_LAYER = {WORDS, "Embedding", "FinalNorm", "Logits", "InputTokens", "LogitLensEmbedding", "Updates"}


def entry(point: str, **members: Any) -> dict[str, Any]:
    """An entry over all rows in float64."""
    return {"point": point, "rows": 0, "dtype": "f64", "compressor": {"kind": "none"}} | members


METHODS = (
    "data.abs().amax(dim=-1)",
    "(data * data.sigmoid()).std(dim=-1)",
    "data.softmax(dim=1).flatten(1)[:, ::3]",
    "torch.linalg.norm(data)",
)
# In a separate plan, because a plan has at most 64 entries.
DISTANCE_OF_MEANS = "data.mean(-1) - data.mean()"
PROJECTION = {"kind": "projection", "vectors": ["evil", "kind", "plain"]}
ENTRIES = [
    *(entry(point) for point in (*POINTS, "RawAttentionScore")),
    *(entry(point, direction="gradient") for point in (*POINTS, "RawAttentionScore")),
    entry("Key", direction="gradient", compressor={"kind": "tile", "tiles": 3}),
    entry("RawAttentionScore", tokens=[3, 8], compressor={"kind": "tile", "tiles": 7}),
    entry("HiddenStates", compressor={"kind": "stats"}),
    entry("MLP1", compressor={"kind": "stats", "range": [-1, 1], "bins": 16}),
    entry("MLP1", direction="gradient", compressor={"kind": "stats"}),
    entry("HiddenStates", compressor=PROJECTION),
    entry("MLP2", compressor=PROJECTION | {"vectors": ["plain"], "normalize": False}),
    entry("Logits", compressor={"kind": "topk", "k": 4}),
    entry("MLPActivation", compressor={"kind": "topk", "k": 9}),
    entry("QKV", micro_batches="1", rows=[1, 3], tokens=[5, 20]),
    entry("MLP2", compressor={"kind": "tile", "tiles": 5, "method": "absmax"}),
    entry("MLP1", compressor={"kind": "tile", "tiles": 5, "method": "sum"}),
    *(entry("MLP1", compressor={"kind": "tile", "tiles": 4, "method": m}) for m in METHODS),
    entry("ResidualMid", compressor={"kind": "empty"}),
    entry("HiddenStates", prompts="probes"),
    entry("RawAttentionScore", prompts="probes"),
    entry("HiddenStates", prompts="probes", compressor=PROJECTION),
    entry("Logits", prompts="probes", compressor={"kind": "topk", "k": 10}),
    {"point": "InputTokens", "prompts": "probes", "rows": 0, "dtype": "i64"},
    entry("MLP2", dtype="u8"),
    entry("MLP2", dtype="f16"),
]

ROTATED = [entry(point, direction=direction) for direction in ("value", "gradient")
           for point in ("attention.query_rotated", "attention.key_rotated")]  # fmt: skip
QWEN = LLAMA | {"num_query_groups": 2, "qk_layernorm": True, "add_qkv_bias": True}
NORMED = [entry(f"attention.{kind}_norm.output", direction=direction) for direction in ("value", "gradient")
          for kind in ("query", "key")]  # fmt: skip
POSITIONED = [entry(WORDS), entry(WORDS, direction="gradient")]


def entries_for(shape: dict[str, Any]) -> list[dict[str, Any]]:
    """Only with rotary embedding there are rotated queries and keys; only with learned positions, the
    embedded words are another place than the embedding. A plan has at most 64 entries."""
    if "qk_layernorm" in shape:
        return [one for one in ENTRIES if one["point"] in ("QKV", "Query", "Key") or "prompts" in one] + NORMED + ROTATED
    return ENTRIES + (ROTATED if shape.get("position_embedding_type") == "rope" else POSITIONED)


def entries_for_model(name: str) -> list[dict[str, Any]]:
    """Every point of an imported model."""
    if name != "qwen3":
        return entries_for({} if name == "gpt2" else LLAMA)
    return [one for one in ENTRIES if one.get("compressor", {}).get("method") not in METHODS] + NORMED + ROTATED


IMPORTED = [FAMILIES[0], *(pytest.param(name, marks=NIGHTLY) for name in FAMILIES[1:])]
Captured = dict[tuple[int, int, int, int], Record]  # by (step, entry, layer, first row)


def write_vectors(folder: Path, hidden: int = HIDDEN) -> dict[str, Tensor]:
    """Three directions in the three formats; what row n of each should be, float32."""
    folder.mkdir()
    random = torch.Generator().manual_seed(3)
    with_embedding = torch.randn(LAYERS + 1, hidden, generator=random)
    also = torch.randn(LAYERS + 1, hidden, generator=random).to(torch.bfloat16)
    without = torch.randn(LAYERS, hidden, generator=random)
    torch.save(with_embedding, folder / "evil.pt")
    save_file({"kind": also}, folder / "kind.safetensors")
    np.save(folder / "plain.npy", without.numpy())
    (folder / "README.txt").write_text("not a vector")
    plain = torch.cat([torch.zeros(1, hidden), without])
    return {"evil": with_embedding, "kind": also.float(), "plain": plain}


def layers_of(one: dict[str, Any]) -> list[int]:
    if one.get("layers"):
        return [int(one["layers"])]
    return [0] if one["point"] in NO_LAYER else list(range(1, LAYERS + 1))


def prompt_rows() -> list[int]:
    return list(range(0, len(PROMPTS), MICRO_BATCH))


def watch(run: LiveRun, entries: list[dict[str, Any]]) -> Captured:
    """All records of two steps, taken one at a time."""
    keys = {
        (index, layer) for index, one in enumerate(entries) for layer in layers_of(one)
    }
    captured: Captured = {}
    with run.viewer() as viewer:
        viewer.request("control.claim", {"name": "oracle", "take_over": False})
        paused_at = viewer.request("control.pause")["step"]
        for step in range(paused_at + 1, paused_at + 1 + WATCHED):
            viewer.request("control.step", {"count": 1})
            viewer.wait_for(
                lambda: keys <= {(r.entry, r.layer) for r in viewer.records if r.step == step},
                f"all records of step {step}",
            )
        viewer.request("control.continue")
        run.wait()
        assert not [log for log in viewer.named("log") if log["level"] != "info"]
        for r in viewer.records:
            if paused_at < r.step <= paused_at + WATCHED:
                captured[r.step, r.entry, r.layer, r.first_row] = r
    return captured


def selected(one: dict[str, Any], whole: Tensor) -> Tensor:
    """The entry's micro-batch, rows and tokens of a point's values of the whole batch."""
    micro = int(one.get("micro_batches", "0"))
    values = whole[micro * MICRO_BATCH : (micro + 1) * MICRO_BATCH]
    if isinstance(one["rows"], list):
        values = values[one["rows"][0] : one["rows"][1]]
    if "tokens" in one:
        values = values[..., one["tokens"][0] : one["tokens"][1], :]
    return values


def stats(values: Tensor, compressor: dict[str, Any]) -> Tensor:
    head = [values.numel(), values.mean(), values.std(), values.min(), values.max(), values.norm()]
    head += [(values == 0).double().mean(), 0, 0, 0]
    if "range" in compressor:
        low, high = compressor["range"]
        bins = torch.histc(values.clamp(low, high), compressor["bins"], low, high)
    else:
        exponents = torch.frexp(values[values != 0]).exponent - 1
        bins = torch.bincount((exponents + 32).clamp(0, 47), minlength=48)
    first = torch.cat([torch.tensor([float(x) for x in head], dtype=torch.float64), bins.double()])
    away = values - values.mean()
    norms = [values.norm(dim=-1), values.flatten(0, -2).norm(dim=0)]
    more = [away.pow(4).mean() / away.square().mean().square(), values.square().mean().sqrt()]
    more += [part for n in norms for part in (n.min(), n.mean(), n.max())]
    second = torch.full_like(first, math.nan)
    second[: len(more)] = torch.stack(more)
    return torch.stack([first, second])


def softmax_planes(logits: Tensor, targets: Tensor, k: int) -> Tensor:
    """Log-sum-exp, entropy, loss and target of each token, k numbers to a plane, then NaN."""
    known = targets >= 0
    loss = F.cross_entropy(logits.transpose(1, 2), targets.clamp(min=0), reduction="none")
    numbers = [
        logits.logsumexp(-1),
        torch.distributions.Categorical(logits=logits).entropy(),
        loss.where(known, torch.tensor(math.nan)),
        targets.double(),
    ]
    numbers += [torch.full_like(loss, math.nan)] * (-len(numbers) % k)
    return torch.stack([torch.stack(numbers[at : at + k], -1) for at in range(0, len(numbers), k)])


def compressed(
    one: dict[str, Any], values: Tensor, row: int, vectors: dict[str, Tensor], targets: Tensor | None = None
) -> Tensor:
    """What PyTorch makes of the selected values."""
    compressor = one["compressor"]
    if compressor["kind"] == "none":
        return values
    if compressor["kind"] == "empty":
        return values[..., :0]
    if compressor["kind"] == "stats":
        return stats(values, compressor)
    if compressor["kind"] == "topk":
        best = torch.stack([part.double() for part in values.topk(compressor["k"])])
        if targets is None:
            return best
        return torch.cat([best, softmax_planes(values, targets, compressor["k"])])
    if compressor["kind"] == "projection":
        directions = torch.stack([vectors[name][row].double() for name in compressor["vectors"]])
        if compressor.get("normalize", True):
            directions = directions / directions.norm(dim=-1, keepdim=True)
        return values @ directions.T
    tiles, method = compressor["tiles"], compressor.get("method", "mean")
    borders = [t * values.shape[-1] // tiles for t in range(tiles + 1)]
    if method == "mean":
        return tile_means(values, tiles)
    if method in (*METHODS, DISTANCE_OF_MEANS):
        data = values.reshape(-1, tiles, values.shape[-1] // tiles)
        result = eval(method, {"torch": torch, "data": data})  # noqa: S307
        by_line = result.dim() > 0 and result.shape[0] == data.shape[0]
        return result.reshape(*values.shape[:-1], *result.shape[1:]) if by_line else result
    parts = [values[..., a:b] for a, b in zip(borders, borders[1:])]
    if method == "sum":
        return torch.stack([part.sum(-1) for part in parts], -1)
    return torch.stack([part.abs().amax(-1) for part in parts], -1)


def assert_equal(record: Record, one: dict[str, Any], expected: Tensor) -> None:
    found = torch.from_numpy(np.array(record.values)).double()
    assert found.shape == expected.shape, one
    if expected.numel() == 0:
        return
    allowed = 1e-11 * expected.nan_to_num().abs().max()
    if one["dtype"] == "f16":
        allowed = 2.0**-11 * expected.abs() + 2.0**-25  # small numbers are subnormal
    if one["dtype"] == "u8":
        spread = expected.amax(-1, keepdim=True) - expected.amin(-1, keepdim=True)
        allowed = spread / 504 * 1.0001 + 1e-6
    same = ((found - expected).abs() <= allowed) | (found.isnan() & expected.isnan())
    assert same.all(), (one, record.layer)


def expected_values(export: Export) -> dict[str, dict[tuple[str, int], Tensor]]:
    """Values and gradients of the whole batch; gradients micro-batch by micro-batch."""
    with torch.no_grad():
        values = activations(export.config, export.weights, export.tokens)
    by_micro = [
        activation_gradients(
            export.config,
            export.weights,
            export.tokens[first : first + MICRO_BATCH],
            export.labels[first : first + MICRO_BATCH],
        )
        for first in range(0, MICRO_BATCH * MICRO_BATCHES, MICRO_BATCH)
    ]
    gradients = {
        key: torch.cat([part[key] for part in by_micro]) / MICRO_BATCHES for key in by_micro[0]
    }
    return {"value": values, "gradient": gradients}


def assert_equals_pytorch(
    captured: Captured, entries: list[dict[str, Any]], exports: Path, vectors: dict[str, Tensor]
) -> None:
    for step in sorted({key[0] for key in captured}):
        export = Export.read(exports / f"step_{step:06d}.safetensors")
        seen = expected_values(export)
        for (at, index, layer, first_row), record in captured.items():
            one = entries[index]
            if at != step or "prompts" in one:
                continue
            direction = one.get("direction", "value")
            assert record.direction == (direction == "gradient")
            assert record.point == one["point"]
            values = selected(one, seen[direction][one["point"], layer])
            assert record.features == values.shape[-1]
            rows = one["rows"][0] if isinstance(one["rows"], list) else 0
            assert first_row == int(one.get("micro_batches", "0")) * MICRO_BATCH + rows
            scores = (one["point"], direction) == ("Logits", "value")
            targets = selected(one, export.labels.unsqueeze(-1)).squeeze(-1) if scores else None
            assert_equal(record, one, compressed(one, values, layer, vectors, targets))


def assert_prompts_equal_pytorch(
    captured: Captured, entries: list[dict[str, Any]], exports: Path, vectors: dict
) -> None:
    """Prompts of step N see the weights that step N + 1 begins with."""
    tokens = torch.zeros(len(PROMPTS), max(len(text.encode()) for text in PROMPTS)).long()
    targets = torch.full_like(tokens, -1)
    for row, text in enumerate(PROMPTS):
        tokens[row, : len(text.encode())] = torch.tensor(list(text.encode()))
        targets[row, : len(text.encode()) - 1] = tokens[row, 1 : len(text.encode())]
    checked = 0
    for (step, index, layer, first_row), record in captured.items():
        one = entries[index]
        if "prompts" not in one:
            continue
        assert (record.prompt_set, record.phase) == (1, "eval")
        rows = slice(first_row, first_row + MICRO_BATCH)
        if one["point"] == "InputTokens":
            assert (record.values[0] == tokens[rows].numpy()).all()
            continue
        export = Export.read(exports / f"step_{step + 1:06d}.safetensors")
        with torch.no_grad():
            values = activations(export.config, export.weights, tokens)[one["point"], layer][rows]
        of_logits = targets[rows] if one["point"] == "Logits" else None
        assert_equal(record, one, compressed(one, values, layer, vectors, of_logits))
        checked += 1
    assert checked == WATCHED * (3 * LAYERS + 1)


def assert_everything_equals_pytorch(
    flags: dict, entries: list[dict[str, Any]], tensor: int, tmp_path: Path, hidden: int = HIDDEN
) -> None:
    """All records of two steps of a run."""
    vectors = write_vectors(tmp_path / "vectors", hidden)
    (tmp_path / "plan.json").write_text(json.dumps({"entries": entries}))
    prompts = tmp_path / "probes.jsonl"
    prompts.write_text("\n".join(json.dumps({"prompt": text}) for text in PROMPTS) + "\n\n")
    changes = {
        "params_dtype": "float64",
        "train_iters": 30,
        "micro_batch_size": MICRO_BATCH,
        "global_batch_size": MICRO_BATCH * MICRO_BATCHES,
        "tensor_model_parallel_size": tensor,
        "tensor_tracer_plan": str(tmp_path / "plan.json"),
        "tensor_tracer_vectors": str(tmp_path / "vectors"),
        "monitor_prompts": str(prompts),
        "monitor_interval": 1,
        "export_tensors": str(tmp_path / "exports"),
        "export_at": "1-30",
    }
    with live_run(flags | changes, tmp_path / "run", ranks=tensor) as run:
        captured = watch(run, entries)
    assert_equals_pytorch(captured, entries, tmp_path / "exports", vectors)
    assert_prompts_equal_pytorch(captured, entries, tmp_path / "exports", vectors)


@pytest.mark.parametrize("tensor", [pytest.param(1, marks=NIGHTLY), 2, pytest.param(4, marks=NIGHTLY)])
@pytest.mark.parametrize("shape", [{}, LLAMA, QWEN], ids=["gpt2", "llama", "qwen"])
def test_everything_equals_pytorch(shape: dict, tensor: int, flags, tmp_path: Path) -> None:
    assert_everything_equals_pytorch(flags | shape, entries_for(shape), tensor, tmp_path)


@pytest.mark.parametrize("name", IMPORTED)
def test_everything_of_an_imported_model_equals_pytorch(name: str, flags, tmp_path: Path) -> None:
    imports = imported(flags, name, tmp_path / "model")
    assert_everything_equals_pytorch(imports, entries_for_model(name), 2, tmp_path, IMPORTED_HIDDEN)


def records_of_three_steps(
    flags: dict, shape: dict, folder: Path, tensor: int, entries: list[dict] | None = None, data: int = 1,
    hidden: int = HIDDEN,
) -> dict[tuple, Record]:  # fmt: skip
    """Every record of a run of three steps, from its recording."""
    folder.mkdir(parents=True)
    write_vectors(folder / "vectors", hidden)
    if entries is None:
        entries = [one for one in entries_for(shape) if "prompts" not in one]
    (folder / "plan.json").write_text(json.dumps({"entries": entries}))
    changes = {
        "params_dtype": "float64",
        "train_iters": 3,
        "micro_batch_size": MICRO_BATCH,
        "global_batch_size": MICRO_BATCH * MICRO_BATCHES,
        "tensor_model_parallel_size": tensor,
        "tensor_tracer_plan": str(folder / "plan.json"),
        "tensor_tracer_vectors": str(folder / "vectors"),
        "record": str(folder),
    }
    train(flags | changes | shape, folder, tensor * data)
    with contextlib.closing(sqlite3.connect(folder / "run.ttrec")) as recording:
        rows = [row for (row,) in recording.execute("SELECT record FROM frames ORDER BY sequence")]
        numbers = recording.execute("SELECT flag, name FROM points").fetchall()
    facts = {"points": [{"flag": flag, "name": name} for flag, name in numbers]}
    records = [one for row in rows for one in decode(row + bytes(-len(row) % 8), facts)]
    assert [one.sequence for one in records] == list(range(1, len(records) + 1)), "a gap"
    found = {(one.step, one.entry, one.layer, one.first_row): one for one in records}
    asked = sum(len(layers_of(one)) for one in entries)
    assert len(found) == len(records) == 3 * asked
    return found


def agree(alone: Record, split: Record) -> None:
    """Within 1e-12 of the tensor's largest value and, where numbers are narrower on the wire, within
    one of its steps: what rounds differently may fall to the other side."""
    assert split.values.shape == alone.values.shape
    if alone.values.size == 0:
        return
    one, other = alone.values.astype(np.float64), split.values.astype(np.float64)
    allowed = np.full_like(one, 1e-12 * np.abs(one).max())
    if alone.dtype == F16:
        allowed = np.spacing(np.abs(alone.values)).astype(np.float64)
    elif alone.dtype == U8:
        allowed = np.broadcast_to((np.ptp(one, axis=-1, keepdims=True)) / 252 * 1.001, one.shape)
    elif alone.compressor == "stats":
        # Ten numbers and a histogram, each of a different size; a number at a border may change bins.
        assert np.allclose(one[1], other[1], rtol=1e-11, atol=0, equal_nan=True)
        one, other = one[0], other[0]
        assert one[0] == other[0] and (one[6:10] == other[6:10]).all()
        assert one[10:].sum() == other[10:].sum() and np.abs(one - other)[10:].sum() <= 2
        allowed = 1e-12 * np.array([max(-one[3], one[4])] * 4 + [one[5]])
        one, other = one[1:6], other[1:6]
    elif alone.compressor == "topk":
        assert (one[1] == other[1]).mean() > 0.99, "columns"
        assert np.allclose(one[2:], other[2:], rtol=0, atol=1e-12 * np.abs(one[0]).max(), equal_nan=True)
        one, other = one[0], other[0]
        allowed = 1e-12 * np.abs(one).max()
    assert (np.abs(one - other) <= allowed).all(), (alone.step, alone.point, alone.compressor)


@pytest.mark.parametrize(
    "shape",
    [pytest.param(SHAPES[0], marks=NIGHTLY), SHAPES[1], pytest.param(SHAPES[2], marks=NIGHTLY)],
    ids=["gpt2", "llama", "multi-query"],
)
def test_whole_runs_agree_at_every_tensor_size(shape: dict, flags, tmp_path: Path) -> None:
    """Every record of three steps in float64, whatever its compressor and its dtype on the wire."""
    alone = records_of_three_steps(flags, shape, tmp_path / "1", 1)
    assert {"none", "tile", "projection", "stats", "topk", "empty"} <= {r.compressor for r in alone.values()}
    assert {F16, U8} <= {record.dtype for record in alone.values()}
    for tensor in (2, 4):
        split = records_of_three_steps(flags, shape, tmp_path / str(tensor), tensor)
        assert split.keys() == alone.keys()
        for key, record in alone.items():
            agree(record, split[key])


@pytest.mark.parametrize("name", IMPORTED)
def test_imported_models_agree_at_every_tensor_size(name: str, flags, tmp_path: Path) -> None:
    """One rank against four; two ranks equal PyTorch."""
    imports = imported(flags, name, tmp_path / "model")
    entries = [one for one in entries_for_model(name) if "prompts" not in one]
    alone, split = (records_of_three_steps(imports, {}, tmp_path / str(tensor), tensor, entries, hidden=IMPORTED_HIDDEN)
                    for tensor in (1, 4))  # fmt: skip
    assert split.keys() == alone.keys()
    for key, record in alone.items():
        agree(record, split[key])


def outliers_of(values: np.ndarray, k: int) -> np.ndarray:
    """What NumPy makes of every column."""
    columns = np.argsort(-np.abs(values), axis=-1, kind="stable")[..., :k]
    return np.stack([np.take_along_axis(values, columns, -1), columns])


@pytest.mark.parametrize("tensor", [1, 2])
def test_a_method_that_reads_the_mean_of_all_numbers_equals_pytorch(tensor: int, flags, tmp_path: Path) -> None:
    method = entry("MLP1", compressor={"kind": "tile", "tiles": 4, "method": DISTANCE_OF_MEANS})
    records = records_of_three_steps(flags, {}, tmp_path / "run", tensor, [entry("MLP1"), method])
    for (step, index, layer, row), record in records.items():
        if index == 1:
            every = torch.from_numpy(np.array(records[step, 0, layer, row].values)).double()
            assert_equal(record, method, compressed(method, every, layer, {}))


@pytest.mark.parametrize("tensor", [1, 2])
def test_outliers_equal_numpy(tensor: int, flags, tmp_path: Path) -> None:
    """Bit for bit, of values and gradients, of points that ranks hold whole and in shards."""
    watched = [("HiddenStates", "value", 3), ("MLP1", "value", 7), ("MLP1", "gradient", 40)]
    entries = []
    for point, direction, k in watched:
        entries.append(entry(point, direction=direction))
        entries.append(entry(point, direction=direction, compressor={"kind": "outliers", "k": k}))
    records = records_of_three_steps(flags, {}, tmp_path / "run", tensor, entries)
    for (step, index, layer, row), record in records.items():
        if index % 2 == 1:
            every = records[step, index - 1, layer, row]
            expected = outliers_of(every.values, watched[index // 2][2])
            assert np.array_equal(record.values, expected), (record.point, step, layer)
