"""The programs that are measured, with their command lines."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from pathlib import Path

from shapes import ALL_SHAPES

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One program in one arrangement of ranks and threads."""

    name: str
    ranks: int
    threads: int
    script: str = ""  # of PyTorch; empty: tensor-tracer
    tensor: int = 1
    bf16: bool = False

    def command(self, shape: str, steps: int, data: Path, run_dir: Path) -> list[str]:
        """The command line of one block of steps."""
        if self.script:
            return self._pytorch(shape, steps)
        return self._tensor_tracer(shape, steps, data, run_dir)

    def environment(self) -> dict[str, str]:
        """As many threads per rank as the candidate has; Open MPI may run as root."""
        return os.environ | {
            "OMP_NUM_THREADS": str(self.threads),
            "MKL_NUM_THREADS": str(self.threads),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    def _pytorch(self, shape: str, steps: int) -> list[str]:
        line = [sys.executable, str(HERE / self.script), "--shape", shape, "--steps", str(steps)]
        return [*line, "--threads", str(self.threads), *(["--bf16"] if self.bf16 else [])]

    def _tensor_tracer(self, shape_name: str, steps: int, data: Path, run_dir: Path) -> list[str]:
        shape = ALL_SHAPES[shape_name]
        replicas = self.ranks // self.tensor
        flags = {
            "num-layers": shape.layers,
            "hidden-size": shape.hidden,
            "num-attention-heads": shape.heads,
            "seq-length": shape.sequence,
            "vocab-size": shape.vocab,
            "micro-batch-size": shape.batch // replicas,
            "global-batch-size": shape.batch,
            "tensor-model-parallel-size": self.tensor,
            "train-iters": steps,
            "lr": 1e-4,
            "weight-decay": 0.1,
            "clip-grad": 1.0,
            "eval-interval": 0,
            "threads": self.threads,
            "data-path": data,
            "run-dir": run_dir,
            "log-format": "json",
        }
        line = [str(tensor_tracer()), "train"]
        for flag, value in flags.items():
            line += [f"--{flag}", str(value)]
        if self.bf16:
            line.append("--bf16")
        if self.ranks == 1:
            return line
        return [shutil.which("mpirun") or "mpirun", "-np", str(self.ranks), *line]


def tensor_tracer() -> Path:
    """The program in `TT_BIN_DIR`, by default build/release/bin."""
    folder = Path(os.environ.get("TT_BIN_DIR", "build/release/bin"))
    return REPOSITORY / folder / "tensor-tracer"


CANDIDATES = [
    Candidate("tensor-tracer, 1 thread", ranks=1, threads=1),
    Candidate("tensor-tracer, 2 threads", ranks=1, threads=2),
    Candidate("tensor-tracer, TP=2", ranks=2, threads=1, tensor=2),
    Candidate("tensor-tracer, DP=2", ranks=2, threads=1),
    Candidate("tensor-tracer, TP=2, bf16", ranks=2, threads=1, tensor=2, bf16=True),
    Candidate("PyTorch eager, 1 thread", ranks=1, threads=1, script="pytorch_eager.py"),
    Candidate("PyTorch eager, 2 threads", ranks=1, threads=2, script="pytorch_eager.py"),
    Candidate("PyTorch DTensor, TP=2", ranks=2, threads=1, script="pytorch_dtensor.py"),
    Candidate("PyTorch DDP, DP=2", ranks=2, threads=1, script="pytorch_ddp.py"),
    Candidate(
        "PyTorch autocast bf16, 2 threads", ranks=1, threads=2, script="pytorch_eager.py", bf16=True
    ),
]
BASELINE = "PyTorch eager, 2 threads"


@dataclasses.dataclass(frozen=True)
class Goal:
    """`candidate` shall be at least `factor` times as fast as `other`, with no more memory."""

    candidate: str
    other: str
    factor: float


GOALS = [
    Goal("tensor-tracer, TP=2", "PyTorch eager, 2 threads", 1.0),
    Goal("tensor-tracer, TP=2", "PyTorch DTensor, TP=2", 1.4),
    Goal("tensor-tracer, DP=2", "PyTorch DDP, DP=2", 1.0),
    Goal("tensor-tracer, TP=2, bf16", "PyTorch autocast bf16, 2 threads", 1.0),
]
