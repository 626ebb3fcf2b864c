"""Records: docs/protocol.md, "Binary messages"."""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_tracer.checksum import crc32c
from tensor_tracer.errors import RecordError, unknown

Array = npt.NDArray[Any]

PHASES = dict(enumerate(("train", "eval")))
DIRECTIONS = dict(enumerate(("value", "gradient")))
COMPRESSORS = dict(enumerate(("none", "tile", "empty", "stats", "projection", "topk")))
DTYPES = {1: "f64", 2: "f32", 3: "f16", 4: "bf16", 5: "i32", 6: "i64", 7: "u8"}
# The elements on the wire; numpy has no bf16.
WIRE = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "bf16": "<u2", "i32": "<i4", "i64": "<i8", "u8": "u1"}
_U8_LINE_BYTES = 8  # offset and scale of a line, before all codes


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """One tensor as it travelled; docs/protocol.md, Binary messages, says what each field means."""

    run: str  # as in facts["id"]
    sequence: int
    step: int
    plan: int
    entry: int
    micro_batch: int
    prompt_set: int
    first_row: int
    point: str
    layer: int
    tensor_rank: int
    pipeline_rank: int
    data_rank: int
    phase: str
    direction: str
    dtype: str
    compressor: str
    shape: tuple[int, ...]
    features: int
    time: int  # nanoseconds since 1970
    payload: bytes = dataclasses.field(repr=False)

    @functools.cached_property
    def values(self) -> Array:
        """The numbers, in an array of your own; bf16 and u8 as float32."""
        if self.dtype not in WIRE:
            raise unknown("unknown_dtype", self.dtype, "dtype")
        lines = u8_lines(self.shape) if self.dtype == "u8" else 0
        wire = np.frombuffer(self.payload, WIRE[self.dtype], offset=_U8_LINE_BYTES * lines)
        if self.dtype == "bf16":
            wire = (wire.astype(np.uint32) << 16).view(np.float32)
        elif lines:
            wire = _numbers_of_codes(wire, np.frombuffer(self.payload, "<f4", 2 * lines))
        elif self.dtype == "u8":
            wire = wire.astype(np.float32)
        return wire.astype(wire.dtype.newbyteorder("=")).reshape(self.shape)


def u8_lines(shape: tuple[int, ...]) -> int:
    """How many lines an array has along its last dim: 1 without dims, 0 if the array is empty."""
    return 0 if 0 in shape else math.prod(shape[:-1])


def _numbers_of_codes(codes: Array, heads: Array) -> Array:
    by_line = codes.reshape(len(heads) // 2, -1)
    offset, scale = heads.astype(np.float64).reshape(-1, 2, 1).transpose(1, 0, 2)
    numbers = (offset + by_line * scale).astype(np.float32)
    for code, number in ((253, np.nan), (254, np.inf), (255, -np.inf)):
        numbers[by_line == code] = number
    return numbers


_HEADER = struct.Struct("<IHH QQQ IIIII HHHHH BBBBB x 4I I QQ 16x II")


def decode_records(
    message: bytes, check: bool = True, points: Mapping[int, str] = {}
) -> Iterator[Record]:
    """The records of one binary message, in order. `check`: the payloads' checksums too. `points`: names of
    their points by "flag" of the run's facts; without one a point is "point 7". Raises
    RecordError at the first byte that cannot be trusted, after what came before it."""
    at = 0
    while at < len(message):
        record, at = _decode_one(message, at, check, points)
        yield record


def _decode_one(message: bytes, at: int, check: bool, points: Mapping[int, str]) -> tuple[Record, int]:
    if len(message) - at < _HEADER.size:
        raise _damaged(at, f"{len(message) - at} bytes are left, a header has {_HEADER.size}")
    magic, version, header_bytes, *fields = _HEADER.unpack_from(message, at)
    if magic != 0x31465454 or version != 1:
        found = f"magic {magic:#010x}, version {version}"
        raise unknown("unsupported_version", found, f"record at byte {at}")
    *names, ndim, d0, d1, d2, d3, features, payload_bytes, stamp, payload_crc, header_crc = fields
    if crc32c(message[at : at + _HEADER.size - 4]) != header_crc:
        raise _damaged(at, "the header's checksum does not fit")
    begin, shape = at + header_bytes, (d0, d1, d2, d3)[:ndim]
    end = begin + payload_bytes
    if header_bytes < _HEADER.size or ndim > 4 or end > len(message):
        raise _damaged(at, f"{ndim} dims, {payload_bytes} bytes of payload after {header_bytes}")
    payload = message[begin:end]
    if check and crc32c(payload) != payload_crc:
        raise _damaged(at, "the payload's checksum does not fit")
    run, *numbers, point, layer, tp, pp, dp, phase, direction, dtype, compressor = names
    values = [
        f"{run:016x}", *numbers, _name(points, point, "point"), layer, tp, pp, dp,
        _name(PHASES, phase, "phase"), _name(DIRECTIONS, direction, "direction"),
        _name(DTYPES, dtype, "dtype"), _name(COMPRESSORS, compressor, "compressor"),
        shape, features, stamp, payload,
    ]  # fmt: skip
    record = Record(*values)
    _check_size(at, record)
    return record, end + -payload_bytes % 8


def _name(names: Mapping[int, str], code: int, what: str) -> str:
    return names.get(code) or f"{what} {code}"


def _damaged(at: int, message: str) -> RecordError:
    return RecordError("invalid_record", message, f"record at byte {at}")


def _check_size(at: int, record: Record) -> None:
    if record.dtype in WIRE:
        expected = math.prod(record.shape) * np.dtype(WIRE[record.dtype]).itemsize
        expected += _U8_LINE_BYTES * u8_lines(record.shape) if record.dtype == "u8" else 0
        if expected != len(record.payload):
            raise _damaged(at, f"{len(record.payload)} bytes of payload, {record.shape} has {expected}")
