"""Runs `prepare`, and reads its folder with NumPy."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensor_tracer.prepare.command import main

ROLES = ["none", "system", "user", "assistant", "tool"]


@dataclasses.dataclass(frozen=True)
class Prepared:
    manifest: dict[str, Any]
    ids: list[list[int]]
    roles: list[list[int]]

    def texts_of(self, document: int, role: str, tokenizer: Any) -> str:
        wanted = ROLES.index(role)
        ids = [id for id, found in zip(self.ids[document], self.roles[document], strict=True) if found == wanted]
        return str(tokenizer.decode(ids))

    def masks(self) -> list[list[int]]:
        return [[int(role == ROLES.index("assistant")) for role in roles] for roles in self.roles]


def write_lines(path: Path, lines: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return path


def prepare(*words: object) -> subprocess.CompletedProcess[str]:
    """As the program, but in this process."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = main([str(word) for word in words])
    return subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())


def prepared(tokenizer: Path, lines: Iterable[Any], folder: Path, *words: str) -> Prepared:
    """The lines as data of this tokenizer."""
    data = write_lines(folder.with_suffix(".jsonl"), lines)
    done = prepare(data, "--tokenizer", tokenizer, "--out", folder, *words)
    assert done.returncode == 0, done.stderr
    return read(folder)


def read(folder: Path) -> Prepared:
    """Megatron's index by its layout: header, lengths, offsets in bytes, sequences before each document."""
    assert {path.name for path in folder.iterdir()} == {"prepared.json", "data.bin", "data.idx", "data.roles.bin"}
    index = (folder / "data.idx").read_bytes()
    head = np.frombuffer(index, np.dtype([("magic", "S9"), ("version", "<u8"), ("code", "u1"), ("sequences", "<u8"),
                                          ("documents", "<u8")]), 1)[0]  # fmt: skip
    assert (head["magic"], head["version"], len(index[:34])) == (b"MMIDIDX", 1, 34)
    count, entries, at = int(head["sequences"]), int(head["documents"]), 34
    lengths = np.frombuffer(index, "<i4", count, at)
    offsets = np.frombuffer(index, "<i8", count, at + 4 * count)
    documents = np.frombuffer(index, "<i8", entries, at + 12 * count)
    assert at + 12 * count + 8 * entries == len(index) and documents.tolist() == list(range(count + 1))
    dtype: NDArray[Any] = np.dtype({8: "<u2", 4: "<i4"}[int(head["code"])])
    tokens = np.fromfile(folder / "data.bin", dtype)
    roles = np.fromfile(folder / "data.roles.bin", np.uint8)
    manifest = json.loads((folder / "prepared.json").read_text())
    assert len(tokens) == len(roles) == lengths.sum() == manifest["tokens"] and count == manifest["documents"]
    firsts = offsets // dtype.itemsize
    assert firsts.tolist() == (np.cumsum(lengths) - lengths).tolist()
    cuts = [slice(int(first), int(first + length)) for first, length in zip(firsts, lengths, strict=True)]
    return Prepared(manifest, [tokens[cut].tolist() for cut in cuts], [roles[cut].tolist() for cut in cuts])
