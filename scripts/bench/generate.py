"""Tokens per second of `tensor-tracer generate` beside generate() of `transformers`, in one run.

Both continue the same prompts of different lengths greedily, with a cache of keys and values, in float32 and with the
same number of threads. Blocks of the two alternate. Loading the model does not count. Without --model, the model is a
Llama with random weights and the shape of SmolLM2-135M.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from candidates import tensor_tracer
from train import machine
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

Ids = list[int]
SMOLLM2: dict[str, Any] = {
    "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": True, "rope_theta": 100000.0,
    "max_position_embeddings": 8192,
}  # fmt: skip


def random_model(folder: Path) -> Path:
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(**SMOLLM2)).save_pretrained(folder)
    return folder


def random_prompts(count: int, vocabulary: int) -> list[Ids]:
    """Of 8 to 24 tokens."""
    draw = random.Random(2)
    return [[draw.randrange(3, vocabulary) for _ in range(draw.randint(8, 24))] for _ in range(count)]


def ours(model: Path, prompts: list[Ids], options: argparse.Namespace, folder: Path) -> float:
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt_token_ids": ids}) + "\n" for ids in prompts))
    line = [str(tensor_tracer()), "generate", "--hf-model", str(model), "--prompts", str(file), "--output",
            str(folder / "out.jsonl"), "--batch-size", str(len(prompts)), "--max-new-tokens", str(options.tokens),
            "--threads", str(options.threads), "--ignore-eos"]  # fmt: skip
    threads = {"OMP_NUM_THREADS": str(options.threads), "MKL_NUM_THREADS": str(options.threads)}
    done = subprocess.run(line, env=os.environ | threads, capture_output=True, text=True, check=True)
    found = re.search(r"([\d.]+) tokens/s", done.stderr)
    assert found is not None, done.stderr
    return float(found.group(1))


def theirs(model: Any, prompts: list[Ids], tokens: int) -> float:
    longest = max(map(len, prompts))
    padded = torch.tensor([[0] * (longest - len(ids)) + ids for ids in prompts])
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts])
    begin = time.perf_counter()
    made = model.generate(padded, attention_mask=mask, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False,
                          pad_token_id=0)  # fmt: skip
    seconds = time.perf_counter() - begin
    assert made.shape == (len(prompts), longest + tokens)
    return len(prompts) * tokens / seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench.sh generate", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--model", type=Path, help="folder of Hugging Face; default: random weights")
    parser.add_argument("--batch", type=int, action="append", help="default: 1, 4 and 16")
    parser.add_argument("--tokens", type=int, default=64, help="of each response")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{machine()}; {options.threads} threads, {options.tokens} new tokens, medians of {options.rounds} rounds\n")
    print("| batch | tensor-tracer, tokens/s | transformers, tokens/s | speed |\n|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="tt-bench-") as name:
        folder = Path(name)
        model = options.model or random_model(folder / "model")
        other = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        theirs(other, random_prompts(1, other.config.vocab_size), 4)  # warms up
        for batch in options.batch or [1, 4, 16]:
            prompts = random_prompts(batch, other.config.vocab_size)
            pairs = [(ours(model, prompts, options, folder), theirs(other, prompts, options.tokens))
                     for _ in range(options.rounds)]  # fmt: skip
            mine, other_rate = (statistics.median(one) for one in zip(*pairs, strict=True))
            ratio = statistics.median(a / b for a, b in pairs)
            print(f"| {batch} | {mine:.1f} | {other_rate:.1f} | {ratio:.2f}× |", flush=True)


if __name__ == "__main__":
    main()
