"""A phase of a run: training, what was monitored, and answers of the new checkpoint."""

from __future__ import annotations

import shutil

import markers
from example import Example, checkpoint_name, read_lines, write_lines
from monitoring import ALARM, QUESTIONS, VALIDATION, read_run, write_alarm, write_plan
from prevention import prevention_of, program_words
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
        write_plan(example), "--monitor-prompts", example.data(QUESTIONS), example.data(VALIDATION), example.data(ALARM),
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
    adapters, run_dir = example.adapters(checkpoint), example.run_dir(checkpoint)
    for folder in (adapters, run_dir):  # of a stage that did not end
        shutil.rmtree(folder, ignore_errors=True)
    example.commands.run(
        checkpoint, "train", *shape_words(example), *watch_words(example), "--save-adapter", adapters, "--run-dir", run_dir,
        "--run-name", checkpoint, *words,
    )  # fmt: skip


def answer(example: Example, checkpoint: str, program: str) -> Json:
    """Answers to the questions, and their share of archaic words. `program` acts on them."""
    settings, output = example.settings, example.answers(checkpoint)
    prompts = write_lines(example.data("asked"), ({"prompt": one} for one in example.questions * settings.answers))
    output.parent.mkdir(parents=True, exist_ok=True)
    watched = ["--tensor-tracer-vectors", example.vector] if program else []
    example.commands.run(
        checkpoint, "generate", *example.model_words(), "--load-adapter", example.adapters(checkpoint), "--prompts", prompts,
        "--output", output, "--max-new-tokens", settings.answer_tokens, "--temperature", 0.7, "--top-p", 0.95, "--seed",
        settings.seed, "--batch-size", settings.questions, *program_words(example, f"{checkpoint}-answers", program), *watched,
    )  # fmt: skip
    texts = [line["text"] for line in read_lines(output)]
    archaic, words = markers.count(texts)
    return {"behaviour": archaic / max(words, 1), "archaic_words": archaic, "words": words, "answers": texts[:_EXAMPLES]}


def outcome_of(example: Example, checkpoint: str, layer: int, program: str) -> Outcome:
    results = read_run(example.run_dir(checkpoint), layer) | answer(example, checkpoint, program)
    told = (f"projection {results['projection']:+.3f}, archaic words {results['behaviour']:.1%}, "
            f"validation loss {results['validation_loss']:.3f}")  # fmt: skip
    return Outcome(results, [example.adapters(checkpoint), example.answers(checkpoint)], told)


def start(example: Example, found: Found) -> Outcome:
    """The model as it is: one step that changes nothing, for the same measurements as at all other checkpoints."""
    checkpoint = checkpoint_name("", 0)
    train(example, checkpoint, *adapter_words(example, None), "--data-path", example.data("phase-1"), "--train-iters", 1,
          "--lr", _STILL, "--min-lr", _STILL)  # fmt: skip
    return outcome_of(example, checkpoint, found["vector"]["layer"], "")


def train_phase(example: Example, run: str, phase: int, found: Found) -> Outcome:
    """Continues from the checkpoint before, with new moments of the optimizer."""
    settings, checkpoint = example.settings, checkpoint_name(run, phase)
    prevention = prevention_of(run, example, found)
    rate = settings.learning_rate
    train(
        example, checkpoint, *adapter_words(example, checkpoint_name(run, phase - 1)), "--data-path",
        example.phase_data(run, phase), "--train-iters", settings.phase_steps, "--lr", rate, "--min-lr", rate,
        "--lr-warmup-iters", 2, "--monitor-interval", settings.monitor_interval, *alarm_words(example, run, phase, found),
        *program_words(example, checkpoint, prevention.training),
    )  # fmt: skip
    return outcome_of(example, checkpoint, found["vector"]["layer"], prevention.answers)
