"""`python -m tensor_tracer convert MODEL.gguf FOLDER`: docs/models.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tensor_tracer.convert.gguf import DTYPES, convert_gguf
from tensor_tracer.errors import TensorTracerError

_EPILOG = """
  convert SmolLM2-135M-Instruct.Q4_1.gguf models/smollm2
"""


def parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tensor_tracer convert",
        description="Write a GGUF file as a folder of config.json, model.safetensors and tokenizer.json (docs/models.md).",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("model", type=Path, help="the GGUF file")
    parser.add_argument("folder", type=Path, help="the new folder")
    parser.add_argument("--dtype", default="float32", choices=DTYPES, help="of the weights; float32 keeps all bits")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    options = parse_arguments(words)
    try:
        tensors = convert_gguf(options.model, options.folder, options.dtype)
    except TensorTracerError as error:
        print(f"convert: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"convert: {error}", file=sys.stderr)
        return 1
    print(f"{options.folder}: {tensors} tensors in {options.dtype}")
    return 0
