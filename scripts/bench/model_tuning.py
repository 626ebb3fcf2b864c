"""Fine-tuning of SmolLM2 beside `transformers` and `peft`: the same batches, float32, AdamW, one thread a process."""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import model_folders
import torch
from builds import interval
from candidates import HERE, REPOSITORY
from model_runs import Seen, follow, progress, train_line
from safetensors.torch import load_file, save_file

MODEL = REPOSITORY / "build" / "models" / "smollm2"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
LR = 1e-4
TOLERANCE = 1e-3  # of the loss of step 1
LORA = {"lora-rank": 8, "lora-alpha": 16, "lora-target-modules": "query,value"}
OURS, THEIRS = "tensor-tracer", "transformers"


@dataclasses.dataclass
class Measured:
    """The blocks of one program."""

    step_ms: list[float] = dataclasses.field(default_factory=list)  # the median of each block
    cpu_ms: list[float] = dataclasses.field(default_factory=list)  # of all ranks, for each step
    peak_rss: int = 0  # bytes
    peak_anonymous: int = 0  # bytes of the largest process
    losses: list[float] = dataclasses.field(default_factory=list)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, default=MODEL, help="a folder of a Llama of Hugging Face")
    parser.add_argument("--adapters", choices=["lora", "none"], default="lora", help="none: full fine-tuning")
    parser.add_argument("--seq-length", type=int, default=256)
    parser.add_argument("--batch", type=int, default=1, help="sequences of a rank")
    parser.add_argument("--replicas", type=int, default=1, help="ranks of data parallelism")
    parser.add_argument("--steps", type=int, default=8, help="of a block, warm-up included")
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--data", type=Path, default=REPOSITORY / "docs", help="training text")


def flags_of(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return {
        "data-path": chosen.data, "seq-length": chosen.seq_length, "micro-batch-size": chosen.batch,
        "global-batch-size": chosen.batch * chosen.replicas, "train-iters": chosen.steps, "lr": LR, "min-lr": LR,
        "weight-decay": 0.1, "clip-grad": 1.0, "adam-beta1": 0.9, "adam-beta2": 0.95, "run-dir": folder / "run",
    }  # fmt: skip


def write_batches(chosen: argparse.Namespace, folder: Path) -> Path:
    """The batches of all steps. They do not depend on the model, so a tiny one with the same tokenizer exports them."""
    config = json.loads((chosen.model / "config.json").read_text())
    tiny = config | {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1,
                     "num_key_value_heads": 1, "head_dim": 16, "tie_word_embeddings": True}  # fmt: skip
    model_folders.write(folder / "tiny", tiny, torch.float32, 1)
    for name in TOKENIZER:
        if (chosen.model / name).exists():
            (folder / "tiny" / name).write_bytes((chosen.model / name).read_bytes())
    exports = folder / "exports"
    flags = flags_of(chosen, folder) | {"hf-model": folder / "tiny", "micro-batch-size": chosen.batch * chosen.replicas,
                                        "export-tensors": exports, "export-at": f"1-{chosen.steps}"}  # fmt: skip
    follow(train_line(flags), str(folder / "run"), {"OMP_NUM_THREADS": "1"})
    batches = {}
    for step in range(1, chosen.steps + 1):
        found = load_file(exports / f"step_{step:06d}.safetensors")
        batches |= {f"tokens.{step}": found["tokens"].contiguous(), f"labels.{step}": found["labels"].contiguous()}
    save_file(batches, folder / "batches.safetensors")
    return folder / "batches.safetensors"


def run_block(name: str, chosen: argparse.Namespace, folder: Path, batches: Path) -> Seen:
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if name == OURS:
        adapters = LORA if chosen.adapters == "lora" else {}
        flags = flags_of(chosen, folder) | adapters | {"hf-model": chosen.model}
        return follow(train_line(flags, chosen.replicas), str(folder / "run"), threads)
    line = [sys.executable, str(HERE / "model_tuning_worker.py"), str(chosen.model), str(batches), chosen.adapters]
    line += [str(chosen.steps), str(chosen.replicas), str(LR)]
    return follow(line, str(batches), threads | {"TOKENIZERS_PARALLELISM": "false"})


def add_block(seen: Seen, chosen: argparse.Namespace, into: Measured) -> None:
    steps = seen.steps()
    if len(steps) != chosen.steps:
        sys.exit(f"{len(steps)} steps of {chosen.steps} were reported")
    ranks = seen.ranks(chosen.replicas)
    counted = steps[chosen.warm_up - 1 :]
    first, last = (sum(one[0].cpu.get(pid, 0.0) for pid in ranks) for one in (counted[0], counted[-1]))
    into.step_ms.append(statistics.median(one["step_ms"] for _, one in counted[1:]))
    into.cpu_ms.append((last - first) * 1e3 / (len(counted) - 1))
    into.peak_rss = max(into.peak_rss, seen.peak_rss)
    end = seen.lines[-1].seconds
    into.peak_anonymous = max(into.peak_anonymous, *(seen.peak_anonymous(pid, end) for pid in ranks))
    into.losses = [one["loss"] for _, one in steps]


def table(chosen: argparse.Namespace, found: dict[str, Measured]) -> list[str]:
    head = ["program", "median ms", "tokens/s", "CPU ms a step", "peak RSS MiB", "peak RssAnon MiB", "first and last loss"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    tokens = chosen.batch * chosen.replicas * chosen.seq_length
    for name, one in found.items():
        median = statistics.median(one.step_ms)
        lines.append(f"| {name} | {median:,.0f} | {tokens / median * 1e3:,.1f} | {statistics.median(one.cpu_ms):,.0f} | "
                     f"{one.peak_rss / 2**20:,.0f} | {one.peak_anonymous / 2**20:,.0f} | "
                     f"{one.losses[0]:.4f}, {one.losses[-1]:.4f} |")
    return lines


def report(chosen: argparse.Namespace, found: dict[str, Measured]) -> str:
    ours, theirs = found[OURS], found[THEIRS]
    if abs(ours.losses[0] - theirs.losses[0]) > TOLERANCE * theirs.losses[0]:
        sys.exit(f"the losses of step 1 differ: {ours.losses[0]} and {theirs.losses[0]}")
    kind = "LoRA of rank 8 at queries and values" if chosen.adapters == "lora" else "all weights"
    ranks = f"each of {chosen.replicas} ranks" if chosen.replicas > 1 else "one rank"
    lines = [f"Trained: {kind}; {chosen.batch} x {chosen.seq_length} tokens on {ranks}; {chosen.rounds} rounds of "
             f"{chosen.steps - chosen.warm_up} steps.", "", *table(chosen, found), ""]  # fmt: skip
    for name, values in (("time of a step", "step_ms"), ("CPU time of a step", "cpu_ms")):
        ratios = [one / other for one, other in zip(getattr(ours, values), getattr(theirs, values), strict=True)]
        low, high = interval(ratios)
        middle = statistics.median(ratios)
        lines.append(f"* {name} over that of {THEIRS}: {middle:.3f} ({low:.3f} to {high:.3f}); goal at most 1: "
                     f"{'met' if middle <= 1 else 'missed'}")
    memory = ours.peak_rss / theirs.peak_rss
    lines.append(f"* peak RSS over that of {THEIRS}: {memory:.2f}; goal below 1: {'met' if memory < 1 else 'missed'}")
    return "\n".join(lines)


def main(chosen: argparse.Namespace) -> str:
    if not (chosen.model / "config.json").is_file():
        sys.exit(f"--model: {chosen.model} is missing; `scripts/demo.sh --model smollm2` makes it once")
    if chosen.steps < chosen.warm_up + 2 or chosen.warm_up < 1:
        sys.exit("--steps: give at least two more than --warm-up, which is at least 1")
    found = {OURS: Measured(), THEIRS: Measured()}
    with tempfile.TemporaryDirectory(prefix="tt-bench-") as name:
        folder = Path(name)
        batches = write_batches(chosen, folder)
        for turn in range(chosen.rounds):
            for program in [OURS, THEIRS] if turn % 2 == 0 else [THEIRS, OURS]:
                add_block(run_block(program, chosen, folder, batches), chosen, found[program])
                progress(f"round {turn + 1}/{chosen.rounds}: {program}: {found[program].step_ms[-1]:.0f} ms a step")
    return report(chosen, found)
