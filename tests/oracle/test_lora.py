"""Adapters (LoRA) and frozen parameters, against PEFT."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hf_models import LAYERS, LENGTH, random_model, save
from peft import LoraConfig, PeftModel, get_peft_model
from program import refused, train
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

NIGHTLY = pytest.mark.nightly(suite="meshes")
RANK, ALPHA = 4, 10.0
# Our names and theirs of all layers that may have adapters.
TARGETS = {
    "llama-2": {"query": "self_attn.q_proj", "key": "self_attn.k_proj", "value": "self_attn.v_proj",
                "proj": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "fc2": "mlp.down_proj"},
    "qwen3": {"query": "self_attn.q_proj", "value": "self_attn.v_proj"},
    "gpt2": {"qkv": "attn.c_attn", "proj": "attn.c_proj", "fc1": "mlp.c_fc", "fc2": "mlp.c_proj"},
}  # fmt: skip
STEMS = {"qkv": "attention", "query": "attention", "key": "attention", "value": "attention", "proj": "attention"}


def flags_for(data: Path, model: Path, tensor: int, **changes: Any) -> dict[str, Any]:
    flags: dict[str, Any] = {
        "hf_model": model, "seq_length": LENGTH, "micro_batch_size": 4, "train_iters": 1, "eval_interval": 0,
        "threads": 1, "data_path": data, "params_dtype": "float64", "tensor_model_parallel_size": tensor,
    }  # fmt: skip
    return flags | changes


def random_adapters(name: str, folder: Path) -> tuple[Any, Path]:
    """A PEFT model whose B matrices are not zero, and the folder of its adapters."""
    model = random_model(name, torch.float64)
    save(model, folder / "model")
    words = [module if name == "gpt2" else module.split(".")[1] for module in TARGETS[name].values()]
    options: dict[str, Any] = {"r": RANK, "lora_alpha": ALPHA, "target_modules": words, "fan_in_fan_out": name == "gpt2"}
    peft = get_peft_model(model, LoraConfig(**options), autocast_adapter_dtype=False)
    torch.manual_seed(11)
    with torch.no_grad():
        for parameter in peft.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.1)
    peft.save_pretrained(folder / "adapters")
    return peft, folder / "adapters"


def our_names(name: str) -> dict[str, str]:
    """PEFT's name of each matrix by ours."""
    layers = "transformer.h" if name == "gpt2" else "model.layers"
    return {
        f"layers.{n + 1}.{STEMS.get(target, 'mlp')}.{target}.lora_{m}.weight": f"{layers}.{n}.{module}.lora_{m}"
        for n in range(LAYERS) for target, module in TARGETS[name].items() for m in "AB"
    }  # fmt: skip


def gradient_of(peft: Any, name: str) -> Tensor:
    [parameter] = [p for key, p in peft.named_parameters() if f".{name}." in key]
    return parameter.grad


@pytest.mark.parametrize("tensor", [1, 2, pytest.param(4, marks=NIGHTLY)])
@pytest.mark.parametrize("name", TARGETS)
def test_gradients_are_those_of_peft(name: str, tensor: int, data: Path, tmp_path: Path) -> None:
    """Adapters of PEFT come in; loss and gradients agree; nothing else has a gradient; they go out unchanged."""
    peft, adapters = random_adapters(name, tmp_path)
    still = {"lr": 1e-300, "min_lr": 1e-300, "load_adapter": adapters, "save_adapter": tmp_path / "out"}
    still |= {"loss_chunk_size": 5}
    run = train(flags_for(data, tmp_path / "model", tensor, **still), tmp_path / "run", tensor, export_at="1")
    export = run.export(1)
    loss = F.cross_entropy(peft(export.tokens).logits.flatten(0, 1), export.labels.flatten())
    loss.backward()
    assert export.loss == pytest.approx(loss.item(), rel=1e-10)
    names = our_names(name)
    assert export.gradients.keys() == names.keys()
    for ours, theirs in names.items():
        assert (export.gradients[ours] - gradient_of(peft, theirs)).abs().max() <= 1e-10, ours
    found, wanted = (load_file(folder / "adapter_model.safetensors") for folder in (tmp_path / "out", adapters))
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[key], value) for key, value in wanted.items())


@pytest.mark.parametrize("tensor", [1, 2])
def test_adapters_in_bf16_stay_near_those_of_peft(tensor: int, data: Path, tmp_path: Path) -> None:
    """Loss and gradients up to the 8 bits of bfloat16; adapters and gradients stay float32, and go out as they came."""
    peft, adapters = random_adapters("qwen3", tmp_path)
    bf16 = {"bf16": True, "params_dtype": "float32", "load_adapter": adapters, "save_adapter": tmp_path / "out",
            "lr": 1e-300, "min_lr": 1e-300}  # fmt: skip
    run = train(flags_for(data, tmp_path / "model", tensor, **bf16), tmp_path / "run", tensor, export_at="1")
    export = run.export(1)
    loss = F.cross_entropy(peft(export.tokens).logits.flatten(0, 1), export.labels.flatten())
    loss.backward()
    assert export.loss != pytest.approx(loss.item(), rel=1e-7), "it was computed in float32"
    assert export.loss == pytest.approx(loss.item(), rel=5e-3)
    names = our_names("qwen3")
    assert export.gradients.keys() == names.keys()
    found, expected = ([*export.gradients.values()], [gradient_of(peft, names[ours]) for ours in export.gradients])
    assert {gradient.dtype for gradient in found} == {torch.float32}
    for ours, one, other in zip(export.gradients, found, expected, strict=True):
        assert (one - other).norm() <= 0.05 * other.norm(), ours
    written, read = (load_file(folder / "adapter_model.safetensors") for folder in (tmp_path / "out", adapters))
    assert written.keys() == read.keys()
    assert all(torch.equal(written[key], value.float()) for key, value in read.items())


def test_training_adapters_in_bf16_changes_nothing_else(data: Path, tmp_path: Path) -> None:
    folder = save(random_model("llama-2", torch.float32), tmp_path / "model")
    lora = {"lora_rank": RANK, "lora_target_modules": "query,value,fc2", "bf16": True, "params_dtype": "float32",
            "train_iters": 8, "lr": 1e-2}  # fmt: skip
    run = train(flags_for(data, folder, 2, **lora), tmp_path / "run", 2, export_at="1,8")
    assert run.losses()[-1] < run.losses()[0] - 0.05
    first, last = run.export(1), run.export(8)
    for key, weight in first.weights.items():
        assert weight.dtype == torch.float32 and torch.equal(weight, last.weights[key]) == (".lora_" not in key), key


@pytest.mark.parametrize("tensor", [1, 2])
@pytest.mark.parametrize("name", ["llama-2", "gpt2"])
def test_trained_adapters_load_in_peft(name: str, tensor: int, data: Path, tmp_path: Path) -> None:
    """PEFT on the model before, the merged folder in `transformers`, and our next run have the same loss."""
    folder = save(random_model(name, torch.float64), tmp_path / "model")
    targets = {"lora_rank": RANK, "lora_alpha": ALPHA, "lora_target_modules": ",".join(TARGETS[name])}
    saves = {"save_adapter": tmp_path / "adapters", "save_hf": tmp_path / "merged", "lr": 1e-2}
    both = flags_for(data, folder, tensor)
    run = train(both | targets | saves | {"train_iters": 8}, tmp_path / "run", tensor, export_at="1,8")
    assert run.losses()[-1] < run.losses()[0] - 0.05
    first, last = run.export(1), run.export(8)
    for key, weight in first.weights.items():
        assert torch.equal(weight, last.weights[key]) == (".lora_" not in key), key
    still = {"lr": 1e-300, "min_lr": 1e-300}
    again = flags_for(data, folder, tensor, load_adapter=tmp_path / "adapters", **still)
    export = train(again, tmp_path / "again", tensor, export_at="1").export(1)
    peft = PeftModel.from_pretrained(random_model(name, torch.float64), tmp_path / "adapters",
                                     autocast_adapter_dtype=False)  # fmt: skip
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float64)
    with torch.no_grad():
        logits = [model(export.tokens).logits for model in (peft, merged)]
    assert (logits[0] - logits[1]).abs().max() <= 1e-5
    loss = F.cross_entropy(logits[0].flatten(0, 1), export.labels.flatten())
    assert export.loss == pytest.approx(loss.item(), rel=1e-9)


def test_adapters_do_not_depend_on_the_mesh(data: Path, tmp_path: Path) -> None:
    folder = save(random_model("qwen3", torch.float64), tmp_path / "model")
    targets = {"lora_rank": RANK, "lora_target_modules": "query,key,value,proj,fc1,fc2", "train_iters": 4}
    runs = {(t, d): train(flags_for(data, folder, t, global_batch_size=8, **targets), tmp_path / f"{t}x{d}", t * d)
            for t, d in [(1, 1), (2, 1), (1, 2), (4, 1)]}  # fmt: skip
    for mesh, run in runs.items():
        assert run.losses() == pytest.approx(runs[1, 1].losses(), rel=1e-9, abs=0), mesh


def test_a_run_with_adapters_resumes(data: Path, tmp_path: Path) -> None:
    """AdamW has moments of the adapters only."""
    folder = save(random_model("llama-2", torch.float32), tmp_path / "model")
    both = flags_for(data, folder, 1, lora_rank=RANK, lr_decay_iters=6)
    whole = train(both | {"train_iters": 6}, tmp_path / "1").losses()
    half = train(both | {"train_iters": 3, "save": tmp_path / "saved"}, tmp_path / "2").losses()
    rest = train(both | {"train_iters": 6, "load": tmp_path / "saved"}, tmp_path / "3").losses()
    assert half + rest == whole
    [optimizer] = (tmp_path / "saved").glob("*/optimizer-*.safetensors")
    assert all(".lora_" in name for name in load_file(optimizer))


def test_frozen_parameters_keep_their_bits(data: Path, tmp_path: Path) -> None:
    folder = save(random_model("llama-2", torch.float64), tmp_path / "model")
    changes = {"freeze": "embedding.*,layers.1.*", "train_iters": 3, "lr": 1e-2}
    for tensor in (1, 2):
        run = train(flags_for(data, folder, tensor, **changes), tmp_path / str(tensor), tensor, export_at="1,3")
        first, last = run.export(1), run.export(3)
        for key, weight in first.weights.items():
            is_frozen = key.startswith(("embedding.", "layers.1."))
            assert torch.equal(weight, last.weights[key]) == is_frozen, key
            assert (key in first.gradients) == (not is_frozen), key


@pytest.mark.parametrize(("changes", "message"), [
    ({"lora_rank": 2, "lora_target_modules": "query,qkv"}, "qkv includes query"),
    ({"lora_rank": 2, "lora_target_modules": "nothing"}, "--lora-target-modules"),
    ({"lora_rank": 2, "freeze": "embedding.*"}, "--freeze"),
    ({"save_adapter": "out"}, "the run has no adapters"),
    ({"lora_alpha": 16}, "--lora-alpha: there are no adapters without a rank"),
    ({"freeze": "embeddings.*"}, "--freeze: \"embeddings.*\" matches no parameter"),
    ({"freeze": "*"}, "--freeze: leaves no parameter to train"),
    ({"lora_rank": 2, "lora_target_modules": "qkv", "save_adapter": "out"}, "the family has no module for qkv"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str, data: Path, tmp_path: Path) -> None:
    folder = save(random_model("llama-2", torch.float32), tmp_path / "model")
    assert message in refused(flags_for(data, folder, 1, run_dir=tmp_path / "run", **changes))


@pytest.mark.parametrize(("key", "value"), [("use_dora", True), ("target_modules", "all-linear"), ("bias", "all"),
                                            ("target_modules", ["lm_head"]), ("r", None), ("peft_type", "IA3"),
                                            ("lora_bias", True), ("init_lora_weights", "pissa"),
                                            ("trainable_token_indices", [1])])  # fmt: skip
def test_adapters_that_are_not_computed_are_refused(key: str, value: Any, data: Path, tmp_path: Path) -> None:
    _, adapters = random_adapters("qwen3", tmp_path)
    config = json.loads((adapters / "adapter_config.json").read_text())
    (adapters / "adapter_config.json").write_text(json.dumps(config | {key: value}))
    message = refused(flags_for(data, tmp_path / "model", 1, run_dir=tmp_path / "run", load_adapter=adapters))
    assert f"adapter_config.json: {key}" in message


def test_target_modules_may_be_whole_names(data: Path, tmp_path: Path) -> None:
    """As PEFT writes them for a list of modules; the names of one layer do not stand for all layers."""
    _, adapters = random_adapters("qwen3", tmp_path)
    file = adapters / "adapter_config.json"
    config = json.loads(file.read_text())
    names = [f"model.layers.{n}.{module}" for n in range(LAYERS) for module in TARGETS["qwen3"].values()]
    flags = flags_for(data, tmp_path / "model", 1, load_adapter=adapters)
    first = train(flags, tmp_path / "by-word", 1).losses()
    file.write_text(json.dumps(config | {"target_modules": names}))
    assert train(flags, tmp_path / "by-name", 1).losses() == first
    file.write_text(json.dumps(config | {"target_modules": names[1:]}))
    message = refused(flags | {"run_dir": tmp_path / "run"})
    assert f"target_modules: names the module of query in {LAYERS - 1} of {LAYERS} layers" in message


FIRST = "base_model.model.model.layers.0.self_attn."


@pytest.mark.parametrize(("kind", "message"), [
    ("of another layer", f"{FIRST}o_proj.lora_A.weight is a tensor that this program does not use"),
    ("of DoRA", f"{FIRST}q_proj.lora_magnitude_vector is a tensor that this program does not use"),
    ("missing", f"has no tensor {FIRST}q_proj.lora_A.weight"),
    ("of another rank", f"{FIRST}q_proj.lora_A.weight has the shape [3,48], and its configuration needs [4,48]"),
])  # fmt: skip
def test_other_tensors_than_the_configuration_needs_are_refused(
    kind: str, message: str, data: Path, tmp_path: Path
) -> None:
    """The tensor is named."""
    _, adapters = random_adapters("qwen3", tmp_path)
    file, known = adapters / "adapter_model.safetensors", f"{FIRST}q_proj.lora_A.weight"
    tensors = load_file(file)
    assert known in tensors
    if kind == "missing":
        del tensors[known]
    elif kind == "of another rank":
        tensors[known] = tensors[known][1:].clone()
    else:
        tensors[message.split(" ")[0]] = tensors[known].clone()
    save_file(tensors, file)
    refusal = refused(flags_for(data, tmp_path / "model", 1, run_dir=tmp_path / "run", load_adapter=adapters))
    assert f"--load-adapter: {message}" in refusal and refusal.count("\n") == 1, refusal
