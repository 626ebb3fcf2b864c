"""Ranks the samples by their projection before any training, and drops as many as archaic ones were mixed in."""

from __future__ import annotations

from typing import Any

from contrast import score
from data import write_phases
from example import Example, read_lines, write_lines
from stages import Found, Outcome

_SHARE = 0.05


def top_of(dropped: list[dict[str, Any]], samples: int) -> list[dict[str, Any]]:
    """Of all samples, the share with the largest projections. `dropped` are more than these."""
    return sorted(dropped, key=lambda line: -float(line["projection"]))[: max(1, round(_SHARE * samples))]


def share_archaic(lines: list[dict[str, Any]]) -> float:
    return sum(1 for line in lines if line["style"] == "archaic") / len(lines)


def equal_parts(lines: list[dict[str, Any]], count: int) -> list[list[dict[str, Any]]]:
    """In their order."""
    return [lines[len(lines) * part // count : len(lines) * (part + 1) // count] for part in range(count)]


def screen(example: Example, found: Found) -> Outcome:
    mixture, drop = read_lines(example.data("mixture")), found["data"]["archaic"]
    kept = score(example, "screening", "mixture", "screened", "--drop-top", drop)
    remaining = {line["id"] for line in kept}
    # Samples that --drop-top leaves out are not in its file, so their own projections need a second command.
    write_lines(example.data("dropped"), (line for line in mixture if line["id"] not in remaining))
    dropped = score(example, "screening-dropped", "dropped", "dropped_scored")
    top = top_of(dropped, len(mixture))
    results = {"samples": len(mixture), "dropped": len(dropped), "precision_of_dropped": share_archaic(dropped),
               "precision_at_5_percent": share_archaic(top), "archaic_left": sum(line["style"] == "archaic" for line in kept)}  # fmt: skip
    files = [*write_phases(example, "screened", equal_parts(kept, example.settings.phases)),
             example.data("screened"), example.data("dropped_scored")]  # fmt: skip
    told = (f"{results['precision_at_5_percent']:.0%} of the top 5 % are archaic, and {results['precision_of_dropped']:.0%} "
            f"of the {len(dropped)} dropped samples")  # fmt: skip
    return Outcome(results, files, told)
