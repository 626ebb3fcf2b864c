"""Gives a live run the plan ENTRIES and prints what the Python client reads of a step, as JSON:

    live_values.py ADDRESS

`values` holds of each entry [tiles][tokens] of batch row 0 in the layer LAYER; `before` the entries
of the plan that was in force.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import tensor_tracer

LAYER = 3
ENTRIES = [
    {"point": "HiddenStates", "dtype": dtype, "compressor": {"kind": "tile", "tiles": 64}}
    for dtype in ("f32", "bf16", "u8")
]


def read(run: tensor_tracer.Run, step: int) -> list[tensor_tracer.Record]:
    """The step's record of each entry, as soon as the hub has written them."""
    for _ in range(100):
        records = {r.entry: r for r in run.history("HiddenStates", LAYER, "all", step, step)}
        if len(records) == len(ENTRIES):
            return [records[entry] for entry in range(len(ENTRIES))]
        time.sleep(0.1)
    sys.exit(f"step {step} has no records of all entries")


def main() -> None:
    with tensor_tracer.connect(sys.argv[1]) as run:
        with run.control("oracle", take_over=True) as control:
            before = (run.facts or {})["plan"]["entries"]
            control.pause()
            control.set_plan([*ENTRIES, {"point": "InputTokens"}])
            step = control.step(2).step
        values = [record.values[0].T.tolist() for record in read(run, step)]
    print(json.dumps({"step": step, "layer": LAYER, "values": values, "before": before}))


main()
