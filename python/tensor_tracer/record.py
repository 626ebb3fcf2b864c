"""Records: docs/protocol.md, "Binary messages"."""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from google_crc32c import value as crc32c

from tensor_tracer import notebook
from tensor_tracer.compressors import COMPRESSORS
from tensor_tracer.errors import RecordError, unknown

Array = npt.NDArray[Any]

PHASES = dict(enumerate(("train", "eval")))
DIRECTIONS = dict(enumerate(("value", "gradient")))
DTYPES = {1: "f64", 2: "f32", 3: "f16", 4: "bf16", 5: "i32", 6: "i64", 7: "u8"}
# The elements on the wire; numpy has no bf16.
WIRE = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "bf16": "<u2", "i32": "<i4", "i64": "<i8", "u8": "u1"}
_U8_LINE_BYTES = 8  # offset and scale of a line, before all codes


class Origin(Protocol):
    """The run or recording that a record comes from."""

    def token_texts(self, record: Record) -> list[list[str]] | None:
        """As `Record.tokens`."""
        ...


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Record:
    """One record. docs/protocol.md, "Binary messages", defines the fields."""

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
    payload: bytes
    origin: Origin | None = None

    def __repr__(self) -> str:
        place = f" layer {self.layer}," if self.layer else ""
        parts = [self.phase, self.compressor, *(["gradient"] if self.direction == "gradient" else ())]
        parts += [f"prompt set {self.prompt_set}"] if self.prompt_set else []
        return f"<Record of {self.point},{place} step {self.step}: {', '.join(parts)}, {self.dtype} {list(self.shape)}>"

    def _repr_html_(self) -> str:
        left_out = {"run", "payload", "origin"}
        rows = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in left_out}
        with np.printoptions(threshold=12, edgeitems=2, precision=4):
            return notebook.table(repr(self), rows | {"values": self.values if self.dtype in WIRE else "unknown dtype"})

    @property
    def tokens(self) -> list[list[str]] | None:
        """The text of each token of each row; "" for padding, and for tokens that were not recorded. None if the text is
        not known: the record has no tokens, the tokens of its step were not recorded (the point InputTokens), or the
        run does not tell the texts of its tokenizer."""
        return self.origin.token_texts(self) if self.origin else None

    @functools.cached_property
    def values(self) -> Array:
        """The numbers, in an array that the caller may change; bf16 and u8 become float32."""
        if self.dtype not in WIRE:
            raise unknown("unknown_dtype", self.dtype, "dtype")
        if self.dtype == "u8" and (lines := u8_lines(self.shape)):
            codes = np.frombuffer(self.payload, WIRE["u8"], offset=_U8_LINE_BYTES * lines)
            numbers = _numbers_of_codes(codes, np.frombuffer(self.payload, "<f4", 2 * lines))
        else:
            numbers = numbers_of(self.payload, self.dtype)
        return numbers.reshape(self.shape)


def numbers_of(payload: bytes, dtype: str) -> Array:
    """In an array of your own, of one dim; bf16 as float32. Of u8 the codes."""
    wire = np.frombuffer(payload, WIRE[dtype])
    if dtype == "bf16":
        return (wire.astype(np.uint32) << 16).view(np.float32)
    return wire.astype(np.float32 if dtype == "u8" else wire.dtype.newbyteorder("="))


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


# The members of a header and their types, as of Python's struct; without a name: bytes that are left out.
LAYOUT = [
    ("magic", "I"), ("version", "H"), ("header_bytes", "H"), ("run", "Q"), ("sequence", "Q"), ("step", "Q"),
    ("plan", "I"), ("entry", "I"), ("micro_batch", "I"), ("prompt_set", "I"), ("first_row", "I"), ("point", "H"),
    ("layer", "H"), ("tensor_rank", "H"), ("pipeline_rank", "H"), ("data_rank", "H"), ("phase", "B"),
    ("direction", "B"), ("dtype", "B"), ("compressor", "B"), ("ndim", "B"), ("", "x"), ("shape", "4I"),
    ("features", "I"), ("payload_bytes", "Q"), ("time", "Q"), ("", "16x"), ("payload_crc", "I"), ("header_crc", "I"),
]  # fmt: skip
_HEADER = struct.Struct("<" + "".join(code for _, code in LAYOUT))
MAGIC, VERSION = 0x31465454, 1


def decode_records(
    message: bytes, check: bool = True, points: Mapping[int, str] = {}, origin: Origin | None = None
) -> Iterator[Record]:
    """The records of one binary message, in order. `check`: the payloads' checksums too. `points`: names of
    their points by "flag" of the run's facts; without one a point is "point 7". `origin`: knows the texts of their
    tokens. Raises RecordError at the first byte that cannot be trusted, after what came before it."""
    at = 0
    while at < len(message):
        record, at = _decode_one(message, at, check, points, origin)
        yield record


def _decode_one(
    message: bytes, at: int, check: bool, points: Mapping[int, str], origin: Origin | None
) -> tuple[Record, int]:
    if len(message) - at < _HEADER.size:
        raise _damaged(at, f"{len(message) - at} bytes are left, a header has {_HEADER.size}")
    magic, version, header_bytes, *fields = _HEADER.unpack_from(message, at)
    if magic != MAGIC or version != VERSION:
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
        shape, features, stamp, payload, origin,
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
