"""The decoder against records laid out by hand from the table in docs/protocol.md."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from decoder import DecodeError, crc32c, decode

# Offset and struct code of every field, in the words of the table.
OFFSETS = {
    "magic": (0, "I"), "version": (4, "H"), "header_bytes": (6, "H"), "run": (8, "Q"),
    "sequence": (16, "Q"), "step": (24, "Q"), "plan": (32, "I"), "entry": (36, "I"),
    "micro_batch": (40, "I"), "prompt_set": (44, "I"), "first_row": (48, "I"), "point": (52, "H"),
    "layer": (54, "H"), "tensor_rank": (56, "H"), "pipeline_rank": (58, "H"),
    "data_rank": (60, "H"), "phase": (62, "B"), "direction": (63, "B"), "dtype": (64, "B"),
    "compressor": (65, "B"), "ndim": (66, "B"), "shape": (68, "4I"), "features": (84, "I"),
    "payload_bytes": (88, "Q"), "time": (96, "Q"), "payload_crc": (120, "I"),
}  # fmt: skip
DISTINCT = {
    "run": 0x5F0C000000000001, "sequence": 2, "step": 3, "plan": 4, "entry": 5, "micro_batch": 6,
    "prompt_set": 7, "first_row": 8, "layer": 10, "tensor_rank": 11, "pipeline_rank": 12,
    "data_rank": 13, "direction": 1, "features": 64, "time": 1_790_000_000_000_000_001,
}  # fmt: skip


def record(payload: bytes, header_bytes: int = 128, **fields: object) -> bytes:
    """A record with these fields, right sizes and right checksums."""
    values: dict = {
        "magic": 0x31465454, "version": 1, "header_bytes": header_bytes, "point": 7, "phase": 1,
        "dtype": 2, "compressor": 1, "ndim": 3, "shape": (1, 2, 3, 1),
        "payload_bytes": len(payload), "payload_crc": crc32c(payload), **DISTINCT, **fields,
    }  # fmt: skip
    header = bytearray(header_bytes)
    for name, value in values.items():
        offset, code = OFFSETS[name]
        struct.pack_into("<" + code, header, offset, *(value if name == "shape" else (value,)))
    struct.pack_into("<I", header, 124, crc32c(bytes(header[:124])))
    whole = bytes(header) + payload
    return whole + bytes(-len(whole) % 8)


FACTS = {"points": [{"flag": 7, "name": "HiddenStates"}]}
SIX_FLOATS = np.arange(6, dtype="<f4").tobytes()


def test_crc32c_check_values() -> None:
    """From RFC 3720, appendix B.4, and the catalogue's check value."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(b"") == 0


def test_every_field() -> None:
    [found] = decode(record(SIX_FLOATS), FACTS)
    for name, value in DISTINCT.items():
        assert getattr(found, name) == value, name
    assert (found.point, found.phase, found.compressor) == ("HiddenStates", "eval", "tile")
    assert found.values.tolist() == [[[0, 1, 2], [3, 4, 5]]]


def test_several_records_with_padding_and_a_longer_header() -> None:
    odd = record(struct.pack("<2f3B", 1.0, 0.5, 0, 2, 4), dtype=7, ndim=1, shape=(3, 1, 1, 1))
    later = record(SIX_FLOATS, header_bytes=136, sequence=99)
    first, second, third = decode(record(SIX_FLOATS) + odd + later, FACTS)
    assert first.sequence == 2
    assert second.values.tolist() == [1, 2, 3]
    assert (third.sequence, third.values.shape) == (99, (1, 2, 3))


@pytest.mark.parametrize(
    ("dtype", "wire", "values"),
    [
        (1, "<f8", [0.1, -2.5]), (2, "<f4", [0.5, np.inf]), (3, "<f2", [0.5, -1.0]),
        (5, "<i4", [-1, 255]), (6, "<i8", [2**40, -1]),
    ],
)  # fmt: skip
def test_dtypes(dtype: int, wire: str, values: list[float]) -> None:
    payload = np.array(values, dtype=wire).tobytes()
    [found] = decode(record(payload, dtype=dtype, ndim=1, shape=(2, 1, 1, 1)), FACTS)
    assert found.values.tolist() == values


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    payload = struct.pack("<3H", 0x3F80, 0xC000, 0x7FC0)
    [found] = decode(record(payload, dtype=4, ndim=1, shape=(3, 1, 1, 1)), FACTS)
    np.testing.assert_array_equal(found.values, np.array([1.0, -2.0, np.nan], dtype=np.float32))


def test_u8_has_an_offset_and_a_scale_for_each_line() -> None:
    payload = struct.pack("<4f", 10.0, 0.5, -1.0, 0.25) + bytes([0, 252, 253, 254, 255, 4])
    [found] = decode(record(payload, dtype=7, ndim=2, shape=(2, 3, 1, 1)), FACTS)
    expected = np.array([[10.0, 136.0, np.nan], [np.inf, -np.inf, 0.0]], dtype=np.float32)
    np.testing.assert_array_equal(found.values, expected)


@pytest.mark.parametrize(
    "broken",
    [
        {"magic": 0x32465454}, {"version": 2}, {"header_bytes": 120}, {"payload_bytes": 4096},
        {"shape": (1, 2, 4, 1)}, {"shape": (1, 2, 3, 2)}, {"ndim": 5}, {"dtype": 9},
        {"payload_crc": 0},
    ],
    ids=str,
)  # fmt: skip
def test_refuses(broken: dict) -> None:
    fields = dict(broken)
    raw = bytearray(record(SIX_FLOATS))
    for name, value in fields.items():
        offset, code = OFFSETS[name]
        values = value if isinstance(value, tuple) else (value,)
        struct.pack_into("<" + code, raw, offset, *values)
    struct.pack_into("<I", raw, 124, crc32c(bytes(raw[:124])))
    with pytest.raises(DecodeError):
        decode(bytes(raw), FACTS)


@pytest.mark.parametrize("at", range(0, 152, 7))
def test_every_flipped_bit_is_seen(at: int) -> None:
    raw = bytearray(record(SIX_FLOATS))
    raw[at] ^= 0x10
    with pytest.raises(DecodeError):
        decode(bytes(raw), FACTS)


@pytest.mark.parametrize("length", [1, 127, 128, 151])
def test_cut_short(length: int) -> None:
    with pytest.raises(DecodeError):
        decode(record(SIX_FLOATS)[:length], FACTS)
