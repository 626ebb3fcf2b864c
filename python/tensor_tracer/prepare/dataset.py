"""Megatron's indexed dataset (data.bin, data.idx), and the roles of its tokens."""

from __future__ import annotations

import struct
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 16
_CODES = {"uint16": 8, "int32": 4}  # Megatron's numbers of the types


class DatasetWriter:
    """Writes documents into an existing folder. Memory does not grow with their number."""

    def __init__(self, folder: Path, vocab_size: int) -> None:
        self.dtype: np.dtype[Any] = np.dtype(np.uint16 if vocab_size < 65500 else np.int32)
        self.documents = self.tokens = self.longest = 0
        self._index, self._lengths_file = folder / "data.idx", folder / "lengths.partial"
        self._data = (folder / "data.bin").open("wb")
        self._roles = (folder / "data.roles.bin").open("wb")
        self._lengths = self._lengths_file.open("w+b")

    def __enter__(self) -> DatasetWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for file in (self._data, self._roles, self._lengths):
            file.close()

    def add(self, ids: NDArray[np.int64], roles: NDArray[np.uint8]) -> None:
        self._data.write(ids.astype(self.dtype).tobytes())
        self._roles.write(roles.tobytes())
        self._lengths.write(struct.pack("<i", len(ids)))
        self.documents += 1
        self.tokens += len(ids)
        self.longest = max(self.longest, len(ids))

    def finish(self) -> None:
        """Writes the index. A document is one sequence; its table of documents begins with 0 and so has one number
        more than there are documents."""
        with self._index.open("wb") as index:
            head = struct.pack("<QBQQ", 1, _CODES[self.dtype.name], self.documents, self.documents + 1)
            index.write(b"MMIDIDX\0\0" + head)
            for lengths in self._chunks():
                index.write(lengths.tobytes())
            begin = 0
            for lengths in self._chunks():
                ends = begin + np.cumsum(lengths.astype(np.int64)) * self.dtype.itemsize
                index.write(np.concatenate(([begin], ends[:-1])).astype(np.int64).tobytes())
                begin = int(ends[-1])
            for first in range(0, self.documents + 1, _CHUNK):
                index.write(np.arange(first, min(first + _CHUNK, self.documents + 1), dtype=np.int64).tobytes())
        self._lengths_file.unlink()

    def _chunks(self) -> Any:
        self._lengths.seek(0)
        while raw := self._lengths.read(4 * _CHUNK):
            yield np.frombuffer(raw, np.int32)
