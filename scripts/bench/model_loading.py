"""How long a run needs to read a model of Hugging Face, and how much memory: beside dd."""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import mmap
import os
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import model_folders
import numpy
import torch
from builds import interval
from model_runs import Seen, follow, progress, train_line

RANKS = 2
GOAL = 1.6  # RssAnon over the rank's parameters
MIB = 2**20
SPANS = (("from the log line *mesh* to step 1", "reading"), ("from the command to step 1", "to_step"))


@dataclasses.dataclass(frozen=True)
class Loaded:
    """One run until its first step, and dd of the same files."""

    to_step: float  # seconds from the command to the begin of step 1
    reading: float  # seconds from the log line of the mesh to the begin of step 1
    dd: float  # seconds
    before: int  # RssAnon of a rank in bytes, before it makes its model
    peaks: list[int]  # RssAnon of each rank in bytes, the largest until step 1


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gib", type=float, default=1.0, help="size of the files")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="of the files")
    parser.add_argument("--params-dtype", choices=["float32", "bfloat16"], default="float32", help="of the parameters")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)


def drop(files: list[Path]) -> None:
    """Removes the files from the page cache; they are on the disk."""
    for path in files:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached(files: list[Path]) -> float:
    """The share of the files' pages that are in the page cache."""
    present = pages = 0
    for path in files:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            count = -(-len(mapped) // mmap.PAGESIZE)
            found = numpy.zeros(count, numpy.uint8)
            view = numpy.frombuffer(mapped, numpy.uint8)
            failed = ctypes.CDLL(None, use_errno=True).mincore(
                ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(mapped)), ctypes.c_void_p(found.ctypes.data))
            assert failed == 0, os.strerror(ctypes.get_errno())
            present, pages = present + int((found & 1).sum()), pages + count
            del view
    return present / pages


def read_by_dd(files: list[Path]) -> float:
    begin = time.monotonic()
    for path in files:
        subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=8M", "status=none"], check=True)
    return time.monotonic() - begin


def load(folder: Path, model: Path, dtype: str) -> Seen:
    """One step with one adapter: nothing else is trained, so AdamW's moments need no memory."""
    run_dir = folder / "run"
    flags = {
        "hf-model": model, "tensor-model-parallel-size": RANKS, "seq-length": 32, "micro-batch-size": 1,
        "train-iters": 1, "lora-rank": 1, "lora-target-modules": "query", "data-path": folder / "text.txt",
        "run-dir": run_dir, "params-dtype": dtype,
    }  # fmt: skip
    return follow(train_line(flags, RANKS), str(run_dir), {"OMP_NUM_THREADS": "1"})


def measure(folder: Path, files: list[Path], dtype: str, is_cold: bool, dd_first: bool) -> Loaded:
    def prepare() -> None:
        if is_cold:
            drop(files)
            share = cached(files)
            if share > 0.01:
                progress(f"{share:.0%} of the files stay in the page cache: the figures for cold files are too good")
        elif cached(files) < 1:
            read_by_dd(files)

    dd = 0.0
    if dd_first:
        prepare()
        dd = read_by_dd(files)
    prepare()
    seen = load(folder, files[0].parent, dtype)
    if not dd_first:
        prepare()
        dd = read_by_dd(files)
    line, step = seen.steps()[0]
    ready = line.seconds - step["step_ms"] / 1e3
    ranks = seen.ranks(RANKS)
    before = min(seen.anonymous_at(pid, seen.at("data ")) for pid in ranks)
    peaks = [seen.peak_anonymous(pid, ready) for pid in ranks]
    return Loaded(ready - seen.begin, ready - seen.at("mesh "), dd, before, peaks)


def report(chosen: argparse.Namespace, config: dict[str, Any], size: int, found: dict[str, list[Loaded]]) -> str:
    parameters = model_folders.parameters_of_rank(config, RANKS) * getattr(torch, chosen.params_dtype).itemsize
    lines = [f"A Llama of {config['num_hidden_layers']} layers in {chosen.files} files of {chosen.dtype}, "
             f"{size / MIB:,.0f} MiB, TP={RANKS}, {chosen.params_dtype}; {chosen.rounds} rounds.", "",
             "| files | reading | median s | over dd (95 %) |", "|---|---|---:|---|"]  # fmt: skip
    for state, runs in found.items():
        lines.append(f"| {state} | `dd bs=8M` | {statistics.median(run.dd for run in runs):.2f} | |")
        for name, value in SPANS:
            seconds = [getattr(run, value) for run in runs]
            ratios = [one / run.dd for one, run in zip(seconds, runs, strict=True)]
            low, high = interval(ratios)
            lines.append(f"| {state} | tensor-tracer, {name} | {statistics.median(seconds):.2f} | "
                         f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f}) |")
    runs = [run for state in found.values() for run in state]
    growth = [(max(run.peaks) - run.before) / parameters for run in runs]
    low, high = interval(growth)
    lines += ["", "| memory of the larger rank until step 1 | MiB |", "|---|---:|",
              f"| its parameters in {chosen.params_dtype} | {parameters / MIB:,.0f} |",
              f"| RssAnon before the model is made | {statistics.median(run.before for run in runs) / MIB:,.0f} |",
              f"| largest RssAnon until step 1 | {statistics.median(max(run.peaks) for run in runs) / MIB:,.0f} |", "",
              f"Growth over the parameters: {statistics.median(growth):.2f} ({low:.2f} to {high:.2f}); goal at most "
              f"{GOAL}: {'met' if statistics.median(growth) <= GOAL else 'missed'}"]  # fmt: skip
    return "\n".join(lines)


def main(chosen: argparse.Namespace) -> str:
    dtype = getattr(torch, chosen.dtype)
    config = model_folders.config_of_size(chosen.gib, dtype)
    with tempfile.TemporaryDirectory(prefix="tt-bench-") as name:
        folder = Path(name)
        (folder / "text.txt").write_bytes(random.Random(1).randbytes(1 << 16))
        files = model_folders.write(folder / "model", config, dtype, chosen.files)
        size = sum(path.stat().st_size for path in files)
        found: dict[str, list[Loaded]] = {"cold": [], "warm": []}
        for turn in range(chosen.rounds):
            for state, runs in found.items():
                runs.append(measure(folder, files, chosen.params_dtype, state == "cold", turn % 2 == 0))
                progress(f"round {turn + 1}/{chosen.rounds}, {state}: {runs[-1].to_step:.2f} s, dd {runs[-1].dd:.2f} s")
    return report(chosen, config, size, found)
