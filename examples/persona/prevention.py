"""What acts in a run against the trait: options of `train` and `generate` (docs/vectors.md, "Steer, ablate and cap")."""

from __future__ import annotations

from example import VECTOR
from stages import Found


def steer_words(layer: int, strength: float) -> list[object]:
    return ["--steer", f"{VECTOR}@{layer}={strength}"]


def cap_words(layer: int, limits: list[float]) -> list[object]:
    """From `layer` to the last but one: what the layers above learn would pass by a cap of one layer. The last layer has no
    row of the vector. `limits`: by layer, from layer 1. Tokens of the prompt stay, because the first one has a massive
    activation."""
    caps = [f"{VECTOR}@{number}=:{limits[number - 1]:.4f}" for number in range(layer, len(limits))]
    return ["--cap", *caps, "--positions", "response"]


def training_words(run: str, found: Found) -> list[object]:
    layer = found["vector"]["layer"]
    if run == "steered":
        return steer_words(layer, found["strength"]["strength"])
    return answer_words(run, found)


def answer_words(run: str, found: Found) -> list[object]:
    """Of the answers to the questions, which preventative steering leaves alone."""
    return cap_words(found["vector"]["layer"], found["start"]["modern_quartile_by_layer"]) if run == "capped" else []
