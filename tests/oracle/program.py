"""Runs the program under test: flags, launcher, step log, exported steps."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reference_gpt import Export

REPOSITORY = Path(__file__).resolve().parents[2]
Flags = Mapping[str, str | int | float | bool | Sequence[str]]


def binary(name: str = "tensor-tracer") -> Path:
    """The program in `TT_BIN_DIR`, by default build/release/bin; absent is an error, not a skip."""
    folder = Path(os.environ.get("TT_BIN_DIR", "build/release/bin"))
    path = REPOSITORY / folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: build it, or set TT_BIN_DIR")
    return path


def to_arguments(flags: Flags) -> list[str]:
    """{"num_layers": 2, "swiglu": True} -> ["--num-layers", "2", "--swiglu"]; False is left out,
    of a list each value follows."""
    arguments: list[str] = []
    for name, value in flags.items():
        if value is False:
            continue
        arguments.append("--" + name.replace("_", "-"))
        if isinstance(value, list | tuple):
            arguments += value
        elif value is not True:
            arguments.append(str(value))
    return arguments


def command(flags: Flags, ranks: int = 1) -> list[str]:
    """The command line of a training run: bare with one rank, by mpirun with more."""
    train = [str(binary()), "train", *to_arguments(flags)]
    if ranks == 1:
        return train
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        raise FileNotFoundError("mpirun is missing: install Open MPI")
    return [mpirun, "--oversubscribe", "--bind-to", "none", "-np", str(ranks), *train]


def environment() -> dict[str, str]:
    """The caller's environment, one thread per rank, and leave for mpirun to run as root."""
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run: one JSON object per step, and where its exports lie."""

    steps: list[dict[str, Any]]
    exports: Path | None

    def losses(self) -> list[float]:
        return [step["loss"] for step in self.steps]

    def export(self, step: int) -> Export:
        assert self.exports is not None, "the run was asked for no exports"
        return Export.read(self.exports / f"step_{step:06d}.safetensors")


def step_log(output: str) -> list[dict[str, Any]]:
    """The JSON objects of `--log-format json` that describe steps."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [line for line in lines if "step" in line and "loss" in line]


def train(
    flags: Flags, folder: Path, ranks: int = 1, export_at: str = "", timeout: float = 120
) -> Run:
    """Runs training to its end in `folder` and reads what it left; a failure shows its output."""
    folder.mkdir(parents=True, exist_ok=True)
    all_flags = dict(flags) | {"run_dir": str(folder / "run"), "log_format": "json"}
    exports = folder / "exports" if export_at else None
    if exports is not None:
        all_flags |= {"export_tensors": str(exports), "export_at": export_at}
    line = command(all_flags, ranks)
    done = subprocess.run(
        line, env=environment(), capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode != 0:
        tail = (done.stdout[-2000:] + done.stderr[-4000:]).strip()
        raise AssertionError(f"exit code {done.returncode} of {' '.join(line)}\n{tail}")
    return Run(step_log(done.stdout), exports)


def refused(flags: Flags, ranks: int = 1) -> str:
    """The error of a run that its command line does not allow to begin."""
    line = command(flags, ranks)
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stdout == "", (done.returncode, done.stdout, done.stderr)
    return done.stderr


def write_text(path: Path, kilobytes: int = 64) -> Path:
    """Text with some structure to learn, the same at every call."""
    state, words = 1, []
    vocabulary = ["tensor", "step", "(x)", "return", "loss = 0.5\n", "layer", "é", "norm", "->"]
    while sum(map(len, words)) < kilobytes * 1024:
        for _ in range(512):
            state = (1103515245 * state + 12345) % 2**31
            words.append(vocabulary[(state >> 16) % len(vocabulary)] + " ")
    path.write_text("".join(words), encoding="utf-8")
    return path


def tiny_flags(data: Path) -> dict[str, str | int | float | bool]:
    """A model and schedule small enough for many runs on two cores."""
    return {
        "num_layers": 2,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "seq_length": 32,
        "micro_batch_size": 4,
        "global_batch_size": 8,
        "train_iters": 1,
        "lr": 1e-3,
        "min_lr": 1e-4,
        "lr_warmup_iters": 3,
        "lr_decay_iters": 50,
        "weight_decay": 0.1,
        "clip_grad": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.95,
        "adam_eps": 1e-8,
        "seed": 7,
        "split": "90,10",
        "eval_interval": 0,
        "threads": 1,
        "data_path": str(data),
    }
