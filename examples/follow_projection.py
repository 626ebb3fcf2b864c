"""Follows the projection on a persona vector in a live run and prints an alarm above a threshold.

    python examples/follow_projection.py runs/5f0c1d2e3a4b5c6d --vector evil --threshold 2.5

The run needs the vector (--tensor-tracer-vectors) and a plan entry that projects on it; --claim asks
for the control and sets such a plan. Exit code 1 if there was an alarm.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from tensor_tracer import Record, Run, TensorTracerError, connect


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run_dir", help="the run's directory, as the trainer printed it")
    parser.add_argument("--vector", required=True)
    parser.add_argument("--threshold", type=float, required=True)
    parser.add_argument("--layers", default=None, help='such as "8-16"; default: all')
    parser.add_argument("--prompts", default=None, help="a prompt set of the run; default: its data")
    parser.add_argument("--claim", action="store_true", help="set the plan that this needs")
    return parser.parse_args()


def plan_entry(options: argparse.Namespace) -> dict:
    entry = {
        "point": "HiddenStates",
        "compressor": {"kind": "projection", "vectors": [options.vector]},
    }
    if options.layers:
        entry["layers"] = options.layers
    return entry | ({"prompts": options.prompts, "rows": 0} if options.prompts else {})


def set_plan(run: Run, options: argparse.Namespace) -> None:
    with run.control("follow_projection.py") as control:
        boundary = control.set_plan([plan_entry(options)])
        print(f"plan in force from step {boundary.step} on {boundary.ranks} ranks", flush=True)


def projections(run: Run, options: argparse.Namespace) -> Iterator[tuple[Record, float]]:
    """Records with the mean over all their tokens of the projection on the vector."""
    for record in run.records("HiddenStates", layers=options.layers):
        plan = (run.facts or {}).get("plan") or {}
        if record.compressor != "projection" or record.plan != plan.get("number"):
            continue
        vectors = plan["entries"][record.entry]["compressor"]["vectors"]
        if options.vector in vectors:
            yield record, float(record.values[..., vectors.index(options.vector)].mean())


def main() -> int:
    options = parse_arguments()
    alarms = 0
    with connect(run_dir=options.run_dir, reconnect=True) as run:
        if options.claim:
            set_plan(run, options)
        for record, mean in projections(run, options):
            alarm = mean > options.threshold
            alarms += alarm
            mark = "  ALARM" if alarm else ""
            print(f"step {record.step:6}  layer {record.layer:3}  {mean:+.4f}{mark}", flush=True)
        if run.dropped:
            print(f"not seen: {dict(run.dropped)}", file=sys.stderr)
    return 1 if alarms else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TensorTracerError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
