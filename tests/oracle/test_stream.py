"""What a viewer receives is what PyTorch computes from the same weights and the same batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from decoder import Record
from hf_models import FAMILIES, imported
from reference_gpt import Export, activations, tile_means
from torch import Tensor
from viewer import LiveRun, Viewer, live_run

NIGHTLY = pytest.mark.nightly(suite="meshes")

LLAMA = {
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "swiglu": True,
    "disable_bias_linear": True,
    "untie_embeddings_and_output_weights": True,
    "ffn_hidden_size": 44,
    "num_query_groups": 2,  # fewer than four ranks: two hold copies of one group
}
# Tile counts that divide neither the features nor the shards, one tile, and one per column.
PLAN = {
    "entries": [
        {"point": "HiddenStates", "rows": 1, "compressor": {"kind": "tile", "tiles": 5}},
        {"point": "QKV", "rows": 0, "compressor": {"kind": "tile", "tiles": 7}},
        {"point": "MLP1", "rows": 3, "compressor": {"kind": "tile", "tiles": 13}},
        {"point": "MLP2", "layers": "2", "rows": 2, "compressor": {"kind": "tile", "tiles": 32}},
        {"point": "HiddenStates", "layers": "1", "rows": 0, "compressor": {"kind": "none"}},
        {"point": "QKV", "layers": "1-2", "rows": 2, "compressor": {"kind": "tile", "tiles": 1}},
        {"point": "MLP1", "layers": "2", "compressor": {"kind": "tile", "tiles": 9}},
        {"point": "MLP2", "layers": "1", "compressor": {"kind": "tile", "tiles": 11}},
        *(
            {"point": point, "rows": 2, "compressor": {"kind": "tile", "tiles": 5}}
            for point in (
                *("Embedding", "Query", "Key", "Value", "ContextLayer", "AttentionOutput"),
                *("ResidualMid", "MLPActivation", "FinalNorm"),
            )
        ),
        {"point": "InputTokens", "rows": 0, "compressor": {"kind": "none"}},
    ]
}
WITHOUT_LAYER = {"InputTokens", "Embedding", "FinalNorm"}
DTYPES = ["f64"] * 6 + ["f32", "bf16"] + ["f64"] * 9 + ["i32"]
for _entry, _dtype in zip(PLAN["entries"], DTYPES, strict=True):
    _entry["dtype"] = _dtype
ROUNDING = {"f64": 0.0, "f32": 2.0**-24, "bf16": 2.0**-8}  # of a value that is sent

STEPS = 40  # long enough that a pause asked for at the start finds the run alive
WATCHED = 3
Captured = dict[tuple[int, int, int], Record]  # by (step, entry, layer)


def expected_keys(num_layers: int = 2) -> set[tuple[int, int]]:
    """The (entry, layer) pairs that PLAN asks for."""
    keys = set()
    for index, entry in enumerate(PLAN["entries"]):
        if entry["point"] in WITHOUT_LAYER:
            keys.add((index, 0))
            continue
        first, _, last = entry.get("layers", f"1-{num_layers}").partition("-")
        keys |= {(index, layer) for layer in range(int(first), int(last or first) + 1)}
    return keys


def watch(run: LiveRun) -> Captured:
    """The records of three steps, taken one at a time so that nothing newer replaces them."""
    keys = expected_keys()
    with run.viewer() as viewer:
        viewer.request("control.claim", {"name": "oracle", "take_over": False})
        paused_at = viewer.request("control.pause")["step"]
        captured: Captured = {}
        for step in range(paused_at + 1, paused_at + 1 + WATCHED):
            assert viewer.request("control.step", {"count": 1})["step"] == step
            viewer.wait_for(lambda: keys <= received(viewer, step), f"all records of step {step}")
            captured |= {(step, r.entry, r.layer): r for r in viewer.records if r.step == step}
        assert_consistent(viewer)
        viewer.request("control.continue")
        viewer.wait_for(
            lambda: any(state["phase"] == "finished" for state in viewer.named("state")),
            "the end of the run",
        )
    run.wait()
    return captured


def received(viewer: Viewer, step: int) -> set[tuple[int, int]]:
    """The (entry, layer) pairs of this step that have arrived."""
    return {(r.entry, r.layer) for r in viewer.records if r.step == step}


def assert_consistent(viewer: Viewer) -> None:
    """Header fields that hold for every record of a run with one leader."""
    run = int(viewer.run["id"], 16)
    for record in viewer.records:
        assert record.run == run
        assert (record.tensor_rank, record.pipeline_rank, record.data_rank) == (0, 0, 0)
        assert (record.phase, record.direction, record.prompt_set) == ("train", 0, 0)
    numbers = [record.sequence for record in viewer.records]
    assert len(set(numbers)) == len(numbers), "a sequence number came twice"
    lost = max(numbers) - len(numbers)
    assert lost == sum(dropped["records"] for dropped in viewer.named("dropped"))


def logical(record: Record, seen: dict[tuple[str, int], Tensor]) -> Tensor:
    """What the record should hold, from PyTorch's activations of the whole batch."""
    entry = PLAN["entries"][record.entry]
    assert record.point == entry["point"]
    rows = slice(record.first_row, record.first_row + record.values.shape[0])
    whole = seen[record.point, record.layer]
    assert record.features == whole.shape[-1]
    assert record.compressor == entry["compressor"]["kind"]
    if record.compressor == "none":
        return whole[rows]
    return tile_means(whole, entry["compressor"]["tiles"])[rows]


def assert_equals_pytorch(captured: Captured, folder: Path, micro_batch: int) -> None:
    """Every record within 1e-12 of its tensor's largest value and its rounding; tokens exactly."""
    for step in sorted({key[0] for key in captured}):
        export = Export.read(folder / f"step_{step:06d}.safetensors")
        seen = activations(export.config, export.weights, export.tokens)
        for (at, entry, _), record in captured.items():
            if at != step:
                continue
            asked = PLAN["entries"][entry].get("rows", 1) or micro_batch
            values = torch.from_numpy(record.values.copy())
            if record.point == "InputTokens":
                rows = export.tokens[record.first_row : record.first_row + asked].int()
                positions = torch.arange(rows.shape[1], dtype=torch.int32).expand_as(rows)
                assert torch.equal(values, torch.stack([rows, positions]))
                continue
            expected = logical(record, seen)
            assert values.shape == expected.shape
            assert values.shape[0] == asked
            rounding = ROUNDING[PLAN["entries"][entry]["dtype"]] * expected.abs()
            allowed = 1e-12 * expected.abs().max() + rounding
            assert ((values - expected).abs() <= allowed).all(), (record.point, record.layer)


def traced(flags, shape: dict, folder: Path, tensor: int, data: int = 1) -> Captured:
    """A watched run on a mesh, checked against PyTorch."""
    folder.mkdir(parents=True)
    plan = folder / "plan.json"
    plan.write_text(json.dumps(PLAN))
    changes = shape | {
        "params_dtype": "float64",
        "train_iters": STEPS,
        "tensor_model_parallel_size": tensor,
        "tensor_tracer_plan": str(plan),
        "export_tensors": str(folder / "exports"),
        "export_at": f"1-{STEPS}",
    }
    with live_run(flags | changes, folder, ranks=tensor * data) as run:
        captured = watch(run)
    assert_equals_pytorch(captured, folder / "exports", flags["micro_batch_size"])
    return captured


@pytest.mark.parametrize("shape", [pytest.param({}, marks=NIGHTLY), LLAMA], ids=["gpt2", "llama"])
def test_records_equal_pytorch_at_every_tensor_size(shape: dict, flags, tmp_path: Path) -> None:
    """One, two and four ranks, and the same values on each for the steps they share."""
    runs = {n: traced(flags, shape, tmp_path / f"tensor{n}", n) for n in (1, 2, 4)}
    for ranks in (2, 4):
        shared = runs[1].keys() & runs[ranks].keys()
        for key in shared:
            alone, split = runs[1][key].values, runs[ranks][key].values
            if runs[1][key].point == "InputTokens":
                assert (alone == split).all()
            else:
                # Sums that cross ranks, now or in earlier steps, round differently.
                assert abs(alone - split).max() <= 1e-9 * abs(alone).max(), key


@pytest.mark.parametrize("name", [pytest.param(name, marks=NIGHTLY) for name in FAMILIES])
def test_records_of_imported_models_equal_pytorch(name: str, flags, tmp_path: Path) -> None:
    traced(imported(flags, name, tmp_path / "model"), {}, tmp_path / "run", 2)


def test_records_of_replica_zero_with_data_parallelism(flags, tmp_path: Path) -> None:
    captured = traced(flags, {}, tmp_path / "run", tensor=2, data=2)
    assert {record.first_row for record in captured.values()} == {0}


def test_records_of_evaluations(flags, tmp_path: Path) -> None:
    """An evaluation after step N sees the weights that step N + 1 begins with."""
    entry = {"rows": 0, "phases": ["eval"], "dtype": "f64"}
    plan = {
        "entries": [
            entry | {"point": "QKV", "compressor": {"kind": "tile", "tiles": 7}},
            {"point": "InputTokens", "rows": 0, "phases": ["eval"]},
        ]
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    changes = {
        "params_dtype": "float64",
        "train_iters": 4,
        "eval_interval": 3,
        "eval_iters": 2,
        "micro_batch_size": flags["global_batch_size"],
        "tensor_tracer_plan": path,
        "export_tensors": tmp_path / "exports",
        "export_at": 4,
    }
    with live_run(flags | changes, tmp_path / "run") as run, run.viewer() as viewer:
        # A text may overtake records.
        viewer.wait_for(lambda: {r.layer for r in viewer.records if r.step == 3} == {0, 1, 2}, "the evaluation")
        viewer.wait_for(lambda: 4 in viewer.steps(), "the last step")
        run.wait()
    found = {r.layer: r for r in viewer.records if r.step == 3}
    assert {record.phase for record in viewer.records} == {"eval"}
    assert found.keys() == {0, 1, 2}
    export = Export.read(tmp_path / "exports" / "step_000004.safetensors")
    tokens = torch.from_numpy(found[0].values[0].copy()).long()
    seen = activations(export.config, export.weights, tokens)
    for layer in (1, 2):
        expected = tile_means(seen["QKV", layer], 7)
        error = (torch.from_numpy(found[layer].values.copy()) - expected).abs().max()
        assert error <= 1e-12 * expected.abs().max()
