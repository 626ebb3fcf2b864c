"""What the machine's matrix multiplication reaches at best: prints GFLOP/s as one JSON object.

Run as its own process, because the number of threads is settled when PyTorch starts.
"""

from __future__ import annotations

import argparse
import json
import time

import torch

SIZES = (512, 1024, 1536)
SECONDS = 0.5  # per size


def best_gflops(dtype: torch.dtype) -> float:
    """The fastest of many products of square matrices of several sizes."""
    best = 0.0
    for size in SIZES:
        a, b = torch.randn(2, size, size).to(dtype)
        out = torch.empty_like(a)
        end = time.perf_counter() + SECONDS
        while (begin := time.perf_counter()) < end:
            torch.mm(a, b, out=out)
            best = max(best, 2 * size**3 / (time.perf_counter() - begin) / 1e9)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    print(json.dumps({"fp32": best_gflops(torch.float32), "bf16": best_gflops(torch.bfloat16)}))


if __name__ == "__main__":
    main()
