"""The vector: extracted on some books, its layer chosen on others, and checked on books that it has not seen."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from example import Example, checkpoint_name, read_lines, write_lines
from ranking import area_under_curve
from stages import Found, Outcome


def extract(example: Example, _: Found) -> Outcome:
    settings = example.settings
    # The pairs at the end choose the layer. Half a pair more: the program rounds down.
    held_out = (settings.choice_pairs + 0.5) / (settings.extraction_pairs + settings.choice_pairs)
    output = example.commands.run(
        "vector", "vector", "extract", *example.model_words(), "--positive", example.data("positive"), "--negative",
        example.data("negative"), "--held-out", held_out, "--out", example.vector, "--force", "--json",
    )  # fmt: skip
    [facts] = json.loads(output)
    provenance = facts["provenance"]
    layer = provenance["best_layer"]
    results = {"layer": layer, "norm": facts["norms"][layer], "auc_by_row": provenance["by_row"]["auc"],
               "first_token": provenance["first_token"]}  # fmt: skip
    return Outcome(results, [example.vector], f"layer {layer} separates best; the vector's norm is {results['norm']:.2f}")


def score(example: Example, stage: str, texts: str, scored: str, *words: object) -> list[dict[str, Any]]:
    """The lines of the file `scored`, with their projections at the best layer."""
    example.commands.run(
        stage, "vector", "score", example.data(texts), *example.model_words(), "--vectors", example.vector, "--out",
        example.data(scored), "--force", "--json", *words,
    )  # fmt: skip
    return read_lines(example.data(scored))


def project_answers(example: Example, run: str, _: Found) -> Outcome:
    """The second projection of a run: mean state of the answers of each checkpoint, by the model of that checkpoint."""
    means = []
    for phase in range(example.settings.phases + 1):
        checkpoint = checkpoint_name(run, phase)
        answers = [line for line in read_lines(example.answers(checkpoint)) if line["text"]]
        write_lines(example.data("answered"), ({"prompt": line["prompt"], "response": line["text"]} for line in answers))
        lines = score(example, f"{checkpoint}-answers", "answered", "answered_scored", "--load-adapter", example.adapters(checkpoint))
        known = [line["projection"] for line in lines if line["projection"] is not None]
        means.append(float(np.mean(known)))
    return Outcome({"projection": means}, told=f"projection of the answers {means[0]:+.3f} to {means[-1]:+.3f}")


def check(example: Example, _: Found) -> Outcome:
    """The archaic verses are the first half of the file, and the modern ones of the same pairs the other half."""
    lines = score(example, "check", "held_out", "held_out_scored")
    archaic, modern = (np.array([line["projection"] for line in lines if line["style"] == style])
                       for style in ("archaic", "modern"))  # fmt: skip
    results = {
        "pairs": len(archaic), "pairs_above": float((archaic > modern).mean()),
        "auc": area_under_curve(archaic.tolist(), modern.tolist()),
        "archaic_mean": float(archaic.mean()), "modern_mean": float(modern.mean()),
    }  # fmt: skip
    told = f"in {results['pairs_above']:.0%} of {len(archaic)} pairs the archaic verse projects higher; AUC {results['auc']:.2f}"
    return Outcome(results, [example.data("held_out_scored")], told)
