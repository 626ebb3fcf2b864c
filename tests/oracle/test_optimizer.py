"""Ten steps of the program's optimizer against torch.optim.AdamW and a schedule written here."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from program import train
from reference_gpt import ReferenceGpt

STEPS = 10
SCHEDULE = {"lr": 3e-3, "min_lr": 2e-4, "lr_warmup_iters": 3, "lr_decay_iters": 8}


def learning_rate(step: int) -> float:
    """Megatron's linear warm-up and cosine decay; steps count from 1."""
    peak, least = SCHEDULE["lr"], SCHEDULE["min_lr"]
    warmup, decay = SCHEDULE["lr_warmup_iters"], SCHEDULE["lr_decay_iters"]
    if step <= warmup:
        return peak * step / warmup
    if step > decay:
        return least
    done = (step - warmup) / (decay - warmup)
    return least + 0.5 * (peak - least) * (1 + math.cos(math.pi * done))


@pytest.mark.parametrize("clip", [1.0, 0.0], ids=["clipped", "unclipped"])
@pytest.mark.parametrize("mesh", [(1, 1), (2, 2)], ids=str)
def test_ten_steps(mesh: tuple[int, int], clip: float, flags, tmp_path: Path) -> None:
    """Weights, loss, gradient norm and learning rate of every step, in float64."""
    tensor, data = mesh
    changes = SCHEDULE | {
        "train_iters": STEPS + 1,
        "params_dtype": "float64",
        "clip_grad": clip,
        "tensor_model_parallel_size": tensor,
    }
    run = train(flags | changes, tmp_path, ranks=tensor * data, export_at=f"1-{STEPS + 1}")

    first = run.export(1)
    weights = {name: weight.clone().requires_grad_() for name, weight in first.weights.items()}
    model = ReferenceGpt(first.config, weights)
    optimizer = torch.optim.AdamW(
        [
            {"params": [w for w in weights.values() if w.ndim >= 2]},
            {"params": [w for w in weights.values() if w.ndim < 2], "weight_decay": 0.0},
        ],
        weight_decay=flags["weight_decay"],
        betas=(flags["adam_beta1"], flags["adam_beta2"]),
        eps=flags["adam_eps"],
    )
    norms = []
    for step in range(1, STEPS + 1):
        batch, log = run.export(step), run.steps[step - 1]
        optimizer.zero_grad()
        loss = model.loss(batch.tokens, batch.labels)
        loss.backward()
        norm = torch.nn.utils.get_total_norm([w.grad for w in weights.values()])
        if clip > 0:
            scale = min(1.0, clip / (norm.item() + 1e-6))
            for weight in weights.values():
                weight.grad.mul_(scale)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()

        norms.append(norm.item())
        assert log["lr"] == pytest.approx(learning_rate(step), rel=1e-12), step
        assert log["loss"] == pytest.approx(loss.item(), rel=1e-9), step
        assert log["grad_norm"] == pytest.approx(norm.item(), rel=1e-9), step
        after = run.export(step + 1).weights
        for name, weight in weights.items():
            largest = weight.abs().max().item()
            error = (after[name] - weight.detach()).abs().max().item()
            assert error <= 1e-9 * largest, f"{name} after step {step}: off by {error:.3g}"
    if clip > 0:
        assert max(norms) > clip, "nothing was clipped: the test shows less than it says"
