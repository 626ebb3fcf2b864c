"""Two builds of tensor-tracer against each other: blocks of one and the other take turns.

    scripts/bench.sh builds --old FOLDER [--new FOLDER] [--pairs 8] [--only train]

A block is one run of the demo's model. Of `train` its median step time counts, of `tracer` the CPU time of
the tracer on the leader, of `interventions` the CPU time of all ranks with their start. A row gives the
median of the ratios new/old over the pairs, with a 95 % bootstrap interval of that median.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shapes import SHAPES

WARM_UP = 4  # steps
ROOT_MAY_RUN = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TILE = {"kind": "tile", "tiles": 96}
ALL_POINTS = ("QKV", "ContextLayer", "AttentionOutput", "MLP1", "MLPActivation", "MLP2", "HiddenStates")
SMALL = SHAPES["demo"]


@dataclasses.dataclass(frozen=True)
class Block:
    """One run as it was measured."""

    step_ms: float
    tracer_ms: float
    cpu_seconds: float


@dataclasses.dataclass(frozen=True)
class Row:
    """The options of a run, and the figure that is compared."""

    group: str
    name: str
    value: Callable[[Block], float]
    tensor: int = 2
    data: int = 1
    plan: list[dict[str, Any]] | None = None
    program: str = ""


def watch(*points: str, **entry: Any) -> list[dict[str, Any]]:
    return [{"point": point, "rows": 0} | entry for point in points]


def step_ms(block: Block) -> float:
    return block.step_ms


def tracer_ms(block: Block) -> float:
    return block.tracer_ms


def cpu_seconds(block: Block) -> float:
    return block.cpu_seconds


ROWS = [
    Row("train", "1 rank", step_ms, tensor=1),
    Row("train", "TP=2", step_ms),
    Row("train", "DP=2", step_ms, tensor=1, data=2),
    Row("tracer", "idle, an empty plan", cpu_seconds, plan=[]),
    Row("tracer", "3 points, 96 tiles, bf16", tracer_ms,
        plan=watch("QKV", "MLP1", "MLP2", compressor=TILE, dtype="bf16")),
    Row("tracer", "7 points, statistics", tracer_ms, plan=watch(*ALL_POINTS, compressor={"kind": "stats"})),
    Row("tracer", "HiddenStates as they are", tracer_ms, plan=watch("HiddenStates", compressor={"kind": "none"})),
    Row("tracer", "7 gradients, 96 tiles", tracer_ms,
        plan=watch(*ALL_POINTS, compressor=TILE, direction="gradient")),
    Row("interventions", "each layer scaled, on shards", cpu_seconds, program="layers[layer].output *= 1.001\n"),
    Row("interventions", "each QKV centred, gathered", cpu_seconds,
        program="x = layers[layer].attention.qkv\n"
                "layers[layer].attention.qkv = x - 0.001 * x.mean(dim=-1, keepdim=True)\n"),
    Row("interventions", "each layer's gradient scaled", cpu_seconds,
        program="layers[layer].output.grad *= 0.999\n"),
]  # fmt: skip


def command(build: Path, row: Row, steps: int, data: Path, folder: Path) -> list[str]:
    ranks = row.tensor * row.data
    flags = {
        "num-layers": SMALL.layers, "hidden-size": SMALL.hidden, "num-attention-heads": SMALL.heads,
        "seq-length": SMALL.sequence, "vocab-size": SMALL.vocab, "micro-batch-size": SMALL.batch // row.data,
        "global-batch-size": SMALL.batch, "tensor-model-parallel-size": row.tensor, "threads": 1,
        "train-iters": steps, "eval-interval": 0, "data-path": data, "run-dir": folder / "run",
        "log-format": "json",
    }  # fmt: skip
    if row.plan is not None:
        (folder / "plan.json").write_text(json.dumps({"entries": row.plan}))
        flags |= {"tensor-tracer-plan": folder / "plan.json", "record": folder / "record"}
    if row.program:
        (folder / "program.tti").write_text(row.program)
        flags["interventions"] = folder / "program.tti"
    line = [str(build / "tensor-tracer"), "train"]
    for flag, value in flags.items():
        line += [f"--{flag}", str(value)]
    return line if ranks == 1 else ["mpirun", "-np", str(ranks), *line]


def run_block(build: Path, row: Row, steps: int, data: Path) -> Block:
    with tempfile.TemporaryDirectory(prefix="tt-bench-") as folder:
        with open(Path(folder) / "output.txt", "w+b") as output:
            run = subprocess.Popen(command(build, row, steps, data, Path(folder)), stdout=output,
                                   stderr=subprocess.STDOUT, env=os.environ | ROOT_MAY_RUN)
            _, status, used = os.wait4(run.pid, 0)
            output.seek(0)
            text = output.read().decode()
        if status != 0:
            raise SystemExit(f"{row.group}, {row.name}: {build} failed\n{text}")
    reports = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    late = [one for one in reports if "step" in one][WARM_UP:]
    return Block(
        step_ms=statistics.median(one["step_ms"] for one in late),
        tracer_ms=sum(one["tracer_ms"] for one in late),
        cpu_seconds=used.ru_utime + used.ru_stime,
    )


def interval(ratios: list[float], rounds: int = 2000) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile of the median of ratios drawn with replacement."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return medians[rounds // 40], medians[-rounds // 40]


def measure(row: Row, chosen: argparse.Namespace) -> str:
    ratios, old_values, new_values = [], [], []
    for pair in range(chosen.pairs):
        order = [chosen.old, chosen.new] if pair % 2 == 0 else [chosen.new, chosen.old]
        found = {build: row.value(run_block(build, row, chosen.steps, chosen.data)) for build in order}
        old_values.append(found[chosen.old])
        new_values.append(found[chosen.new])
        ratios.append(found[chosen.new] / found[chosen.old])
    low, high = interval(ratios)
    return (f"| {row.group} | {row.name} | {statistics.median(old_values):.4g} | "
            f"{statistics.median(new_values):.4g} | {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}) |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, required=True, help="folder of the older programs")
    parser.add_argument("--new", type=Path, default=Path("build/release/bin"), help="folder of the newer ones")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=24, help="of a block; the first 4 are left out")
    parser.add_argument("--only", help="rows with this text in their group or name")
    parser.add_argument("--data", type=Path, default=Path("docs"), help="training text")
    chosen = parser.parse_args()
    print("| group | row | old | new | new / old (95 %) |\n|---|---|---|---|---|")
    for row in ROWS:
        if chosen.only is None or chosen.only in f"{row.group}, {row.name}":
            print(measure(row, chosen), flush=True)


if __name__ == "__main__":
    main()
