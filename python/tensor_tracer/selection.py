"""What a loop over records asks for."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, SupportsInt

import numpy as np

from tensor_tracer.compressors import CODE_OF, COMPRESSORS
from tensor_tracer.facts import RunFacts
from tensor_tracer.json_values import list_of
from tensor_tracer.record import DIRECTIONS, PHASES, Record

Ranges = str | SupportsInt | Iterable[SupportsInt]  # "1-4,8", 3 or range(1, 5)
Names = str | Iterable[str]
Sets = str | int | Iterable[str | int]  # of prompts: names or numbers; 0 is the run's own data
Pairs = list[tuple[int, int]]  # first and last of each range

_MAX_NAMED = 6  # entries in an error
_MAX_ENTRIES = 256  # of a subscription


def pairs_of(value: Ranges | None, what: str) -> Pairs | None:
    """None is all."""
    if value is None:
        return None
    if not isinstance(value, str):
        # An array is SupportsInt, but holds many numbers. NumPy takes no set.
        numbers = np.ravel(np.asarray(value if isinstance(value, SupportsInt) else list(value)))
        value = ",".join(str(int(n)) for n in numbers)
    pairs: Pairs = []
    for part in value.split(",") if value else ():
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError(f'{what}: {part!r} is no range; write "1-4,8"')
        if pairs and first == pairs[-1][1] + 1:
            first = pairs.pop()[0]
        pairs.append((first, last))
    return pairs


def _is_in(number: int, pairs: Pairs | None) -> bool:
    return pairs is None or any(first <= number <= last for first, last in pairs)


class Kind(NamedTuple):
    """Records that may be compared: of one plan entry, but for the step, the layer and the phase."""

    point: str
    entry: int
    compressor: str
    direction: str
    prompt_set: str
    meaning: str

    def __str__(self) -> str:
        gradient = ["gradient"] if self.direction == "gradient" else []
        prompts = [f"prompts {self.prompt_set}"] if self.prompt_set else []
        return f"entry {self.entry} ({', '.join([self.compressor, *gradient, *prompts])})"


def refuse_several(kinds: Iterable[Kind]) -> None:
    """ValueError where a point has records of several entries: their numbers do not mean the same."""
    found: dict[str, dict[Kind, Kind]] = {}
    for kind in kinds:  # the number of an entry changes with the plan
        found.setdefault(kind.point, {}).setdefault(kind._replace(entry=0), kind)
    for point, several in found.items():
        if len(several) > 1:
            shown = ", ".join(map(str, list(several.values())[:_MAX_NAMED]))
            more = f" and {len(several) - _MAX_NAMED} more" if len(several) > _MAX_NAMED else ""
            remedy = 'choose with compressor=, prompt_set=, direction= or entry=; entry="all" mixes them'
            raise ValueError(f"{point}: several entries of the trace plan match: {shown}{more}; {remedy}")


@dataclasses.dataclass(frozen=True)
class Selection:
    """What a loop asked for; None is all."""

    points: list[str] | None = None
    layers: Pairs | None = None
    entries: Pairs | None = None
    compressors: list[str] | None = None
    prompt_sets: list[int] | None = None
    phases: list[str] | None = None
    directions: list[str] | None = None
    may_mix: bool = False  # it does not matter that several entries match

    def takes(self, record: Record) -> bool:
        return (
            (self.points is None or record.point in self.points)
            and _is_in(record.entry, self.entries)
            and _is_in(record.layer, self.layers)
            and (self.compressors is None or record.compressor in self.compressors)
            and (self.prompt_sets is None or record.prompt_set in self.prompt_sets)
            and (self.phases is None or record.phase in self.phases)
            and (self.directions is None or record.direction in self.directions)
        )

    def kinds(self, facts: RunFacts, plan: int) -> list[Kind]:
        """The entries of a plan that may send what is asked for."""
        found = []
        for number in range(len(facts.entries(plan))):
            entry, kind = facts.entry(plan, number), _kind_of_entry(facts, plan, number)
            prompts = facts.prompt_set_number(kind.prompt_set)
            phases = list_of(entry, "phases") or ["train"]
            if (
                kind.point in (self.points or ())
                and entry.get("enabled", True)
                and (self.compressors is None or kind.compressor in self.compressors)
                and (self.prompt_sets is None or prompts in self.prompt_sets)
                and (self.directions is None or kind.direction in self.directions)
                and (self.phases is None or prompts or any(phase in self.phases for phase in phases))
            ):
                found.append(kind)
        return found

    def members(self, rate: float | None) -> dict[str, Any]:
        """Of a subscription."""
        layers = None if self.layers is None else ",".join(f"{a}-{b}" for a, b in self.layers)
        entries = None if self.entries is None else [n for a, b in self.entries for n in range(a, min(b + 1, _MAX_ENTRIES))]
        members = {"entries": entries, "points": self.points, "layers": layers, "rate": rate}
        return {name: value for name, value in members.items() if value is not None}

    def __str__(self) -> str:
        def ranges(pairs: Pairs | None) -> list[str] | None:
            return None if pairs is None else [str(a) if a == b else f"{a}-{b}" for a, b in pairs]

        parts: list[tuple[str, Iterable[object] | None]] = [
            ("", self.points), ("layers ", ranges(self.layers)), ("entries ", ranges(self.entries)),
            ("", self.compressors), ("prompt sets ", self.prompt_sets), ("", self.phases), ("", self.directions),
        ]  # fmt: skip
        told = [name + ",".join(map(str, values)) for name, values in parts if values is not None]
        return ", ".join(told) or "all points"


def _kind_of_entry(facts: RunFacts, plan: int, number: int) -> Kind:
    entry = facts.entry(plan, number)
    point = str(entry.get("point", ""))
    given = entry.get("compressor")
    name = given.get("kind") if isinstance(given, dict) else None
    compressor = str(name or facts.default_compressor(point))
    direction, prompts = str(entry.get("direction", "value")), str(entry.get("prompts", ""))
    return Kind(point, number, CODE_OF.get(compressor, compressor), direction, prompts, facts.meaning(plan, number))


class Followed:
    """Lets through the records of one entry for each point that a live loop named, also after the plan has changed.
    A plan with several entries that match raises ValueError, unless one of them is the entry of the plan before."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._chosen: dict[str, str] = {}  # the meaning of a point's entry
        self._left_out: dict[int, set[int]] = {}  # entries of a plan

    def begin(self, facts: RunFacts, plan: int) -> None:
        if plan not in self._left_out:
            self._left_out[plan] = set() if self._selection.may_mix else self._others(facts, plan)

    def takes(self, record: Record, facts: RunFacts) -> bool:
        if not self._selection.takes(record):
            return False
        if record.plan in facts.plans:
            self.begin(facts, record.plan)
        return record.entry not in self._left_out.get(record.plan, ())

    def _others(self, facts: RunFacts, plan: int) -> set[int]:
        kinds = self._selection.kinds(facts, plan)
        goes_on = {kind.point for kind in kinds if self._chosen.get(kind.point) == kind.meaning}
        kept = [k for k in kinds if k.point not in goes_on or self._chosen[k.point] == k.meaning]
        refuse_several(kept)
        self._chosen.update({kind.point: kind.meaning for kind in kept})
        return {kind.entry for kind in kinds} - {kind.entry for kind in kept}


def _known(values: Names | None, known: Iterable[str], what: str) -> list[str] | None:
    names = None if values is None else [values] if isinstance(values, str) else list(values)
    there = list(known)
    for name in (name for name in names or () if name not in there):
        near = difflib.get_close_matches(name, there, 1) or there
        raise ValueError(f"{what}: there is no {name!r}; there is {', '.join(near) or 'none'}")
    return names


def _prompt_sets(values: Sets | None, facts: RunFacts) -> list[int] | None:
    if values is None:
        return None
    given = [values] if isinstance(values, str | int) else list(values)
    names = [one for one in given if isinstance(one, str)]
    _known(names, facts.prompt_sets(), "prompt_set")
    return [facts.prompt_set_number(one) if isinstance(one, str) else int(one) for one in given]


def select(
    facts: RunFacts, point: Names | None = None, layers: Ranges | None = None, entry: Ranges | None = None,
    compressor: Names | None = None, prompt_set: Sets | None = None, phase: Names | None = None,
    direction: Names | None = None, points: Mapping[int, str] | None = None,
) -> Selection:  # fmt: skip
    """ValueError where something is asked for that there is not. `points`: those of a recording."""
    compressors = _known(compressor, [*COMPRESSORS.values(), *CODE_OF], "compressor")
    is_every_entry = isinstance(entry, str) and entry == "all"
    return Selection(
        _known(point, facts.points if points is None else points.values(), "point"),
        pairs_of(layers, "layers"),
        None if is_every_entry else pairs_of(entry, "entry"),
        None if compressors is None else [CODE_OF.get(name, name) for name in compressors],
        _prompt_sets(prompt_set, facts),
        _known(phase, PHASES.values(), "phase"),
        _known(direction, DIRECTIONS.values(), "direction"),
        may_mix=point is None or entry is not None,
    )
