"""Persona vectors on a real model: extract a trait, watch it rise in a fine-tuning, prevent it.

    python examples/persona/run.py --quick     extract, one drifting run, watch
    python examples/persona/run.py             four runs: drift, steered, capped, screened data

The README beside this file describes the stages and the results. A stage that is done is not run again.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

import checkpoints
import contrast
import data
import screening
import strength
from chat import ChatForm
from commands import REPOSITORY, Commands, find_program
from errors import ExampleError
from example import Example, checkpoint_name
from settings import FULL, QUICK, TINY, Settings
from stages import Json, Stage, Workflow

DEFAULT_MODEL = REPOSITORY / "build" / "models" / "smollm2"
_TOKENS = 50  # of a sample, about
# On two CPUs, SmolLM2-135M; for the remaining time.
_READ, _TRAINED, _GENERATED = 350.0, 170.0, 90.0  # tokens per second
_BEGIN = 5.0  # seconds of a command before its first token


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="one drifting run; the goal is 20 minutes on two CPUs")
    size.add_argument("--tiny", action="store_true", help="sizes for a model of bytes that learns in seconds")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of all files; default: build/persona/SIZE")
    parser.add_argument("--hf-model", type=Path, metavar="DIR", default=DEFAULT_MODEL, help="default: build/models/smollm2")
    parser.add_argument("--pairs", type=Path, metavar="FILE", help="JSON lines with pairs of texts, instead of the Bibles")
    parser.add_argument("--program", type=Path, metavar="FILE", help="the program tensor-tracer; default: of this checkout")
    parser.add_argument("--port", type=int, default=0, help="of the page of each training run; default: the next free one from 8765")
    return parser.parse_args(words)


def make_example(options: argparse.Namespace) -> Example:
    settings: Settings = QUICK if options.quick else TINY if options.tiny else FULL
    folder: Path = (options.out or REPOSITORY / "build" / "persona" / settings.name).resolve()
    model: Path = options.hf_model.resolve()
    if not (model / "config.json").is_file():
        raise ExampleError(f"there is no model in {model}; scripts/fetch_smollm2.sh fetches SmolLM2 (93 MB)")
    if options.pairs is not None and not options.pairs.is_file():
        raise ExampleError(f"--pairs: there is no file {options.pairs}")
    folder.mkdir(parents=True, exist_ok=True)
    commands = Commands(find_program(options.program), folder / "logs")
    return Example(settings, folder, model, ChatForm(model), options.pairs, commands, options.port)


def reading(samples: int) -> float:
    return _BEGIN + samples * _TOKENS / _READ


def measuring(settings: Settings) -> float:
    """Answers and monitored prompts of a checkpoint."""
    answered = settings.questions * settings.answers * settings.answer_tokens / _GENERATED
    return _BEGIN + answered + reading((settings.monitored_passes + 1) * settings.validation_verses)


def first_stages(example: Example) -> list[Stage]:
    settings = example.settings
    inputs = data.inputs_of(example)
    return [
        Stage("data", (), inputs, 20, functools.partial(data.make_data, example)),
        Stage("vector", ("data",), inputs, reading(2 * (settings.extraction_pairs + settings.choice_pairs)),
              functools.partial(contrast.extract, example)),
        Stage("check", ("data", "vector"), inputs, reading(2 * settings.held_out_pairs),
              functools.partial(contrast.check, example)),
        Stage("start", ("data", "vector"), inputs, measuring(settings), functools.partial(checkpoints.start, example)),
    ]  # fmt: skip


def trained(settings: Settings, steps: int) -> float:
    return steps * settings.rows * settings.seq_length / _TRAINED


def strength_stage(example: Example, inputs: Json) -> Stage:
    settings = example.settings
    own = inputs | {"strengths": settings.strengths, "steps": settings.strength_steps}
    seconds = (1 + len(settings.strengths)) * (_BEGIN + trained(settings, settings.strength_steps))
    return Stage("strength", ("data", "vector"), own, seconds, functools.partial(strength.choose, example))


def run_stages(example: Example, run: str) -> list[Stage]:
    settings, stages = example.settings, []
    inputs = data.inputs_of(example)
    needs: tuple[str, ...] = ("data", "vector", "check", "start")
    if run == "steered":
        stages.append(strength_stage(example, inputs))
        needs = (*needs, "strength")
    if run == "screened":
        work = functools.partial(screening.screen, example)
        stages.append(Stage("screening", needs, inputs, reading(settings.phases * settings.phase_samples), work))
        needs = (*needs, "screening")
    seconds = measuring(settings) + trained(settings, settings.phase_steps)
    for phase in range(1, settings.phases + 1):
        work = functools.partial(checkpoints.train_phase, example, run, phase)
        before = checkpoint_name(run, phase - 1)
        stages.append(Stage(checkpoint_name(run, phase), (*needs, before), inputs, seconds, work))
    checkpoints_of_run = tuple(checkpoint_name(run, phase) for phase in range(settings.phases + 1))
    read = (settings.phases + 1) * reading(settings.questions * settings.answers)
    work = functools.partial(contrast.project_answers, example, run)
    return [*stages, Stage(f"{run}-answers", ("vector", *checkpoints_of_run), inputs, read, work)]


def all_stages(example: Example) -> list[Stage]:
    return first_stages(example) + [stage for run in example.settings.runs for stage in run_stages(example, run)]


def tell(line: str) -> None:
    print(line, flush=True)


def main(words: Sequence[str] | None = None) -> None:
    import plots  # raises ExampleError without matplotlib, before the stages run
    import report

    example = make_example(parse_arguments(words))
    found = Workflow(example.folder, all_stages(example), tell).run()
    text = report.report(example, found)
    (example.folder / "results.md").write_text(text, encoding="utf-8")
    plots.plot_all(example, found, report.all_series(example, found))
    tell(f"\n{text}\n{example.folder}: results.md, plots/")


if __name__ == "__main__":
    try:
        main()
    except (ExampleError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("\nstopped; the same command continues")
