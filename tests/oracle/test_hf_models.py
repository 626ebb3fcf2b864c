"""Models of `transformers` that the program begins from and writes, against `transformers` itself."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hf_models import LENGTH, NAMES, our_gradients, random_model, save
from program import Flags, Run, command, environment, refused, train
from reference_gpt import Export
from safetensors.torch import load_file, save_file
from tensor_tracer import open_recording
from transformers import AutoModelForCausalLM

NIGHTLY = pytest.mark.nightly(suite="meshes")
STILL = {"lr": 1e-300, "min_lr": 1e-300, "lr_warmup_iters": 0, "lr_decay_iters": 0}  # changes no bit
LOGITS = {"point": "Logits", "rows": 0, "micro_batches": "0", "compressor": {"kind": "none"}}
DTYPES = {torch.float32: "f32", torch.float64: "f64"}


def flags_for(data: Path, model: Path, **changes: Any) -> dict[str, Any]:
    flags: dict[str, Any] = {"hf_model": model, "seq_length": LENGTH, "micro_batch_size": 4, "train_iters": 1,
                             "eval_interval": 0, "threads": 1, "data_path": data}  # fmt: skip
    return flags | changes


def assert_equals_transformers(model: Any, run: Run, logits: torch.Tensor, dtype: torch.dtype) -> None:
    """Loss, logits and every gradient of step 1."""
    export: Export = run.export(1)
    theirs = model(export.tokens).logits
    loss = F.cross_entropy(theirs.flatten(0, 1), export.labels.flatten())
    loss.backward()
    exact = dtype == torch.float64
    assert export.loss == pytest.approx(loss.item(), rel=1e-10 if exact else 1e-5)
    assert (logits - theirs.detach()).abs().max() <= (1e-9 if exact else 1e-4)
    expected = our_gradients(model)
    assert export.gradients.keys() == expected.keys()
    for name, gradient in expected.items():
        error = (export.gradients[name] - gradient).abs().max().item()
        assert error <= (1e-9 if exact else 1e-4), name


def assert_same_bits(found: Path, wanted: Any) -> None:
    """As `transformers` loads the folder."""
    loaded = AutoModelForCausalLM.from_pretrained(found, dtype="auto").state_dict()
    state = wanted.state_dict()
    assert loaded.keys() == state.keys()
    for name, tensor in state.items():
        assert loaded[name].dtype == tensor.dtype and torch.equal(loaded[name], tensor), name


@pytest.mark.parametrize("tensor", [1, 2, pytest.param(4, marks=NIGHTLY)])
@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=NIGHTLY)], ids=["f64", "f32"])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_goes_in_and_out(name: str, dtype: torch.dtype, tensor: int, data: Path, tmp_path: Path) -> None:
    """The files are split; the prefix of the names stays. One step that changes no weight."""
    model = random_model(name, dtype)
    folder = save(model, tmp_path / "model", max_shard_size="150KB")
    assert (folder / "model.safetensors.index.json").is_file()
    (tmp_path / "plan.json").write_text(json.dumps({"entries": [LOGITS | {"dtype": DTYPES[dtype]}]}))
    changes = STILL | {
        "params_dtype": str(dtype).removeprefix("torch."), "tensor_model_parallel_size": tensor,
        "save_hf": tmp_path / "out", "tensor_tracer_plan": tmp_path / "plan.json", "record": tmp_path / "record",
    }  # fmt: skip
    run = train(flags_for(data, folder, **changes), tmp_path / "run", tensor, export_at="1")
    [recording] = (tmp_path / "record").rglob("*.ttrec")
    [logits] = open_recording(recording).records("Logits")
    assert_equals_transformers(model, run, torch.from_numpy(logits.values.copy()), dtype)
    assert_same_bits(tmp_path / "out", model)
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    read = json.loads((folder / "config.json").read_text())
    assert {**read, "dtype": None} == {**written, "dtype": None}


def test_a_trained_model_has_the_same_loss_in_transformers(data: Path, tmp_path: Path) -> None:
    """At TP 2 x DP 2. The weights after the last step are those of the exported folder."""
    folder = save(random_model("qwen3", torch.float32), tmp_path / "model")
    changes = {"train_iters": 5, "tensor_model_parallel_size": 2, "save_hf": tmp_path / "out", "lr": 1e-3}
    run = train(flags_for(data, folder, **changes), tmp_path / "run", 4, export_at="5")
    assert run.losses()[-1] < run.losses()[0] - 0.1
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    again = train(flags_for(data, tmp_path / "out", **STILL), tmp_path / "again", export_at="1")
    export = again.export(1)
    loss = F.cross_entropy(loaded(export.tokens).logits.flatten(0, 1), export.labels.flatten())
    assert export.loss == pytest.approx(loss.item(), rel=1e-5)


BORN_HERE = {
    "gpt2": {},
    "llama": {"normalization": "RMSNorm", "position_embedding_type": "rope", "swiglu": True,
              "disable_bias_linear": True, "untie_embeddings_and_output_weights": True, "num_query_groups": 2,
              "rope_scaling_factor": 4.0, "rope_original_max_positions": 16},
    "qwen2": {"normalization": "RMSNorm", "position_embedding_type": "rope", "swiglu": True,
              "disable_bias_linear": True, "add_qkv_bias": True},
    "qwen3": {"normalization": "RMSNorm", "position_embedding_type": "rope", "swiglu": True,
              "disable_bias_linear": True, "qk_layernorm": True, "kv_channels": 16},
}  # fmt: skip


@pytest.mark.parametrize("kind", BORN_HERE)
def test_a_model_that_began_here_is_of_a_family(kind: str, flags: Flags, tmp_path: Path) -> None:
    out = tmp_path / "out"
    changes = BORN_HERE[kind] | {"save_hf": out, "train_iters": 3, "ffn_hidden_size": 64}
    train(flags | changes, tmp_path / "run")
    loaded = AutoModelForCausalLM.from_pretrained(out)
    assert loaded.config.model_type == kind
    again = train(flags_for(Path(str(flags["data_path"])), out, **STILL), tmp_path / "again", export_at="1").export(1)
    loss = F.cross_entropy(loaded(again.tokens).logits.flatten(0, 1), again.labels.flatten())
    assert again.loss == pytest.approx(loss.item(), rel=1e-5)


def test_a_run_from_a_model_resumes(data: Path, tmp_path: Path) -> None:
    """The resumed run takes its weights from the checkpoint, and replaces the folder that it wrote."""
    folder, out = save(random_model("llama-2", torch.float32), tmp_path / "model"), tmp_path / "out"
    both = flags_for(data, folder, save_hf=out, lr_decay_iters=6)
    whole = train(both | {"train_iters": 6, "save_hf": tmp_path / "whole"}, tmp_path / "1").losses()
    half = train(both | {"train_iters": 3, "save": tmp_path / "saved"}, tmp_path / "2").losses()
    rest = train(both | {"train_iters": 6, "load": tmp_path / "saved"}, tmp_path / "3").losses()
    assert half + rest == whole
    assert_same_bits(out, AutoModelForCausalLM.from_pretrained(tmp_path / "whole"))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_only_files_in_use_go_along(data: Path, tmp_path: Path) -> None:
    folder = save(random_model("llama-2", torch.float32), tmp_path / "model")
    (folder / "merges.txt").write_text("of a tokenizer that is not in use")
    (folder / "README.md").write_text("not copied")
    train(flags_for(data, folder, save_hf=tmp_path / "out"), tmp_path / "run")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"config.json", "generation_config.json", "model.safetensors"}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(random_model("llama-2", torch.float32), tmp_path_factory.mktemp("llama") / "model")


DAMAGES = {
    "a tensor is missing": "has no tensor model.layers.1.mlp.up_proj.weight",
    "a tensor has another shape": r"model.norm.weight has the shape [47], and its configuration needs [48]",
    "the file is cut off": "model.safetensors",
    "config.json is not JSON": "config.json",
    "there is no config.json": "config.json",
    "there are no weights": "holds neither model.safetensors nor model.safetensors.index.json",
    "the index leaves the folder": "which is no .safetensors file of the folder",
    "weights are a pickle": "pytorch_model.bin",
}


def damage(folder: Path, kind: str) -> None:
    weights, config = folder / "model.safetensors", folder / "config.json"
    match kind:
        case "a tensor is missing" | "a tensor has another shape":
            tensors = load_file(weights)
            if kind == "a tensor is missing":
                del tensors["model.layers.1.mlp.up_proj.weight"]
            else:
                tensors["model.norm.weight"] = tensors["model.norm.weight"][1:].contiguous()
            save_file(tensors, weights)
        case "the file is cut off":
            weights.write_bytes(weights.read_bytes()[:-5])
        case "config.json is not JSON":
            config.write_text("{")
        case "there is no config.json":
            config.unlink()
        case "there are no weights":
            weights.unlink()
        case "the index leaves the folder":
            weights.rename(folder / "model-00001-of-00001.safetensors")
            index = {"weight_map": {"model.norm.weight": "../model.safetensors"}}
            (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        case "weights are a pickle":
            weights.rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_folder_is_refused(kind: str, llama: Path, data: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    damage(folder, kind)
    message = refused(flags_for(data, folder, run_dir=tmp_path / "run"))
    assert DAMAGES[kind] in message and message.count("\n") == 1, message


@pytest.mark.parametrize("tensor", [1, 2])
def test_a_weight_that_is_not_finite_is_named(tensor: int, llama: Path, data: Path, tmp_path: Path) -> None:
    """The step is not repeated: its result is no fault of this machine or of the data (exit codes 16 and 17)."""
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.1.mlp.down_proj.weight"][3, 80] = float("nan")  # in the part of the last rank
    save_file(tensors, folder / "model.safetensors")
    flags = flags_for(data, folder, tensor_model_parallel_size=tensor, run_dir=tmp_path / "run", save=tmp_path / "saved")
    done = subprocess.run(command(flags, tensor), env=environment(), capture_output=True, text=True, timeout=60, check=False)
    wanted = f"the weight layers.2.mlp.fc2.weight on rank {tensor - 1} is not finite at step 1"
    assert done.returncode == 1 and wanted in done.stderr, (done.returncode, done.stderr)
    assert list((tmp_path / "saved").glob("step_*")) == []


@pytest.mark.parametrize("tensor", [1, 2])
def test_given_options_may_not_contradict(tensor: int, llama: Path, data: Path, tmp_path: Path) -> None:
    flags = flags_for(data, llama, run_dir=tmp_path / "run", tensor_model_parallel_size=tensor)
    assert "--num-layers: is 3, and the folder to begin from has 2" in refused(flags | {"num_layers": 3}, tensor)
    train(flags | {"num_layers": 2, "hidden_dropout": 0.1}, tmp_path / "good", tensor)


def test_a_folder_that_is_not_empty_is_kept(llama: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years")
    message = refused(flags_for(data, llama, run_dir=tmp_path / "run", save_hf=tmp_path / "out"))
    assert "is not empty" in message and (tmp_path / "out" / "thesis.tex").read_text() == "years"


@pytest.mark.parametrize("other", ["save", "save_adapter", "run_dir", "hf_model"])
def test_a_folder_with_another_use_is_refused(other: str, llama: Path, data: Path, tmp_path: Path) -> None:
    """It would be removed when a resumed run replaces it."""
    flags = flags_for(data, llama, run_dir=tmp_path / "run", lora_rank=2)
    model = Path(shutil.copytree(llama, tmp_path / "out" / "model")) if other == "hf_model" else tmp_path / "out" / "in"
    message = refused(flags | {"save_hf": tmp_path / "out", other: model})
    assert "--save-hf:" in message and "too; give a folder that nothing else uses" in message


def test_files_that_came_meanwhile_are_kept(llama: Path, data: Path, tmp_path: Path) -> None:
    """The run fails at its end, and its model stays beside the folder."""
    out = tmp_path / "out"
    line = command(flags_for(data, llama, run_dir=tmp_path / "run", save_hf=out, train_iters=300))
    with subprocess.Popen(line, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None and run.stderr is not None
        for text in run.stdout:
            if text.startswith("step"):
                out.mkdir(exist_ok=True)
                (out / "thesis.tex").write_text("years")
        errors = run.stderr.read()
    assert run.returncode == 20 and "--save-hf" in errors and (out / "thesis.tex").read_text() == "years"
    assert (tmp_path / ".out.partial" / "model.safetensors").is_file()


def test_a_missing_export_is_made_by_resuming(llama: Path, data: Path, tmp_path: Path) -> None:
    """The last checkpoint is enough: no step is left."""
    both = flags_for(data, llama, train_iters=3)
    train(both | {"save": tmp_path / "saved"}, tmp_path / "1")
    train(both | {"load": tmp_path / "saved", "save_hf": tmp_path / "out"}, tmp_path / "2")
    train(both | {"save_hf": tmp_path / "whole"}, tmp_path / "3")
    assert_same_bits(tmp_path / "out", AutoModelForCausalLM.from_pretrained(tmp_path / "whole"))


def test_no_family_has_the_model(flags: Flags, tmp_path: Path) -> None:
    mixed = dict(flags) | {"normalization": "RMSNorm", "save_hf": tmp_path / "out", "run_dir": tmp_path / "run"}
    assert "--save-hf: no family" in refused(mixed)
