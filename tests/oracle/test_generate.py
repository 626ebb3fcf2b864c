"""`tensor-tracer generate` against `transformers` and PyTorch, on small random models."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from generation import (
    Generated,
    Ids,
    all_logits,
    assert_best_tokens,
    assert_follows,
    edited_logits,
    generate,
    line_of,
    logits_of,
    refused,
)
from hf_models import NAMES, random_model, save
from program import environment
from safetensors.torch import load_file, save_file
from test_lora import random_adapters
from transformers.generation import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

NIGHTLY = pytest.mark.nightly(suite="meshes")
PROMPTS: list[Ids] = [list(text.encode()) for text in ("a", "The loss fell to 0.5", "é is", "return x")]
TOKENS = 12
VOCABULARY = 260
CLOSE = 1e-4


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    model = random_model("llama-3", torch.float32)
    return model, save(model, tmp_path_factory.mktemp("llama"))


def greedy(model: Any, prompt: Ids) -> Ids:
    ids = model.generate(torch.tensor([prompt]), max_new_tokens=TOKENS, do_sample=False, eos_token_id=None)
    return ids[0, len(prompt) :].tolist()


@pytest.mark.parametrize("ranks", [1, 2, pytest.param(4, marks=NIGHTLY)])
@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=NIGHTLY)], ids=["f64", "f32"])
@pytest.mark.parametrize("name", NAMES)
def test_tokens_and_logits_are_those_of_transformers(
    name: str, dtype: torch.dtype, ranks: int, tmp_path: Path
) -> None:
    """All prompts in one batch, whose lengths differ; along our continuation and along theirs."""
    model = random_model(name, dtype)
    folder = save(model, tmp_path / "model")
    flags = {"params_dtype": str(dtype).removeprefix("torch."), "max_new_tokens": TOKENS, "ignore_eos": True}

    def continued(prompts: list[Ids]) -> list[Ids]:
        return generate(folder, prompts, tmp_path, ranks, **flags).ids()

    found = generate(folder, PROMPTS, tmp_path, ranks, top_logits=VOCABULARY, **flags)
    error = 1e-9 if dtype == torch.float64 else CLOSE
    compared = 0
    for prompt, response in zip(PROMPTS, found.responses, strict=True):
        assert response["prompt_token_ids"] == prompt and response["finish_reason"] == "length"
        assert len(response["token_ids"]) == TOKENS and len(set(response["top_ids"][0])) == VOCABULARY
        compared += assert_best_tokens(response, logits_of(model, prompt, response["token_ids"]), error)
    assert compared > 40
    assert assert_follows(continued, model, PROMPTS, [greedy(model, prompt) for prompt in PROMPTS]) > 40


def test_a_prompt_does_not_depend_on_its_batch(llama: tuple[Any, Path], tmp_path: Path) -> None:
    flags = {"max_new_tokens": TOKENS, "top_logits": VOCABULARY}
    together, alone = (generate(llama[1], PROMPTS, tmp_path, batch_size=size, **flags) for size in (4, 1))
    for one, other in zip(together.responses, alone.responses, strict=True):
        assert one["token_ids"] == other["token_ids"]
        assert (all_logits(one) - all_logits(other)).abs().max() <= 1e-5


def test_bfloat16(tmp_path: Path) -> None:
    model = random_model("qwen3", torch.float64)
    folder = save(model, tmp_path / "model")
    found = generate(folder, PROMPTS, tmp_path, bf16=True, max_new_tokens=TOKENS, top_logits=VOCABULARY)
    for prompt, response in zip(PROMPTS, found.responses, strict=True):
        theirs = logits_of(model, prompt, response["token_ids"]).gather(1, torch.tensor(response["top_ids"]))
        assert (torch.tensor(response["top_logits"]) - theirs).abs().mean() < 0.05 * theirs.abs().mean()


def test_adapters_of_peft(tmp_path: Path) -> None:
    peft, adapters = random_adapters("llama-2", tmp_path)
    found = generate(tmp_path / "model", PROMPTS, tmp_path, 2, load_adapter=adapters, params_dtype="float64",
                     max_new_tokens=TOKENS, top_logits=VOCABULARY)  # fmt: skip
    for prompt, response in zip(PROMPTS, found.responses, strict=True):
        assert_best_tokens(response, logits_of(peft.eval(), prompt, response["token_ids"]), 1e-10)


def test_a_response_ends_with_the_end_token(llama: tuple[Any, Path], tmp_path: Path) -> None:
    """Others in the batch go on. The file of the generation wins over that of the model."""
    model, _ = llama
    free = generate(llama[1], PROMPTS, tmp_path / "free", max_new_tokens=TOKENS, ignore_eos=True).ids()
    end = free[1][4]
    folder = save(model, tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [VOCABULARY - 1, end]}))
    found = generate(folder, PROMPTS, tmp_path, max_new_tokens=TOKENS)
    for ids, response in zip(free, found.responses, strict=True):
        is_ended = end in ids
        assert response["token_ids"] == (ids[: ids.index(end) + 1] if is_ended else ids)
        assert response["finish_reason"] == ("stop" if is_ended else "length")
    assert found.responses[1]["finish_reason"] == "stop"
    assert generate(folder, PROMPTS, tmp_path, max_new_tokens=TOKENS, ignore_eos=True).ids() == free


SAMPLED: dict[str, Any] = {"temperature": 1.3, "max_new_tokens": TOKENS, "ignore_eos": True}


@pytest.mark.parametrize("limits", [{}, {"top_k": 40}, {"top_p": 0.7}, {"top_k": 100, "top_p": 0.8}])
def test_draws_do_not_depend_on_ranks_and_batches(
    llama: tuple[Any, Path], limits: dict[str, Any], tmp_path: Path
) -> None:
    def ids_of(ranks: int, **flags: Any) -> list[Ids]:
        return generate(llama[1], PROMPTS, tmp_path, ranks, **SAMPLED, **limits, **flags).ids()

    first = ids_of(1, seed=5)
    assert first == ids_of(2, seed=5) == ids_of(1, seed=5, batch_size=1)
    assert first != ids_of(1, seed=6)
    assert len({tuple(ids) for ids in first}) == len(PROMPTS)


@pytest.mark.parametrize("limits", [{}, {"top_k": 30}, {"top_p": 0.6}, {"top_k": 60, "top_p": 0.8}])
def test_draws_have_the_distribution_of_transformers(
    llama: tuple[Any, Path], limits: dict[str, Any], tmp_path: Path
) -> None:
    """4000 first tokens of the same prompt: Pearson's chi-square below its mean plus four deviations."""
    model, folder = llama
    prompt, draws = PROMPTS[3], 4000
    found = generate(folder, [prompt] * draws, tmp_path, temperature=2.0, max_new_tokens=1, batch_size=1000, **limits)
    with torch.no_grad():
        scores = model(torch.tensor([prompt])).logits[:, -1].double()
    scores = TemperatureLogitsWarper(2.0)(None, scores)
    if "top_k" in limits:
        scores = TopKLogitsWarper(limits["top_k"])(None, scores)
    if "top_p" in limits:
        scores = TopPLogitsWarper(limits["top_p"])(None, scores)
    expected = scores.softmax(-1)[0] * draws
    counts = torch.bincount(torch.tensor(found.ids())[:, 0], minlength=VOCABULARY).double()
    assert (counts[expected == 0] == 0).all()
    large = expected >= 5
    wanted, got = (torch.cat([of[large], of[~large].sum()[None]]) for of in (expected, counts))
    if wanted[-1] < 5:
        wanted, got = wanted[:-1], got[:-1]
    freedom = len(wanted) - 1
    assert freedom > 10
    assert ((got - wanted) ** 2 / wanted).sum() < freedom + 4 * (2 * freedom) ** 0.5


STEER = "v = vector(\"shift\")[1]\nlayers[1].output = layers[1].output + 2.0 * v\n"


def steer(
    folder: Path, llama: tuple[Any, Path], ranks: int = 1, positions: str = "all", **flags: Any
) -> tuple[Generated, torch.Tensor]:
    (folder / "vectors").mkdir(parents=True)
    torch.manual_seed(3)
    vector = torch.randn(3, 48)
    torch.save(vector, folder / "vectors" / "shift.pt")
    (folder / "steer.tti").write_text(f'when(positions="{positions}")\n{STEER}')
    found = generate(llama[1], PROMPTS, folder, ranks, interventions=folder / "steer.tti", top_logits=VOCABULARY,
                     tensor_tracer_vectors=folder / "vectors", **flags)  # fmt: skip
    return found, vector[1]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("positions", ["all", "prompt", "response", "published"])
def test_a_program_changes_the_positions_that_it_counts(
    llama: tuple[Any, Path], positions: str, ranks: int, tmp_path: Path
) -> None:
    model, _ = llama
    flags = {"max_new_tokens": TOKENS, "ignore_eos": True}
    found, shift = steer(tmp_path, llama, ranks, positions, **flags)
    plain = generate(llama[1], PROMPTS, tmp_path, max_new_tokens=TOKENS, ignore_eos=True).ids()
    assert found.ids() != plain
    for prompt, response in zip(PROMPTS, found.responses, strict=True):
        logits, _ = edited_logits(model, prompt, response["token_ids"], lambda h: h + 2.0 * shift, positions)
        assert_best_tokens(response, logits, 1e-3)
    prompts, read = sum(map(len, PROMPTS)), len(PROMPTS) * (TOKENS - 1)
    counted = {"all": prompts + read, "prompt": prompts, "response": read, "published": len(PROMPTS) + read}
    assert found.positions() == {"steer": counted[positions]}


def test_the_flags_generate_as_the_program_does(llama: tuple[Any, Path], tmp_path: Path) -> None:
    flags = {"max_new_tokens": TOKENS, "ignore_eos": True}
    by_program, _ = steer(tmp_path, llama, positions="published", **flags)
    by_flags = generate(llama[1], PROMPTS, tmp_path / "flags", top_logits=VOCABULARY, steer="shift@1=2.0",
                        positions="published", tensor_tracer_vectors=tmp_path / "vectors", **flags)  # fmt: skip
    assert by_flags.responses == by_program.responses
    assert 'program "steer-shift-1" changed' in by_flags.told


def test_rows_that_are_done_are_not_counted(llama: tuple[Any, Path], tmp_path: Path) -> None:
    free, _ = steer(tmp_path / "free", llama, max_new_tokens=TOKENS, ignore_eos=True)
    end = free.ids()[1][4]
    folder = save(llama[0], tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    found, _ = steer(tmp_path / "ended", (llama[0], folder), max_new_tokens=TOKENS)
    assert any(len(ids) < TOKENS for ids in found.ids())
    read = sum(len(ids) - 1 for ids in found.ids())
    assert found.positions() == {"steer": sum(map(len, PROMPTS)) + read}


def test_a_value_that_a_program_saves_is_there_for_the_next_token(llama: tuple[Any, Path], tmp_path: Path) -> None:
    """The token that had the largest logit one token before is excluded."""
    (tmp_path / "program.tti").write_text(
        'save(logits[:, -1], "last", send=False)\n'
        'if (saved("last") == saved("last").amax(dim=-1, keepdim=True))[:, None, :]: logits = -1e9\n')
    model, folder = llama
    found = generate(folder, PROMPTS[1:2], tmp_path, interventions=tmp_path / "program.tti", max_new_tokens=TOKENS,
                     ignore_eos=True)  # fmt: skip
    [ids] = found.ids()
    logits = logits_of(model, PROMPTS[1], ids)
    assert ids[0] == int(logits[0].argmax())
    for now, last, id in zip(logits[1:], logits, ids[1:], strict=False):
        assert id == int(now.index_fill(0, last.argmax(), -1e9).argmax())
    assert any(id != int(now.argmax()) for now, id in zip(logits, ids, strict=True))


@pytest.mark.parametrize(
    ("program", "flags", "error"),
    [
        ("when(tokens=\"-1\")\nlayers[1].output = layers[1].output + 1.0\n", {}, "selects tokens of a sequence"),
        ("layers[1].attention.logits = layers[1].attention.logits * 2.0\n", {}, "a pass over one token does not have"),
        ("layers[1].output.grad = layers[1].output.grad * 2.0\n", {}, "there is no backward pass"),
        ('when(positions="response")\nskip(layers[1])\n', {}, "choose a part of the text"),
        ('when(positions="prompt")\nlayers[1].mlp.fc2.weight *= 0.5\n', {}, "choose a part of the text"),
    ],
)
def test_programs_that_generation_cannot_run(
    llama: tuple[Any, Path], program: str, flags: dict[str, Any], error: str, tmp_path: Path
) -> None:
    (tmp_path / "program.tti").write_text(program)
    given = {"hf_model": llama[1], "prompt": ["text"], "interventions": tmp_path / "program.tti"}
    assert error in refused(given | flags)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"messages": []}', "has messages of a chat; render them"),
        ('{"text": "a"}', 'has no text under "prompt"'),
        ("[1]", "is not a JSON object"),
        ('{"prompt_token_ids": [260]}', "not ids of the 260 tokens"),
        ('{"prompt_token_ids": []}', "not ids of the 260 tokens"),
        ("", "holds no prompt"),
    ],
)
def test_wrong_prompts_are_named(llama: tuple[Any, Path], line: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text(line + "\n")
    told = refused({"hf_model": llama[1], "prompts": tmp_path / "prompts.jsonl"})
    assert "--prompts: " in told and error in told


@pytest.mark.parametrize("name", ["prompts.txt", "prompts.jsonl"])
def test_a_byte_order_mark_is_no_part_of_a_prompt(name: str, llama: tuple[Any, Path], tmp_path: Path) -> None:
    file, output = tmp_path / name, tmp_path / "responses.jsonl"
    line = json.dumps({"prompt": "loss"}) if name.endswith("jsonl") else "loss"
    flags = {"hf_model": llama[1], "prompts": file, "output": output, "max_new_tokens": 1}
    prompts = []
    for mark in ("", "\ufeff"):
        file.write_text(mark + line + "\n")
        subprocess.run(line_of(flags), env=environment(), check=True, timeout=60)
        prompts.append(json.loads(output.read_text())["prompt_token_ids"])
    assert prompts[0] == prompts[1]


def test_a_text_beside_ids_is_kept_and_a_file_is_replaced_when_complete(llama: tuple[Any, Path], tmp_path: Path) -> None:
    file, output = tmp_path / "prompts.jsonl", tmp_path / "responses.jsonl"
    file.write_text('{"prompt": "the", "prompt_token_ids": [104, 105]}\n')
    flags = {"hf_model": llama[1], "prompts": file, "output": output, "max_new_tokens": 1}
    subprocess.run(line_of(flags), env=environment(), check=True, timeout=60)
    before = output.read_text()
    assert (told := json.loads(before))["prompt"] == "the" and told["prompt_token_ids"] == [104, 105]
    damaged = load_file(llama[1] / "model.safetensors")
    damaged["model.norm.weight"].fill_(float("nan"))
    shutil.copytree(llama[1], tmp_path / "nan")
    save_file(damaged, tmp_path / "nan" / "model.safetensors", {"format": "pt"})
    done = subprocess.run(line_of(flags | {"hf_model": tmp_path / "nan"}), env=environment(), capture_output=True, timeout=60)
    assert done.returncode == 1 and output.read_text() == before
    assert "is a folder" in refused(flags | {"output": tmp_path})


def test_limits_of_the_file_of_prompts(llama: tuple[Any, Path], tmp_path: Path) -> None:
    flags = {"hf_model": llama[1], "prompts": tmp_path / "prompts.jsonl"}
    (tmp_path / "prompts.jsonl").write_text('{"prompt_token_ids": [1]}\n' * 65_537)
    assert "there are 65537 prompts, more than 65536; divide the file" in refused(flags)
    with open(tmp_path / "prompts.jsonl", "r+b") as file:
        file.truncate(2**26 + 1)
    assert "give a file of at most 64 MiB" in refused(flags)


def test_wrong_options_are_named(llama: tuple[Any, Path], tmp_path: Path) -> None:
    flags = {"hf_model": llama[1], "prompt": ["text"]}
    assert "--hf-model: there is no model" in refused({"prompt": ["text"]})
    assert "--prompts: there is no prompt" in refused({"hf_model": llama[1]})
    (tmp_path / "saved" / "step_00000002").mkdir(parents=True)
    (tmp_path / "saved" / "step_00000002" / "manifest.json").write_text("{}")
    for folder in (tmp_path / "saved", tmp_path / "saved" / "step_00000002"):
        assert f"convert it: tensor-tracer convert {folder} NEW_FOLDER" in refused(flags | {"hf_model": folder})
    assert "--top-k: at temperature 0" in refused(flags | {"top_k": 3})
    assert "--tensor-model-parallel-size: is 1, and there are 2 ranks; give 2" in refused(flags, 2)
    assert "cannot be written" in refused(flags | {"output": tmp_path / "none" / "file"})
    gpt2 = save(random_model("gpt2", torch.float32), tmp_path / "gpt2")
    assert "have 41 tokens, and the model 40 positions" in refused(
        {"hf_model": gpt2, "prompt": ["a"], "max_new_tokens": 40})


def test_one_response_streams_to_the_terminal(llama: tuple[Any, Path], tmp_path: Path) -> None:
    [ids] = generate(llama[1], ["The loss"], tmp_path, max_new_tokens=TOKENS, ignore_eos=True).ids()
    line = line_of({"hf_model": llama[1], "prompt": "The loss", "max_new_tokens": TOKENS, "ignore_eos": True})
    done = subprocess.run(line, env=environment(), capture_output=True, timeout=60, check=True)
    assert done.stdout == bytes(id for id in ids if id < 256) + b"\n"
    assert b"1 prompt, 12 tokens in " in done.stderr
    with_logits = subprocess.run([*line, "--top-logits", "2"], env=environment(), capture_output=True, timeout=60, check=True)
    told = json.loads(with_logits.stdout)
    assert told["token_ids"] == ids and [len(best) for best in told["top_logits"]] == [2] * TOKENS
