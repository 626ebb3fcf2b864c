"""The strength of preventative steering: the largest one that hardly harms modern English, before any training.

What the steering harms, the training repairs in the weights, and without the steering the repair is a harm of about this
size. So its cost is known before."""

from __future__ import annotations

import numpy as np
from checkpoints import shape_words, still_words
from example import VECTOR, Example, emptied
from prevention import steer_words
from stages import Found, Outcome
from tensor_tracer import open_recording

# Of the loss. Twice the 2 % that prevention may cost: on the model of bytes, half of it was left after a modern phase.
_RISE = 0.04


def modern_loss(example: Example, layer: int, strength: float) -> float:
    """Of the modern texts of the vector, in steered training forwards that change nothing."""
    name = f"strength-{strength:g}"
    run_dir = emptied(example.run_dir(name))
    example.commands.run(
        name, "train", *shape_words(example), *still_words(example, "negative", example.settings.strength_steps),
        *steer_words(layer, strength), "--tensor-tracer-vectors", example.vector, "--tensor-tracer-port", example.port,
        "--run-dir", run_dir, "--history", "off", "--progress-bar", "off",
    )  # fmt: skip
    with open_recording(run_dir / "run.ttrec") as recording:
        return float(np.mean(recording.scalars("loss")[1]))


def choose(example: Example, found: Found) -> Outcome:
    """The smallest strength, if all harm more."""
    layer, chosen = found["vector"]["layer"], example.settings.strengths[0]
    losses = [[0.0, modern_loss(example, layer, 0.0)]]
    for strength in example.settings.strengths:
        losses.append([strength, modern_loss(example, layer, strength)])
        if losses[-1][1] > (1 + _RISE) * losses[0][1]:
            break
        chosen = strength
    told = ", ".join(f"{loss:.3f} at {strength:g}" for strength, loss in losses)
    return Outcome({"strength": chosen, "losses": losses}, told=f"{chosen:g} times {VECTOR}; loss of modern verses {told}")
