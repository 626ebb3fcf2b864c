"""`convert` and `inspect`, against `transformers`, `safetensors` and PEFT."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_runs import LLAMA, checkpoint, state_of, weights_of
from hf_models import NAMES, random_model, save
from peft import PeftModel
from program import Flags, binary, train
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from test_hf_models import assert_same_bits, flags_for
from test_lora import random_adapters
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM


def run(*words: object) -> subprocess.CompletedProcess[str]:
    line = [str(binary()), *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def convert(*words: object) -> str:
    """What it says of a conversion that works."""
    done = run("convert", *words)
    assert done.returncode == 0, done.stderr
    return done.stderr


def inspect(*words: object) -> Any:
    done = run("inspect", "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(code: int, *words: object) -> str:
    done = run(*words)
    assert done.returncode == code and done.stdout == "" and done.stderr.count("\n") == 1, done
    return done.stderr


def write_tokenizer(folder: Path) -> None:
    """Each byte is a token, and one ends a text: 257 ids."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.add_special_tokens(["<|end|>"])
    folder.mkdir(exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".") or path.name.endswith(".partial")]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(random_model("smollm2", torch.float32), tmp_path_factory.mktemp("llama") / "model")


@pytest.fixture(scope="module")
def trained(llama: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from a model at TP 2, with adapters: its checkpoints, and the folder of --save-hf."""
    folder = tmp_path_factory.mktemp("trained")
    changes = {"train_iters": 3, "lr": 1e-2, "lora_rank": 4, "save": folder / "saved", "save_hf": folder / "hf",
               "save_interval": 2, "tensor_model_parallel_size": 2, "seed": 3}  # fmt: skip
    train(flags_for(data, llama, **changes), folder / "run", 2)
    return folder


# --- Checkpoints --------------------------------------------------------------------------------


def test_a_checkpoint_becomes_what_the_run_writes(trained: Path, tmp_path: Path) -> None:
    """Parts of two ranks, adapters that are added, and the configuration that the run began from."""
    convert(trained / "saved", tmp_path / "out")
    assert_same_bits(tmp_path / "out", AutoModelForCausalLM.from_pretrained(trained / "hf"))
    names = {path.name for path in (trained / "hf").iterdir()}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (trained / "hf" / name).read_bytes(), name
    assert hidden(tmp_path) == []


def test_a_step_is_chosen_by_its_folder(trained: Path, tmp_path: Path) -> None:
    convert(trained / "saved" / checkpoint(2), tmp_path / "a.safetensors")
    with safe_open(tmp_path / "a.safetensors", "pt") as file:
        assert file.metadata()["step"] == "2" and json.loads(file.metadata()["config"])["num_layers"] == 2


@pytest.mark.parametrize("dtype", ["", "float32", "float16", "bfloat16"])
def test_a_checkpoint_becomes_one_file(dtype: str, trained: Path, tmp_path: Path) -> None:
    """The weights by our names, as the files of the checkpoint have them in parts; the optimizer is left out."""
    convert(trained / "saved", tmp_path / "a.safetensors", *(["--dtype", dtype] if dtype else []))
    found, wanted = load_file(tmp_path / "a.safetensors"), weights_of(state_of(trained / "saved" / checkpoint(3)))
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor.to(getattr(torch, dtype or "float32"))), name
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_checkpoint_of_a_model_that_began_here(kind: str, flags: Flags, tmp_path: Path) -> None:
    changes = (LLAMA if kind == "llama" else {}) | {"train_iters": 2, "save": tmp_path / "saved",
                                                    "save_hf": tmp_path / "hf"}  # fmt: skip
    train(flags | changes, tmp_path / "run")
    convert(tmp_path / "saved", tmp_path / "half", "--dtype", "bfloat16")
    wanted = AutoModelForCausalLM.from_pretrained(tmp_path / "hf").to(torch.bfloat16)
    assert wanted.config.model_type == kind
    assert_same_bits(tmp_path / "half", wanted)
    facts = inspect(tmp_path / "saved")
    assert facts["family"] == kind and facts["checkpoint"]["older"] == []


def test_the_tokenizer_goes_along_if_it_is_the_same(flags: Flags, tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "tokenizer")
    changes = {"save": tmp_path / "saved", "tokenizer": tmp_path / "tokenizer"}
    train(flags | changes, tmp_path / "run")
    assert "tokenizer" not in convert(tmp_path / "saved", tmp_path / "out")
    copied = (tmp_path / "out" / "tokenizer.json").read_bytes()
    assert copied == (tmp_path / "tokenizer" / "tokenizer.json").read_bytes()
    (tmp_path / "tokenizer" / "tokenizer.json").write_bytes(copied + b" ")
    assert "has changed" in convert(tmp_path / "saved", tmp_path / "other")
    assert not (tmp_path / "other" / "tokenizer.json").exists()


# --- Folders of Hugging Face --------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_in_another_dtype(name: str, tmp_path: Path) -> None:
    model = random_model(name, torch.float32)
    folder = save(model, tmp_path / "model")
    convert(folder, tmp_path / "out", "--dtype", "bfloat16", "--max-shard-size", "50K")
    assert len(list((tmp_path / "out").glob("model-*.safetensors"))) > 2
    assert_same_bits(tmp_path / "out", model.to(torch.bfloat16))
    convert(tmp_path / "out", tmp_path / "joined")
    assert_same_bits(tmp_path / "joined", model)


def test_a_family_that_is_not_known_keeps_its_tensors(tmp_path: Path) -> None:
    """Also whole numbers, which have no other dtype."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({"model_type": "mamba", "torch_dtype": "float32"}))
    tensors = {"a.weight": torch.randn(3, 5), "ids": torch.arange(4), "empty": torch.zeros(0, 2)}
    save_file(tensors, tmp_path / "model" / "model.safetensors")
    convert(tmp_path / "model", tmp_path / "out", "--dtype", "float16")
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert {name: one.dtype for name, one in found.items()} == {
        "a.weight": torch.float16, "ids": torch.int64, "empty": torch.float16}  # fmt: skip
    assert torch.equal(found["a.weight"], tensors["a.weight"].half()) and torch.equal(found["ids"], tensors["ids"])
    assert json.loads((tmp_path / "out" / "config.json").read_text()) == {"model_type": "mamba", "dtype": "float16"}


@pytest.mark.parametrize("name", ["llama-2", "qwen3", "gpt2"])
def test_adapters_are_added_as_peft_adds_them(name: str, tmp_path: Path) -> None:
    _, adapters = random_adapters(name, tmp_path)
    base = save(random_model(name, torch.float32), tmp_path / "base")
    convert(base, tmp_path / "out", "--adapter", adapters)
    wanted = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapters).merge_and_unload()
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "out").state_dict()
    assert found.keys() == wanted.state_dict().keys()
    changed = 0
    for key, tensor in wanted.state_dict().items():
        assert found[key].dtype == torch.float32 and (found[key] - tensor).abs().max() <= 1e-6, key
        changed += not torch.equal(tensor, AutoModelForCausalLM.from_pretrained(base).state_dict()[key])
    assert changed > 2


def test_a_model_is_replaced_only_by_force(llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert(llama, out)
    assert "--force" in refused(2, "convert", llama, out, "--dtype", "float16")
    convert(llama, out, "--dtype", "float16", "--force")
    assert json.loads((out / "config.json").read_text())["dtype"] == "float16"
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years")
    assert "not replaced" in refused(2, "convert", llama, tmp_path / "thesis", "--force")
    assert (tmp_path / "thesis" / "thesis.tex").read_text() == "years"
    assert "which is read" in refused(2, "convert", llama, llama, "--force")
    assert "which is read" in refused(2, "convert", llama, llama / "new")
    assert hidden(tmp_path) == []


def test_numbers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    model = random_model("llama-2", torch.float32)
    with torch.no_grad():
        model.model.norm.weight[3] = 1e5
    folder = save(model, tmp_path / "model")
    assert "model.norm.weight" in refused(2, "convert", folder, tmp_path / "out", "--dtype", "float16")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    convert(folder, tmp_path / "out", "--dtype", "bfloat16")


# --- inspect ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_described(name: str, tmp_path: Path) -> None:
    model = random_model(name, torch.bfloat16)
    folder = save(model, tmp_path / "model", max_shard_size="50KB")
    facts = inspect(folder, "--tensors")
    count = sum(parameter.numel() for parameter in model.parameters())
    assert facts["kind"] == "hugging_face" and facts["problem"] is None
    assert (facts["family"], facts["architecture"]) == (model.config.model_type, type(model).__name__)
    assert facts["parameters"] == {
        "count": count, "bytes": 2 * count, "by_dtype": {"bfloat16": {"count": count, "bytes": 2 * count}}}  # fmt: skip
    assert facts["model"]["num_layers"] == 2 and facts["model"]["hidden_size"] == 48
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    assert {one["name"]: one["files"] for one in facts["tensors"]} == {key: [file] for key, file in index.items()}
    state = model.state_dict()
    assert all(one["shape"] == list(state[one["name"]].shape) for one in facts["tensors"])
    layers = [one["layer"] for one in facts["tensors"]]
    assert [name for name in dict.fromkeys(layers) if name] == [
        f"{'transformer.h' if model.config.model_type == 'gpt2' else 'model.layers'}.{n}" for n in range(2)]  # fmt: skip
    tied = [pair[0] for pair in facts["tied"]]
    assert tied == (["lm_head.weight"] if model.config.tie_word_embeddings else [])


KEYS = {"kind", "path", "files", "parameters", "other_tensors", "family", "architecture", "model", "problem", "tokenizer",
        "checkpoint", "adapter", "tied"}  # fmt: skip


def test_a_checkpoint_is_described(trained: Path) -> None:
    facts = inspect(trained / "saved", "--verify")
    assert facts.keys() == KEYS | {"verified"} and facts["verified"] is True
    weights = weights_of(state_of(trained / "saved" / checkpoint(3)))
    assert facts["parameters"]["count"] == sum(one.numel() for one in weights.values())
    assert facts["other_tensors"]["count"] > 0  # AdamW's
    told = facts["checkpoint"]
    assert (told["step"], told["older"], told["parent"]) == (3, [checkpoint(2)], None)
    assert told["mesh"] == {"tensor": 2, "pipeline": 1, "data": 1} and len(told["run"]["id"]) == 16
    assert facts["model"]["lora_rank"] == 4 and facts["model"]["seq_length"] == 32
    assert facts["tied"] == [["output_layer.weight", "embedding.word_embeddings.weight"]]
    text = run("inspect", trained / "saved", "--tensors").stdout
    assert "--lora-rank 4" in text and "layers.2\n" in text


def test_adapters_and_files_are_described(llama: Path, tmp_path: Path) -> None:
    _, adapters = random_adapters("qwen3", tmp_path)
    facts = inspect(adapters)
    assert facts.keys() == KEYS
    assert facts["kind"] == "adapter" and facts["adapter"]["rank"] == 4
    assert sorted(facts["adapter"]["target_modules"]) == ["q_proj", "v_proj"]
    wanted = sum(one.numel() for one in load_file(adapters / "adapter_model.safetensors").values())
    assert facts["parameters"]["count"] == wanted
    assert inspect(llama / "model.safetensors")["kind"] == "safetensors"


def test_a_tokenizer_is_described(llama: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    assert inspect(folder)["tokenizer"] is None
    write_tokenizer(folder)
    told = inspect(folder)["tokenizer"]
    assert (told["type"], told["size"], told["end_of_text"]) == ("BPE", 257, {"id": 256, "token": "<|end|>"})
    (folder / "tokenizer.json").write_text("{}")
    assert "problem" in inspect(folder)["tokenizer"]


def test_a_model_that_cannot_be_trained_is_described(llama: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "mamba\u001b[31m"}))
    facts = inspect(folder)
    assert "is not a family" in facts["problem"] and facts["model"] is None and facts["parameters"]["count"] > 0
    assert "\u001b" not in run("inspect", folder).stdout


# --- Errors -------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


DAMAGES: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "a cut file": (lambda folder: cut(folder / "model.safetensors"), 1, "model.safetensors"),
    "an empty file": (lambda folder: (folder / "model.safetensors").write_bytes(b""), 1, "not a safetensors file"),
    "a missing shard": (lambda folder: (folder / "model.safetensors").unlink() or (
        folder / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}})), 1, "model-00001-of-00002.safetensors"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), 2, "holds neither"),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), 2, "config.json"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_folder_is_refused(kind: str, llama: Path, tmp_path: Path) -> None:
    change, code, message = DAMAGES[kind]
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    change(folder)
    assert message in refused(code, "inspect", folder)
    assert message in refused(code, "convert", folder, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


@pytest.mark.parametrize("file", ["manifest.json", "manifest.crc32c", "model-00000-0.safetensors"])
def test_a_damaged_checkpoint_is_refused(file: str, trained: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained / "saved" / checkpoint(3), tmp_path / "saved"))
    contents = bytearray((folder / file).read_bytes())
    contents[-20 if file.endswith("s") else -2] ^= 1
    (folder / file).write_bytes(contents)
    assert "its checksum is wrong" in refused(1, "inspect", folder, "--verify")
    assert "its checksum is wrong" in refused(1, "convert", folder, tmp_path / "out")
    if file.startswith("model"):
        inspect(folder)  # the headers are intact
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved"]


def test_wrong_words_are_refused(llama: Path, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    (tmp_path / "text.txt").write_text("a")
    out = tmp_path / "out"
    for words, message in [
        (("inspect", tmp_path / "nothing"), "there is no such file or folder"),
        (("inspect", tmp_path / "empty"), "holds no manifest.json"),
        (("inspect", tmp_path / "text.txt"), "is not a .safetensors file"),
        (("inspect", llama, "--verify"), "only a checkpoint has checksums"),
        (("inspect", tmp_path / "model.gguf"), f"python -m tensor_tracer convert {tmp_path}/model.gguf FOLDER"),
        (("convert", tmp_path / "model.gguf", out), f"python -m tensor_tracer convert {tmp_path}/model.gguf {out}"),
        (("convert", llama), "to is required"),
        (("convert", llama, out, "--dtype", "int8"), "--dtype"),
        (("convert", llama, out, "--adapter", tmp_path / "empty"), "adapter_config.json"),
        (("convert", trained / "saved", out, "--adapter", llama), "--adapter"),
        (("convert", llama / "model.safetensors", out), "give its folder"),
        (("convert", llama, f"{out}.safetensors", "--max-shard-size", "1G"), "--max-shard-size"),
    ]:
        assert message in refused(2, *words), words
    assert not out.exists() and hidden(tmp_path) == []
