"""What a run's facts say about its records: docs/protocol.md, "The run's facts"."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tensor_tracer.json_values import list_of, member, natural, text_of

_USUAL_DIMS = ["batch", "sequence", "features"]
# Members of a plan entry that do not change what its records mean.
_WHEN = {"enabled", "every", "layers"}


class RunFacts:
    """The names of the numbers in a run's records. The facts may be anything: a number without a name keeps
    its number. `plans`: the trace plans that were in force, by their number."""

    def __init__(self, facts: Any, plans: Iterable[Any] = ()) -> None:
        self.points: dict[str, int] = {}
        self._dims: dict[str, list[str]] = {}
        self._compressors: dict[str, str] = {}  # of an entry that names none
        self._tables: dict[str, tuple[list[str], list[str]]] = {}  # rows and columns of a point that is a table
        self._layouts: dict[str, str] = {}
        for point in list_of(facts, "points"):
            flag, name = natural(member(point, "flag")), text_of(point, "name")
            if flag is not None and flag <= 0xFFFF and name:
                self.points[name] = flag
                self._dims[name] = _texts(point, "dims")
                self._compressors[name] = text_of(point, "compressor") or _of_an_older_run(point)
                self._tables[name] = _texts(point, "parameters"), _texts(point, "columns")
                self._layouts[name] = text_of(member(point, "placement"), "tensor")
        self._names = {flag: name for name, flag in self.points.items()}
        self._sets = list_of(facts, "prompt_sets")
        tokenizer = member(facts, "tokenizer")
        self.has_bytes = tokenizer is None or member(tokenizer, "kind") == "byte"
        self.token_texts = _texts(tokenizer, "texts")  # by id; empty with bytes, and if the run does not tell them
        self.plans: dict[int, Any] = {}
        for plan in (member(facts, "plan"), *plans):
            self.add_plan(plan)

    def add_plan(self, plan: Any) -> None:
        """A later plan of the same number replaces the earlier one."""
        if (number := natural(member(plan, "number"))) is not None:
            self.plans[number] = plan

    def point(self, flag: int) -> str:
        return self._names.get(flag, f"point_{flag}")

    def dims(self, point: str, count: int) -> list[str]:
        """The names of the point's dims; empty if they are not known, or are not `count`."""
        dims = self._dims.get(point) or (_USUAL_DIMS if count == 3 else [])
        return dims if len(dims) == count else []

    def default_compressor(self, point: str) -> str:
        """The compressor of a plan's entry that names no compressor."""
        return self._compressors.get(point, "tile")

    def layout(self, point: str) -> str:
        """How the tensor-parallel ranks share the point's values, such as "shard(2)"; "" if it is not known."""
        return self._layouts.get(point, "")

    def is_rank_local(self, point: str) -> bool:
        """True if the records have the values of tensor rank 0 only, because nothing knows the layout."""
        return self.layout(point) == "rank-local"

    def parameters_of(self, point: str) -> list[str]:
        """The names of the rows of a point such as Updates; empty: it has none."""
        return self._tables.get(point, ([], []))[0]

    def columns_of(self, point: str) -> list[str]:
        """The names of its columns."""
        return self._tables.get(point, ([], []))[1]

    def prompt_set(self, number: int) -> str:
        """"" for 0, the run's own data."""
        name = text_of(self._sets[number - 1], "name") if 0 < number <= len(self._sets) else ""
        return name or (str(number) if number else "")

    def prompt_sets(self) -> list[str]:
        return [self.prompt_set(number) for number in range(1, len(self._sets) + 1)]

    def prompt_set_number(self, name: str) -> int:
        """0 for "", and for a name that no set has. A set that was removed comes after one of the same name."""
        numbers = [number for number, one in enumerate(self.prompt_sets(), 1) if one == name]
        return min(numbers, key=lambda number: (member(self._sets[number - 1], "removed") is True, -number), default=0)

    def prompts(self, number: int) -> list[str]:
        """The texts of a set; empty: not known."""
        texts = list_of(self._sets[number - 1], "prompts") if 0 < number <= len(self._sets) else []
        return [text for text in texts if isinstance(text, str)]

    def prompt_tokens(self, number: int) -> list[list[int]]:
        """The ids of the tokens of each of its prompts, which records fill up to the longest; empty: not known."""
        rows = list_of(self._sets[number - 1], "tokens") if 0 < number <= len(self._sets) else []
        if rows or not self.has_bytes:
            return [[-1 if (id := natural(one)) is None else id for one in row] for row in rows if isinstance(row, list)]
        # Older runs do not tell the tokens.
        return [list(prompt.encode(errors="replace")) for prompt in self.prompts(number)]

    def prompt_lengths(self, number: int) -> list[int]:
        return [len(ids) for ids in self.prompt_tokens(number)]

    def entries(self, plan: int) -> list[Any]:
        return list_of(self.plans.get(plan), "entries")

    def entry(self, plan: int, entry: int) -> Mapping[str, Any]:
        """The entry of a trace plan; empty if it is not known."""
        entries = self.entries(plan)
        found = entries[entry] if entry < len(entries) else None
        return found if isinstance(found, dict) else {}

    def first_token(self, plan: int, entry: int) -> int:
        """The position of an entry's first token."""
        tokens = list_of(self.entry(plan, entry), "tokens")
        return (natural(tokens[0]) or 0) if tokens else 0

    def vectors(self, plan: int, entry: int) -> list[str]:
        """The names of the vectors of a projection, as far as they are known."""
        return [str(one) for one in list_of(member(self.entry(plan, entry), "compressor"), "vectors")]

    def mean_over(self, plan: int, entry: int) -> str:
        """The part of a prompt over which an entry takes the mean; "" for no mean."""
        return text_of(self.entry(plan, entry), "mean_over")

    def meaning(self, plan: int, entry: int) -> str:
        """Equal for entries of two plans whose records mean the same; of an unknown plan only the number counts."""
        known = self.entry(plan, entry)
        kept = {name: value for name, value in known.items() if name not in _WHEN}
        return json.dumps(kept, sort_keys=True) if known else f"entry {entry}"


def _of_an_older_run(point: Any) -> str:
    """The facts of older runs name no default compressor: tiles, the largest scores, or the numbers as they are."""
    if natural(member(point, "features")) == 0 or _texts(point, "parameters"):
        return "none"
    is_scores = text_of(point, "path") == "logits" or text_of(point, "formula").startswith("output_layer(")
    return "topk" if is_scores else "tile"


def _texts(facts: Any, name: str) -> list[str]:
    return [text if isinstance(text, str) else "" for text in list_of(facts, name)]
