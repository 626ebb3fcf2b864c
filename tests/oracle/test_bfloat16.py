"""Parameters in bfloat16 with float32 main weights: `--params-dtype bfloat16`, against PyTorch.

The oracle of the rounding is a second path of the program, too: `--bf16` keeps float32 parameters and rounds
them in every forward pass, so a run with bfloat16 parameters has its bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from checkpoint_runs import HALF, LLAMA, STEPS, assert_same_bits, checkpoint, state_of, weights_of
from checkpoint_runs import run as run_with_dropout
from hf_models import our_gradients, random_model, save
from peft import PeftModel
from program import Run, train
from reference_gpt import Config, Export, ReferenceGpt, loss_and_gradients
from safetensors.torch import load_file
from tensor_tracer import open_recording
from test_convert import convert
from test_hf_models import LOGITS, STILL
from test_hf_models import assert_same_bits as assert_same_model
from test_hf_models import flags_for as model_flags
from test_lora import RANK, gradient_of, our_names, random_adapters
from test_optimizer import SCHEDULE, learning_rate
from test_updates import COLUMNS, parameter_names
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

NIGHTLY = pytest.mark.nightly(suite="meshes")
BF16: dict[str, Any] = {"params_dtype": "bfloat16"}
ROUNDED: dict[str, Any] = {"bf16": True}  # float32 parameters that are rounded in every forward pass
ROUNDING = 2.0**-8  # the largest error of one rounding to bfloat16, relative to the number
MAIN = "optimizer.main."
SHAPES = {"gpt2": {}, "llama": LLAMA}


def main_weights(folder: Path) -> dict[str, Tensor]:
    """Of a checkpoint."""
    return {name.removeprefix(MAIN): value for name, value in state_of(folder).items() if name.startswith(MAIN)}


def norm_of(tensors: dict[str, Tensor]) -> float:
    return torch.stack([one.float().norm() for one in tensors.values()]).norm().item()


def difference(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    assert found.keys() == wanted.keys()
    return {name: found[name].float() - value.float() for name, value in wanted.items()}


def assert_rounded(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    """`found` are the numbers of `wanted`, rounded once."""
    assert_same_bits(found, {name: value.bfloat16() for name, value in wanted.items()})


# --- Training -----------------------------------------------------------------------------------


class ReferenceTraining:
    """Megatron's rule in PyTorch: bfloat16 forward and backward passes, gradients that add up in float32, AdamW on
    float32 main weights, and parameters that are the rounded main weights."""

    def __init__(self, config: Config, first: dict[str, Tensor], flags: dict[str, Any]) -> None:
        self.config, self.clip = config, flags["clip_grad"]
        self.micro_batch = flags["micro_batch_size"]
        self.main = {name: value.clone() for name, value in first.items()}
        self.optimizer = torch.optim.AdamW(
            [{"params": [w for w in self.main.values() if w.ndim >= 2]},
             {"params": [w for w in self.main.values() if w.ndim < 2], "weight_decay": 0.0}],
            weight_decay=flags["weight_decay"], betas=(flags["adam_beta1"], flags["adam_beta2"]), eps=flags["adam_eps"],
        )  # fmt: skip

    def step(self, number: int, tokens: Tensor, labels: Tensor) -> tuple[float, float]:
        """Loss and gradient norm."""
        for weight in self.main.values():
            weight.grad = torch.zeros_like(weight)
        losses = []
        for first in range(0, len(tokens), self.micro_batch):
            rows = slice(first, first + self.micro_batch)
            losses.append(self._add_gradients(tokens[rows], labels[rows], self.micro_batch / len(tokens)))
        norm = torch.nn.utils.clip_grad_norm_(self.main.values(), self.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(number)
        self.optimizer.step()
        return sum(losses) / len(losses), norm.item()

    def _add_gradients(self, tokens: Tensor, labels: Tensor, share: float) -> float:
        leaves = {name: value.bfloat16().requires_grad_() for name, value in self.main.items()}
        logits = ReferenceGpt(self.config, leaves).logits(tokens)
        assert logits.dtype == torch.bfloat16
        loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        (loss * share).backward()
        for name, leaf in leaves.items():
            assert leaf.grad is not None and self.main[name].grad is not None
            self.main[name].grad += leaf.grad.float()
        return loss.item()


@pytest.mark.parametrize("shape", SHAPES)
def test_ten_steps_are_those_of_pytorch(shape: str, flags, tmp_path: Path) -> None:
    """Two micro-batches a step, clipped. The losses differ by far less than one rounding of a number to bfloat16
    (4e-3), as they are means over 256 tokens: by 1.3e-4 at most, and the gradient norms by 1.8e-3. AdamW turns a
    gradient that is all rounding (that of the bias of keys is 0) into a step of full length, so that single numbers
    differ; the updates as a whole by 2 %."""
    steps = 10
    both = flags | SCHEDULE | SHAPES[shape]
    first = train(both | {"train_iters": 1}, tmp_path / "first", export_at="1").export(1)
    saved = {"train_iters": steps, "save": tmp_path / "saved"}
    run = train(both | BF16 | saved, tmp_path / "run", export_at=f"1-{steps}")
    assert_rounded(run.export(1).weights, first.weights)
    reference = ReferenceTraining(first.config, first.weights, both)
    for number in range(1, steps + 1):
        export, log = run.export(number), run.steps[number - 1]
        assert {one.dtype for one in export.weights.values()} == {torch.bfloat16}
        assert {one.dtype for one in export.gradients.values()} == {torch.float32}
        loss, norm = reference.step(number, export.tokens, export.labels)
        assert log["loss"] == pytest.approx(loss, rel=5e-4), number
        assert log["grad_norm"] == pytest.approx(norm, rel=5e-3), number
    found = main_weights(tmp_path / "saved" / checkpoint(steps))
    moved = difference(found, first.weights)
    assert norm_of(difference(found, reference.main)) <= 0.06 * norm_of(moved)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mesh", [(1, 1), pytest.param((2, 2), marks=NIGHTLY)], ids=str)
def test_the_bits_are_those_of_float32_weights_that_are_rounded(
    mesh: tuple[int, int], shape: str, flags, tmp_path: Path
) -> None:
    """Losses, gradients, moments, and the main weights beside the float32 parameters of `--bf16`."""
    tensor, data = mesh
    both = flags | SHAPES[shape] | {"train_iters": STEPS, "tensor_model_parallel_size": tensor, "eval_interval": 5}
    runs, states = {}, {}
    for name, dtype in {"main": BF16, "rounded": ROUNDED}.items():
        more = dtype | {"save": tmp_path / name / "saved"}
        runs[name] = train(both | more, tmp_path / name, tensor * data, export_at=f"1,{STEPS}")
        states[name] = state_of(tmp_path / name / "saved" / checkpoint(STEPS))
    assert bits_of(runs["main"]) == bits_of(runs["rounded"])
    for step in (1, STEPS):
        found, wanted = (runs[name].export(step) for name in ("main", "rounded"))
        assert_same_bits(found.gradients, wanted.gradients)
        assert_rounded(found.weights, wanted.weights)
    wanted = weights_of(states["rounded"])
    assert_rounded(weights_of(states["main"]), wanted)
    others = {name: value for name, value in states["rounded"].items() if name not in wanted}
    mains = {f"{MAIN}{name}": value for name, value in wanted.items()}
    assert_same_bits({name: states["main"][name] for name in states["main"] if name not in wanted}, others | mains)


def bits_of(run: Run) -> list[tuple[Any, ...]]:
    return [(one["loss"], one["grad_norm"], one.get("valid_loss")) for one in run.steps]


def test_gradients_of_micro_batches_add_up_in_float32(flags, tmp_path: Path) -> None:
    """Two micro-batches on one rank, and one on each of two replicas, whose sum is a float32 reduction: the same
    rows, so the same bits of every step. A sum in bfloat16 would have 8 bits, as the gradient of one micro-batch
    has."""
    both = flags | LLAMA | BF16 | {"train_iters": 4, "micro_batch_size": 4, "global_batch_size": 8}
    alone = train(both, tmp_path / "alone", export_at="1")
    replicas = train(both, tmp_path / "replicas", 2, export_at="1")
    assert bits_of(alone) == bits_of(replicas)
    assert_same_bits(alone.export(1).gradients, replicas.export(1).gradients)
    whole = train(both | {"micro_batch_size": 8, "train_iters": 1}, tmp_path / "whole", export_at="1").export(1)
    for name, gradient in alone.export(1).gradients.items():
        if "embeddings" in name:  # a sum over tokens, which the program computes in float32
            continue
        one = whole.gradients[name]
        assert torch.equal(one, one.bfloat16().float()), name
        assert (gradient != gradient.bfloat16().float()).float().mean() > 0.3, name


def test_updates_that_are_less_than_a_rounding_add_up(flags, tmp_path: Path) -> None:
    """The gains of the norms begin with 1, whose neighbour below in bfloat16 is 1 - 2 ** -8. An update of AdamW is
    at most about the learning rate, 2 ** -11, so none of them alone moves a gain."""
    rate = 2.0**-11
    steps = 12
    changes = {"lr": rate, "min_lr": rate, "lr_warmup_iters": 0, "lr_decay_iters": 0, "train_iters": steps + 1}
    run = train(flags | BF16 | changes, tmp_path, export_at=f"1-{steps + 1}")
    gains = [run.export(step).weights["final_norm.weight"] for step in range(1, steps + 2)]
    assert (gains[0] == 1).all() and (gains[1] == 1).all()
    assert (gains[-1] != 1).float().mean() > 0.25


@pytest.mark.parametrize("mesh", [(2, 1), (1, 2), pytest.param((2, 2), marks=NIGHTLY)], ids=str)
def test_another_mesh_is_near(mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """The first parameters have the same bits; a sum that crosses ranks is rounded elsewhere (losses differ by 1e-5,
    gradients by 0.2 %)."""
    tensor, data = mesh
    both = flags | LLAMA | BF16 | {"train_iters": 8}
    alone = train(both, tmp_path / "alone", export_at="1")
    other = train(both | {"tensor_model_parallel_size": tensor}, tmp_path / "mesh", tensor * data, export_at="1")
    assert other.losses() == pytest.approx(alone.losses(), rel=1e-4)
    one, two = alone.export(1), other.export(1)
    assert_same_bits(one.weights, two.weights)
    assert norm_of(difference(one.gradients, two.gradients)) <= 0.01 * norm_of(one.gradients)


def test_positions_of_documents_have_gradients_that_are_rounded_once(flags, tmp_path: Path) -> None:
    """Every document has the positions 0 to 2: the gradients of their rows are sums of many terms."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps({"text": f"abc{n % 7}"}) + "\n" for n in range(4000)))
    changes = BF16 | {"data_path": str(lines), "documents": "packed", "micro_batch_size": 64,
                      "global_batch_size": 64}  # fmt: skip
    export = train(flags | changes, tmp_path / "run", export_at="1").export(1)
    assert export.starts is not None
    weights = {name: value.float() for name, value in export.weights.items()}
    _, expected = loss_and_gradients(export.config, weights, export.tokens, export.labels, export.starts, export.mask)
    name = "embedding.position_embeddings.weight"
    found, wanted = export.gradients[name], expected[name]
    used = [row for row in range(len(wanted)) if wanted[row].norm() > 0]
    assert len(used) >= 2
    for row in used:
        assert (found[row] - wanted[row]).norm() <= 4 * ROUNDING * wanted[row].norm(), row


# --- Models of Hugging Face ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2", "llama-3", "qwen3"])
def test_logits_are_those_of_transformers(name: str, data: Path, tmp_path: Path) -> None:
    """Both in bfloat16, on one rank. They differ by roundings: each is as far from float32 as the other. The model
    goes out with the bits with which it came."""
    model = random_model(name, torch.bfloat16)
    folder = save(model, tmp_path / "model")
    (tmp_path / "plan.json").write_text(json.dumps({"entries": [LOGITS]}))
    changes = STILL | BF16 | {"save_hf": tmp_path / "out", "tensor_tracer_plan": tmp_path / "plan.json",
                              "record": tmp_path / "record"}  # fmt: skip
    export = train(model_flags(data, folder, **changes), tmp_path / "run", export_at="1").export(1)
    [recording] = (tmp_path / "record").rglob("*.ttrec")
    [record] = open_recording(recording).records("Logits")
    ours = torch.from_numpy(record.values.copy()).float()
    assert torch.equal(ours, ours.bfloat16().float()), "logits are not bfloat16"
    with torch.no_grad():
        theirs = model(export.tokens).logits.float()
        wide = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(export.tokens).logits
    assert (ours - wide).norm() <= 1.2 * (theirs - wide).norm()
    assert (ours - theirs).abs().max() <= 8 * ROUNDING * wide.abs().max()
    loss = F.cross_entropy(theirs.flatten(0, 1), export.labels.flatten())
    assert export.loss == pytest.approx(loss.item(), rel=1e-3)
    assert_same_model(tmp_path / "out", model)


@pytest.mark.parametrize("tensor", [1, 2])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_main_weights_are_those_of_the_folder(dtype: str, tensor: int, data: Path, tmp_path: Path) -> None:
    """In float32, not those of the rounded parameters. The folder of --save-hf and `convert` have the parameters."""
    model = random_model("qwen3", torch.float32).to(getattr(torch, dtype))
    folder = save(model, tmp_path / "model")
    changes = STILL | BF16 | {"save": tmp_path / "saved", "save_hf": tmp_path / "out",
                              "tensor_model_parallel_size": tensor}  # fmt: skip
    train(model_flags(data, folder, **changes), tmp_path / "run", tensor)
    state = tmp_path / "saved" / checkpoint(1)
    wanted = {name: value.float() for name, value in our_weights(model).items()}
    assert_same_bits(main_weights(state), wanted)
    assert_rounded(weights_of(state_of(state)), wanted)
    assert_same_model(tmp_path / "out", model.bfloat16())
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
    convert(tmp_path / "saved", tmp_path / "converted")
    assert_same_files(tmp_path / "converted", tmp_path / "out")


def our_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """By our parameters' names, in our shapes."""
    for parameter in model.parameters():
        parameter.grad = parameter.detach().clone()
    return our_gradients(model)


def assert_same_files(found: Path, wanted: Path) -> None:
    names = {path.name for path in wanted.iterdir()}
    assert {path.name for path in found.iterdir()} == names
    for name in names:
        assert (found / name).read_bytes() == (wanted / name).read_bytes(), name


def test_a_trained_model_goes_out_as_its_parameters(flags, tmp_path: Path) -> None:
    """The last checkpoint holds them beside the main weights."""
    changes = LLAMA | BF16 | {"train_iters": 5, "lr": 1e-2, "save": tmp_path / "saved", "save_hf": tmp_path / "out"}
    train(flags | changes, tmp_path / "run")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    assert model.dtype == torch.bfloat16
    found, state = our_weights(model), tmp_path / "saved" / checkpoint(5)
    assert_same_bits(found, weights_of(state_of(state)))
    assert_rounded(found, main_weights(state))


# --- Adapters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tensor", [1, 2])
def test_adapters_on_bfloat16_weights_stay_near_those_of_peft(tensor: int, data: Path, tmp_path: Path) -> None:
    """PEFT in float64 on the same rounded weights. Adapters and their gradients are float32."""
    peft, adapters = random_adapters("qwen3", tmp_path)
    save(random_model("qwen3", torch.float64).bfloat16(), tmp_path / "rounded")
    with torch.no_grad():
        for parameter in peft.parameters():
            if not parameter.requires_grad:
                parameter.copy_(parameter.bfloat16())
    changes = STILL | BF16 | {"load_adapter": adapters, "tensor_model_parallel_size": tensor}
    flags = model_flags(data, tmp_path / "rounded", **changes)
    export = train(flags, tmp_path / "run", tensor, export_at="1").export(1)
    loss = F.cross_entropy(peft(export.tokens).logits.flatten(0, 1), export.labels.flatten())
    loss.backward()
    assert export.loss == pytest.approx(loss.item(), rel=5e-3)
    assert_dtypes(export)
    names = our_names("qwen3")
    assert export.gradients.keys() == names.keys()
    for ours, theirs in names.items():
        expected = gradient_of(peft, theirs)
        assert (export.gradients[ours] - expected).norm() <= 0.05 * expected.norm(), ours


def assert_dtypes(export: Export) -> None:
    for name, weight in export.weights.items():
        assert weight.dtype == (torch.float32 if ".lora_" in name else torch.bfloat16), name
    assert {one.dtype for one in export.gradients.values()} == {torch.float32}


def test_training_adapters_on_bfloat16_weights(data: Path, tmp_path: Path) -> None:
    """The bits are those of float32 weights that are rounded in every forward pass. The weights stay, without main
    weights; the merged folder is one rounding of weights and adapters."""
    folder = save(random_model("llama-2", torch.bfloat16), tmp_path / "model")
    lora = {"lora_rank": RANK, "lora_target_modules": "query,value,fc2", "train_iters": 8, "lr": 1e-2,
            "tensor_model_parallel_size": 2}  # fmt: skip
    saves = {"save": tmp_path / "saved", "save_hf": tmp_path / "out", "save_adapter": tmp_path / "adapters"}
    run = train(model_flags(data, folder, **lora, **saves, **BF16), tmp_path / "run", 2, export_at="1,8")
    other = train(model_flags(data, folder, **lora, **ROUNDED), tmp_path / "other", 2, export_at="8")
    assert bits_of(run) == bits_of(other)
    first, last = run.export(1), run.export(8)
    assert_dtypes(last)
    for name, weight in first.weights.items():
        assert torch.equal(weight, last.weights[name]) == (".lora_" not in name), name
        assert torch.equal(last.weights[name].float(), other.export(8).weights[name]), name
    state = state_of(tmp_path / "saved" / checkpoint(8))
    assert all(".lora_" in name for name in state if name.startswith("optimizer."))
    assert not main_weights(tmp_path / "saved" / checkpoint(8))
    convert(tmp_path / "saved", tmp_path / "converted")
    assert_same_files(tmp_path / "converted", tmp_path / "out")
    peft = PeftModel.from_pretrained(random_model("llama-2", torch.bfloat16).float(), tmp_path / "adapters")
    wanted, found = peft.merge_and_unload().state_dict(), load_file(tmp_path / "out" / "model.safetensors")
    for name, weight in found.items():
        error = (weight.float() - wanted[name]).abs()
        assert weight.dtype == torch.bfloat16 and (error <= 1.01 * ROUNDING * wanted[name].abs()).all(), name


def test_frozen_weights_have_no_main_weights(flags, tmp_path: Path) -> None:
    changes = BF16 | {"freeze": "embedding.*,layers.1.*", "train_iters": 3, "lr": 1e-2, "save": tmp_path / "saved"}
    run = train(flags | changes, tmp_path / "run", export_at="1,3")
    first, last = run.export(1), run.export(3)
    assert main_weights(tmp_path / "saved" / checkpoint(3)).keys() == last.gradients.keys()
    for name, weight in first.weights.items():
        assert weight.dtype == torch.bfloat16
        assert torch.equal(weight, last.weights[name]) == (name not in last.gradients), name
        assert (name in last.gradients) == (not name.startswith(("embedding.", "layers.1."))), name


# --- Checkpoints --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(flags, tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Any]], tuple[Path, Any]]:
    """By dtype: the checkpoints of a whole run on two tensor ranks, and its steps."""
    made: dict[str, tuple[Path, Any]] = {}

    def find(dtype: dict[str, Any]) -> tuple[Path, Any]:
        key = json.dumps(dtype)
        if key not in made:
            folder = tmp_path_factory.mktemp("saved")
            done = run_with_dropout(flags, folder, (2, 1), **LLAMA, **dtype, save=folder / "saved", save_interval=HALF)
            made[key] = (folder / "saved", done.good().steps())
        return made[key]

    return find


def rest_of(steps: dict[int, Any]) -> dict[int, Any]:
    return {step: bits for step, bits in steps.items() if step > HALF}


def test_a_resumed_run_has_the_bits_of_the_whole_one(saved, flags, tmp_path: Path) -> None:
    """Main weights that are not those of the rounded parameters; with dropout."""
    folder, whole = saved(BF16)
    main = main_weights(folder / checkpoint(HALF))
    assert any(not torch.equal(value, value.bfloat16().float()) for value in main.values())
    done = run_with_dropout(flags, tmp_path, (2, 1), **LLAMA, **BF16, load=folder / checkpoint(HALF),
                            save=tmp_path / "saved").good()  # fmt: skip
    assert done.steps() == rest_of(whole)
    assert "changed since the checkpoint" not in done.errors
    assert_same_bits(state_of(tmp_path / "saved" / checkpoint(STEPS)), state_of(folder / checkpoint(STEPS)))


@pytest.mark.parametrize("mesh", [(1, 1), (1, 2), pytest.param((4, 1), marks=NIGHTLY)], ids=str)
def test_a_run_resumes_on_another_mesh(mesh: tuple[int, int], saved, flags, tmp_path: Path) -> None:
    folder, whole = saved(BF16)
    done = run_with_dropout(flags, tmp_path, mesh, **LLAMA, **BF16, load=folder / checkpoint(HALF)).good()
    found, wanted = done.steps(), rest_of(whole)
    assert found.keys() == wanted.keys()
    for step, (loss, _) in wanted.items():
        assert found[step][0] == pytest.approx(loss, rel=1e-4), step


@pytest.mark.parametrize("way", ["to bfloat16", "to float32"])
def test_a_checkpoint_of_the_other_dtype_is_loaded(way: str, saved, flags, tmp_path: Path) -> None:
    """Its float32 weights become the main weights, or the main weights become the weights. The steps are those of a
    run that does not change the weights' dtype, and only rounds them in each forward pass."""
    before, after = (ROUNDED, BF16) if way == "to bfloat16" else (BF16, ROUNDED)
    folder, whole = saved(before)
    done = run_with_dropout(flags, tmp_path, (2, 1), **LLAMA, **after, load=folder / checkpoint(HALF)).good()
    assert done.steps() == rest_of(whole)
    names = ("float32", "bfloat16") if way == "to bfloat16" else ("bfloat16", "float32")
    assert "changed since the checkpoint: --params-dtype from {} to {}".format(*names) in done.errors


def test_float64_is_no_other_dtype_of_a_checkpoint(saved, flags, tmp_path: Path) -> None:
    folder, _ = saved(BF16)
    done = run_with_dropout(flags, tmp_path, (2, 1), **LLAMA, params_dtype="float64", load=folder)
    assert done.code == 2
    assert "--params-dtype: is float64, and the checkpoint has bfloat16" in done.errors


# --- Watching and programs ----------------------------------------------------------------------

PROGRAMS = {
    "values": "layers[1].output *= 1.25",
    "weights": "layers[1].mlp.fc1.weight *= 1.5",
    "gradients": "layers[2].output.grad *= 0.5",
    "saves": 'save(layers[1].mlp.fc2.weight.norm(), "norm")',
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_act_on_the_parameters(program: str, flags, tmp_path: Path) -> None:
    """With the bits of float32 weights that are rounded in every forward pass."""
    (tmp_path / "p.tti").write_text(PROGRAMS[program])
    both = flags | {"interventions": [str(tmp_path / "p.tti")], "train_iters": 3, "tensor_model_parallel_size": 2}
    runs = {name: train(both | dtype, tmp_path / name, 2) for name, dtype in (("main", BF16), ("rounded", ROUNDED))}
    without = train(flags | BF16 | {"train_iters": 3, "tensor_model_parallel_size": 2}, tmp_path / "without", 2)
    assert bits_of(runs["main"]) == bits_of(runs["rounded"])
    assert (bits_of(runs["main"]) == bits_of(without)) == (program == "saves")


def test_updates_are_those_of_the_main_weights(flags, tmp_path: Path) -> None:
    """The place Updates, whose norms PyTorch computes from the checkpoints before and after the step."""
    (tmp_path / "plan.json").write_text(json.dumps({"entries": [{"point": "Updates", "compressor": {"kind": "none"}}]}))
    more = BF16 | {"train_iters": 2, "save": tmp_path / "saved", "save_interval": 1, "record": tmp_path / "record",
                   "tensor_tracer_plan": tmp_path / "plan.json"}  # fmt: skip
    train(flags | more, tmp_path / "run")
    before, after = (main_weights(tmp_path / "saved" / checkpoint(step)) for step in (1, 2))
    [recording] = (tmp_path / "record").rglob("*.ttrec")
    [record] = [one for one in open_recording(recording).records("Updates") if one.step == 2]
    names = parameter_names(recording.parent)
    assert sorted(names) == sorted(before)
    for name, row in zip(names, record.values[0].tolist(), strict=True):
        found = dict(zip(COLUMNS, row, strict=True))
        assert found["weight_norm"] == pytest.approx(before[name].double().norm().item(), rel=1e-5), name
        update = (after[name] - before[name]).double().norm().item()
        assert found["update_norm"] == pytest.approx(update, rel=1e-5), name
