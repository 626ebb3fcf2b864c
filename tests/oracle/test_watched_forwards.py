"""What a forward is watched for is what was asked, in every dtype and shape, at the price of one
message; what is off costs none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from program import command, environment
from test_control import claim
from test_intervention_control import paused, step
from test_points import NO_LAYER, POINTS, SHAPES
from viewer import RequestError, Viewer, live_run

NIGHTLY = pytest.mark.nightly(suite="meshes")

LAYERS, HIDDEN = 2, 32
MICRO_BATCHES = 2
WHOLE = {"rows": 0, "compressor": {"kind": "none"}, "dtype": "f32"}
DTYPES = [pytest.param({"params_dtype": "float32"}, id="float32"),
          pytest.param({"params_dtype": "float64"}, id="float64", marks=NIGHTLY),
          pytest.param({"bf16": True}, id="bf16", marks=NIGHTLY),
          pytest.param({"params_dtype": "bfloat16"}, id="bfloat16")]  # fmt: skip


def on(folder: Path, entries: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The flags of a run on two ranks with this plan."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps({"entries": entries}))
    return {"tensor_model_parallel_size": 2, "tensor_tracer_plan": str(folder / "plan.json")} | more


def one_step(viewer: Viewer, count: int) -> dict[tuple[int, int], Any]:
    """So many records of one step, by entry and layer."""
    paused(viewer)
    last = viewer.request("control.step", {"count": 1})["step"]

    def found() -> dict[tuple[int, int], Any]:
        return {(r.entry, r.layer): r for r in viewer.records if r.step == last}

    viewer.wait_for(lambda: len(found()) == count, f"{count} records of step {last}")
    return found()


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_dtype_is_projected_on_float32_vectors(dtype: dict[str, Any], flags, tmp_path: Path) -> None:
    """The dot products of what the model computed, which in bf16 has 8 bits, with all of a vector's."""
    (tmp_path / "vectors").mkdir()
    rows = torch.randn(LAYERS + 1, HIDDEN, generator=torch.Generator().manual_seed(1))
    torch.save(rows, tmp_path / "vectors" / "evil.pt")
    projection = {"kind": "projection", "vectors": ["evil"], "normalize": False}
    entries = [WHOLE | {"point": "HiddenStates"}, WHOLE | {"point": "HiddenStates", "compressor": projection}]
    more = {"tensor_tracer_vectors": str(tmp_path / "vectors"), "train_iters": 100_000} | dtype
    with live_run(flags | on(tmp_path, entries, **more), tmp_path, 2) as run, run.viewer() as viewer:
        found = one_step(viewer, 2 * LAYERS)
        assert step(viewer, 2) > 0, "the ranks go on"
    for layer in (1, 2):
        hidden = found[0, layer].values.astype(np.float64)
        expected = hidden @ rows[layer].double().numpy()
        error = np.abs(found[1, layer].values[..., 0] - expected).max()
        assert error <= 1e-5 * np.abs(expected).max(), (layer, error)
        if "bf16" in dtype or "bfloat16" in dtype.values():
            bits = torch.from_numpy(found[0, layer].values.copy())
            assert torch.equal(bits, bits.bfloat16().float()), "hidden states are not bf16"


@pytest.mark.parametrize("shape", SHAPES, ids=["gpt2", "llama", "multi-query"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_point_is_there_in_every_dtype_and_shape(
    dtype: dict[str, Any], shape: dict[str, Any], flags, tmp_path: Path
) -> None:
    points = (*POINTS, "RawAttentionScore")
    entries = [{"point": point, "compressor": {"kind": "stats"}} for point in points]
    keys = {(i, layer) for i, point in enumerate(points)
            for layer in ([0] if point in NO_LAYER else [1, 2])}  # fmt: skip
    more = {"train_iters": 100_000} | dtype | shape
    with live_run(flags | on(tmp_path, entries, **more), tmp_path, 2) as run, run.viewer() as viewer:
        found = one_step(viewer, len(keys))
        assert found.keys() == keys
        for (entry, layer), record in found.items():
            moments = record.values.reshape(2, -1)[0]
            assert moments[0] > 0 and np.isfinite(moments[1:6]).all(), (points[entry], layer)
        with pytest.raises(RequestError) as refused:
            viewer.request("plan.set", {"plan": {"entries": [{"point": "Hiddenstates"}]}})
        assert "Hiddenstates" in refused.value.message and "HiddenStates" in refused.value.remedy
        assert step(viewer) > 0


def test_no_forward_is_watched_for_another(flags, tmp_path: Path) -> None:
    """Evaluations, prompts and previews stand between the forwards of training, and a program fails in
    some: what is asked of one kind is taken from no other, from the first forward on."""
    asked = {0: ("train", 1, 0, 0), 1: ("eval", 0, 0, 0), 2: ("eval", 0, 1, 0), 3: ("train", 0, 0, 1)}
    entries = [
        {"point": "HiddenStates", "layers": "1", "micro_batches": "1"},
        {"point": "HiddenStates", "layers": "1", "phases": ["eval"]},
        {"point": "HiddenStates", "layers": "1", "prompts": "probes"},
        {"point": "HiddenStates", "layers": "1", "direction": "gradient"},
    ]
    (tmp_path / "probes.txt").write_text("def f(x):\n")
    more = {"train_iters": 100_000, "eval_interval": 2, "eval_iters": 1, "monitor_interval": 3,
            "monitor_prompts": str(tmp_path / "probes.txt")}  # fmt: skip
    misfit = 'when(phase="all")\nlayers[2].output[:, 20] = 0'  # prompts are shorter
    with live_run(flags | on(tmp_path, entries, **more), tmp_path, 2) as run, run.viewer() as viewer:
        paused(viewer)
        viewer.request("intervention.apply", {"name": "misfit", "program": misfit})
        for _ in range(4):
            step(viewer, 3)
            preview = "layers[2].output *= 2\nlayers[1].output.grad *= 2"
            viewer.request("intervention.preview", {"program": preview})
        last = step(viewer)
        wanted = {(entry, at) for entry, every in enumerate((1, 2, 3, 1))
                  for at in range(1, last + 1) if at % every == 0}  # fmt: skip
        viewer.wait_for(lambda: wanted <= {(r.entry, r.step) for r in viewer.records}, "all records")
    for r in viewer.records:
        assert (r.phase, r.micro_batch, r.prompt_set, r.direction) == asked[r.entry], r
    assert sorted((r.entry, r.step) for r in viewer.records) == sorted(wanted), "one too many"
    failed = [p["failed"] for one in viewer.named("applied") for p in one["programs"]]
    assert max(failed) > 0, "the program failed nowhere"


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that counts calls of MPI."""
    library = tmp_path_factory.mktemp("counter") / "mpi_calls.so"
    source = Path(__file__).with_name("mpi_calls.c")
    subprocess.run(["mpicc", "-shared", "-fPIC", "-O1", str(source), "-o", str(library)], check=True)
    return library


def calls(counter: Path, flags: dict[str, Any], folder: Path, steps: int) -> tuple[int, int]:
    """Gathers and broadcasts of rank 0 and, which must be as many, rank 1."""
    folder.mkdir(parents=True)
    env = environment() | {"LD_PRELOAD": str(counter), "TT_MPI_CALLS": str(folder / "calls")}
    changes = {"train_iters": steps, "run_dir": str(folder / "run"), "micro_batch_size": 4, "global_batch_size": 8}
    line = command(flags | changes, 2)
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    first, second = (folder / "calls").read_text().split("\n")[:2]
    assert first == second
    gathers, broadcasts = map(int, first.split())
    return gathers, broadcasts


OFF = {  # what no other rank has to send for
    "nothing": [],
    "disabled": [{"point": "QKV", "enabled": False}],
    "evaluations": [{"point": "QKV", "phases": ["eval"]}],
    "later": [{"point": "QKV", "every": 1000}],
    "no numbers": [{"point": "QKV", "compressor": {"kind": "empty"}}],
    "no shards": [{"point": "HiddenStates", "micro_batches": "0-1"}],
}
BOTH = {"micro_batches": "0-1"}
LOGITS = {"point": "Logits", "compressor": {"kind": "topk", "k": 3}}
WATCHED = {  # entries, messages of a step, which has two forwards
    "one point": ([{"point": "QKV"}], 1),
    "every point": ([BOTH | {"point": point} for point in POINTS], 2),
    "two places": ([BOTH | {"point": "HiddenStates"}, LOGITS], 1),
    "a value and a gradient": ([{"point": "QKV"}, {"point": "MLP1", "direction": "gradient"}], 2),
    "gradients": ([BOTH | {"point": p, "direction": "gradient"} for p in ("MLP1", "Query", "Logits")], 2),
}


def per_step(counter: Path, flags: dict[str, Any], folder: Path, **more: Any) -> tuple[float, float]:
    """What ten steps more cost, so that the start and the end do not count."""
    short = calls(counter, flags | more, folder / "5", 5)
    long = calls(counter, flags | more, folder / "15", 15)
    return (long[0] - short[0]) / 10, (long[1] - short[1]) / 10


@pytest.mark.parametrize("entries", OFF.values(), ids=OFF)
def test_what_is_off_gathers_nothing(entries: list[dict], counter: Path, flags, tmp_path: Path) -> None:
    """One broadcast a step is all that a run with the tracer sends more than one without."""
    plan = on(tmp_path, entries) | {"record": str(tmp_path)}
    assert per_step(counter, dict(flags), tmp_path / "off", **plan) == (0, 1)


@pytest.mark.parametrize(("entries", "messages"), WATCHED.values(), ids=WATCHED)
def test_all_of_a_forward_is_one_gather(
    entries: list[dict], messages: int, counter: Path, flags, tmp_path: Path
) -> None:
    """Of however many points and layers; the gradients of a backward are another."""
    plan = on(tmp_path, entries) | {"record": str(tmp_path)}
    assert per_step(counter, dict(flags), tmp_path / "on", **plan) == (messages, 1)


def test_columns_beyond_the_tokenizer(flags, tmp_path: Path) -> None:
    """A vocabulary of more rows than there are bytes: their columns are columns as all others."""
    entries = [
        {"point": "Logits", "compressor": {"kind": "topk", "k": 200}, "dtype": "f64"},
        {"point": "Logits", "compressor": {"kind": "none"}, "dtype": "f64"},
    ]
    more = {"vocab_size": 301, "params_dtype": "float64", "train_iters": 100_000}
    with live_run(flags | on(tmp_path, entries, **more), tmp_path, 2) as run, run.viewer() as viewer:
        found = one_step(viewer, 2)
        assert step(viewer) > 0
    values, columns = found[0, 0].values[:2]
    whole = found[1, 0].values
    assert whole.shape[-1] == 301 and 256 <= columns.max() < 301
    assert (values == -np.sort(-whole, axis=-1)[..., :200]).all()
    assert (np.take_along_axis(whole, columns.astype(int), -1) == values).all()
