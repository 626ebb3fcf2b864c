"""How fresh data stay for a native viewer while a viewer of the legacy dialect keeps both CPUs busy.

    scripts/bench.sh freshness [--viewers 20] [--seconds 30]

Two tensor-parallel ranks of the demo's model fill two CPUs; a viewer of Tensor Tracer's JSON dialect takes QKV,
MLP1 and MLP2 in 96 tiles. Native viewers connect one after another: the seconds from the connection to the first
record. The last one stays: the age of each record when it arrives. The holder of the lease stays, too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from tracer import Run, run_of, seed_set

sys.path.insert(0, str(Path(__file__).parents[2] / "python"))
from tensor_tracer import connect

STEPS = 1_000_000


def first_data(run_dir: Path) -> float:
    begin = time.monotonic()
    with connect(run_dir=str(run_dir)) as viewer:
        next(iter(viewer.records("QKV")))
        return time.monotonic() - begin


def ages(run_dir: Path, seconds: float) -> list[float]:
    """Of the records of `seconds`; the first ones, which the hub had kept, are left out."""
    found: list[float] = []
    with connect(run_dir=str(run_dir)) as viewer:
        end = time.monotonic() + seconds
        for record in viewer.records("QKV"):
            found.append(time.time() - record.time * 1e-9)
            if time.monotonic() > end:
                return found[8:]
    raise SystemExit("the run ended")


def hold(run: Run, done: threading.Event) -> None:
    """The lease ends 30 s after its holder's last message."""
    while not done.wait(5):
        run.request("ping", {})


def measure(run: Run, viewers: int, seconds: float) -> None:
    run.wait_for_step(3)
    legacy = run.watch_by_legacy()
    run.watch(seed_set("f32"))
    time.sleep(3)
    done = threading.Event()
    holder = threading.Thread(target=hold, args=(run, done))
    holder.start()
    first = [first_data(run.run_dir) for _ in range(viewers)]
    arrived = ages(run.run_dir, seconds)
    done.set()
    holder.join()
    run.request("control.pause", {})  # refused if the lease had ended
    print("| | median | largest |\n|---|---:|---:|")
    print(f"| first data, s ({viewers} viewers; goal 1) | {statistics.median(first):.2f} | {max(first):.2f} |")
    print(f"| age of {len(arrived)} records, s (goal 2) | {statistics.median(arrived):.2f} | {max(arrived):.2f} |")
    print(f"\nThe lease was held to the end; the legacy viewer got {legacy.updates} updates.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--data", type=Path, default=Path("docs"), help="training text")
    chosen = parser.parse_args()
    with (tempfile.TemporaryDirectory(prefix="tt-bench-") as folder,
          run_of("demo", STEPS, chosen.data, Path(folder), False, ()) as run):  # fmt: skip
        measure(run, chosen.viewers, chosen.seconds)


if __name__ == "__main__":
    main()
