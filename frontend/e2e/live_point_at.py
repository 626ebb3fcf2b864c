"""Gives a live run a plan with maps, statistics and attention, trains STEPS steps, and prints as JSON what the
Python client reads of them:

    live_point_at.py ADDRESS

`cell`: the mean of tile TILE at token TOKEN, by step and layer; `inside`: of tile INSIDE[0] at token INSIDE[1] in
LAYER at the last step; `rms`: the root mean square by step and layer, which NumPy computes from all columns;
`attention`: [heads][queries][keys] of LAYER at the last step; `before`: the entries of the plan that was in force.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import tensor_tracer

LAYER, TILE, TOKEN, INSIDE, STEPS = 3, 17, 70, (19, 105), 4
LAYERS = [1, 2, 3, 4]
ENTRIES: list[dict[str, Any]] = [
    {"point": "HiddenStates", "compressor": {"kind": "tile", "tiles": 64}},
    {"point": "HiddenStates", "compressor": {"kind": "stats"}},
    {"point": "HiddenStates", "compressor": {"kind": "none"}},
    {"point": "RawAttentionScore", "compressor": {"kind": "none"}, "tokens": [0, 48], "layers": str(LAYER)},
    {"point": "InputTokens"},
]


def read(run: tensor_tracer.Run, steps: range) -> dict[tuple[int, int, int], np.ndarray]:
    """The numbers of batch row 0 by entry, step and layer, as soon as the hub has written them."""
    count = 3 * len(LAYERS) * len(steps) + len(steps)
    for _ in range(100):
        found = {
            (record.entry, record.step, record.layer): np.asarray(record.values, dtype=np.float64)
            for point in ("HiddenStates", "RawAttentionScore")
            for record in run.history(point, None, "all", steps[0], steps[-1])
        }
        if len(found) == count:
            return found
        time.sleep(0.1)
    sys.exit(f"steps {steps} have {len(found)} records instead of {count}")


def main() -> None:
    with tensor_tracer.connect(sys.argv[1]) as run:
        with run.control("oracle", take_over=True) as control:
            before = (run.facts or {})["plan"]["entries"]
            control.pause()
            control.set_plan(ENTRIES)
            control.step(1)
            last = control.step(STEPS).step
        steps = range(last - STEPS + 1, last + 1)
        of = read(run, steps)
    tile, token = INSIDE
    print(json.dumps({
        "steps": list(steps), "layer": LAYER, "before": before,
        "cell": [[float(of[0, step, layer][0, TOKEN, TILE]) for layer in LAYERS] for step in steps],
        "inside": float(of[0, last, LAYER][0, token, tile]),
        "rms": [[float(np.sqrt((of[2, step, layer] ** 2).mean())) for layer in LAYERS] for step in steps],
        "attention": of[3, last, LAYER][0].tolist(),
    }))


main()
