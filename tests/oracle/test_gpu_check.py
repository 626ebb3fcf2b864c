"""The kernels that scripts/gpu_check.sh compares on a device with the CPU: what the CPU computes is right."""

from __future__ import annotations

import sys

import pytest
import torch
from program import REPOSITORY
from test_attach_safety import BUILD

sys.path.append(str(REPOSITORY / "scripts/bench"))
import gpu_check

pytestmark = [pytest.mark.nightly(suite="attach"), pytest.mark.smoke]


@pytest.mark.parametrize("cosine", [False, True])
def test_projections_with_and_without_cosine_are_checked(cosine: bool) -> None:
    torch.ops.load_library(f"{BUILD}/lib/libtensor_tracer_torch.so")
    kinds = [one for one in gpu_check.COMPRESSORS if one["kind"] == "projection"]
    (compressor,) = (one for one in kinds if one.get("cosine", False) == cosine)
    numbers = torch.randn((2, 3, 300), generator=torch.Generator().manual_seed(1))
    vector = torch.randn(300, generator=torch.Generator().manual_seed(2))
    packed = gpu_check.packed(numbers, compressor, vector).view(torch.float32)
    parts = packed.view(2, 3, -(-300 // 64), 2 if cosine else 1)  # of 64 features each
    found = parts[..., 0].sum(-1)
    if cosine:
        found = found / parts[..., 1].sum(-1).sqrt()
    norms = numbers.norm(dim=-1) if not cosine else 1.0
    expected = torch.nn.functional.cosine_similarity(numbers, vector, dim=-1) * norms
    assert torch.allclose(found, expected, rtol=0, atol=1e-5)
