"""The numbers of the opponents of scripts/bench.sh attach, in PyTorch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

LOWEST, BINS = -32, 48  # of the histogram of floor(log2 |x|)
BIAS = 127  # of a float32's exponent bits
PART = 1 << 18  # numbers


def statistics(tensor: Tensor) -> Tensor:
    """The record of `stats` (docs/protocol.md) of a float32 tensor [..., features]: [2, 10 + BINS]."""
    lines = tensor.reshape(-1, tensor.shape[-1])
    mean = lines.mean()
    if math.isfinite(mean):
        return _record(lines, lines, mean, [0, 0, 0])
    finite = lines[lines.isfinite()].view(1, -1)
    unusual = [int(one.sum()) for one in (lines.isnan(), lines == math.inf, lines == -math.inf)]
    return _record(lines, finite, finite.mean(), unusual)


def _record(lines: Tensor, finite: Tensor, mean: Tensor, unusual: list[int]) -> Tensor:
    """`finite`: the finite numbers, [..., any]; `unusual`: how many numbers are NaN, +Infinity, -Infinity."""
    count, used = lines.numel(), finite.numel()
    norms = _norms(lines if finite is lines else lines.nan_to_num(0, 0, 0))
    scalars = torch.stack([mean, *_powers(finite, mean), *finite.aminmax(), *norms]).tolist()
    average, power, fourth, least, most, norm, *of_lines_and_columns = scalars
    counts = _exponents(lines)
    zeros = count - int(lines.count_nonzero()) if counts[0] else 0  # they share an exponent with the smallest numbers
    bins = _bins(counts, zeros)
    head = [count, average, math.sqrt(power / (used - 1)), least, most, norm, zeros / count, *unusual, *bins]
    tail = [fourth * used / power**2, norm / math.sqrt(used), *of_lines_and_columns]
    return torch.tensor([head, tail + [math.nan] * (len(head) - len(tail))])


def _parts(lines: Tensor) -> tuple[Tensor, ...]:
    """So small that what is computed of a part stays in the cache."""
    return lines.split(max(1, PART // lines.shape[-1]))


def _norms(lines: Tensor) -> tuple[Tensor, ...]:
    """Euclidean norm of all numbers; least, mean and largest norm of lines, and of columns."""
    of_lines, of_columns = [], torch.zeros(lines.shape[-1])
    for part in _parts(lines):
        squares = part.square()
        of_lines.append(squares.sum(1))
        of_columns += squares.sum(0)
    norms = torch.cat(of_lines).sqrt_(), of_columns.sqrt_()
    return torch.linalg.vector_norm(norms[0]), *(one for n in norms for one in (n.amin(), n.mean(), n.amax()))


def _powers(finite: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of the second and fourth powers of the distances from the mean."""
    power, fourth = torch.zeros(()), torch.zeros(())
    for part in _parts(finite):
        second = (part - mean).square_().view(-1)
        power += second.sum()
        fourth += torch.dot(second, second)
    return power, fourth


def _exponents(lines: Tensor) -> Tensor:
    """How many numbers have each of the 256 exponents."""
    counts = torch.zeros(256, dtype=torch.int64)
    for part in _parts(lines.view(torch.int32)):
        counts += torch.bincount((part >> 23).to(torch.uint8).view(-1), minlength=256)  # without the sign
    return counts


def _bins(counts: Tensor, zeros: int) -> list[int]:
    """Numbers by floor(log2 |x|), the first and last bin with all beyond; no bin has zeros."""
    first, end = LOWEST + BIAS, LOWEST + BIAS + BINS
    found = counts.tolist()
    bins: list[int] = found[first:end]
    bins[0] += sum(found[:first]) - zeros
    bins[-1] += sum(found[end:255])  # 255: infinities and NaN
    return bins


def megatron_sums(tensor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What a rank keeps of a tensor [..., features] for Megatron-LM's metrics `l2`, `layer-max`, `mean-row-l2` and
    `mean-column-l2`: the largest number, the sum of the norms of lines, the squared norms of columns."""
    lines = tensor.reshape(-1, tensor.shape[-1])
    of_lines = torch.linalg.vector_norm(lines, dim=1)
    of_columns = torch.linalg.vector_norm(lines, dim=0).square_()
    return lines.amax(), of_lines.sum(), of_columns
