"""What tensor_tracer.attach costs a training of GPT-2 small of Transformers, beside other tools.

Two ranks with DistributedDataParallel train, with one thread each. Blocks of steps with a tool and without it alternate
in the same processes, each time from attach() to detach(). The CPU seconds in the tool's hooks, calls, threads and
processes are counted in the blocks with the tool, and divided by the CPU seconds of the ranks. Beside it stands the
ratio of the ranks' CPU seconds of a step with and without the tool: the median over the pairs of blocks with a 95 %
bootstrap interval.

A row that the file of --results has already is not measured again.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attach_report import report
from attach_watchers import EVERY
from candidates import HERE, REPOSITORY
from train import machine

INSPECT, INSPECT_VERSION = REPOSITORY / "build" / "bench-inspect", "0.2.2"
GPT2_SMALL = {
    "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_positions": 256, "batch": 1,
}  # fmt: skip
TOO_SMALL = GPT2_SMALL | {"n_layer": 2, "n_embd": 192, "vocab_size": 4096}  # for a trial


@dataclasses.dataclass(frozen=True)
class Row:
    """A tool, and how many blocks of how many steps. `package`: that must be there."""

    watcher: str
    pairs: int = 4
    on: int = 4
    off: int = 4
    package: str = "tensor_tracer"


ROWS = [
    Row("idle"), Row("statistics"), Row("sparse", pairs=1, on=EVERY, off=10), Row("hooks"), Row("megatron", pairs=3),
    Row("inspect", pairs=3, package="nvdlfw_inspect"), Row("wandb", pairs=2, on=2, off=2, package="wandb"),
]  # fmt: skip


def environment() -> dict[str, str]:
    """Of the ranks: one thread, this checkout's package and library, and the packages that --install has fetched."""
    paths = [str(REPOSITORY / "python"), str(INSPECT), os.environ.get("PYTHONPATH", "")]
    build = os.environ.get("TENSOR_TRACER_BUILD", str(REPOSITORY / "build" / "release"))
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return os.environ | threads | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "TENSOR_TRACER_BUILD": build}


def measure(row: Row, size: dict[str, int]) -> dict[str, Any]:
    """The blocks of each rank, and the machine's load before and after."""
    steps = {"on": row.on, "off": row.off}
    options = {"watcher": row.watcher, "pairs": row.pairs, "steps": steps, "size": size}
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tt-bench-") as folder:
        line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        line += [str(HERE / "attach_worker.py"), folder, json.dumps(options)]
        subprocess.run(line, env=environment(), stdout=sys.stderr, check=True)
        ranks = [json.loads(Path(folder, f"rank{rank}.json").read_text()) for rank in (0, 1)]
    return {"options": options, "ranks": ranks, "load": [before, os.getloadavg()[0]]}


def install() -> None:
    """nvdlfw-inspect, without what it needs: .venv has that."""
    wanted = ["--no-deps", "--upgrade", "--target", str(INSPECT), f"nvdlfw-inspect=={INSPECT_VERSION}"]
    subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", *wanted])


def is_missing(package: str) -> bool:
    sys.path[:0] = [str(REPOSITORY / "python"), str(INSPECT)]
    found = importlib.util.find_spec(package)
    del sys.path[:2]
    return found is None


def results(chosen: argparse.Namespace) -> dict[str, Any]:
    """By row. Measures the rows that the file does not have, and writes the file after each."""
    file: Path = chosen.results or REPOSITORY / "build" / f"bench-attach{'-quick' * chosen.quick}.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    for row in ROWS:
        is_chosen = not chosen.only or row.watcher in chosen.only
        if not is_chosen or (row.watcher in found and not chosen.fresh):
            continue
        if is_missing(row.package):
            print(f"{row.watcher}: {row.package} is missing; see --help", file=sys.stderr)
            continue
        print(f"{row.watcher} …", file=sys.stderr, flush=True)
        found[row.watcher] = measure(row, TOO_SMALL if chosen.quick else GPT2_SMALL)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found))
    return {row.watcher: found[row.watcher] for row in ROWS if row.watcher in found}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh attach", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a trial with a model that is too small")
    parser.add_argument("--only", choices=[row.watcher for row in ROWS], action="append", help="default: all rows")
    parser.add_argument("--results", type=Path, help="default: build/bench-attach.json")
    parser.add_argument("--fresh", action="store_true", help="measure rows again that the results have")
    parser.add_argument("--install", action="store_true", help=f"get nvdlfw-inspect {INSPECT_VERSION} first, by pip")
    parser.add_argument("--append", type=Path, help="also append the report to this file")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    if chosen.install:
        install()
    measured = results(chosen)
    if not measured:
        sys.exit("nothing was measured")
    text = report(measured, f"{machine()}, transformers {version('transformers')}")
    print(text)
    if chosen.append:
        with open(REPOSITORY / chosen.append, "a") as file:
            file.write(f"\n{text}\n")


if __name__ == "__main__":
    main()
