"""Llama from scratch with sharded parameters: FSDP2 (`fully_shard`).

torchrun --standalone --nproc-per-node 2 examples/attach/train_fsdp.py --steps 300
"""

from __future__ import annotations

import tensor_tracer as tt
import torch
import torch.distributed as dist
from text import batches, parse_options
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM


def main() -> None:
    options = parse_options()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    config = LlamaConfig(
        hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=256, max_position_embeddings=128,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    run = tt.attach(model, port=options.port, run_dir=options.run_dir, tokenizer="byte")
    for step, batch in enumerate(batches(128, 8, rank, ranks), 1):
        with run.step():
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        run.log(loss=loss, lr=1e-3)
        if rank == 0 and step % 10 == 0:
            print(f"step {step}  loss {loss.item():.3f}", flush=True)
        if step == options.steps:
            break
    run.detach()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
