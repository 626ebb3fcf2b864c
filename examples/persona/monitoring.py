"""What a run records of its monitored prompts: projections of questions and of modern verses, and the loss of the verses."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from example import VECTOR, Example
from stages import Found, Json
from tensor_tracer import open_recording
from tensor_tracer.recording import Recording

QUESTIONS, VALIDATION = "questions", "validation"  # prompt sets
# In `topk` records of Logits with k = 4: plane 2 holds log-sum-exp, entropy, loss and target of each token.
_K, _LOSS = 4, (2, ..., 2)


def write_plan(example: Example) -> Path:
    """The plan of each run."""
    compressor = {"kind": "projection", "vectors": [VECTOR]}
    last = {"prompts": QUESTIONS, "rows": 0, "mean_over": "last-prompt", "compressor": compressor}
    entries = [
        {"point": "HiddenStates"} | last,
        {"point": "FinalNorm"} | last,
        {"point": "HiddenStates", "prompts": VALIDATION, "rows": 0, "compressor": compressor},
        {"point": "Logits", "prompts": VALIDATION, "rows": 0, "compressor": {"kind": "topk", "k": _K}},
    ]
    path = example.folder / "plan.json"
    path.write_text(json.dumps({"entries": entries}, indent=1) + "\n", encoding="utf-8")
    return path


def write_alarm(example: Example, found: Found, before: str) -> Path:
    """Fires when the projection of the questions has risen by a quarter of the difference between archaic and modern texts,
    since the checkpoint `before`. The hub's own baseline is the start of a phase, which would hide a slow rise."""
    check = found["check"]
    value = found[before]["projection"] + 0.25 * (check["archaic_mean"] - check["modern_mean"])
    layer, last_row = found["vector"]["layer"], len(found["vector"]["auc_by_row"]) - 1
    place = {"point": "FinalNorm"} if layer == last_row else {"point": "HiddenStates", "layers": str(layer)}
    alarm = {"name": f"{VECTOR} rises", "vector": VECTOR, "prompts": QUESTIONS, "mean_over": "last-prompt",
             "test": "above", "value": value} | place  # fmt: skip
    path = example.folder / "alarms.json"
    path.write_text(json.dumps([alarm], indent=1) + "\n", encoding="utf-8")
    return path


def projections(recording: Recording) -> tuple[list[int], list[list[float]]]:
    """Steps, and at each step the mean over the questions at every layer. Step 0 is before the training. The vector's last
    row is that of the final norm, so the last number is that of FinalNorm."""
    found: dict[int, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for event in recording.events("projections"):
        for series in event["detail"]["series"]:
            values = dict(zip(series["layers"], series["values"], strict=True))
            found[event["detail"]["step"]][series["point"]] |= values
    steps = sorted(found)
    return steps, [_by_row(found[step]["HiddenStates"])[:-1] + _by_row(found[step]["FinalNorm"]) for step in steps]


def _by_row(values: dict[int, float]) -> list[float]:
    return [values[layer] for layer in sorted(values)]


def common_length(texts: list[list[int]]) -> int:
    """Tokens with which all texts begin."""
    least = min(map(len, texts))
    return next((at for at in range(least) if len({ids[at] for ids in texts}) > 1), least)


def of_verses(recording: Recording, point: str, numbers: Any, before: int = 0) -> list[list[float]]:
    """By layer: a number of each token of the validation verses, at the last step. The request before them does not count.
    `before`: 1 if the number of a token stands at the token before it."""
    [texts] = [one["tokens"] for one in recording.facts["prompt_sets"] if one["name"] == VALIDATION]
    first = common_length(texts)
    found: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in recording.records(point, prompt_set=VALIDATION):
        for row, values in enumerate(record.values[numbers], record.first_row):
            found[record.step][record.layer] += values[first - before : len(texts[row]) - before].tolist()
    last = found[max(found)]
    return [last[layer] for layer in sorted(last)]


def first_alarm(recording: Recording) -> int | None:
    """The step at which the alarm fired."""
    fired = [event["detail"] for event in recording.events("alarm") if event["detail"].get("change") == "fired"]
    return int(fired[0]["step"]) if fired else None


def read_run(run_dir: Path, layer: int) -> Json:
    with open_recording(run_dir / "run.ttrec") as recording:
        steps, values = projections(recording)
        results: dict[str, Any] = {
            "steps": steps, "projection_by_layer": values, "projection": values[-1][layer - 1],
            "modern_quartile_by_layer": [float(np.quantile(one, 0.75)) for one in of_verses(recording, "HiddenStates", (..., 0))],
            "validation_loss": float(np.mean(of_verses(recording, "Logits", _LOSS, before=1)[0])),
            "alarm_step": first_alarm(recording),
        }  # fmt: skip
    return results
