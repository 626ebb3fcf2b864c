"""Direction vectors from the model of an attached run: docs/vectors.md, "Extract in Python"."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tensor_tracer.attaching.run import AttachedRun
from tensor_tracer.attaching.states import KINDS, StateReader, Text
from tensor_tracer.errors import missing_package, wrong
from tensor_tracer.version import __version__

__all__ = ["DirectionVector", "extract"]

_kFormats = (".pt", ".safetensors")
_kLeastHeldOut = 4  # with fewer texts of a side to hold out, no text of either side is held out
_kRows = "0: embedding; n: output of layer n; last: output of the final norm"

Tokens: TypeAlias = str | Sequence[int] | Tensor  # a text, or token ids
Contrast: TypeAlias = Tokens | tuple[Tokens, Tokens]  # a response, or a prompt and a response
Sides: TypeAlias = tuple[list[Text], list[Text]]  # the positive texts and the negative ones

# Shapes: N held-out texts of both sides, K kinds, R rows, H hidden.


@dataclass(frozen=True)
class DirectionVector:
    """`rows`: float32 [layers + 1, hidden] on the CPU, not normalised: row 0 is of the embedding, row n of the output of
    layer n, and the last one of the output of the final norm. `provenance`: docs/vectors.md, "Provenance"."""

    rows: Tensor
    provenance: dict[str, Any]

    def save(self, path: str | Path, force: bool = False) -> None:
        """Writes the vector; call it on one rank. `path` ends with .pt or .safetensors. `force`: replaces a file. Raises
        TensorTracerError and OSError."""
        file = Path(path)
        _check_file(file, force, "path")
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(file.name + ".part")
        if file.suffix == ".pt":
            torch.save(self.rows, part)
        else:
            provenance = json.dumps({file.stem: self.provenance})
            metadata = {"format": "pt", "tensor_tracer.vectors": provenance}
            _safetensors_writer()({file.stem: self.rows}, part, metadata)
        part.replace(file)


@dataclass(frozen=True)
class _Options:
    kinds: tuple[str, ...]
    includes_first: bool
    held_out: float
    batch_size: int
    seed: int

    def check(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise wrong(f"{list(self.kinds)} are no kinds", f"give some of {', '.join(KINDS)}, each once", "kinds")
        if not 0 <= self.held_out < 1:
            raise wrong(f"{self.held_out} is no share", "give a number from 0 to less than 1", "held_out")
        if self.batch_size < 1:
            raise wrong(f"{self.batch_size} texts cannot run together", "give a positive number", "batch_size")


def extract(
    run: AttachedRun, positive: Sequence[Contrast], negative: Sequence[Contrast], *,
    kinds: Sequence[str] = ("response",), out: str | Path | None = None, include_first_token: bool = False,
    held_out: float = 0.2, batch_size: int = 8, seed: int = 1234, force: bool = False,
) -> dict[str, DirectionVector]:  # fmt: skip
    """Makes a direction vector of each kind: the mean over the positive texts of their mean hidden states, minus the same
    of the negative texts.

    `run`: of attach(), between two steps. `positive`, `negative`: texts of the two sides; each is a response, or a pair
    (prompt, response), and each of these is a text or a list of token ids. If both sides have the same number of texts,
    texts with one index are a pair. `kinds`: the tokens that count, "response", "prompt" and "last-prompt". `out`: a file
    that ends with .pt or .safetensors; several kinds get the names of the published files. `force`: replaces files.
    `held_out`: the share of the texts of each side, at its end, that is not in the vector and shows how well it
    separates. `batch_size`: texts of a data replica that run together. `seed`: of the bootstrap (docs/vectors.md).
    Returns the vectors by kind, on every rank. Raises TensorTracerError, and RuntimeError if the model fails. Call it on
    every rank; texts and `out` are those of global rank 0. Collective over all ranks.
    """
    if not isinstance(run, AttachedRun):
        raise wrong(f"{type(run).__name__} is no attached run", "give what tensor_tracer.attach() returned", "run")
    reader = run.state_reader()
    options = _Options(tuple(kinds), include_first_token, held_out, batch_size, seed)
    sides: Sides | None = None
    problem: Exception | None = None
    try:
        options.check()
        if reader.rank == 0:
            _check_files(_files(out, options.kinds), force)
            sides = _texts_of(positive, reader, "positive"), _texts_of(negative, reader, "negative")
            _check_kinds(sides, options)
    except Exception as error:  # the other ranks must not wait for this one
        problem = error
    reader.agree(problem, {"options": repr(options)})
    found = _vectors_of(reader, reader.share(sides), options)
    try:
        for kind, file in _files(out, options.kinds).items() if reader.rank == 0 else ():
            found[kind].save(file, force)
    except Exception as error:  # as above
        problem = error
    reader.agree(problem)
    return found


# --- the texts ---


def _texts_of(given: Sequence[Contrast], reader: StateReader, where: str) -> list[Text]:
    if isinstance(given, (str, bytes, Tensor)):
        raise wrong(f"{type(given).__name__} is no list of texts", "give a list", where)
    texts = [_text_of(one, reader, f"{where}[{index}]") for index, one in enumerate(given)]
    if not texts:
        raise wrong("there are no texts", "give a list of texts", where)
    return texts


def _text_of(given: Contrast, reader: StateReader, where: str) -> Text:
    if isinstance(given, tuple) and len(given) == 2 and not isinstance(given[0], Integral):
        text = Text(_ids_of(given[0], reader, where), _ids_of(given[1], reader, where))
    else:
        text = Text([], _ids_of(given, reader, where))
    if len(text) == 0:
        raise wrong("it has no token", "leave it out", where)
    if (most := reader.most_tokens) is not None and len(text) > most:
        raise wrong(f"it has {len(text)} tokens, and the model takes {most}", "shorten it", where)
    return text


def _ids_of(given: Any, reader: StateReader, where: str) -> list[int]:
    if isinstance(given, str):
        return reader.tokenize(given)
    try:
        ids = [operator.index(one) for one in (given.tolist() if isinstance(given, Tensor) else given)]
    except TypeError:
        remedy = "give a text, a list of token ids, or a pair (prompt, response) of them"
        raise wrong(f"{type(given).__name__} is neither a text nor token ids", remedy, where) from None
    if (unknown := reader.unknown_id(ids)) is not None:
        raise wrong(f"the model does not know the id {unknown}", "give ids of the model's own tokenizer", where)
    return ids


def _check_kinds(sides: Sides, options: _Options) -> None:
    """Each kind needs a text of each side that has its tokens and is in the vector."""
    for name, texts in zip(("positive", "negative"), _divided(sides, options.held_out)[0], strict=True):
        for number, kind in enumerate(KINDS):
            if kind not in options.kinds or any(text.has(options.includes_first)[number] for text in texts):
                continue
            if any(text.has(True)[number] for text in texts):
                message = f'no text has a token for "{kind}" but its first one'
                raise wrong(message, "give longer texts, or include_first_token=True", name)
            part = "responses" if kind == "response" else "prompts"
            raise wrong(f'"{kind}" needs {part}, and the texts have none', "give pairs (prompt, response)", name)


def _divided(sides: Sides, share: float) -> tuple[Sides, Sides]:
    """The texts in the vector, and those that are held out, at the end of each side."""
    counts = [int(share * len(texts)) for texts in sides]
    if min(counts) < _kLeastHeldOut:
        counts = [0, 0]
    positive, negative = (len(texts) - count for texts, count in zip(sides, counts, strict=True))
    return (sides[0][:positive], sides[1][:negative]), (sides[0][positive:], sides[1][negative:])


# --- the vectors ---


def _vectors_of(reader: StateReader, sides: Sides, options: _Options) -> dict[str, DirectionVector]:
    inside, held = _divided(sides, options.held_out)
    sums = _sum(reader, inside, options)
    differences = sums.differences()
    projections = _project(reader, held, differences, options)
    are_pairs = len(sides[0]) == len(sides[1])
    facts = reader.facts()
    found = {}
    for number, kind in enumerate(KINDS):
        if kind in options.kinds:
            evidence = json.loads(sums.evidence(projections, len(held[0]), number, are_pairs, options.seed))
            provenance = facts | _provenance(kind, sides, options) | evidence
            found[kind] = DirectionVector(differences[number].float(), provenance)
    return found


def _sum(reader: StateReader, sides: Sides, options: _Options) -> Any:
    """torch.classes.tensor_tracer.GroupSums over all ranks."""
    sums = torch.classes.tensor_tracer.GroupSums(reader.rows, reader.hidden_size)
    texts = sides[0] + sides[1]

    def take(index: int, means: Tensor) -> None:
        side = int(index >= len(sides[0]))
        # The tensor-parallel ranks share the states of a text, and the first of them counts the text.
        has = texts[index].has(options.includes_first) & reader.counts_texts
        sums.add(side, index - side * len(sides[0]), len(sides[side]), options.seed, means, has)

    reader.read(texts, options.includes_first, options.batch_size, take)
    for tensor in (sums.states(), sums.counts()):
        reader.add_up(tensor)
    return sums


def _project(reader: StateReader, sides: Sides, differences: Tensor, options: _Options) -> Tensor:
    """float64 [N, K, R], the positive texts first: projections of mean states on the unit vectors of `differences`. NaN:
    the text has no token of the kind."""
    texts = sides[0] + sides[1]
    units = differences / differences.norm(dim=-1, keepdim=True)
    projections = torch.zeros(len(texts), *differences.shape[:2], dtype=torch.float64)

    def take(index: int, means: Tensor) -> None:
        projections[index] = (means * units).sum(dim=-1)

    reader.read(texts, options.includes_first, options.batch_size, take)
    reader.add_up(projections)
    for index, text in enumerate(texts):
        projections[index, ~text.has(options.includes_first)] = torch.nan
    return projections


def _provenance(kind: str, sides: Sides, options: _Options) -> dict[str, Any]:
    """What facts of the model and evidence leave out."""
    return {
        "made_by": f"tensor_tracer {__version__} vectors.extract",
        "kind": kind, "tokens": KINDS[kind].tokens,
        "first_token": "included" if options.includes_first else "left out",
        "layer_base": 0, "rows": _kRows,
        "positive": _facts_of(sides[0]), "negative": _facts_of(sides[1]),
    }  # fmt: skip


def _facts_of(texts: list[Text]) -> dict[str, Any]:
    content = json.dumps([[text.prompt, text.response] for text in texts], separators=(",", ":"))
    digest = hashlib.sha256(content.encode()).hexdigest()
    return {"file": "", "sha256": digest, "texts": len(texts), "tokens": sum(len(text) for text in texts)}


# --- files ---


def _files(out: str | Path | None, kinds: Sequence[str]) -> dict[str, Path]:
    """Of each kind. Several kinds get the names of the published files."""
    if out is None:
        return {}
    file = Path(out)
    if len(kinds) == 1:
        return {kinds[0]: file}
    return {kind: file.with_name(f"{file.stem}_{KINDS[kind].suffix}{file.suffix}") for kind in kinds}


def _check_files(files: dict[str, Path], force: bool) -> None:
    for file in files.values():
        _check_file(file, force, "out")


def _check_file(file: Path, force: bool, where: str) -> None:
    if file.suffix not in _kFormats:
        raise wrong(f"{str(file)!r} does not end with {' or '.join(_kFormats)}", "give a file with this end", where)
    if file.exists() and not force:
        raise wrong(f"{str(file)!r} exists", "force=True replaces it", where)
    if file.suffix == ".safetensors":
        _safetensors_writer()


def _safetensors_writer() -> Any:
    """The function of the library, which is not installed with this package."""
    try:
        from safetensors.torch import save_file
    except ImportError:
        raise missing_package("safetensors", "a .safetensors file") from None
    return save_file
