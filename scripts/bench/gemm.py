"""Matrix products of a training step, shape by shape: what MKL and oneDNN reach on one thread.

MKL is what `torch.mm` calls for float32 on a CPU; oneDNN's inner product is called by its own
operator. Both write into fresh memory, as a step does. Forward is x W^T, the gradients are
dy W (of the input) and dy^T x (of the weight), which oneDNN is given as inner products too.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from shapes import SHAPES, Shape

SECONDS = 0.4  # per product and library


def products(shape: Shape, ranks: int) -> dict[str, tuple[int, int, int]]:
    """(m, n, k) of one rank's products: m rows of tokens, n columns, k summed over."""
    t, h = shape.tokens, shape.hidden
    return {
        "QKV": (t, 3 * h // ranks, h),
        "attention output": (t, h, h // ranks),
        "MLP1": (t, 4 * h // ranks, h),
        "MLP2": (t, h, 4 * h // ranks),
        "logits": (t, shape.vocab // ranks, h),
    }


def gflops(call, operations: int) -> float:
    """The median of repeated calls."""
    call()
    taken = []
    end = time.perf_counter() + SECONDS
    while (begin := time.perf_counter()) < end or len(taken) < 3:
        call()
        taken.append(time.perf_counter() - begin)
    return operations / statistics.median(taken) / 1e9


def one_dnn(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x W^T by oneDNN's inner product."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


def measure(m: int, n: int, k: int) -> list[tuple[str, float, float]]:
    """Per pass (forward, gradient of the input, gradient of the weight): GFLOP/s of MKL and of oneDNN."""
    x, weight, dy = torch.randn(m, k), torch.randn(n, k), torch.randn(m, n)
    transposed_weight, transposed_x, transposed_dy = (v.t().contiguous() for v in (weight, x, dy))
    operations = 2 * m * n * k
    passes = {
        "y": (lambda: torch.mm(x, weight.t()), lambda: one_dnn(x, weight)),
        "dx": (lambda: torch.mm(dy, weight), lambda: one_dnn(dy, transposed_weight)),
        "dW": (lambda: torch.mm(dy.t(), x), lambda: one_dnn(transposed_dy, transposed_x)),
    }
    return [(name, gflops(mkl, operations), gflops(dnn, operations)) for name, (mkl, dnn) in passes.items()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench.sh gemm", description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, action="append", help="default: both")
    parser.add_argument("--ranks", type=int, default=2, help="tensor-parallel ranks (default 2)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.shape or SHAPES:
        print(f"**{name}**, one rank of {options.ranks}, float32, GFLOP/s as MKL / oneDNN:\n")
        print("| product | rows × columns × summed | y | dx | dW |\n|---|---|---:|---:|---:|")
        for product, (m, n, k) in products(SHAPES[name], options.ranks).items():
            cells = [f"{mkl:.0f} / {dnn:.0f}" for _, mkl, dnn in measure(m, n, k)]
            print(f"| {product} | {m:,} × {n:,} × {k:,} | {' | '.join(cells)} |", flush=True)
        print()


if __name__ == "__main__":
    main()
