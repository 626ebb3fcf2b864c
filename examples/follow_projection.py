"""Follows the projection on a persona vector in a live run and prints an alarm above a threshold.

    python examples/follow_projection.py runs/5f0c1d2e3a4b5c6d --vector evil --threshold 2.5

The run needs the vector (--tensor-tracer-vectors) and a plan entry that projects on it; --claim takes
control and sets this plan. --prompts follows a prompt set instead of the run's data; padding does not
count. The exit code is 1 if there was an alarm.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from persona_direction import PromptSet, facts_of, prompt_set
from tensor_tracer import Array, Record, Run, TensorTracerError, connect


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run_dir", help="the run's directory, as the trainer printed it")
    parser.add_argument("--vector", required=True)
    parser.add_argument("--threshold", type=float, required=True)
    parser.add_argument("--layers", default=None, help='such as "8-16"; default: all')
    parser.add_argument("--prompts", default=None, help="follow a prompt set of the run; default: its data")
    parser.add_argument("--claim", action="store_true", help="set a plan with this projection")
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


def own_tokens(values: Array, record: Record, entry: dict[str, Any], prompts: PromptSet) -> list[Array]:
    """Of each prompt what is not filled up; a prompt may have ended before the entry's tokens."""
    first_token = entry.get("tokens", [0])[0]
    lengths = prompts.lengths[record.first_row : record.first_row + len(values)]
    rows = (row[: max(0, length - first_token)] for row, length in zip(values, lengths, strict=True))
    return [row for row in rows if row.size]


def projections(
    run: Run, options: argparse.Namespace, prompts: PromptSet | None
) -> Iterator[tuple[Record, float]]:
    """Records with the mean projection on the vector: over all tokens of the run's data, and over
    prompts that count the same however long they are."""
    chosen = {"compressor": "projection", "prompt_set": prompts.number if prompts else 0}
    for record in run.records("HiddenStates", layers=options.layers, entry="all", **chosen):
        plan = (run.facts or {}).get("plan") or {}
        if record.plan != plan.get("number"):
            continue
        entry = plan["entries"][record.entry]
        vectors = entry["compressor"]["vectors"]
        if options.vector not in vectors:
            continue
        values = record.values[..., vectors.index(options.vector)]
        rows = own_tokens(values, record, entry, prompts) if prompts else [values]
        if rows:
            yield record, float(np.mean([row.mean() for row in rows]))


def main() -> int:
    options = parse_arguments()
    alarms = 0
    with connect(run_dir=options.run_dir, reconnect=True) as run:
        prompts = prompt_set(facts_of(run), options.prompts) if options.prompts else None
        if options.claim:
            set_plan(run, options)
        for record, mean in projections(run, options, prompts):
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
    except (TensorTracerError, ValueError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
