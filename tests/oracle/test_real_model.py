"""SmolLM2-135M-Instruct: from its GGUF file, beside the reader of `transformers`; then in training."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from data_files import write_jsonl
from generation import assert_best_tokens, assert_follows, generate, logits_of
from program import REPOSITORY, environment, train
from real_tokenizers import smollm2
from tensor_tracer import open_recording
from tensor_tracer.convert.gguf import convert_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer
from vector_runs import KINDS, Text, answer, assert_rows_close, expected_vector

pytestmark = pytest.mark.nightly(suite="models")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("smollm2") / "model"
    assert convert_gguf(smollm2(), folder) == 272
    return folder


def test_weights_are_those_of_transformers(folder: Path) -> None:
    ours = AutoModelForCausalLM.from_pretrained(folder)
    theirs = AutoModelForCausalLM.from_pretrained(smollm2().parent, gguf_file=smollm2().name)
    assert all(torch.equal(weight, theirs.state_dict()[name]) for name, weight in ours.state_dict().items())


def test_the_model_answers(folder: Path) -> None:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    tokens = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt")
    found = model.generate(tokens, max_new_tokens=12, do_sample=False)[0, tokens.shape[1]:]
    assert "Paris" in tokenizer.decode(found)


STARTS = (
    "The capital of France is", "def fibonacci(n):", "Water boils at", "In 1969, the first man", "import numpy as np",
    "My favourite book is", "To make bread, you need", "The sun is a", "Les enfants jouent", "1, 2, 3, 4,",
    "A triangle has", "Dear Sir or Madam,", "SELECT name FROM", "Once upon a time", "The opposite of hot is",
    "E = m", "class Stack:", "Roses are red,", "The largest planet", "Question: What is 12 times 12?",
)  # fmt: skip
CLOSE, VOCABULARY = 1e-3, 49_152


def flags_for(folder: Path, data: Path, **changes: Any) -> dict[str, Any]:
    flags: dict[str, Any] = {"hf_model": folder, "data_path": data, "seq_length": 64, "micro_batch_size": 1,
                             "train_iters": 1, "eval_interval": 0, "threads": 1}  # fmt: skip
    return flags | changes


STILL = {"lr": 1e-300, "min_lr": 1e-300}


def test_one_forward_finds_the_tokens_of_transformers(folder: Path, data: Path, tmp_path: Path) -> None:
    """20 continuations: the largest logit at every position where the two largest differ by more than 1e-3."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    texts = []
    for start in STARTS:
        ids = model.generate(tokenizer(start, return_tensors="pt").input_ids, max_new_tokens=24, do_sample=False)
        texts.append(tokenizer.decode(ids[0], skip_special_tokens=True))
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    plan = {"entries": [{"point": "Logits", "prompts": "texts", "rows": 0, "compressor": {"kind": "topk", "k": 2}}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    watch = {"monitor_prompts": tmp_path / "texts.jsonl", "tensor_tracer_plan": tmp_path / "plan.json",
             "record": tmp_path / "record"}  # fmt: skip
    train(flags_for(folder, data, **STILL, **watch), tmp_path / "run", timeout=600)
    [recording] = (tmp_path / "record").rglob("*.ttrec")
    rows = {record.first_row + row: values for record in open_recording(recording).records("Logits")
            for row, values in enumerate(record.values.swapaxes(0, 1))}  # fmt: skip
    compared = left_out = 0
    for row, text in enumerate(texts):
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            best = model(ids).logits[0].topk(2)
        for at in range(ids.shape[1]):
            if best.values[at, 0] - best.values[at, 1] <= CLOSE:
                left_out += 1
                continue
            assert int(rows[row][1, at, 0]) == int(best.indices[at, 0]), (text, at)
            compared += 1
    print(f"{compared} positions agree, {left_out} are left out")
    assert compared > 500 and left_out < 20


@pytest.mark.parametrize("ranks", [1, 3])
def test_generation_follows_transformers(folder: Path, ranks: int, tmp_path: Path) -> None:
    """20 prompts in one batch: logits along our continuations, and the tokens along theirs."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    prompts = [tokenizer(start).input_ids for start in STARTS]
    flags: dict[str, Any] = {"ranks": ranks, "max_new_tokens": 24, "batch_size": 20, "ignore_eos": True, "timeout": 600}
    found = generate(folder, STARTS, tmp_path, top_logits=50, **flags)
    compared = 0
    for prompt, response in zip(prompts, found.responses, strict=True):
        assert response["prompt_token_ids"] == prompt
        assert response["text"] == tokenizer.decode(response["token_ids"], skip_special_tokens=True)
        compared += assert_best_tokens(response, logits_of(model, prompt, response["token_ids"]), CLOSE)
    # Without an end token; min_new_tokens would forbid the end token instead.
    wanted = [model.generate(torch.tensor([prompt]), max_new_tokens=24, eos_token_id=None, do_sample=False)[0, len(prompt):]
              .tolist() for prompt in prompts]  # fmt: skip
    same = assert_follows(lambda some: generate(folder, some, tmp_path, **flags).ids(), model, prompts, wanted)
    print(f"{compared} of our tokens and {same} of theirs agree")
    assert compared > 470 and same > 470


@pytest.mark.parametrize("ranks", [1, 3])
def test_all_logits_are_those_of_transformers(folder: Path, ranks: int, tmp_path: Path) -> None:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    found = generate(folder, STARTS[:4], tmp_path, ranks=ranks, max_new_tokens=3, batch_size=4, ignore_eos=True,
                     top_logits=VOCABULARY, timeout=600)  # fmt: skip
    for start, response in zip(STARTS, found.responses, strict=False):
        assert [len(ids) for ids in response["top_ids"]] == [VOCABULARY] * 3
        logits = logits_of(model, tokenizer(start).input_ids, response["token_ids"])
        assert_best_tokens(response, logits, CLOSE)


@pytest.mark.parametrize(("ranks", "first"), [(1, False), (3, True)])
def test_direction_vectors_equal_those_of_transformers(folder: Path, ranks: int, first: bool, tmp_path: Path) -> None:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    words = ((" verily", " thou shalt see it."), (" now", " you will see it."))
    lines = [[{"prompt": start + end, "response": after} for start in STARTS] for end, after in words]
    files = [write_jsonl(tmp_path / f"{side}.jsonl", one) for side, one in enumerate(lines)]
    told = answer("extract", "--hf-model", folder, "--positive", files[0], "--negative", files[1], "--out", tmp_path / "v.pt",
                  "--kind", ",".join(KINDS), "--held-out", 0, "--threads", 1, "--tensor-model-parallel-size", ranks,
                  *["--include-first-token"] * first, ranks=ranks, timeout=600)  # fmt: skip
    texts = []
    for side in lines:
        ids = [[tokenizer(line[part]).input_ids for part in ("prompt", "response")] for line in side]
        texts.append([Text(a + b, [False] * len(a) + [True] * len(b)) for a, b in ids])
    for kind, one in zip(KINDS, told, strict=True):
        found = torch.load(tmp_path / f"{one['name']}.pt", weights_only=True)
        wanted = expected_vector(model, *texts, kind, first)
        print(f"{kind}: {((found.double() - wanted).norm(dim=1) / wanted.norm(dim=1)).max():.1e} of the norm of a row")
        assert found.shape == (31, 576)
        assert_rows_close(found, wanted)


def test_the_model_goes_out_as_it_came(folder: Path, data: Path, tmp_path: Path) -> None:
    train(flags_for(folder, data, **STILL, save_hf=tmp_path / "out"), tmp_path / "1", timeout=600)
    found, wanted = (AutoModelForCausalLM.from_pretrained(path).state_dict() for path in (tmp_path / "out", folder))
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], one) for name, one in wanted.items())


def test_adapters_lower_the_loss(folder: Path, data: Path, tmp_path: Path) -> None:
    """As the demo trains it: LoRA at DP 2. The losses at TP 3 are the same: nine heads and three groups can be cut in
    three."""
    lora = {"lora_rank": 8, "lora_alpha": 16, "lr": 1e-3, "lr_warmup_iters": 2, "lr_decay_iters": 20, "global_batch_size": 2}
    losses = train(flags_for(folder, data, **lora, train_iters=20), tmp_path / "run", 2, timeout=1200).losses()
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    three = flags_for(folder, data, **lora, train_iters=5, tensor_model_parallel_size=3)
    found = train(three, tmp_path / "3", 3, timeout=900).losses()
    print(f"largest difference {max(abs(one / other - 1) for one, other in zip(found, losses)):.1e}")
    assert found == pytest.approx(losses[:5], rel=1e-5, abs=0)


def test_the_demo_trains_it_and_shows_maps(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """As the README starts it. The losses of batches vary more than they fall in so few steps, so those of the held-out
    text are compared. The seconds until the first maps are in the report."""
    line = ["scripts/demo.sh", "--model", "smollm2", "--train-iters", "30", "--eval-interval", "10", "--eval-iters", "16",
            "--tensor-tracer-port", "0", "--record", str(tmp_path), "--run-dir", str(tmp_path / "run")]  # fmt: skip
    begin = time.time()
    done = subprocess.run(line, cwd=REPOSITORY, env=environment(), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    with open_recording(tmp_path / "run.ttrec") as recording:
        maps = list(recording.records(steps=1, compressor="tile"))
        steps, losses = recording.scalars("valid_loss")
    seconds = max(one.time for one in maps) / 1e9 - begin
    record_property("seconds", f"{seconds:.1f}")
    print(f"the maps of step 1 after {seconds:.1f} s; validation losses {losses.tolist()}")
    assert steps.tolist() == [10, 20, 30] and losses[2] < losses[1] < losses[0]
