"""Data files for the tests, made with NumPy and JSON: documents of bytes, in every form that the trainer reads."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

WORDS = "tensor step loss layer norm café (x) return -> gradient of the mean é".split()
ROLES = ["none", "system", "user", "assistant", "tool"]


def text(seed: int, shortest: int, longest: int) -> str:
    """A text of that many characters, the same at every call."""
    draw = random.Random(seed)
    size = draw.randint(shortest, longest)
    return " ".join(draw.choice(WORDS) for _ in range(size))[:size]


def write_jsonl(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def questions(count: int, longest: int = 12) -> list[dict[str, str]]:
    """Prompts with responses that together fit into 32 bytes, of many lengths."""
    return [{"prompt": text(2 * i, 2, longest), "response": text(2 * i + 1, 1, longest)} for i in range(count)]


def write_indexed(prefix: Path, documents: Sequence[Sequence[int]], dtype: type = np.uint16) -> Path:
    """PREFIX.bin and PREFIX.idx as Megatron-LM has them: one sequence for each document."""
    code = {np.uint8: 1, np.int32: 4, np.int64: 5, np.uint16: 8}[dtype]
    lengths = np.array([len(one) for one in documents], dtype="<i4")
    size = np.dtype(dtype).itemsize
    offsets = np.concatenate([[0], np.cumsum(lengths[:-1], dtype="<i8") * size]).astype("<i8")
    marks = np.arange(len(documents) + 1, dtype="<i8")
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(documents), len(marks))
    prefix.with_name(prefix.name + ".idx").write_bytes(
        header + lengths.tobytes() + offsets.tobytes() + marks.tobytes())  # fmt: skip
    ids = np.concatenate([np.asarray(one, dtype=dtype) for one in documents])
    prefix.with_name(prefix.name + ".bin").write_bytes(ids.tobytes())
    return prefix


def write_prepared(
    folder: Path, documents: Sequence[Sequence[int]], roles: Sequence[Sequence[str]], tokenizer: Path, ids: int
) -> Path:
    """A folder as `python -m tensor_tracer prepare` writes it."""
    folder.mkdir(parents=True)
    write_indexed(folder / "data", documents)
    numbers = [ROLES.index(role) for document in roles for role in document]
    (folder / "data.roles.bin").write_bytes(bytes(numbers))
    (folder / "prepared.json").write_text(json.dumps({
        "format": "tensor-tracer prepared data", "version": 1,
        "tokenizer_hash": hashlib.sha256((tokenizer / "tokenizer.json").read_bytes()).hexdigest(),
        "vocab_size": ids, "end_token": 0, "roles": ROLES, "documents": len(documents), "tokens": len(numbers),
        "source": {"file": "data.jsonl", "sha256": "0" * 64}, "chat_template_sha256": None,
    }))  # fmt: skip
    return folder
