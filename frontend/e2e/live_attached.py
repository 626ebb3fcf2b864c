"""Trains a small Llama on two tensor-parallel ranks with the tracer attached, until it is ended by a signal:

    python -m torch.distributed.run --standalone --nproc-per-node 2 live_attached.py FOLDER

After each step rank 0 writes FOLDER/seen.json, what PyTorch's own hooks saw of batch row 0.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "python"), str(REPOSITORY / "examples" / "attach")]
import tensor_tracer as tt  # noqa: E402
from text import batches  # noqa: E402

LAYERS, HIDDEN, TOKENS, ROWS = 3, 64, 48, 4
PLAN = {
    "entries": [
        {"point": "HiddenStates", "compressor": {"kind": "tile", "tiles": HIDDEN}},
        {"point": "HiddenStates", "compressor": {"kind": "stats"}},
        {"point": "HiddenStates", "compressor": {"kind": "projection", "vectors": ["direction"]}},
        {"point": "RawAttentionScore", "compressor": {"kind": "none"}},
        {"point": "LogitLens", "compressor": {"kind": "topk", "k": 5}},
        {"point": "Logits", "compressor": {"kind": "topk", "k": 5}},
        {"point": "InputTokens"},
    ]
}


def make_model(folder: Path) -> LlamaForCausalLM:
    """The weights go through a file, since Transformers shards a model while it loads it."""
    torch.manual_seed(1)
    config = LlamaConfig(hidden_size=HIDDEN, intermediate_size=96, num_hidden_layers=LAYERS, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=256, max_position_embeddings=TOKENS)  # fmt: skip
    if dist.get_rank() == 0:
        LlamaForCausalLM(config).save_pretrained(folder / "model")
    dist.barrier()
    return LlamaForCausalLM.from_pretrained(folder / "model", tp_plan="auto")


def write_vector(folder: Path) -> None:
    folder.mkdir(parents=True)
    np.save(folder / "direction.npy", np.sin(np.arange((LAYERS + 1) * HIDDEN, dtype="f4")).reshape(-1, HIDDEN))


class Witness:
    """Keeps the output of each layer, and the logits."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        self.hidden: list[Any] = [None] * LAYERS
        self.logits: Any = None
        for number, layer in enumerate(model.model.layers):
            layer.register_forward_hook(lambda _module, _args, output, number=number: self.keep(number, output))
        model.lm_head.register_forward_hook(lambda _module, _args, output: setattr(self, "logits", output[0].tolist()))

    def keep(self, number: int, output: Tensor | tuple[Tensor, ...]) -> None:
        self.hidden[number] = (output if isinstance(output, Tensor) else output[0])[0].tolist()

    def write(self, folder: Path, **more: Any) -> None:
        text = json.dumps({"hidden": self.hidden, "logits": self.logits} | more)
        (folder / "seen.part").write_text(text)
        os.replace(folder / "seen.part", folder / "seen.json")


def main() -> None:
    folder = Path(sys.argv[1])
    dist.init_process_group("gloo")
    model = make_model(folder)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
    witness = Witness(model)
    if dist.get_rank() == 0:
        write_vector(folder / "vectors")
    run = tt.attach(model, port=0, plan=PLAN, vectors=folder / "vectors", run_dir=folder / "run", run_name="attached",
                    tokenizer="byte", prompts=["def f("])  # fmt: skip
    epochs = itertools.chain.from_iterable(itertools.repeat(batches(TOKENS, ROWS)))
    for step, batch in enumerate(epochs, 1):
        with run.step():
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        run.log(loss=loss, lr=1e-3)
        if dist.get_rank() == 0:
            witness.write(folder, step=step, loss=loss.item(), tokens=batch["input_ids"][0].tolist())
        time.sleep(0.1)


if __name__ == "__main__":
    main()
