"""The rows of a W&B run that was logged offline.

The file is a header of 7 bytes, then a log in LevelDB's format: blocks of 32,768 bytes with chunks of
[checksum 4, length 2, type 1], where the types 1 to 4 are a whole record, its first, middle and last chunk.
The records are W&B's own protocol buffers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BLOCK, _HEADER, _FILE_HEADER = 32768, 7, 7


def _records(data: bytes) -> Iterator[bytes]:
    at, record = _FILE_HEADER, b""
    while at + _HEADER <= len(data):
        if (left := _BLOCK - at % _BLOCK) < _HEADER:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if kind == 0:
            return
        record += data[at + _HEADER : at + _HEADER + length]
        at += _HEADER + length
        if kind in (1, 4):
            yield record
            record = b""


def rows_of(folder: Path) -> list[dict[str, Any]]:
    from wandb.proto.wandb_internal_pb2 import Record

    [file] = folder.glob("wandb/offline-run-*/*.wandb")
    rows = []
    for data in _records(file.read_bytes()):
        if (record := Record.FromString(data)).HasField("history"):
            items = record.history.item
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
    return rows
