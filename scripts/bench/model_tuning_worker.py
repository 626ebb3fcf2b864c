"""Fine-tunes a model with `transformers`, and `peft` if it has adapters; prints each step as `tensor-tracer` does."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from pytorch_model import become_ranks
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM


def model_of(folder: str, adapters: str, replicas: int) -> nn.Module:
    model: nn.Module = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    if adapters == "lora":
        model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"]))
    model.train()
    return DistributedDataParallel(model) if replicas > 1 else model


def optimizer_of(trained: list[Tensor], lr: float) -> torch.optim.AdamW:
    """Fused AdamW; weight decay on matrices only."""
    groups = [{"params": [p for p in trained if p.ndim >= 2]},
              {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0}]  # fmt: skip
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def main() -> None:
    folder, batches, adapters = sys.argv[1:4]
    steps, replicas, lr = int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
    if replicas > 1:
        become_ranks(replicas)
        dist.init_process_group("gloo")
    rank = int(os.environ.get("RANK", "0"))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = model_of(folder, adapters, replicas)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = optimizer_of(trained, lr)
    data = load_file(Path(batches))
    for step in range(1, steps + 1):
        begin = time.perf_counter()
        tokens, labels = (data[f"{kind}.{step}"].long().chunk(replicas)[rank] for kind in ("tokens", "labels"))
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(tokens, use_cache=False).logits.flatten(0, 1), labels.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        mean = loss.detach()
        if replicas > 1:
            dist.all_reduce(mean)
        milliseconds = (time.perf_counter() - begin) * 1e3
        if rank == 0:
            print(json.dumps({"step": step, "loss": mean.item() / replicas, "step_ms": milliseconds}), flush=True)
    if replicas > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
