"""Every trace point, direction and compressor of a live run against PyTorch, at TP 1, 2 and 4."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from decoder import Record
from reference_gpt import Export, activation_gradients, activations, tile_means
from safetensors.torch import save_file
from test_stream import LLAMA
from torch import Tensor
from viewer import LiveRun, live_run
from websockets.exceptions import ConnectionClosed

LAYERS, HIDDEN = 2, 32
MICRO_BATCH, MICRO_BATCHES = 3, 2
WATCHED = 2
PROMPTS = ["def f(x):", "é", "a longer prompt, with é in it"]

POINTS = ("QKV", "Query", "Key", "Value", "ContextLayer", "AttentionOutput", "ResidualMid", "MLP1")
POINTS += ("MLPActivation", "MLP2", "HiddenStates", "Embedding", "FinalNorm", "Logits")
NO_LAYER = {"Embedding", "FinalNorm", "Logits", "InputTokens"}


def entry(point: str, **members: Any) -> dict[str, Any]:
    """An entry over all rows in float64."""
    return {"point": point, "rows": 0, "dtype": "f64", "compressor": {"kind": "none"}} | members


METHODS = (
    "data.abs().amax(dim=-1)",
    "(data * data.sigmoid()).std(dim=-1)",
    "data.mean(-1) - data.mean()",
    "data.softmax(dim=1).flatten(1)[:, ::3]",
    "torch.linalg.norm(data)",
)
PROJECTION = {"kind": "projection", "vectors": ["evil", "kind", "plain"]}
ENTRIES = [
    *(entry(point) for point in (*POINTS, "RawAttentionScore")),
    *(entry(point, direction="gradient") for point in POINTS),
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
    {"point": "InputTokens", "prompts": "probes", "rows": 0, "dtype": "i64"},
    entry("MLP2", dtype="u8"),
    entry("MLP2", dtype="f16"),
]

Captured = dict[tuple[int, int, int, int], Record]  # by (step, entry, layer, first row)


def write_vectors(folder: Path) -> dict[str, Tensor]:
    """Three directions in the three formats; what row n of each should be, float32."""
    folder.mkdir()
    random = torch.Generator().manual_seed(3)
    with_embedding = torch.randn(LAYERS + 1, HIDDEN, generator=random)
    also = torch.randn(LAYERS + 1, HIDDEN, generator=random).to(torch.bfloat16)
    without = torch.randn(LAYERS, HIDDEN, generator=random)
    torch.save(with_embedding, folder / "evil.pt")
    save_file({"kind": also}, folder / "kind.safetensors")
    np.save(folder / "plain.npy", without.numpy())
    (folder / "README.txt").write_text("not a vector")
    plain = torch.cat([torch.zeros(1, HIDDEN), without])
    return {"evil": with_embedding, "kind": also.float(), "plain": plain}


def layers_of(one: dict[str, Any]) -> list[int]:
    return [0] if one["point"] in NO_LAYER else list(range(1, LAYERS + 1))


def prompt_rows() -> list[int]:
    return list(range(0, len(PROMPTS), MICRO_BATCH))


def watch(run: LiveRun) -> Captured:
    """All records of two steps, taken one at a time."""
    keys = {
        (index, layer) for index, one in enumerate(ENTRIES) for layer in layers_of(one)
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
    return torch.cat([torch.tensor([float(x) for x in head], dtype=torch.float64), bins.double()])


def compressed(one: dict[str, Any], values: Tensor, row: int, vectors: dict[str, Tensor]) -> Tensor:
    """What PyTorch makes of the selected values."""
    compressor = one["compressor"]
    if compressor["kind"] == "none":
        return values
    if compressor["kind"] == "empty":
        return values[..., :0]
    if compressor["kind"] == "stats":
        return stats(values, compressor)
    if compressor["kind"] == "topk":
        return torch.stack([part.double() for part in values.topk(compressor["k"])])
    if compressor["kind"] == "projection":
        directions = torch.stack([vectors[name][row].double() for name in compressor["vectors"]])
        if compressor.get("normalize", True):
            directions = directions / directions.norm(dim=-1, keepdim=True)
        return values @ directions.T
    tiles, method = compressor["tiles"], compressor.get("method", "mean")
    borders = [t * values.shape[-1] // tiles for t in range(tiles + 1)]
    if method == "mean":
        return tile_means(values, tiles)
    if method in METHODS:
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
    allowed = 1e-11 * expected.abs().max()
    if one["dtype"] == "f16":
        allowed = 2.0**-11 * expected.abs() + 2.0**-25  # small numbers are subnormal
    if one["dtype"] == "u8":
        spread = expected.amax(-1, keepdim=True) - expected.amin(-1, keepdim=True)
        allowed = spread / 504 * 1.0001 + 1e-6
    assert ((found - expected).abs() <= allowed).all(), (one, record.layer)


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


def assert_equals_pytorch(captured: Captured, exports: Path, vectors: dict[str, Tensor]) -> None:
    for step in sorted({key[0] for key in captured}):
        export = Export.read(exports / f"step_{step:06d}.safetensors")
        seen = expected_values(export)
        for (at, index, layer, first_row), record in captured.items():
            one = ENTRIES[index]
            if at != step or "prompts" in one:
                continue
            direction = one.get("direction", "value")
            assert record.direction == (direction == "gradient")
            assert record.point == one["point"]
            values = selected(one, seen[direction][one["point"], layer])
            assert record.features == values.shape[-1]
            rows = one["rows"][0] if isinstance(one["rows"], list) else 0
            assert first_row == int(one.get("micro_batches", "0")) * MICRO_BATCH + rows
            assert_equal(record, one, compressed(one, values, layer, vectors))


def assert_prompts_equal_pytorch(captured: Captured, exports: Path, vectors: dict) -> None:
    """Prompts of step N see the weights that step N + 1 begins with."""
    tokens = torch.zeros(len(PROMPTS), max(len(text.encode()) for text in PROMPTS)).long()
    for row, text in enumerate(PROMPTS):
        tokens[row, : len(text.encode())] = torch.tensor(list(text.encode()))
    checked = 0
    for (step, index, layer, first_row), record in captured.items():
        one = ENTRIES[index]
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
        assert_equal(record, one, compressed(one, values, layer, vectors))
        checked += 1
    assert checked == WATCHED * 3 * LAYERS


@pytest.mark.parametrize("tensor", [1, 2, 4])
@pytest.mark.parametrize("shape", [{}, LLAMA], ids=["gpt2", "llama"])
def test_everything_equals_pytorch(shape: dict, tensor: int, flags, tmp_path: Path) -> None:
    vectors = write_vectors(tmp_path / "vectors")
    (tmp_path / "plan.json").write_text(json.dumps({"entries": ENTRIES}))
    prompts = tmp_path / "probes.jsonl"
    prompts.write_text("\n".join(json.dumps({"prompt": text}) for text in PROMPTS) + "\n\n")
    changes = shape | {
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
        captured = watch(run)
    assert_equals_pytorch(captured, tmp_path / "exports", vectors)
    assert_prompts_equal_pytorch(captured, tmp_path / "exports", vectors)


def records_of_three_steps(flags: dict, folder: Path, tensor: int) -> dict[tuple, Record]:
    """Every record of a run of three steps; a slow viewer may miss a few."""
    write_vectors(folder / "vectors")
    entries = [one for one in ENTRIES if "prompts" not in one]
    (folder / "plan.json").write_text(json.dumps({"entries": entries}))
    changes = {
        "params_dtype": "float64",
        "train_iters": 3,
        "micro_batch_size": MICRO_BATCH,
        "global_batch_size": MICRO_BATCH * MICRO_BATCHES,
        "tensor_model_parallel_size": tensor,
        "tensor_tracer_plan": str(folder / "plan.json"),
        "tensor_tracer_vectors": str(folder / "vectors"),
    }
    with live_run(flags | LLAMA | changes, folder, ranks=tensor) as run, run.viewer() as viewer:
        with contextlib.suppress(ConnectionClosed):
            viewer.drain(30)  # until the hub has sent all and ends
        run.wait()
    return {(r.step, r.entry, r.layer, r.point, r.compressor): r for r in viewer.records}


def test_whole_runs_agree_at_every_tensor_size(flags, tmp_path: Path) -> None:
    """Three steps in float64 within 1e-12 of each tensor's largest value."""
    runs = {}
    for tensor in (1, 2, 4):
        (tmp_path / str(tensor)).mkdir()
        runs[tensor] = records_of_three_steps(flags, tmp_path / str(tensor), tensor)
    assert {key[0] for key in runs[1]} == {1, 2, 3}
    for tensor in (2, 4):
        shared = runs[tensor].keys() & runs[1].keys()
        assert len(shared) >= 0.9 * len(runs[1])
        for key in shared:
            record = runs[1][key]
            if key[4] in {"stats", "topk", "empty"} or record.dtype != 1:
                continue  # counts and columns may jump where numbers round
            alone, split = record.values, runs[tensor][key].values
            assert abs(alone - split).max() <= 1e-12 * abs(alone).max(), (tensor, key)
