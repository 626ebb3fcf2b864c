"""Writes record_v1.bin and record_v1.json from docs/protocol.md alone, without the C++ code.

    python tests/golden/make_golden.py          # rewrites the files next to this script
"""

import json
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent

FIELDS = [
    ("run", "Q"), ("sequence", "Q"), ("step", "Q"), ("plan", "I"), ("entry", "I"),
    ("micro_batch", "I"), ("prompt_set", "I"), ("first_row", "I"), ("point", "H"), ("layer", "H"),
    ("tensor_rank", "H"), ("pipeline_rank", "H"), ("data_rank", "H"), ("phase", "B"),
    ("direction", "B"), ("dtype", "B"), ("compressor", "B"), ("ndim", "B"),
]


def crc32c(data: bytes) -> int:
    """Bit by bit, as the definition says: polynomial 0x1EDC6F41, reflected."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def record(header: dict, payload: bytes) -> tuple[bytes, dict]:
    header = dict(header, payload_bytes=len(payload), payload_crc=crc32c(payload))
    out = struct.pack("<IHH", 0x31465454, 1, 128)
    for name, code in FIELDS:
        out += struct.pack("<" + code, header[name])
    out += b"\0" + struct.pack("<4I", *header["shape"])
    out += struct.pack("<IQQ", header["features"], header["payload_bytes"], header["time"])
    out += bytes(16) + struct.pack("<I", header["payload_crc"])
    assert len(out) == 124
    header["header_crc"] = crc32c(out)
    out += struct.pack("<I", header["header_crc"]) + payload
    return out + bytes(-len(out) % 8), header


def records() -> list[tuple[bytes, dict]]:
    tiles = dict(run=0x5F0C1234ABCD5678, sequence=1, step=12, plan=3, entry=0, micro_batch=1,
                 prompt_set=0, first_row=8, point=7, layer=4, tensor_rank=0, pipeline_rank=1,
                 data_rank=2, phase=0, direction=0, dtype=2, compressor=1, ndim=3,
                 shape=[1, 2, 3, 1], features=256, time=1795230000123456789)
    values = struct.pack("<6f", 0.0, -1.5, 3.25, float("inf"), float("nan"), 1e-30)
    tokens = dict(tiles, sequence=2, entry=1, point=8, layer=0, phase=1, dtype=5, compressor=0,
                  ndim=3, shape=[2, 1, 3, 1], features=0)
    ids = struct.pack("<6i", 10, 20, 30, 0, 1, 2)
    odd = dict(tiles, sequence=2**40 + 3, entry=2, prompt_set=9, direction=1, dtype=4, ndim=1,
               shape=[3, 1, 1, 1])
    return [record(tiles, values), record(tokens, ids), record(odd, b"\x80\x3f\x00\x40\x40\x40"),
            record(dict(odd, dtype=7, ndim=2, shape=[0, 4, 1, 1]), b"")]


def main() -> None:
    made = records()
    (HERE / "record_v1.bin").write_bytes(b"".join(data for data, _ in made))
    described = {"file": "record_v1.bin", "made_by": "make_golden.py",
                 "records": [{"header": header, "payload_hex": data[128:128 + header["payload_bytes"]].hex()}
                             for data, header in made]}
    (HERE / "record_v1.json").write_text(json.dumps(described, indent=1) + "\n")


if __name__ == "__main__":
    main()
