"""Copies all tensors of a checkpoint in memory, so many times: prints the seconds as one JSON object.

Run as its own process, because the allocator reads its settings when the process starts.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file


def main() -> None:
    torch.set_num_threads(1)
    found = [load_file(path) for path in sorted(Path(sys.argv[1]).glob("*.safetensors"))]
    tensors = [torch.empty_like(tensor).copy_(tensor) for part in found for tensor in part.values()]
    del found
    seconds = []
    for _ in range(int(sys.argv[2])):
        begin = time.perf_counter()
        copies = [tensor.clone() for tensor in tensors]
        seconds.append(time.perf_counter() - begin)
        del copies
    print(json.dumps({"tensors": len(tensors), "seconds": seconds}))


if __name__ == "__main__":
    main()
