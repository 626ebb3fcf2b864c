"""What a run records of its monitored prompts: the projections of the questions, and the loss of modern verses."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from example import VECTOR, Example, write_lines
from stages import Found, Json
from tensor_tracer import open_recording
from tensor_tracer.recording import Recording

QUESTIONS, VALIDATION, ALARM = "questions", "validation", "alarm"  # prompt sets
# In `topk` records of Logits with k = 4: plane 2 holds log-sum-exp, entropy, loss and target of each token.
_K, _PLANE, _LOSS = 4, 2, 2


def write_plan(example: Example) -> Path:
    """The plan of each run, and the prompt of its alarm."""
    compressor = {"kind": "projection", "vectors": [VECTOR]}
    entries = [
        {"point": "HiddenStates", "prompts": QUESTIONS, "rows": 0, "compressor": compressor},
        {"point": "HiddenStates", "prompts": ALARM, "compressor": compressor},
        {"point": "Logits", "prompts": VALIDATION, "rows": 0, "compressor": {"kind": "topk", "k": _K}},
    ]
    write_lines(example.data(ALARM), [{"prompt": example.questions[0]}])
    path = example.folder / "plan.json"
    path.write_text(json.dumps({"entries": entries}, indent=1) + "\n", encoding="utf-8")
    return path


def write_alarm(example: Example, found: Found, before: str) -> Path:
    """Fires when the projection of the last token of one question has risen by a quarter of the difference between archaic
    and modern texts. `before`: the checkpoint of the baseline. An alarm sees the last token of a set only if all its prompts
    have one length, so this set has one."""
    check = found["check"]
    value = found[before]["alarm_projection"] + 0.25 * (check["archaic_mean"] - check["modern_mean"])
    alarm = {"name": f"{VECTOR} rises", "point": "HiddenStates", "vector": VECTOR, "prompts": ALARM, "over": "last",
             "layers": str(found["vector"]["layer"]), "test": "above", "value": value}  # fmt: skip
    path = example.folder / "alarms.json"
    path.write_text(json.dumps([alarm], indent=1) + "\n", encoding="utf-8")
    return path


def tokens_of(recording: Recording, prompts: str) -> list[list[int]]:
    """The ids of each prompt of a set."""
    [tokens] = [one["tokens"] for one in recording.facts["prompt_sets"] if one["name"] == prompts]
    return list(tokens)


def projections(recording: Recording, prompts: str) -> tuple[list[int], list[list[float]]]:
    """Steps, and at each step the projection of every layer: the last token of a prompt, mean over the prompts."""
    lengths = [len(ids) for ids in tokens_of(recording, prompts)]
    found: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in recording.records("HiddenStates", compressor="projection", prompt_set=prompts):
        for row, values in enumerate(record.values[..., 0], record.first_row):
            found[record.step][record.layer].append(float(values[lengths[row] - 1]))
    steps = sorted(found)
    return steps, [[float(np.mean(found[step][layer])) for layer in sorted(found[step])] for step in steps]


def common_length(texts: list[list[int]]) -> int:
    """Tokens with which all texts begin."""
    least = min(map(len, texts))
    return next((at for at in range(least) if len({ids[at] for ids in texts}) > 1), least)


def validation_loss(recording: Recording) -> float:
    """Of the verses, at the last step: the mean over all their tokens. The request before them does not count."""
    texts = tokens_of(recording, VALIDATION)
    first = common_length(texts)
    losses: dict[int, list[float]] = defaultdict(list)
    for record in recording.records("Logits", compressor="topk", prompt_set=VALIDATION):
        for row, values in enumerate(record.values[_PLANE, ..., _LOSS], record.first_row):
            losses[record.step] += values[first - 1 : len(texts[row]) - 1].tolist()
    return float(np.mean(losses[max(losses)]))


def first_alarm(recording: Recording) -> int | None:
    """The step at which the alarm fired."""
    fired = [event["detail"] for event in recording.events("alarm") if event["detail"].get("change") == "fired"]
    return int(fired[0]["step"]) if fired else None


def read_run(run_dir: Path, layer: int) -> Json:
    with open_recording(run_dir / "run.ttrec") as recording:
        steps, values = projections(recording, QUESTIONS)
        _, watched = projections(recording, ALARM)
        results: dict[str, Any] = {
            "steps": steps, "projection_by_layer": values, "projection": values[-1][layer - 1],
            "alarm_projection": watched[-1][layer - 1], "validation_loss": validation_loss(recording),
            "alarm_step": first_alarm(recording),
        }  # fmt: skip
    return results
