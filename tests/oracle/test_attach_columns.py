"""The order of columns of fused layers: column k of the logical tensor carries the number k. test_attach_megatron.py has
those of Megatron-Core. What no source knows is rank-local, everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from marked_columns import HIDDEN, INNER, LAYERS, VOCABULARY
from program import REPOSITORY, environment
from tensor_tracer import Recording, open_recording
from tensor_tracer.attaching.layouts import Layout
from tensor_tracer.attaching.learning import Seen
from tensor_tracer.attaching.names import Names
from tensor_tracer.attaching.table import Batch, make_sites, name_sites
from tensor_tracer.facts import RunFacts
from tensor_tracer.record import Record
from tensor_tracer.sinks.follow import Origins
from tensor_tracer.sinks.sink import Origin
from torch import nn

QUERIES_KEYS_VALUES = HIDDEN + 2 * HIDDEN // 2  # four heads, two query groups
OVERRIDE = "placements['layers.*.gate_up.output']"
WEIGHT, SAME = "its weight is Shard(0)", "equal on all ranks when it was learned"
# By model and module: the number of columns, their layout, its source.
ORDERED = {
    "phi3": {
        "self_attn.qkv_proj": (QUERIES_KEYS_VALUES, "replicate", WEIGHT),
        "mlp.gate_up_proj": (2 * INNER, "replicate", WEIGHT),
        "lm_head": (VOCABULARY, "replicate", SAME),
    },
    "llama": {
        "self_attn.q_proj": (HIDDEN, "shard(-1)", WEIGHT), "self_attn.k_proj": (HIDDEN // 2, "shard(-1)", WEIGHT),
        "self_attn.v_proj": (HIDDEN // 2, "shard(-1)", WEIGHT), "mlp.gate_proj": (INNER, "shard(-1)", WEIGHT),
        "mlp.up_proj": (INNER, "shard(-1)", WEIGHT), "lm_head": (VOCABULARY, "replicate", SAME),
    },
    "gpt2": {"attn.c_attn": (3 * HIDDEN, "replicate", "one tensor-parallel rank")},
    "by_torch": {"gate_up": (2 * INNER, "shard(-1)", WEIGHT), "head": (VOCABULARY, "shard(-1)", WEIGHT)},
    "by_dtensor": {"head": (VOCABULARY, "shard(2)", "DTensor")},
    "by_override": {"gate_up": (2 * INNER, "shard(-1)", OVERRIDE)},
    "transposed_rows": {"gate_up": (2 * INNER, "replicate", SAME)},
}  # fmt: skip
UNKNOWN = ("by_hand", "transposed_columns")  # their module gate_up


class Run:
    """What a model of marked_columns.py left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.points = [json.loads((folder / f"points{rank}.json").read_text()) for rank in (0, 1)]
        self.recording: Recording = open_recording(next((folder / "record").glob("*.ttrec")))

    def place(self, module: str, layer: int) -> dict[str, Any]:
        """Of the output of a module, by the end of its path."""
        [found] = [
            point for point in self.points[0]
            if point["module"].endswith(module) and point["path"].endswith(".output") and point["layer"] == layer
        ]  # fmt: skip
        assert found["problem"] == ""
        return found

    def values(self, place: dict[str, Any]) -> np.ndarray[Any, Any]:
        [record] = self.recording.records(place["name"], layers=place["layer"], steps=2)
        return record.values


    def origin(self, record: Record) -> Origin:
        """Of its readings in sinks, which take a live run."""
        run: Any = SimpleNamespace(names=RunFacts(self.recording.facts))
        return Origins(run).of(record)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("columns")
    build = os.environ.get("TENSOR_TRACER_BUILD", str(REPOSITORY / "build/release"))
    variables = environment() | {"TENSOR_TRACER_BUILD": build, "PYTHONPATH": str(REPOSITORY / "python")}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    line = [*launcher, str(Path(__file__).with_name("marked_columns.py")), str(out)]
    done = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


CASES = [pytest.param(model, module, id=f"{model}-{module}") for model, modules in ORDERED.items() for module in modules]


@pytest.mark.parametrize(("model", "module"), CASES)
def test_column_k_carries_k(model: str, module: str, folder: Path) -> None:
    run = Run(folder / model)
    columns, layout, source = ORDERED[model][module]
    for layer in (0,) if module.endswith("head") else range(1, LAYERS + 1):
        place = run.place(module, layer)
        values = run.values(place)
        assert values.shape == (2, 6, columns)
        assert np.array_equal(values, np.broadcast_to(np.arange(columns), values.shape))
        assert (place["layout"], place["source"]) == (layout, source)


@pytest.mark.parametrize("model", UNKNOWN)
def test_an_unknown_layout_is_rank_local(model: str, folder: Path) -> None:
    run = Run(folder / model)
    place = run.place("gate_up", 1)
    assert (place["layout"], place["source"]) == ("rank-local", "no source knows it")
    [told] = [point for point in run.recording.facts["points"] if point["name"] == place["name"]]
    assert told["placement"]["tensor"] == "rank-local" and "values of tensor rank 0 only" in told["text"]
    of_rank_0 = np.arange(INNER)
    if model == "by_hand":  # half of the gates, half of the values
        of_rank_0 = np.concatenate([np.arange(INNER // 2), INNER + np.arange(INNER // 2)])
    assert np.array_equal(run.values(place), np.broadcast_to(of_rank_0, (2, 6, INNER)))
    assert run.points[0] == run.points[1]
    records = run.recording.records(place["name"], layers=1, steps=2)
    assert records.to_xarray().attrs["layout"] == "rank-local"
    assert "tensor rank 0 only" in records.plot().get_title()
    origin = run.origin(records[0])
    assert origin.layout == "rank-local" and origin.tag == f"{place['name']}/layer_1/rank_local"


def test_a_known_layout_has_no_mark(folder: Path) -> None:
    run = Run(folder / "by_torch")
    records = run.recording.records(run.place("gate_up", 1)["name"], layers=1, steps=2)
    assert records.to_xarray().attrs["layout"] == "shard(2)" and "rank 0" not in records.plot().get_title()
    origin = run.origin(records[0])
    assert origin.layout == "" and "rank_local" not in origin.tag


def test_a_place_has_the_name_that_the_user_gave(folder: Path) -> None:
    run = Run(folder / "by_override")
    places = [run.place("gate_up", layer) for layer in range(1, LAYERS + 1)]
    assert [place["name"] for place in places] == ["GateUp"] * LAYERS


def test_programs_cannot_name_what_is_rank_local(folder: Path) -> None:
    assert "layers[1].gate_up.output" in (folder / "by_hand" / "refused.txt").read_text()
    run = Run(folder / "by_hand")
    paths = [place["path"] for place in run.recording.facts["program_places"]]
    assert "layers[n].norm.output" in paths and not any("gate_up.output" in path for path in paths)


def test_layers_and_model_may_have_a_module_of_one_name(folder: Path) -> None:
    """The models of this file that are no library's have a `norm` in each layer and one at the end."""
    named = {(point["name"], point["layer"]): point["module"] for point in Run(folder / "by_torch").points[0]}
    assert named["norm.output", 1] == "layers.0.norm" and named["FinalNorm", 0] == "norm"


def test_a_standard_name_does_not_take_the_path_of_another_place() -> None:
    """In Gemma, what post_attention_layernorm returns is not what the MLP takes, as it is in Llama."""

    def names(*seen: tuple[str, str]) -> dict[str, str]:
        ones = [Seen(path, nn.Identity(), part, None, (2, 6, HIDDEN), torch.float32, Layout(), 0, False)
                for path, part in seen]  # fmt: skip
        sites = make_sites(ones, {"layers.0": 1}, Batch(2, 6), 1)
        return {site.seen.name: site.name for site in name_sites(sites, Names(None), VOCABULARY)}

    norm = ("layers.0.post_attention_layernorm", "output")
    assert names(norm) == {"layers.0.post_attention_layernorm.output": "mlp.input"}
    assert names(norm, ("layers.0.mlp", "input")) == {
        "layers.0.post_attention_layernorm.output": "post_attention_layernorm.output", "layers.0.mlp.input": "mlp.input",
    }  # fmt: skip
