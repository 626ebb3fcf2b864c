"""The model shapes that are measured."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    """A GPT-2 shaped model and its batch."""

    vocab: int
    layers: int
    hidden: int
    heads: int
    sequence: int
    batch: int

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.batch * self.sequence

    @property
    def gflop(self) -> float:
        """10^9 floating-point operations of one step's matrix products, forward and backward.

        Causal attention counts half of its square.
        """
        weights = self.layers * 12 * self.hidden**2 + self.vocab * self.hidden
        attention = self.layers * self.sequence * self.hidden
        return 3 * 2 * self.tokens * (weights + attention) / 1e9


SHAPES = {
    "demo": Shape(vocab=256, layers=4, hidden=256, heads=4, sequence=256, batch=8),
    "gpt2-small": Shape(vocab=50257, layers=12, hidden=768, heads=12, sequence=256, batch=2),
}
# What the vocabulary costs: the demo with 49,152 tokens.
LARGE_VOCABULARY = {
    "large-vocabulary": Shape(vocab=49152, layers=4, hidden=256, heads=4, sequence=256, batch=8)
}
ALL_SHAPES = SHAPES | LARGE_VOCABULARY
