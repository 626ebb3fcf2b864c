"""Prints as JSON what the Python client reads of a recording: facts, scalars and each record.

    expected.py FILE

The page's reader of records has no part in it. `values` are float64 in Base64, because JSON has no NaN.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
import tensor_tracer

SCALARS = ["loss", "valid_loss", "grad_norm", "lr", "tokens_per_second"]


def numbers(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()


def told(record: tensor_tracer.Record) -> dict[str, Any]:
    values = numbers(record.values) if record.shape[-1] else ""
    return {"entry": record.entry, "step": record.step, "layer": record.layer, "phase": record.phase,
            "shape": record.shape, "values": values}


def main() -> None:
    with tensor_tracer.open_recording(sys.argv[1]) as run:
        records = [told(record) for record in run.records()]
        scalars = {}
        for name in SCALARS:
            steps, values = run.scalars(name)
            scalars[name] = {"steps": steps.tolist(), "values": numbers(values)}
        facts = {"id": run.facts["id"], "name": run.facts["name"]}
        [updates] = (point for point in run.facts["points"] if point["name"] == "Updates")
        table = {"parameters": updates["parameters"], "columns": updates["columns"]}
    print(json.dumps({"facts": facts, "updates": table, "scalars": scalars, "records": records}))


main()
