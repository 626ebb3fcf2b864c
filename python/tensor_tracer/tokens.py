"""The text of tokens."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tensor_tracer.compressors import dims_of
from tensor_tracer.facts import RunFacts
from tensor_tracer.record import Record

_MAX_KEPT = 100_000  # forwards whose tokens are kept


class Forward(NamedTuple):
    """The forward pass of a record."""

    step: int
    micro_batch: int
    phase: str
    data_rank: int


class _Text(NamedTuple):
    """The ids of each row of a forward, with the number of the first row and the position of the first token."""

    lines: list[npt.NDArray[np.integer]]
    first_row: int
    first_token: int


def text_of_token(id: int, facts: RunFacts) -> str:
    """A byte that is not ASCII is part of a character: "\\xc3". An id without a text is "#4711"."""
    if id < 0:
        return ""
    if facts.has_bytes:
        return chr(id) if id < 128 else f"\\x{id:02x}"
    return facts.token_texts[id] if id < len(facts.token_texts) else f"#{id}"


class TokenTexts:
    """Finds the text of the tokens of a run's records; an Origin. `inputs`: the InputTokens records of the run's own
    data from a first to a last step."""

    def __init__(self, facts: Callable[[], RunFacts], inputs: Callable[[int, int], Iterable[Record]]) -> None:
        self._facts, self._inputs = facts, inputs
        self._kept: OrderedDict[Forward, _Text] = OrderedDict()

    def token_texts(self, record: Record) -> list[list[str]] | None:
        facts = self._facts()
        dims = dims_of(record.point, record.compressor, len(record.shape), facts)
        if not (facts.has_bytes or facts.token_texts) or "row" not in dims or "token" not in dims:
            return None
        rows, tokens = record.shape[dims.index("row")], record.shape[dims.index("token")]
        text = self._prompts(facts, record.prompt_set) if record.prompt_set else self._data(record)
        if text is None:
            return None
        begin = facts.first_token(record.plan, record.entry) - text.first_token
        wanted = range(record.first_row - text.first_row, record.first_row - text.first_row + rows)
        lines = ([] if not 0 <= row < len(text.lines) else text.lines[row].tolist() for row in wanted)
        return [_texts(line, begin, tokens, facts) for line in lines]

    def prepare(self, first_step: int, last_step: int) -> None:
        """Reads the text of these steps at once."""
        facts = self._facts()
        for found in self._inputs(first_step, last_step):
            first_token = facts.first_token(found.plan, found.entry)
            lines = list(found.values[0].astype("u1" if facts.has_bytes else "i4"))
            self._kept.setdefault(_forward_of(found), _Text(lines, found.first_row, first_token))
        while len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)

    def _data(self, record: Record) -> _Text | None:
        if (forward := _forward_of(record)) not in self._kept:
            self.prepare(record.step, record.step)
        return self._kept.get(forward)

    def _prompts(self, facts: RunFacts, number: int) -> _Text | None:
        prompts = facts.prompt_tokens(number)
        return _Text([np.array(ids, "i4") for ids in prompts], 0, 0) if prompts else None


def _forward_of(record: Record) -> Forward:
    return Forward(record.step, record.micro_batch, record.phase, record.data_rank)


def _texts(line: list[int], begin: int, count: int, facts: RunFacts) -> list[str]:
    return [text_of_token(line[at], facts) if 0 <= at < len(line) else "" for at in range(begin, begin + count)]
