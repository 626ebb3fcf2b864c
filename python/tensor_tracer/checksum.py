"""CRC-32C, by a native package or by numpy."""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_native_crc32c: Any = None
with contextlib.suppress(ImportError):
    _native_crc32c = importlib.import_module("google_crc32c")
_CRC_START = bytes.fromhex("54641f64")  # brings a state of 0 to all ones


@functools.cache
def _crc_tables() -> tuple[Array, list[list[int]]]:
    """[p, b]: what byte b at place p of a block of 256 adds to the block's CRC. The state before a
    block comes in at its first four places."""
    last: Array = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        last = (last >> 1) ^ ((last & 1) * np.uint32(0x82F63B78))
    tables = np.empty((256, 256), np.uint32)
    tables[255] = last
    for place in range(254, -1, -1):
        tables[place] = (tables[place + 1] >> 8) ^ last[tables[place + 1] & 255]
    return tables.ravel(), tables[:4].tolist()


def _crc32c_numpy(data: bytes) -> int:
    data = bytes(-(len(data) + 4) % 256) + _CRC_START + data
    table, (c0, c1, c2, c3) = _crc_tables()
    places, state = np.arange(256, dtype=np.int32) * 256, 0
    for at in range(0, len(data), 1 << 15):  # chunks that stay in the cache
        piece = np.frombuffer(data, np.uint8, min(1 << 15, len(data) - at), at).reshape(-1, 256)
        for block in np.bitwise_xor.reduce(table.take(piece + places), axis=1).tolist():
            low, high = c0[state & 255] ^ c1[state >> 8 & 255], c2[state >> 16 & 255] ^ c3[state >> 24]
            state = block ^ low ^ high
    return state ^ 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli): by the package google-crc32c if it is installed, else by numpy."""
    return int(_native_crc32c.value(data)) if _native_crc32c else _crc32c_numpy(data)
