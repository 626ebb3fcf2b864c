"""Gives a live run a plan with the numbers of the field, and prints those of a step as JSON:

    live_numbers.py ADDRESS

Probabilities, entropy and loss are computed here with NumPy from all scores of the vocabulary. `before`: the
entries of the plan that was in force.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import tensor_tracer

LAYER, TOKENS, K, HEAD = 2, 16, 5, 1
WINDOW = {"tokens": [0, TOKENS]}
TOP = {"kind": "topk", "k": K}
NONE = {"kind": "none"}
ENTRIES: list[dict[str, Any]] = [
    {"point": "LogitLens", "compressor": TOP, **WINDOW},
    {"point": "LogitLens", "compressor": NONE, "layers": str(LAYER), **WINDOW},
    {"point": "Logits", "compressor": TOP, **WINDOW},
    {"point": "Logits", "compressor": NONE, **WINDOW},
    {"point": "attention.entropy", "compressor": NONE},
    {"point": "attention.largest_score", "compressor": NONE},
    {"point": "mlp.contribution_ratio", "compressor": NONE},
    {"point": "Updates", "compressor": NONE},
    {"point": "MLPActivation", "rows": 0, "compressor": {"kind": "top_tokens", "columns": [0, 3], "k": 5}},
    {"point": "InputTokens", "tokens": [0, TOKENS + 1]},
]


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def predictions(scores: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    """Of scores [tokens, vocabulary]: the best tokens and their probabilities, entropy and loss in nats."""
    p = softmax(scores.astype(np.float64))
    best = np.argsort(-p, axis=-1, kind="stable")[:, :K]
    own = p[np.arange(len(p)), targets]
    return {"best": best.tolist(), "probabilities": np.take_along_axis(p, best, axis=-1).tolist(),
            "entropy": (-p * np.log(p)).sum(axis=-1).tolist(), "loss": (-np.log(own)).tolist()}


def read(run: tensor_tracer.Run, step: int) -> dict[int, np.ndarray]:
    """The numbers of each entry in the step, of LAYER if its point has layers."""
    for _ in range(100):
        found: dict[int, np.ndarray] = {}
        for entry, plan in enumerate(ENTRIES):
            layer = 0 if plan["point"] in ("Logits", "Updates", "InputTokens") else LAYER
            for record in run.history(plan["point"], layer, "all", step, step):
                if record.entry == entry:
                    found[entry] = np.asarray(record.values)
        if len(found) == len(ENTRIES):
            return found
        time.sleep(0.1)
    sys.exit(f"step {step} has the records of the entries {sorted(found)} only")


def main() -> None:
    with tensor_tracer.connect(sys.argv[1]) as run:
        facts = run.facts or {}
        with run.control("oracle", take_over=True) as control:
            control.pause()
            control.set_plan(ENTRIES)
            step = control.step(2).step
        of = read(run, step)
    ids = of[9][0, 0].astype(int)
    names = next(point["parameters"] for point in facts["points"] if point["name"] == "Updates")
    updates = of[7][0]
    print(json.dumps({
        "step": step, "layer": LAYER, "head": HEAD, "tokens": ids[:TOKENS].tolist(),
        "lens": predictions(of[1][0], ids[1:]), "text": predictions(of[3][0], ids[1:]),
        "entropy": of[4][0].mean(axis=0).tolist(), "largest": of[5][0].max(axis=0).tolist(),
        "ratio": float(of[6][0].mean()),
        "largest_update": names[int(np.argmax(updates[:, 7]))], "update_ratio": float(updates[:, 7].max()),
        "top": [[float(row[0]), int(row[4 + 16])] for row in of[8][0]],
    }))


main()
