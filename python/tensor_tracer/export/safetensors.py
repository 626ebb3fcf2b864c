"""safetensors, by the library of that name."""

from __future__ import annotations

import importlib
import json
import mmap
import os
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tensor_tracer.errors import wrong
from tensor_tracer.export.arrays import make_arrays
from tensor_tracer.export.names import Source

_DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32",
           "i64": "int64", "u8": "uint8"}  # fmt: skip


def import_safetensors() -> Any:
    """The library; the error names the package and pip."""
    try:
        library = importlib.import_module("safetensors")
        if not hasattr(library, "TensorSpec"):
            raise ImportError(f"version {library.__version__} is too old")
        return library
    except ImportError as error:
        text = f"this needs the package safetensors 0.8 or newer, which cannot be imported: {error}"
        raise wrong(text, f"{sys.executable} -m pip install --upgrade safetensors", "--to") from error


def write_safetensors(source: Source, path: Path, raw: bool) -> None:
    """The library takes all arrays at once, but memory is to hold one record: so it lays out a file of zeros, which
    take no memory, and the records then go to the places in its header."""
    library = import_safetensors()
    arrays = make_arrays(source, True, raw)
    size = max([1, *(array.size for array in arrays)])
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ) as zeros:
        at = np.frombuffer(zeros, np.uint8).ctypes.data
        layout = {
            array.name: library.TensorSpec(
                dtype=_DTYPES[array.dtype], shape=list(array.shape), data_ptr=at, data_len=array.size
            )
            for array in arrays
        }
        metadata = {"format": "tensor-tracer recording", "run": source.run_id}
        try:
            library.serialize_file(layout, path, metadata)
        except library.SafetensorError as error:
            raise OSError(str(error)) from error
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)  # the library makes a file for its owner alone
    with path.open("r+b") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        places = json.loads(file.read(header_bytes))
        for array in arrays:
            file.seek(8 + header_bytes + places[array.name]["data_offsets"][0])
            array.write(file)
