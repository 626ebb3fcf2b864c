"""GPT-2 from scratch by transformers.Trainer, on one rank or, with torchrun, on several.

torchrun --standalone --nproc-per-node 2 examples/attach/train_trainer.py --steps 300
"""

from __future__ import annotations

from tensor_tracer.hf import TracerCallback
from text import Bytes, parse_options
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


def main() -> None:
    options = parse_options()
    config = GPT2Config(n_embd=128, n_layer=4, n_head=4, n_positions=128, vocab_size=256)
    arguments = TrainingArguments(
        output_dir="build/train_trainer", max_steps=options.steps, per_device_train_batch_size=8, logging_steps=1,
        learning_rate=1e-3, use_cpu=True, report_to=[], save_strategy="no",
    )  # fmt: skip
    tracer = TracerCallback(options.port, run_dir=options.run_dir, tokenizer="byte")
    trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Bytes(128), callbacks=[tracer])
    trainer.train()


if __name__ == "__main__":
    main()
