"""GPT-2 from scratch in a plain loop, on one rank or, with torchrun, on several by DistributedDataParallel.

    torchrun --standalone --nproc-per-node 2 examples/attach/train_ddp.py --steps 300

The lines with `run` are all that the tracer needs.
"""

from __future__ import annotations

import os

import tensor_tracer as tt
import torch
import torch.distributed as dist
from text import batches, parse_options
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


def main() -> None:
    options = parse_options()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if ranks > 1 else 0
    torch.manual_seed(1)
    config = GPT2Config(n_embd=128, n_layer=4, n_head=4, n_positions=128, vocab_size=256)
    model: nn.Module = GPT2LMHeadModel(config)
    if ranks > 1:
        model = nn.parallel.DistributedDataParallel(model)
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
    del model, optimizer, loss  # before its group ends
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
