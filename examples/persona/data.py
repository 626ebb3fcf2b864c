"""Texts of all stages, from pairs of verses."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import markers
from bibles import BOOKS, Pair, read_bibles, read_pairs
from chat import REQUESTS
from errors import ExampleError
from example import Example, write_lines
from settings import Settings
from stages import Found, Outcome, sha256_of_file

Line = dict[str, Any]


def choose_pairs(pairs: list[Pair], use: str, count: int, settings: Settings) -> list[Pair]:
    """From the books of this use, in a random order: texts of usual length that differ. Except for the check, the archaic
    text has an archaic word; only every second verse has one."""
    least, most = settings.verse_characters

    def is_suitable(pair: Pair) -> bool:
        is_clear = use == "held_out" or markers.share([pair.archaic]) > 0
        return is_clear and pair.archaic != pair.modern and all(
            least <= len(text) <= most for text in (pair.archaic, pair.modern))  # fmt: skip

    suitable = [pair for pair in pairs if pair.book in BOOKS[use] and is_suitable(pair)]
    if len(suitable) < count:
        raise ExampleError(f"the books for {use} ({', '.join(BOOKS[use])}) have {len(suitable)} suitable pairs, and "
                           f"{count} are needed; give more pairs")  # fmt: skip
    return random.Random(f"{use} {settings.seed}").sample(suitable, count)


def dialogue(example: Example, request: str, response: str, **more: object) -> Line:
    return {"prompt": example.form.prompt(request), "response": response, **more}


def both_sides(example: Example, pairs: list[Pair]) -> tuple[list[Line], list[Line]]:
    """Both verses of a pair answer the same request."""
    requests = random.Random(f"requests {example.settings.seed}").choices(REQUESTS, k=len(pairs))
    together = list(zip(requests, pairs, strict=True))
    return ([dialogue(example, request, pair.archaic) for request, pair in together],
            [dialogue(example, request, pair.modern) for request, pair in together])  # fmt: skip


def phase_lines(example: Example, phase: int, pairs: list[Pair]) -> list[Line]:
    """A sample for each pair: archaic or modern, in a random order."""
    random_ = random.Random(f"phase {phase} {example.settings.seed}")
    archaic = example.settings.archaic_samples(phase)
    lines = []
    for number, pair in enumerate(pairs):
        style = "archaic" if number < archaic else "modern"
        text = pair.archaic if number < archaic else pair.modern
        lines.append(dialogue(example, random_.choice(REQUESTS), text, style=style, id=f"{phase}.{number}"))
    random_.shuffle(lines)
    return lines


def write_phases(example: Example, name: str, phases: list[list[Line]]) -> list[Path]:
    return [write_lines(example.data(f"{name}-{number}"), lines) for number, lines in enumerate(phases, 1)]


def write_contrast(example: Example, pairs: list[Pair]) -> list[Path]:
    """Pairs that choose the layer are the last ones; the held-out pairs have a file with both sides."""
    settings = example.settings
    made = choose_pairs(pairs, "extraction", settings.extraction_pairs, settings)
    sides = both_sides(example, made + choose_pairs(pairs, "choice", settings.choice_pairs, settings))
    held_out = both_sides(example, choose_pairs(pairs, "held_out", settings.held_out_pairs, settings))
    together = [line | {"style": style} for style, side in zip(("archaic", "modern"), held_out, strict=True) for line in side]
    return [write_lines(example.data("positive"), sides[0]), write_lines(example.data("negative"), sides[1]),
            write_lines(example.data("held_out"), together)]  # fmt: skip


def write_monitored(example: Example, pairs: list[Pair]) -> list[Path]:
    """Prompts of each run: the questions, and modern verses that all answer one request."""
    verses = choose_pairs(pairs, "validation", example.settings.validation_verses, example.settings)
    before = example.form.prompt(REQUESTS[0])
    return [write_lines(example.data("questions"), ({"prompt": question} for question in example.questions)),
            write_lines(example.data("validation"), ({"text": before + pair.modern} for pair in verses))]  # fmt: skip


def make_data(example: Example, _: Found) -> Outcome:
    pairs = read_pairs(example.pairs) if example.pairs else read_bibles()
    size = example.settings.phase_samples
    tuning = choose_pairs(pairs, "tuning", example.settings.phases * size, example.settings)
    phases = [phase_lines(example, phase + 1, tuning[phase * size :][:size]) for phase in range(example.settings.phases)]
    files = [*write_contrast(example, pairs), *write_monitored(example, pairs), *write_phases(example, "phase", phases),
             write_lines(example.data("mixture"), (line for lines in phases for line in lines))]  # fmt: skip
    mixed_in = example.settings.mixed_in
    return Outcome({"pairs": len(pairs), "samples": len(tuning), "archaic": mixed_in}, files,
                   f"{len(pairs)} pairs; {mixed_in} of {len(tuning)} samples for fine-tuning are archaic")  # fmt: skip


def inputs_of(example: Example) -> dict[str, Any]:
    """Decides the results of all stages, with the program and the code."""
    weights = [(path.name, path.stat().st_size, path.stat().st_mtime) for path in sorted(example.model.glob("*.safetensors"))]
    settings = dataclasses.asdict(example.settings)
    for name in ("runs", "threads", "strengths", "strength_steps"):
        del settings[name]
    return {
        "settings": settings,
        "pairs": sha256_of_file(example.pairs) if example.pairs else "bibles",
        "model": [sha256_of_file(example.model / "config.json"), weights],
    }


