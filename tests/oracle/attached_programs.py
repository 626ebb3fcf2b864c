"""Steps of a Llama of Transformers with the tracer attached and a program in force in each of them, which
test_attach_nnsight.py starts, by itself or by torchrun. No step changes the weights.

    python attached_programs.py OUT '{"model": FOLDER, "programs": {NAME: TEXT}, "steps": 30, "attach": {…}}'

Hooks of this file keep what the step computed; rank 0 writes it to OUT/steps.pt, and refused programs to refused.json.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import tensor_tracer as tt
import torch
import torch.distributed as dist
from attached_training import DEVICE, numbers_of
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import LlamaForCausalLM

ROWS, TOKENS, VOCABULARY = 2, 16, 61


def batch_of(step: int) -> Tensor:
    return torch.randint(0, VOCABULARY, (ROWS, TOKENS), generator=torch.Generator().manual_seed(step)).to(DEVICE)


def loss_of(logits: Tensor, ids: Tensor) -> Tensor:
    """The last position counts too: some programs act there only."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids.roll(-1, dims=1).flatten())


def keep_hidden_states(model: nn.Module, kept: dict[int, Tensor]) -> None:
    """What each layer passes on, as the next one takes it: a program has changed it by then. 0: the embedding."""
    followers = [*model.model.layers, model.model.norm]
    for number, module in enumerate(followers):

        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], number: int = number) -> None:
            kept[number] = numbers_of(args[0] if args else kwargs["hidden_states"])

        module.register_forward_pre_hook(hook, with_kwargs=True)


def step_of(model: nn.Module, run: Any, ids: Tensor, kept: dict[int, Tensor]) -> dict[str, Any]:
    model.zero_grad()
    with run.step():
        logits = model(ids).logits
        logits = logits.full_tensor() if isinstance(logits, DTensor) else logits
        loss = loss_of(logits, ids)
        loss.backward()
    gradients = {name: numbers_of(one.grad) for name, one in model.named_parameters() if one.grad is not None}
    return {"loss": loss.item(), "logits": numbers_of(logits), "hidden": dict(kept), "gradients": gradients}


def apply(run: Any, programs: dict[str, str]) -> dict[str, str]:
    """The messages of those that are refused."""
    refused = {}
    for name, text in programs.items():
        try:
            run.intervene(text, name=name)
        except tt.TensorTracerError as error:
            refused[name] = str(error)
    return refused


def main() -> None:
    out, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        dist.init_process_group("gloo")
    model = LlamaForCausalLM.from_pretrained(options["model"], **({"tp_plan": "auto"} if ranks > 1 else {})).to(DEVICE)
    kept: dict[int, Tensor] = {}
    keep_hidden_states(model, kept)
    run = tt.attach(model, **options["attach"])
    steps = {1: step_of(model, run, batch_of(1), kept)}
    refused = apply(run, options["programs"])
    for step in range(2, options["steps"] + 1):
        steps[step] = step_of(model, run, batch_of(step), kept)
    run.detach()
    if ranks == 1 or dist.get_rank() == 0:
        torch.save(steps, out / "steps.pt")
        (out / "refused.json").write_text(json.dumps(refused))
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
