"""Many records as columns: one list or array for each member of Record."""

from __future__ import annotations

import dataclasses
import math
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
_CHECKED_BYTES = _HEADER.itemsize - 4  # of a header, by its checksum


def columns_of(records: Iterable[Record]) -> Columns:
    found = list(records)
    columns: Columns = {name: [getattr(record, name) for record in found] for name in FIELDS}
    return columns | {"values": [record.values for record in found]}


def fast_columns(blobs: Sequence[bytes], check: bool, points: Mapping[int, str]) -> Columns | None:
    """The same, of the bytes of one record each, for all at once; the arrays of "values" can only be read. None where a
    record is damaged, or is of a form that is read one by one."""
    size = _HEADER.itemsize
    if any(len(blob) < size for blob in blobs):
        return None
    heads = np.frombuffer(b"".join([blob[:size] for blob in blobs]), _HEADER)
    sums = [crc32c(blob[:_CHECKED_BYTES]) for blob in blobs]
    is_usual = (heads["magic"] == MAGIC) & (heads["version"] == VERSION) & (heads["header_bytes"] == size)
    if not (is_usual & (heads["ndim"] <= 4) & (heads["header_crc"] == sums)).all():
        return None
    shapes = [tuple(shape[:n]) for shape, n in zip(heads["shape"].tolist(), heads["ndim"].tolist(), strict=True)]
    values = _values(blobs, heads["payload_bytes"].tolist(), heads["dtype"].tolist(), shapes)
    if values is None or (check and heads["payload_crc"].tolist() != list(map(crc32c, values))):
        return None
    return _named(heads, points) | {"shape": shapes, "values": values}


def _values(
    blobs: Sequence[bytes], sizes: list[int], codes: list[int], shapes: list[tuple[int, ...]]
) -> list[Array] | None:
    """The numbers where they are: new memory for copies takes most of the time of large records."""
    forms = {form: math.prod(form[1]) for form in set(zip(codes, shapes, strict=True))}
    if any(code not in _PLAIN for code, _ in forms):
        return None
    begin, found = _HEADER.itemsize, []
    for blob, size, form in zip(blobs, sizes, zip(codes, shapes, strict=True), strict=True):
        dtype, count = _PLAIN[form[0]], forms[form]
        if size != count * dtype.itemsize or not size <= len(blob) - begin < size + 8:
            return None
        found.append(np.frombuffer(blob, dtype, count, begin).reshape(form[1]))
    return found


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
    """In order."""

    def whole(name: str) -> Any:
        columns = [part[name] for part in parts]
        if columns and all(isinstance(column, np.ndarray) for column in columns):
            return np.concatenate(columns)
        return [value for column in columns for value in column]

    return {name: whole(name) for name in [*FIELDS, "values"]}
