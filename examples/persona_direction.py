"""Makes a direction of a live run from two sets of prompts, and follows the projection on it.

    tensor-tracer train … --tensor-tracer-vectors vectors --monitor-prompts evil.txt kind.txt
    python examples/persona_direction.py runs/5f0c1d2e3a4b5c6d evil kind --name evil --step 200

After step 200 of the run, the program reads the hidden states of all prompts in the first evaluation that arrives
completely. The mean over the first set minus the mean over the second set is a vector for each layer,
[layers + 1, hidden] with the embedding as row 0. The program saves it in the run's folder of vectors and adds a
projection on it to the plan. If records are dropped on the way, it reports this and restores the plan.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tensor_tracer import Array, Control, Record, Run, TensorTracerError, connect

FACTS_SECONDS = 120.0  # for a trainer to come
TELL_SECONDS = 5.0  # from the answer to plan.set to the news of that plan
MEASURED = ("Embedding", "HiddenStates")
VECTOR_SUFFIXES = (".npy", ".pt", ".safetensors")  # that the run reads


class PromptSet(NamedTuple):
    number: int  # in records, from 1
    name: str
    lengths: list[int]  # tokens of each prompt; shorter ones are filled up


Parts = dict[tuple[int, int], dict[int, Record]]  # of one step: by set and layer, then by first row


def refusal(message: str, remedy: str = "") -> TensorTracerError:
    return TensorTracerError("invalid_argument", message, remedy=remedy)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run_dir", help="the run's directory, as the trainer printed it")
    parser.add_argument("towards", help="prompt set that the direction points to")
    parser.add_argument("away", help="prompt set that the direction points away from")
    parser.add_argument("--name", required=True, help="name of the vector")
    parser.add_argument("--step", type=int, default=200, help="first step for the reading (200)")
    parser.add_argument("--tokens", choices=["last", "mean"], default="last", help="tokens of each prompt (last)")
    parser.add_argument("--vectors", help="the run's folder of vectors; default: that of its command line")
    parser.add_argument("--replace", action="store_true", help="replace a vector with this name")
    parser.add_argument("--take-over", action="store_true", help="take control from another client")
    return parser.parse_args()


def facts_of(run: Run) -> dict[str, Any]:
    """Once a trainer has come."""
    end = time.monotonic() + FACTS_SECONDS
    while run.facts is None:
        if time.monotonic() > end:
            raise refusal("no trainer has connected to the hub", "start the run")
        time.sleep(0.05)
    return run.facts


def prompt_set(facts: dict[str, Any], name: str) -> PromptSet:
    sets = facts.get("prompt_sets", [])
    names = [each["name"] for each in sets]
    if name not in names:
        known = f"it has {', '.join(names)}" if names else "start it with --monitor-prompts and two files"
        raise refusal(f'the run has no prompt set "{name}"', known)
    if facts.get("tokenizer", {}).get("kind", "byte") != "byte":
        raise refusal("only prompts of the byte tokenizer have lengths that are known here")
    number = names.index(name)
    return PromptSet(number + 1, name, [len(text.encode()) for text in sets[number]["prompts"]])


def vector_file(facts: dict[str, Any], options: argparse.Namespace) -> Path:
    """Where the run will find the vector."""
    given = options.vectors or facts.get("configuration", {}).get("tensor-tracer-vectors")
    if not given:
        raise refusal("the run has no folder of vectors", "start it with --tensor-tracer-vectors and a folder")
    folder = Path(given)
    if not folder.is_dir():
        raise refusal(f'"{folder}" is not a folder here', "give the run's one with --vectors")
    if not re.fullmatch(r"\w[\w.-]{0,99}", options.name):
        raise refusal(f'--name: "{options.name}" is no name for a file', "use letters, digits, _ and -")
    file = folder / f"{options.name}.npy"
    vectors = (path for path in folder.iterdir() if path.suffix in VECTOR_SUFFIXES)
    taken = [path for path in vectors if path.stem == options.name]
    if taken and not (options.replace and taken == [file]):
        raise refusal(f'"{taken[0]}" exists', "choose another --name, or --replace the file")
    return file


def wait_for_step(run: Run, wanted: int) -> None:
    run.records([])  # else all that is traced until then waits here
    last = 0
    for step in run.steps():
        last = step["step"]
        if last >= wanted:
            return
    raise refusal(f"the run ended after step {last}, before step {wanted}", "give an earlier --step")


def measuring(sets: list[PromptSet]) -> list[dict[str, Any]]:
    """Plan entries that send all hidden states of the prompts as they are."""
    return [
        {"point": point, "prompts": each.name, "rows": 0, "compressor": {"kind": "none"}, "dtype": "f32"}
        for each in sets
        for point in MEASURED
    ]


class Watch:
    """Over what keeps the records of the entries from `first` on from coming."""

    def __init__(self, run: Run, first: int) -> None:
        self._run, self._first = run, first
        self._dropped = self._count()

    def begin(self, plan: int) -> None:
        self._plan, self._told = plan, time.monotonic() + TELL_SECONDS

    def _count(self) -> int:
        """The trainer does not say of which entries it dropped some."""
        entries = dict(self._run.dropped_entries).items()
        return self._run.dropped["trainer"] + sum(n for entry, n in entries if entry >= self._first)

    def check(self) -> None:
        if lost := self._count() - self._dropped:
            remedy = "start it on the run's machine, or take fewer or shorter prompts"
            raise refusal(f"{lost} records of the prompts were dropped on their way", remedy)
        number = (facts_of(self._run).get("plan") or {}).get("number", 0)
        if number > self._plan or (number < self._plan and time.monotonic() > self._told):
            remedy = "try again, with fewer prompts if the run's log says that an entry took too long"
            raise refusal("the plan was changed before the prompts were evaluated", remedy)


def rows_of(parts: Parts) -> dict[tuple[int, int], int]:
    return {key: sum(part.shape[0] for part in found.values()) for key, found in parts.items()}


def evaluation(
    run: Run, control: Control, before: list[dict[str, Any]], sets: list[PromptSet], layers: int
) -> tuple[int, list[Array]]:
    """The first step of which everything came, and of each set [layers + 1, prompts, tokens, hidden].
    Raises as soon as that cannot come. The plan has these entries behind those before."""
    wanted = {(each.number, layer): len(each.lengths) for each in sets for layer in range(layers + 1)}
    watch = Watch(run, len(before))
    run.records(MEASURED, entry="all")
    number = (control.set_plan(before + measuring(sets)).plan or {})["number"]
    watch.begin(number)
    seen: dict[int, Parts] = defaultdict(lambda: defaultdict(dict))
    while True:
        for record in run.records(MEASURED, entry="all", timeout=1):
            if record.plan != number or record.entry < len(before):
                watch.check()
                continue
            parts = seen[record.step]
            parts[record.prompt_set, record.layer][record.first_row] = record
            if rows_of(parts) == wanted:
                return record.step, [states(parts, each.number, layers) for each in sets]
        watch.check()
        if run.state.phase in ("finished", "stopped", "lost"):
            raise refusal("the run ended before the prompts were evaluated", "see its --monitor-interval")
        run.request("ping")  # raises where the hub has gone


def states(parts: Parts, number: int, layers: int) -> Array:
    def of(layer: int) -> Array:
        return np.concatenate([record.values for _, record in sorted(parts[number, layer].items())])

    return np.stack([of(layer) for layer in range(layers + 1)]).astype(np.float64)


def mean_of(hidden: Array, lengths: list[int], tokens: str) -> Array:
    """[layers + 1, hidden]: every prompt counts the same."""
    prompts = [
        hidden[:, row, length - 1] if tokens == "last" else hidden[:, row, :length].mean(axis=1)
        for row, length in enumerate(lengths)
    ]
    return np.mean(prompts, axis=0)


def save(file: Path, direction: Array) -> None:
    """Whole or not at all: the run may read it at any time."""
    partial = file.with_suffix(".partial")
    try:
        with open(partial, "wb") as out:
            np.save(out, direction)
        os.replace(partial, file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def direction_of(hidden: list[Array], sets: list[PromptSet], tokens: str) -> Array:
    means = [mean_of(each, one.lengths, tokens) for each, one in zip(hidden, sets, strict=True)]
    return (means[0] - means[1]).astype(np.float32)


def plan_entries(run: Run) -> list[dict[str, Any]]:
    return list((facts_of(run).get("plan") or {}).get("entries", []))


def with_projection(entries: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    def follows(entry: dict[str, Any]) -> bool:
        return name in entry.get("compressor", {}).get("vectors", []) and "prompts" not in entry

    compressor = {"kind": "projection", "vectors": [name]}
    added = [] if any(map(follows, entries)) else [{"point": "HiddenStates", "compressor": compressor}]
    return entries + added


def make_and_follow(
    run: Run, control: Control, file: Path, sets: list[PromptSet], options: argparse.Namespace
) -> None:
    before = plan_entries(run)
    layers = facts_of(run)["model"]["num_layers"]
    try:
        step, hidden = evaluation(run, control, before, sets, layers)
        print(f"read {sets[0].name} and {sets[1].name} at step {step}", flush=True)
        direction = direction_of(hidden, sets, options.tokens)
        save(file, direction)
        print(f"wrote {file}, {list(direction.shape)}", flush=True)
        boundary = control.set_plan(with_projection(before, options.name))
    except BaseException:
        with contextlib.suppress(TensorTracerError):  # the run is gone, or another has the control
            control.set_plan(before)
        raise
    print(f"projection in force from step {boundary.step} on {boundary.ranks} ranks", flush=True)


def main() -> None:
    options = parse_arguments()
    # Without a window: the hub waits for nothing that has arrived here, and so drops less.
    with connect(run_dir=options.run_dir, window=None) as run:
        facts = facts_of(run)
        if options.towards == options.away:
            raise refusal("the two prompt sets are the same")
        sets = [prompt_set(facts, name) for name in (options.towards, options.away)]
        file = vector_file(facts, options)
        with run.control("persona_direction.py", options.take_over) as control:
            wait_for_step(run, options.step)
            make_and_follow(run, control, file, sets, options)


if __name__ == "__main__":
    try:
        main()
    except (TensorTracerError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
