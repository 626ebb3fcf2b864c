"""Many records as columns: one list or array for each member of Record."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from google_crc32c import value as crc32c

from tensor_tracer.compressors import COMPRESSORS
from tensor_tracer.record import DIRECTIONS, DTYPES, LAYOUT, MAGIC, PHASES, VERSION, WIRE, Array, Record

FIELDS = [field.name for field in dataclasses.fields(Record) if field.name not in ("payload", "origin")]
Columns = dict[str, Any]  # FIELDS, and "values", a list of arrays

_NAMES = {"phase": PHASES, "direction": DIRECTIONS, "dtype": DTYPES, "compressor": COMPRESSORS}


def _numpy_header() -> np.dtype[Any]:
    kinds = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8", "4I": ("<u4", 4)}
    codes = [code for _, code in LAYOUT]
    offsets = [struct.calcsize("<" + "".join(codes[:n])) for n in range(len(codes) + 1)]
    members = [(name, kinds[code], at) for (name, code), at in zip(LAYOUT, offsets, strict=False) if name]
    names, formats, places = zip(*members, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": places, "itemsize": offsets[-1]})


_HEADER = _numpy_header()
# Types whose payload is the array itself.
_PLAIN = {code: np.dtype(WIRE[name]) for code, name in DTYPES.items() if name not in ("bf16", "u8")}
_ITEM_BYTES = np.zeros(256, np.uint64)  # by the code of a type
_ITEM_BYTES[list(_PLAIN)] = [dtype.itemsize for dtype in _PLAIN.values()]
_CHECKED_BYTES = _HEADER.itemsize - 4  # of a header, by its checksum


def columns_of(records: Iterable[Record]) -> Columns:
    found = list(records)
    columns: Columns = {name: [getattr(record, name) for record in found] for name in FIELDS}
    return columns | {"values": [record.values for record in found]}


def fast_columns(blobs: Sequence[bytes], check: bool, points: Mapping[int, str]) -> Columns | None:
    """The same for encoded records, all at once; the arrays of "values" are read-only. None if a record is damaged, or
    has a form that only the slow path reads."""
    size = _HEADER.itemsize
    lengths = np.fromiter(map(len, blobs), np.int64, len(blobs))
    if (lengths < size).any():
        return None
    heads = np.frombuffer(b"".join([blob[:size] for blob in blobs]), _HEADER)
    sums = np.array([crc32c(blob[:_CHECKED_BYTES]) for blob in blobs], np.uint32)
    is_usual = (heads["magic"] == MAGIC) & (heads["version"] == VERSION) & (heads["header_bytes"] == size)
    is_usual &= (heads["header_crc"] == sums) & (heads["ndim"] <= 4) & np.isin(heads["dtype"], list(_PLAIN))
    counts = heads["shape"].prod(axis=1, dtype=np.uint64)  # dims past ndim are 1
    is_usual &= heads["payload_bytes"] == counts * _ITEM_BYTES[heads["dtype"]]
    if not (is_usual & (heads["payload_bytes"] <= lengths - size)).all():
        return None
    shapes = _shapes(heads)
    dtypes = map(_PLAIN.__getitem__, heads["dtype"].tolist())
    # The numbers stay where they are: new memory for copies takes most of the time of large records.
    values = [
        np.frombuffer(blob, dtype, count, size).reshape(shape)
        for blob, dtype, count, shape in zip(blobs, dtypes, counts.tolist(), shapes, strict=True)
    ]
    if check and not np.array_equal(heads["payload_crc"], np.fromiter(map(crc32c, values), np.uint32, len(values))):
        return None
    return _named(heads, points) | {"shape": shapes, "values": values}


def _shapes(heads: Array) -> list[tuple[int, ...]]:
    """Most records have one of a few shapes."""
    keys = list(zip(heads["ndim"].tolist(), heads["shape"].copy().view("V16").ravel().tolist(), strict=True))
    known = {(ndim, extents): tuple(np.frombuffer(extents, "<u4", ndim).tolist()) for ndim, extents in set(keys)}
    return list(map(known.__getitem__, keys))


def _named(heads: Array, points: Mapping[int, str]) -> Columns:
    columns: Columns = {}
    for name in FIELDS:
        if name == "run":
            ids, places = np.unique(heads[name], return_inverse=True)
            columns[name] = np.array([f"{run:016x}" for run in ids.tolist()], object)[places]
        elif name in _NAMES or name == "point":
            names = points if name == "point" else _NAMES[name]
            codes, places = np.unique(heads[name], return_inverse=True)
            columns[name] = np.array([names.get(code) or f"{name} {code}" for code in codes.tolist()], object)[places]
        else:
            columns[name] = heads[name].astype(np.int64) if name != "shape" else None
    return columns


def joined(parts: Sequence[Columns]) -> Columns:
    """All parts, one after the other."""

    def whole(name: str) -> Any:
        columns = [part[name] for part in parts]
        if columns and all(isinstance(column, np.ndarray) for column in columns):
            return np.concatenate(columns)
        return [value for column in columns for value in column]

    return {name: whole(name) for name in [*FIELDS, "values"]}
