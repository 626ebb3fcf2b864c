"""SmolLM2-135M-Instruct from its GGUF file, beside the reader of `transformers`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from real_tokenizers import smollm2
from tensor_tracer.convert.gguf import convert_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer

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
    answer = model.generate(tokens, max_new_tokens=12, do_sample=False)[0, tokens.shape[1]:]
    assert "Paris" in tokenizer.decode(answer)
