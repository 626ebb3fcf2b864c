"""The table of results, and the goals of the example beside what came out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from example import Example, checkpoint_name
from ranking import spearman
from stages import Found

Series = dict[str, list[float]]  # of a run: a number for each checkpoint, from the start on
NUMBERS = ("projection", "behaviour", "validation_loss")


def series_of(found: Found, run: str, phases: int) -> Series:
    checkpoints = [found[checkpoint_name(run, phase)] for phase in range(phases + 1)]
    numbers = {number: [checkpoint[number] for checkpoint in checkpoints] for number in NUMBERS}
    return numbers | {"answers": found[f"{run}-answers"]["projection"]}


def all_series(example: Example, found: Found) -> dict[str, Series]:
    return {run: series_of(found, run, example.settings.phases) for run in example.settings.runs}


def table(series: Mapping[str, Series]) -> list[str]:
    """From the start to the last checkpoint of each run."""
    lines = ["| Run | Projection of questions | of answers | Archaic words | Validation loss | Correlation with questions | "
             "with answers |", "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for run, numbers in series.items():
        cells = [f"{numbers[name][0]:+.3f} to {numbers[name][-1]:+.3f}" for name in ("projection", "answers")]
        cells += [f"{numbers['behaviour'][0]:.1%} to {numbers['behaviour'][-1]:.1%}", f"{numbers['validation_loss'][-1]:.3f}"]
        cells += [correlation_of(numbers, name)[1] for name in ("projection", "answers")]
        lines.append(f"| {run} | {' | '.join(cells)} |")
    return lines


def correlation_of(numbers: Series, projection: str) -> tuple[float, str]:
    """Spearman's, with the archaic words, and its text. Without one, 0."""
    found = spearman(numbers[projection], numbers["behaviour"])
    return (0.0, "none") if found is None else (found, f"{found:.2f}")


def goal(text: str, found: str, is_reached: bool) -> str:
    return f"| {text} | {found} | {'yes' if is_reached else 'no'} |"


def prevention_goals(series: Mapping[str, Series]) -> list[str]:
    drift, lines = series["drift"], []
    for run in [run for run in series if run != "drift"]:
        behaviour, loss = (series[run][number][-1] for number in ("behaviour", "validation_loss"))
        most, allowed = 0.5 * drift["behaviour"][-1], 1.02 * drift["validation_loss"][-1]
        lines.append(goal(f"{run}: at most half the archaic words of drift ({most:.1%})", f"{behaviour:.1%}", behaviour <= most))
        lines.append(goal(f"{run}: validation loss at most 2 % above that of drift ({allowed:.3f})", f"{loss:.3f}", loss <= allowed))
    return lines


def goals(found: Found, series: Mapping[str, Series]) -> list[str]:
    check = found["check"]
    lines = ["| Goal | Found | Reached |", "| --- | --- | --- |",
             goal("the archaic verse projects higher in at least 90 % of the held-out pairs", f"{check['pairs_above']:.1%}",
                  check["pairs_above"] >= 0.9)]  # fmt: skip
    for name, what in (("projection", "questions"), ("answers", "answers")):
        correlation, text = correlation_of(series["drift"], name)
        lines.append(goal(f"drift: Spearman correlation of archaic words with the projection of {what} at least 0.8", text,
                          correlation >= 0.8))  # fmt: skip
    lines += prevention_goals(series)
    if "screening" in found:
        precision = found["screening"]["precision_at_5_percent"]
        lines.append(goal("screening: at least 90 % of the top 5 % are archaic", f"{precision:.1%}", precision >= 0.9))
    return lines


def facts(example: Example, found: Found) -> list[str]:
    check, vector = found["check"], found["vector"]
    lines = [
        f"* Layer {vector['layer']} separates the pairs that choose it best; the norm of the vector is {vector['norm']:.2f}.",
        f"* {check['pairs']} held-out pairs: AUC {check['auc']:.3f}, mean projection {check['archaic_mean']:+.3f} (archaic) and "
        f"{check['modern_mean']:+.3f} (modern).",
        f"* {found['data']['archaic']} of {found['data']['samples']} samples are archaic; by phase: "
        f"{', '.join(f'{share:.0%}' for share in example.settings.shares)}.",
    ]  # fmt: skip
    if "strength" in found:
        losses = ", ".join(f"{loss:.3f} at {strength:g}" for strength, loss in found["strength"]["losses"])
        lines.append(f"* Steering adds {found['strength']['strength']:g} times the vector; loss of modern texts with it: {losses}.")
    if "screening" in found:
        screening = found["screening"]
        lines.append(f"* Screening dropped {screening['dropped']} samples; {screening['precision_of_dropped']:.1%} of them are "
                     f"archaic, and {screening['archaic_left']} archaic ones are left.")  # fmt: skip
    return lines


def alarms(example: Example, found: Found, run: str) -> str:
    for phase in range(1, example.settings.phases + 1):
        step = found[checkpoint_name(run, phase)]["alarm_step"]
        if step is not None:
            return f"* {run}: the alarm fired first in phase {phase}, at step {step}."
    return f"* {run}: the alarm did not fire."


def examples(example: Example, found: Found) -> list[str]:
    lines = []
    for name in ["start", *(checkpoint_name(run, example.settings.phases) for run in example.settings.runs)]:
        answers: list[Any] = found[name]["answers"]
        lines += [f"* {name}: {' '.join(str(answer).split())}" for answer in answers[:1]]
    return lines


def report(example: Example, found: Found) -> str:
    series = all_series(example, found)
    parts = [
        ["# Results", "", f"Size: {example.settings.name}. Every number is from a file of `stages/`."],
        facts(example, found), table(series), goals(found, series),
        [alarms(example, found, run) for run in series],
        ["Answers to the first question, at the last checkpoint of each run:"], examples(example, found),
    ]  # fmt: skip
    return "\n\n".join("\n".join(part) for part in parts) + "\n"
