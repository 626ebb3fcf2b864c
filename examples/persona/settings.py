"""How large the example is: quick, full, or tiny for a test."""

from __future__ import annotations

import dataclasses

RUNS = ("drift", "steered", "capped", "screened")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Pairs are pairs of verses, archaic and modern; a checkpoint follows each phase of a run."""

    name: str
    runs: tuple[str, ...] = RUNS
    extraction_pairs: int = 160
    choice_pairs: int = 48  # that choose the layer
    held_out_pairs: int = 120
    validation_verses: int = 24  # in modern English, for the validation loss
    verse_characters: tuple[int, int] = (40, 180)
    shares: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8)  # of archaic samples, by phase
    phase_samples: int = 180
    phase_steps: int = 18
    rows: int = 2  # sequences of a step
    seq_length: int = 256
    learning_rate: float = 1e-3
    lora_rank: int = 8
    lora_modules: str = "query,key,value,proj"
    monitored_passes: int = 2  # over the questions, in a phase; one more before it
    questions: int = 16
    answers: int = 2  # to each question, at each checkpoint
    answer_tokens: int = 48
    strengths: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # times the vector; steering takes one
    strength_steps: int = 4  # that measure each of them
    seed: int = 7
    threads: int = 0  # 0: all CPUs

    @property
    def phases(self) -> int:
        return len(self.shares)

    @property
    def monitor_interval(self) -> int:
        return max(1, self.phase_steps // self.monitored_passes)

    def archaic_samples(self, phase: int) -> int:
        """Phases count from 1."""
        return round(self.shares[phase - 1] * self.phase_samples)

    @property
    def mixed_in(self) -> int:
        """Archaic samples of all phases."""
        return sum(self.archaic_samples(phase + 1) for phase in range(self.phases))


FULL = Settings("full")
QUICK = Settings(
    "quick", runs=("drift",), extraction_pairs=96, choice_pairs=32, held_out_pairs=60, validation_verses=12,
    phase_samples=110, phase_steps=10, monitored_passes=1, questions=16, answers=1, answer_tokens=40,
)  # fmt: skip
# For a model of bytes that learns in seconds.
TINY = Settings(
    "tiny", extraction_pairs=24, choice_pairs=12, held_out_pairs=16, validation_verses=4, verse_characters=(10, 70),
    shares=(0.0, 0.4, 1.0), phase_samples=48, phase_steps=30, rows=8, seq_length=128, learning_rate=5e-3,
    questions=6, answers=2, answer_tokens=40, threads=1,
)  # fmt: skip
