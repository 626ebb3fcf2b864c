"""The ready-made interventions as users of NNsight write them, on the Llama of attached_programs.py in one process.

    python nnsight_programs.py OUT '{"model": FOLDER, "vectors": FILE, "file": FILE, "noise": FILE, "steps": {NAME: [5, 6, 7]}}'

test_attach_nnsight.py starts it with the interpreter that has NNsight. It writes to OUT/steps.pt what each step
computed, what each program saved, and `plain`, the gradients without a program. `noise` has the random numbers by step, name and layer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nnsight
import torch
from attached_programs import batch_of, keep_hidden_states, loss_of
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import LlamaForCausalLM

HEAD = 8


@dataclass
class World:
    """`head`: the output layer. `before`: what the step before kept. `noise`: of this step, by name and layer from 1."""

    evil: Tensor
    resid: Tensor
    ids: Tensor
    head: Any
    before: dict[str, Tensor] = field(default_factory=dict)
    noise: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    kept: dict[str, Tensor] = field(default_factory=dict)
    saved: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    @property
    def unit(self) -> Tensor:
        return self.evil[3] / self.evil[3].norm()


def steer(m: Any, w: World) -> None:
    m.layers[2].output = m.layers[2].output + 2.0 * w.evil[3]


def steer_prompt(m: Any, w: World) -> None:
    """Acts in monitored prompts only."""


def steer_response(m: Any, w: World) -> None:
    h = m.layers[2].output.clone()
    h[:, -1] += 2.0 * w.evil[3]
    m.layers[2].output = h


def steer_if(m: Any, w: World) -> None:
    h = m.layers[2].output
    fires = h @ w.unit > 0.1
    m.layers[2].output = torch.where(fires[..., None], h - w.unit, h)
    w.saved["fired", 0] = fires.double().mean().save()


def project_out(m: Any, w: World) -> None:
    h = m.layers[2].output
    m.layers[2].output = h - (h @ w.unit)[..., None] * w.unit


def cap(m: Any, w: World) -> None:
    h = m.layers[2].output
    p = h @ w.unit
    m.layers[2].output = h + (p.clamp(-0.1, 0.1) - p)[..., None] * w.unit
    w.saved["capped", 0] = (p.abs() > 0.1).double().mean().save()


def ablate_layer(m: Any, w: World) -> None:
    attention = m.layers[1].self_attn.output
    m.layers[1].self_attn.output = (torch.zeros_like(attention[0]), *attention[1:])
    m.layers[1].mlp.output = torch.zeros_like(m.layers[1].mlp.output)


def mean_ablate_layer(m: Any, w: World) -> None:
    attention = m.layers[1].self_attn.output
    mean = attention[0].mean(dim=(0, 1)).expand_as(attention[0])
    m.layers[1].self_attn.output = (mean, *attention[1:])
    mlp = m.layers[1].mlp.output
    m.layers[1].mlp.output = mlp.mean(dim=(0, 1)).expand_as(mlp)


def ablate_head(m: Any, w: World) -> None:
    context = m.layers[1].self_attn.o_proj.input.clone()
    context[..., HEAD : 2 * HEAD] = 0
    m.layers[1].self_attn.o_proj.input = context


def mean_ablate_head(m: Any, w: World) -> None:
    context = m.layers[1].self_attn.o_proj.input.clone()
    head = context[..., HEAD : 2 * HEAD]
    context[..., HEAD : 2 * HEAD] = head.mean(dim=(0, 1)).expand_as(head)
    m.layers[1].self_attn.o_proj.input = context


def ablate_neuron(m: Any, w: World) -> None:
    neurons = m.layers[1].mlp.down_proj.input.clone()
    neurons[..., [3, 17]] = 0
    m.layers[1].mlp.down_proj.input = neurons


def mean_ablate_neuron(m: Any, w: World) -> None:
    neurons = m.layers[1].mlp.down_proj.input.clone()
    neurons[..., 3] = neurons[..., 3].mean()
    m.layers[1].mlp.down_proj.input = neurons


def patch_row(m: Any, w: World) -> None:
    h = m.layers[1].output.clone()
    h[1:, -1] = h[0, -1]
    m.layers[1].output = h


def patch_previous(m: Any, w: World) -> None:
    h = m.layers[1].output
    w.kept["before"] = h.detach().clone().save()
    if "before" in w.before:
        m.layers[1].output = w.before["before"]


def patch_file(m: Any, w: World) -> None:
    h = m.layers[1].output.clone()
    h[:, -1] = w.resid
    m.layers[1].output = h


def clamp(m: Any, w: World) -> None:
    m.layers[1].mlp.output = m.layers[1].mlp.output.clamp(-0.05, 0.05)


def scale(m: Any, w: World) -> None:
    attention = m.layers[1].self_attn.output
    m.layers[1].self_attn.output = (0.5 * attention[0], *attention[1:])


def skip_layer(m: Any, w: World) -> None:
    m.layers[2].skip(m.layers[1].output)


def noise1_mlp(m: Any, w: World) -> None:
    for number, layer in enumerate(m.layers, 1):
        layer.mlp.output = layer.mlp.output + 0.05 * w.noise["mlp", number]


def noise1_layer(m: Any, w: World) -> None:
    for number, layer in enumerate(m.layers, 1):
        layer.output = layer.output + 0.05 * w.noise["out", number]


def noise2_mlp(m: Any, w: World) -> None:
    for number, layer in enumerate(m.layers, 1):
        layer.mlp.output = layer.mlp.output * (1 + 0.05 * (2 * w.noise["mlp", number] - 1))


def noise2_layer(m: Any, w: World) -> None:
    for number, layer in enumerate(m.layers, 1):
        layer.output = layer.output * (1 + 0.05 * (2 * w.noise["out", number] - 1))


def with_other_weights(modules: list[Any], noise: Tensor, change: Callable[[Tensor, Tensor], Tensor]) -> None:
    """The outputs that linear layers have with other weights. `noise` has the rows of one layer after another."""
    for module in modules:
        own, noise = noise.split([len(module.weight), len(noise) - len(module.weight)])
        module.output = nn.functional.linear(module.input, change(module.weight, own))


def with_noisy_weights(m: Any, w: World, change: Callable[[Tensor, Tensor], Tensor]) -> None:
    for number, layer in enumerate(m.layers, 1):
        attention = layer.self_attn
        with_other_weights([attention.q_proj, attention.k_proj, attention.v_proj], w.noise["qkv", number], change)
        with_other_weights([layer.mlp.gate_proj, layer.mlp.up_proj], w.noise["fc1", number], change)
    with_other_weights([w.head], w.noise["out", 0], change)


def noise1_weights(m: Any, w: World) -> None:
    with_noisy_weights(m, w, lambda weight, noise: weight + 0.05 * noise)


def noise2_weights(m: Any, w: World) -> None:
    with_noisy_weights(m, w, lambda weight, noise: weight * (1 + 0.05 * (2 * noise - 1)))


def attribute(m: Any, w: World, centred: bool) -> None:
    """Each part of the residual stream through the final norm, with its scale held fixed, and the output layer: the
    score of the next token, less the mean over the vocabulary."""

    def centre(x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True) if centred else x

    parts = [("embedding", 0, m.embed_tokens.output)]
    for number, layer in enumerate(m.layers, 1):
        parts += [("attention", number, layer.self_attn.output[0]), ("mlp", number, layer.mlp.output)]
    scale = (centre(m.norm.input).square().mean(-1, keepdim=True) + 1e-5).sqrt()
    for name, number, part in parts:
        scores = (centre(part) / scale * m.norm.weight @ w.head.weight.T)[:, :-1]
        scores = scores - scores.mean(-1, keepdim=True)
        w.saved[name, number] = scores.gather(-1, w.ids[:, 1:, None]).mean().detach().save()


def logit_attribution(m: Any, w: World) -> None:
    attribute(m, w, centred=True)


def logit_attribution_rms(m: Any, w: World) -> None:
    attribute(m, w, centred=False)


def scale_gradients(states: list[Any], w: World) -> None:
    states[1].grad = 0.5 * states[1].grad


def save_norms(states: list[Any], w: World) -> None:
    for number, h in reversed(list(enumerate(states, 1))):
        w.saved["gradient_norm", number] = h.grad.norm(dim=-1).mean().save()
        w.saved["norm", number] = h.norm(dim=-1).mean().save()


FORWARD: dict[str, Callable[[Any, World], None]] = {
    edit.__name__: edit
    for edit in (steer, steer_prompt, steer_response, steer_if, project_out, cap, ablate_layer, mean_ablate_layer,
                 ablate_head, mean_ablate_head, ablate_neuron, mean_ablate_neuron, patch_row, patch_previous, clamp,
                 patch_file, scale, skip_layer, noise1_weights, noise1_mlp, noise1_layer, noise2_weights, noise2_mlp,
                 noise2_layer, logit_attribution, logit_attribution_rms)
}  # fmt: skip
BACKWARD: dict[str, Callable[[list[Any], World], None]] = {
    edit.__name__: edit for edit in (scale_gradients, save_norms)
}


def trace(model: Any, name: str, world: World, ids: Tensor) -> Tensor:
    """The logits of a step with its program, after the backward pass."""
    if name not in BACKWARD:
        with model.trace(ids):
            FORWARD[name](model.model, world)
            logits = model.output.logits.save()
        loss_of(logits, ids).backward()
        return logits
    with model.trace(ids):
        states = [layer.output for layer in model.model.layers]
        logits = model.output.logits.save()
        with loss_of(logits, ids).backward():
            BACKWARD[name](states, world)
    return logits


def gradients_of(model: nn.Module) -> dict[str, Tensor]:
    found = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    model.zero_grad()
    return found


def step_of(model: nn.Module, name: str, world: World, kept: dict[int, Tensor]) -> dict[str, Any]:
    traced, ids = nnsight.NNsight(model), world.ids
    world.head = traced.lm_head
    logits = trace(traced, name, world, ids).detach()
    states, gradients = dict(kept), gradients_of(model)
    loss_of(model(ids).logits, ids).backward()
    return {"logits": logits, "hidden": states, "gradients": gradients, "saved": world.saved, "plain": gradients_of(model)}


def main() -> None:
    out, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    model = LlamaForCausalLM.from_pretrained(options["model"])
    kept: dict[int, Tensor] = {}
    keep_hidden_states(model, kept)
    evil, noise = torch.load(options["vectors"]), torch.load(options["noise"])
    resid = load_file(options["file"])["resid"].float()
    steps: dict[int, Any] = {}
    for name, of_program in options["steps"].items():
        before: dict[str, Tensor] = {}
        for step in of_program:
            world = World(evil, resid, batch_of(step), None, before, noise.get(step, {}))
            steps[step] = step_of(model, name, world, kept)
            before = world.kept
    torch.save(steps, out / "steps.pt")


if __name__ == "__main__":
    main()
