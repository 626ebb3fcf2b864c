"""An independent reader of binary messages, written from docs/protocol.md alone."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator

import numpy as np

MAGIC = 0x31465454
VERSION = 1
PHASES = {0: "train", 1: "eval"}
COMPRESSORS = {0: "none", 1: "tile", 2: "empty", 3: "stats", 4: "projection", 5: "topk", 6: "top_tokens"}

# dtype code -> NumPy type on the wire; bf16 (4) has none and is read as u16 bit patterns.
_WIRE_TYPES = {1: "<f8", 2: "<f4", 3: "<f2", 4: "<u2", 5: "<i4", 6: "<i8", 7: "u1"}
_BFLOAT16 = 4
_U8 = 7

# Offsets 0 to 128; "x" is a byte that must be 0.
_HEADER = struct.Struct("<IHH QQQ IIIII HHHHH BB BBB x 4I I QQ 16x II")
_FIELDS = (
    "magic version header_bytes run sequence step plan entry micro_batch prompt_set first_row "
    "point layer tensor_rank pipeline_rank data_rank phase direction dtype compressor ndim "
    "shape0 shape1 shape2 shape3 features payload_bytes time payload_crc header_crc"
).split()


class DecodeError(ValueError):
    """The bytes are not what docs/protocol.md says."""


@dataclasses.dataclass(frozen=True)
class Record:
    """One record: its header's fields, its bytes on the wire, and its payload as an array (bf16
    widened to float32)."""

    run: int
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
    direction: int
    dtype: int
    compressor: str
    features: int
    time: int
    size: int
    values: np.ndarray


def _crc_table() -> list[int]:
    """CRC-32C: polynomial 0x1EDC6F41, reflected."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of the bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def decode(message: bytes, facts: dict) -> list[Record]:
    """All records of one binary message of the run with these facts."""
    return list(_records(message, {point["flag"]: point["name"] for point in facts["points"]}))


def _records(message: bytes, points: dict[int, str]) -> Iterator[Record]:
    at = 0
    while at < len(message):
        if len(message) - at < _HEADER.size:
            raise DecodeError(f"{len(message) - at} bytes left at {at}: no room for a header")
        header = dict(zip(_FIELDS, _HEADER.unpack_from(message, at), strict=True))
        _check_header(header, message[at : at + _HEADER.size])
        begin = at + header["header_bytes"]
        end = begin + header["payload_bytes"]
        padded = end + -(end - at) % 8
        if padded > len(message):
            raise DecodeError(f"record at {at} ends at {padded}, the message at {len(message)}")
        if any(message[end:padded]):
            raise DecodeError(f"padding at {end} is not zero")
        yield _record(header, message[begin:end], padded - at, points)
        at = padded


def _check_header(header: dict[str, int], raw: bytes) -> None:
    if header["magic"] != MAGIC:
        raise DecodeError(f"magic {header['magic']:#x}")
    if header["version"] != VERSION:
        raise DecodeError(f"version {header['version']}")
    if header["header_bytes"] < _HEADER.size:
        raise DecodeError(f"header_bytes {header['header_bytes']}")
    if crc32c(raw[:124]) != header["header_crc"]:
        raise DecodeError("the header's checksum is wrong")
    if raw[67] or any(raw[104:120]):
        raise DecodeError("reserved bytes are not zero")
    if header["ndim"] > 4:
        raise DecodeError(f"ndim {header['ndim']}")
    if any(header[f"shape{d}"] != 1 for d in range(header["ndim"], 4)):
        raise DecodeError("dimensions past ndim are not 1")


def _record(header: dict[str, int], payload: bytes, size: int, points: dict[int, str]) -> Record:
    if crc32c(payload) != header["payload_crc"]:
        raise DecodeError("the payload's checksum is wrong")
    shape = tuple(header[f"shape{d}"] for d in range(header["ndim"]))
    names = {field.name for field in dataclasses.fields(Record)}
    values = {name: value for name, value in header.items() if name in names}
    values["point"] = _known(points, "point", header)
    values["phase"] = _known(PHASES, "phase", header)
    values["compressor"] = _known(COMPRESSORS, "compressor", header)
    return Record(size=size, values=_array(header["dtype"], shape, payload), **values)


def _known(names: dict[int, str], field: str, header: dict[str, int]) -> str:
    if header[field] not in names:
        raise DecodeError(f"{field} {header[field]} is unknown")
    return names[header[field]]


def _array(dtype: int, shape: tuple[int, ...], payload: bytes) -> np.ndarray:
    if dtype not in _WIRE_TYPES:
        raise DecodeError(f"dtype {dtype} is unknown")
    wire = np.dtype(_WIRE_TYPES[dtype])
    count = int(np.prod(shape, dtype=np.int64))
    lines = count // (shape[-1] if shape else 1) if dtype == _U8 and count else 0
    expected = count * wire.itemsize + 8 * lines
    if expected != len(payload):
        raise DecodeError(f"shape {shape} needs {expected} payload bytes, {len(payload)} are there")
    values = np.frombuffer(payload[8 * lines :], dtype=wire).reshape(shape)
    if dtype == _U8:
        return _numbers_of_codes(values, np.frombuffer(payload[: 8 * lines], dtype="<f4"))
    if dtype == _BFLOAT16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values


def _numbers_of_codes(codes: np.ndarray, offsets_and_scales: np.ndarray) -> np.ndarray:
    """u8: offset + code * scale of each line; three codes are not finite."""
    if codes.size == 0:
        return codes.astype(np.float32)
    by_line = codes.reshape(len(offsets_and_scales) // 2, -1)
    offset, scale = offsets_and_scales.reshape(-1, 2, 1).transpose(1, 0, 2)
    numbers = offset + by_line.astype(np.float32) * scale
    for code, number in {253: np.nan, 254: np.inf, 255: -np.inf}.items():
        numbers[by_line == code] = number
    return numbers.reshape(codes.shape)
