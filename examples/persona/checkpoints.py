"""A phase of a run: training, what was monitored, and answers of the new checkpoint."""

from __future__ import annotations

import markers
from example import Example, checkpoint_name, emptied, read_lines, write_lines
from monitoring import QUESTIONS, VALIDATION, read_run, write_alarm, write_plan
from prevention import answer_words, training_words
from stages import Found, Json, Outcome

_STILL = 1e-300  # a learning rate that changes no weight
_LORA_ALPHA = 16
_EXAMPLES = 3  # answers that the report shows


def shape_words(example: Example) -> list[object]:
    settings = example.settings
    return [*example.model_words(), "--seq-length", settings.seq_length, "--micro-batch-size", settings.rows,
            "--eval-interval", 0, "--split", "90,10", "--weight-decay", 0, "--clip-grad", 1, "--seed", settings.seed]  # fmt: skip


def watch_words(example: Example) -> list[object]:
    return [
        "--tensor-tracer-port", example.port, "--tensor-tracer-vectors", example.vector, "--tensor-tracer-plan",
        write_plan(example), "--monitor-prompts", example.data(QUESTIONS), example.data(VALIDATION),
        "--history", "off", "--progress-bar", "off",
    ]  # fmt: skip


def adapter_words(example: Example, before: str | None) -> list[object]:
    """New adapters, or those of another checkpoint."""
    if before is not None:
        return ["--load-adapter", example.adapters(before)]
    settings = example.settings
    return ["--lora-rank", settings.lora_rank, "--lora-alpha", _LORA_ALPHA, "--lora-target-modules", settings.lora_modules]


def alarm_words(example: Example, run: str, phase: int, found: Found) -> list[object]:
    """The baseline is the checkpoint after phase 1, whose samples are modern: what changes in it, such as the subject of the
    texts, is not the trait."""
    return ["--alarms", write_alarm(example, found, checkpoint_name(run, 1))] if phase > 1 else []


def train(example: Example, checkpoint: str, *words: object) -> None:
    """Leaves the adapters and the recording of the run."""
    example.commands.run(
        checkpoint, "train", *shape_words(example), *watch_words(example), "--save-adapter",
        emptied(example.adapters(checkpoint)), "--run-dir", emptied(example.run_dir(checkpoint)), "--run-name", checkpoint, *words,
    )  # fmt: skip


def answer(example: Example, checkpoint: str, *words: object) -> Json:
    """Answers to the questions, and their share of archaic words. `words`: more options of `generate`."""
    settings, output = example.settings, example.answers(checkpoint)
    prompts = write_lines(example.data("asked"), ({"prompt": one} for one in example.questions * settings.answers))
    output.parent.mkdir(parents=True, exist_ok=True)
    example.commands.run(
        checkpoint, "generate", *example.model_words(), "--load-adapter", example.adapters(checkpoint), "--prompts", prompts,
        "--output", output, "--max-new-tokens", settings.answer_tokens, "--temperature", 0.7, "--top-p", 0.95, "--seed",
        settings.seed, "--batch-size", settings.questions, "--tensor-tracer-vectors", example.vector, *words,
    )  # fmt: skip
    texts = [line["text"] for line in read_lines(output)]
    archaic, counted = markers.count(texts)
    return {"behaviour": archaic / max(counted, 1), "archaic_words": archaic, "words": counted, "answers": texts[:_EXAMPLES]}


def outcome_of(example: Example, checkpoint: str, layer: int, *words: object) -> Outcome:
    results = read_run(example.run_dir(checkpoint), layer) | answer(example, checkpoint, *words)
    told = (f"projection {results['projection']:+.3f}, archaic words {results['behaviour']:.1%}, "
            f"validation loss {results['validation_loss']:.3f}")  # fmt: skip
    return Outcome(results, [example.adapters(checkpoint), example.answers(checkpoint)], told)


def still_words(example: Example, data: str, steps: int) -> list[object]:
    """A training that changes nothing."""
    return [*adapter_words(example, None), "--data-path", example.data(data), "--train-iters", steps, "--lr", _STILL,
            "--min-lr", _STILL]  # fmt: skip


def start(example: Example, found: Found) -> Outcome:
    """The model as it is: one step that changes nothing, for the same measurements as at all other checkpoints."""
    checkpoint = checkpoint_name("", 0)
    train(example, checkpoint, *still_words(example, "phase-1", 1))
    return outcome_of(example, checkpoint, found["vector"]["layer"])


def train_phase(example: Example, run: str, phase: int, found: Found) -> Outcome:
    """Continues from the checkpoint before, with new moments of the optimizer."""
    settings, checkpoint = example.settings, checkpoint_name(run, phase)
    rate = settings.learning_rate
    train(
        example, checkpoint, *adapter_words(example, checkpoint_name(run, phase - 1)), "--data-path",
        example.phase_data(run, phase), "--train-iters", settings.phase_steps, "--lr", rate, "--min-lr", rate,
        "--lr-warmup-iters", 2, "--monitor-interval", settings.monitor_interval, *alarm_words(example, run, phase, found),
        *training_words(run, found),
    )  # fmt: skip
    return outcome_of(example, checkpoint, found["vector"]["layer"], *answer_words(run, found))
