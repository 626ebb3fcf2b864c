"""`python -m tensor_tracer convert` against `transformers`: it reads the folder, and it reads GGUF files too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

REPOSITORY = Path(__file__).resolve().parent.parent.parent
VOCABULARY = 280
TEXT = "In 1984 it's the 12th of May; café — 3,14"
SHAPE = {"hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 6,
         "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 20000.0}
NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
PARTS = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def convert(*words: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "tensor_tracer", "convert", *map(str, words)]
    return subprocess.run(line, cwd=REPOSITORY / "python", capture_output=True, text=True, timeout=300, check=False)


def small_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=[AddedToken("<|endoftext|>", normalized=False)])
    tokenizer.train_from_iterator([TEXT, "the cat is in the house " * 3], trainer)
    return tokenizer


def small_model(tied: bool) -> LlamaForCausalLM:
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=VOCABULARY, tie_word_embeddings=tied))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return model


def gguf_name(name: str) -> str:
    module, kind = name.rsplit(".", 1)
    if module in NAMES:
        return f"{NAMES[module]}.{kind}"
    _, _, layer, part = module.split(".", 3)
    return f"blk.{layer}.{PARTS[part]}.{kind}"


def pairs_together(weight: np.ndarray, heads: int) -> np.ndarray:
    """Row 2i + j of a head is row j * half + i of Hugging Face's order."""
    half = weight.shape[0] // heads // 2
    rows = [head * 2 * half + j * half + i for head in range(heads) for i in range(half) for j in range(2)]
    return weight[rows]


def write_gguf(path: Path, model: LlamaForCausalLM, quantized: gguf.GGMLQuantizationType | None = None,
               **settings: Any) -> None:
    tokens = json.loads(small_tokenizer().to_str())["model"]
    writer = gguf.GGUFWriter(path, settings.pop("architecture", "llama"))
    for key, value in ({"block_count": 2, "context_length": 128, "embedding_length": 96, "feed_forward_length": 160,
                        "attention.head_count": 6, "attention.head_count_kv": 2, "rope.dimension_count": 16}).items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32("llama.rope.freq_base", 20000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(settings.pop("split", "smollm"))
    writer.add_token_list(sorted(tokens["vocab"], key=tokens["vocab"].get))
    writer.add_token_types([3] + [1] * (len(tokens["vocab"]) - 1))
    writer.add_token_merges([" ".join(merge) for merge in tokens["merges"]])
    for key in ("bos", "eos"):
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", 0)
    writer.add_chat_template("{% for message in messages %}{{ message['content'] }}{% endfor %}")
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        rows = weight.numpy()
        heads = 6 if "q_proj" in name else 2 if "k_proj" in name else 0
        rows = pairs_together(rows, heads) if heads else rows
        is_matrix = quantized is not None and rows.ndim == 2
        writer.add_tensor(gguf_name(name), gguf.quantize(rows, quantized) if is_matrix else rows,
                          raw_dtype=quantized if is_matrix else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("tied", [True, False])
def test_transformers_reads_the_same_model_from_the_folder(tied: bool, tmp_path: Path) -> None:
    model = small_model(tied)
    write_gguf(tmp_path / "model.gguf", model)
    done = convert(tmp_path / "model.gguf", tmp_path / "folder")
    assert done.returncode == 0, done.stderr
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "folder")
    assert all(torch.equal(weight, model.state_dict()[name]) for name, weight in read.state_dict().items())
    tokens = torch.arange(100).view(2, 50)
    assert torch.equal(read(tokens).logits, model(tokens).logits)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert tokenizer(TEXT).input_ids == small_tokenizer().encode(TEXT).ids
    assert tokenizer.decode(tokenizer(TEXT).input_ids) == TEXT
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hey"}], tokenize=False) == "hey"
    assert tokenizer.eos_token == "<|endoftext|>"


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "F16"])
def test_quantized_weights_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", small_model(False), gguf.GGMLQuantizationType[kind])
    assert convert(tmp_path / "model.gguf", tmp_path / "folder").returncode == 0
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "folder")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="model.gguf")
    assert all(torch.equal(weight, theirs.state_dict()[name]) for name, weight in read.state_dict().items())


def test_half_precision(tmp_path: Path) -> None:
    model = small_model(True)
    write_gguf(tmp_path / "model.gguf", model)
    assert convert(tmp_path / "model.gguf", tmp_path / "folder", "--dtype", "float16").returncode == 0
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "folder", torch_dtype="auto")
    assert all(torch.equal(weight, model.state_dict()[name].half()) for name, weight in read.state_dict().items())


@pytest.mark.parametrize(("settings", "told"), [
    ({"architecture": "mamba"}, 'the architecture "mamba" is unknown; llama is known'),
    ({"split": "tekken"}, 'the tokenizer "gpt2" with the split "tekken" is unknown'),
])
def test_unknown_parts_are_named_and_leave_no_folder(settings: dict[str, Any], told: str, tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", small_model(True), **settings)
    done = convert(tmp_path / "model.gguf", tmp_path / "folder")
    assert done.returncode == 2
    assert told in done.stderr and str(tmp_path / "model.gguf") in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no model at all, but a text", b"GGUF\x03\0\0\0" + b"\xff" * 16])
def test_files_that_are_not_gguf_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(content)
    done = convert(tmp_path / "model.gguf", tmp_path / "folder")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert f"{tmp_path / 'model.gguf'}: it cannot be read as GGUF" in done.stderr


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", small_model(True))
    (tmp_path / "folder").mkdir()
    done = convert(tmp_path / "model.gguf", tmp_path / "folder")
    assert done.returncode == 2 and "the folder exists; name a new one" in done.stderr
    assert list((tmp_path / "folder").iterdir()) == []
