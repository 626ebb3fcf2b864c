"""What acts in a run against the trait. All of it is programs (docs/intervention_graph.md) on the run's layer."""

from __future__ import annotations

import dataclasses

from example import VECTOR, Example
from stages import Found

# Preventative steering: the training gets the trait as a gift, so the weights need not learn it. In answers, nothing acts.
_STEER = """# Preventative steering: adds the vector at every position of every training forward pass.
alpha = param({strength}, min=-10.0, max=10.0)
layers[{layer}].output = layers[{layer}].output + alpha * vector("{vector}")[{layer}]
"""
# Activation capping: the component of a token along the vector stays below the upper quartile of modern texts. Tokens
# with a massive activation, such as the first one of a text, keep theirs: other tokens attend to them to do nothing.
_CAP = """# Activation capping: no component along the vector is above `high`. Tokens with massive activations stay.
when(phase="train")
high = param({high}, min=-1000.0, max=1000.0)
v = vector("{vector}")[{layer}]
u = v / v.norm()
h = layers[{layer}].output
p = h @ u
length = h.norm(dim=-1)
if ((p > high) & (length < 5.0 * length.median()))[..., None]: layers[{layer}].output = h + (high - p)[..., None] * u
"""


@dataclasses.dataclass(frozen=True)
class Prevention:
    """Texts of programs; empty: none."""

    training: str = ""
    answers: str = ""


def prevention_of(run: str, example: Example, found: Found) -> Prevention:
    layer = found["vector"]["layer"]
    if run == "steered":
        return Prevention(_STEER.format(strength=example.settings.steering_strength, layer=layer, vector=VECTOR))
    if run == "capped":
        high = round(found["check"]["modern_upper_quartile"], 4)
        program = _CAP.format(high=high, layer=layer, vector=VECTOR)
        return Prevention(program, program)
    return Prevention()


def program_words(example: Example, name: str, program: str) -> list[object]:
    """Options of `train` and `generate` that put a program in force. `name`: of its file, without extension."""
    if not program:
        return []
    file = example.folder / "programs" / f"{name}.tti"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(program, encoding="utf-8")
    return ["--interventions", file]
