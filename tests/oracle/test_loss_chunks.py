"""The loss in chunks of tokens: nobody who looks at the logits changes a bit of the training.

test_parity.py and test_lora.py compare the loss in chunks with PyTorch.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_models import FAMILIES, imported, save
from program import Flags, Run, command, environment, train
from transformers import LlamaConfig, LlamaForCausalLM
from viewer import Viewer, live_run

STEPS = 4
# A micro-batch has 128 tokens, so that the last chunk is a shorter one.
CHUNKS: dict[str, Any] = {
    "loss_chunk_size": 50, "train_iters": STEPS, "tensor_model_parallel_size": 2, "eval_interval": 2, "eval_iters": 1,
}  # fmt: skip
DTYPES = pytest.mark.parametrize("dtype", [{}, {"bf16": True}, {"params_dtype": "bfloat16"}],
                                 ids=["float32", "bf16", "bfloat16"])  # fmt: skip
EXPORT_AT = f"1,{STEPS}"
PHASES = ["train", "eval"]
BEST: dict[str, Any] = {"point": "Logits", "rows": 0, "compressor": {"kind": "topk"}, "phases": PHASES}
# Of each row, tokens in one or two chunks.
PART: dict[str, Any] = {
    "point": "Logits", "rows": 3, "tokens": [5, 21], "compressor": {"kind": "none"}, "phases": PHASES,
}  # fmt: skip
GRADIENT: dict[str, Any] = {"point": "Logits", "direction": "gradient", "rows": 0, "compressor": {"kind": "tile"}}
QUIET = {
    "read": 'save(logits.norm(), "norm")\nsave(logits.grad.norm(), "gradient")',
    "written": "logits *= 1.0",
    "gradient": "logits.grad *= 1.0",
}


def assert_same_bits(found: Run, expected: Run) -> None:
    for step in (1, STEPS):
        one, other = found.export(step), expected.export(step)
        for mine, theirs in ((one.weights, other.weights), (one.gradients, other.gradients)):
            assert mine.keys() == theirs.keys()
            for name, value in mine.items():
                assert torch.equal(value, theirs[name]), (step, name)


def numbers(steps: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(s["step"], s["loss"], s["grad_norm"], s.get("valid_loss")) for s in steps]


@DTYPES
def test_watched_logits_change_no_bit(dtype: dict[str, Any], flags, tmp_path: Path) -> None:
    assert_watching_changes_no_bit(flags, dtype, tmp_path)


@pytest.mark.nightly(suite="meshes")
@pytest.mark.parametrize("name", FAMILIES)
def test_watched_logits_of_an_imported_model_change_no_bit(name: str, flags, tmp_path: Path) -> None:
    assert_watching_changes_no_bit(imported(flags, name, tmp_path / "model"), {}, tmp_path)


def assert_watching_changes_no_bit(flags: Flags, dtype: dict[str, Any], tmp_path: Path) -> None:
    alone = train(dict(flags) | CHUNKS | dtype, tmp_path / "alone", 2, export_at=EXPORT_AT)
    parts = []
    for name, entries in (("copies", [BEST, PART]), ("whole", [BEST, PART, GRADIENT])):
        viewer = watch(flags, dtype, tmp_path / name, entries)
        assert {record.direction for record in viewer.records} == set(range(len(entries) - 1))
        assert numbers(viewer.named("step")) == numbers(alone.steps)
        assert_same_bits(Run([], tmp_path / name / "exports"), alone)
        part = [record for record in viewer.records if record.entry == 1]
        parts.append({(one.step, one.phase, one.micro_batch): one.values.tobytes() for one in part})
        assert part and {(*one.values.shape[:2], one.values.shape[2] == one.features) for one in part} == {(3, 16, True)}
    assert parts[0] == parts[1]


def watch(flags: Flags, dtype: dict[str, Any], folder: Path, entries: list[dict[str, Any]]) -> Viewer:
    """The viewer of a run with this plan, after the run."""
    folder.mkdir()
    (folder / "plan.json").write_text(json.dumps({"entries": entries}))
    more = {"tensor_tracer_plan": folder / "plan.json", "export_tensors": folder / "exports", "export_at": EXPORT_AT}
    with live_run(dict(flags) | CHUNKS | dtype | more, folder / "run", 2) as run:
        with run.viewer() as viewer:
            viewer.wait_for(lambda: STEPS in viewer.steps() and is_complete(viewer), "the last step")
        run.wait()
    return viewer


def is_complete(viewer: Viewer) -> bool:
    """The records of the last evaluation may come after the step."""
    return {(STEPS, "eval", entry) for entry in (0, 1)} <= {(one.step, one.phase, one.entry) for one in viewer.records}


@DTYPES
def test_programs_at_the_logits_change_no_bit(dtype: dict[str, Any], flags, tmp_path: Path) -> None:
    """A program that multiplies by one leaves every bit; one that multiplies by two acts."""
    runs = {}
    for name, text in (QUIET | {"none": "", "doubled": "logits *= 2.0"}).items():
        (tmp_path / f"{name}.tti").write_text(text)
        more = {"interventions": [str(tmp_path / f"{name}.tti")]} if text else {}
        runs[name] = train(flags | CHUNKS | dtype | more, tmp_path / name, 2, export_at=EXPORT_AT)
    for name in QUIET:
        assert numbers(runs[name].steps) == numbers(runs["none"].steps), name
        assert_same_bits(runs[name], runs["none"])
    assert runs["doubled"].losses()[0] != runs["none"].losses()[0]


@DTYPES
def test_only_the_rounding_depends_on_the_chunk(dtype: dict[str, Any], flags, tmp_path: Path) -> None:
    """The sum over tokens in the gradient of the output weight is another sum of the same numbers."""
    both = flags | CHUNKS | dtype
    chunks, whole = (
        train(both | more, tmp_path / name, 2, export_at="1").export(1)
        for name, more in (("chunks", {}), ("whole", {"loss_chunk_size": 0}))
    )
    assert chunks.loss == pytest.approx(whole.loss, rel=1e-6)
    name = "embedding.word_embeddings.weight"
    error = (chunks.gradients[name] - whole.gradients[name]).norm() / whole.gradients[name].norm()
    assert 0 < error < (5e-3 if dtype else 1e-6)


def peak_mib(flags: Flags, folder: Path) -> float:
    """The largest resident memory of the rank of a run, from the kernel."""
    process = subprocess.Popen(command(flags), cwd=folder, env=environment(), stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max([peak, *(int(found) for found in re.findall(r"VmHWM:\s*(\d+) kB", status))])
        time.sleep(0.01)
    assert process.returncode == 0
    return peak / 1024


def test_a_large_vocabulary_costs_the_memory_of_a_chunk(flags, tmp_path: Path) -> None:
    """49,152 scores of each of 2,048 tokens are 384 MiB."""
    tokens, words = 2048, 49_152
    config = LlamaConfig(vocab_size=words, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
                         max_position_embeddings=tokens, tie_word_embeddings=True)  # fmt: skip
    own = ("num_layers", "hidden_size", "num_attention_heads")
    shape = {flag: value for flag, value in flags.items() if flag not in own} | {
        "hf_model": save(LlamaForCausalLM(config), tmp_path / "model"), "train_iters": 2, "seq_length": tokens,
        "micro_batch_size": 1, "global_batch_size": 1,
    }  # fmt: skip
    few, chunks, whole = (
        peak_mib(shape | {"loss_chunk_size": size}, tmp_path) for size in (16, 0, tokens)
    )
    logits = 4 * tokens * words / 2**20
    assert chunks - few < 0.25 * logits and whole - few > 0.9 * logits, (few, chunks, whole)
