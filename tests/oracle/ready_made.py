"""What the programs of configs/interventions should do, in PyTorch."""

from __future__ import annotations

import re
from typing import Any

import torch
from hooked_gpt import ALL, Graph, Save, Seen, Write, heads, put, put_heads
from program import REPOSITORY
from torch import Tensor

FOLDER = REPOSITORY / "configs" / "interventions"


def text(name: str, *more: str) -> str:
    """The program, with more lines at its end."""
    return (FOLDER / f"{name}.tti").read_text() + "".join(line + "\n" for line in more)


def with_default(name: str, parameter: str, value: float) -> str:
    """The program with another value of a parameter, where its own does nothing to a tiny model."""
    changed, count = re.subn(rf"^({parameter} = param\()[^,]*", rf"\g<1>{value}", text(name), flags=re.M)
    assert count == 1
    return changed


def steer_if(h: Tensor, s: Seen) -> Tensor:
    u = s.unit("evil", 3)
    return torch.where((h @ u > 0.1)[..., None], h - u, h)


def cap(h: Tensor, s: Seen) -> Tensor:
    """Both one-sided formulas of activation capping, one after the other."""
    u = s.unit("evil", 3)
    h = h - torch.minimum(h @ u + 0.1, torch.tensor(0.0))[..., None] * u
    return h - torch.maximum(h @ u - 0.1, torch.tensor(0.0))[..., None] * u


def capped(s: Seen) -> Tensor:
    return ((s.old["HiddenStates", 3] @ s.unit("evil", 3)).abs() > 0.1).double().mean()


class Attribution:
    """Direct logit attribution: the final norm with its scale held fixed, then the output layer."""

    def __init__(self, centred: bool) -> None:
        self.centred = centred

    def of(self, part: Tensor, s: Seen) -> Tensor:
        """Scores `[batch, sequence - 1]` of the next token, less the mean over the vocabulary."""
        assert s.model is not None
        shift = self.centre(part) / self.scale(s) * s.model.weights["final_norm.weight"]
        return self.of_next(shift @ s["output_layer.weight", 0].T, s)

    def centre(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True) if self.centred else x

    def scale(self, s: Seen) -> Tensor:
        variance = self.centre(s["HiddenStates", 4]).square().mean(-1, keepdim=True)
        return (variance + 1e-5).sqrt()

    def of_next(self, scores: Tensor, s: Seen) -> Tensor:
        scores = scores[:, :-1] - scores[:, :-1].mean(-1, keepdim=True)
        return scores.gather(-1, s.tokens[:, 1:, None])[..., 0]

    def embedding(self, s: Seen) -> Tensor:
        """Asserts that the parts add up to the score, for the norm that this is right for."""
        assert s.model is not None
        parts = [s["Embedding", 0]]
        parts += [s[point, layer] for point in ("AttentionOutput", "MLP2") for layer in (1, 2, 3, 4)]
        if self.centred == (s.model.config.normalization == "LayerNorm"):
            score = self.of_next(s["Logits", 0], s)
            if self.centred:
                shift = s.model.weights["final_norm.bias"].expand_as(parts[0])
                score = score - self.of_next(shift @ s["output_layer.weight", 0].T, s)
            assert torch.allclose(sum(self.of(part, s) for part in parts), score, rtol=1e-9, atol=1e-12)
        return self.of(parts[0], s).mean()

    def saves(self) -> dict[str, Any]:
        def layered(point: str) -> Save:
            return lambda s: self.of(s[point, s.layer], s).mean()

        return {
            "saves": {"embedding": self.embedding},
            "layered": {"attention": layered("AttentionOutput"), "mlp": layered("MLP2")},
        }


def mean(x: Tensor, s: Seen) -> Tensor:
    return x.mean(dim=(0, 1)).expand_as(x)


def mean_norm(place: str, s: Seen) -> Tensor:
    return s[place, s.layer].norm(dim=-1).mean()


def noise1(save: str) -> Write:
    return lambda x, s: x + 0.05 * s.noise(save)


def noise2(save: str) -> Write:
    return lambda x, s: x * (1 + 0.05 * (2 * s.noise(save) - 1))


NOISY = {
    "weights": {"qkv": "attention.qkv.weight", "fc1": "mlp.fc1.weight", "out": "output_layer.weight"},
    "mlp": {"mlp": "MLP2"},
    "layer": {"out": "HiddenStates"},
}
PLACES = {"MLP2": "mlp.output", "HiddenStates": "output"}


def noisy(kind: str, where: str) -> Graph:
    """A noise program that also saves the noise it used."""
    lines, writes = [], {}
    for save, point in NOISY[where].items():
        whole = point.startswith("output_layer")
        place = point if whole else f"layers[layer].{PLACES.get(point, point)}"
        drawn = f'noise({place}, "uniform")' if kind == "noise2" else f"noise({place})"
        lines.append(f'save({drawn}, "{save}")')
        writes[point, 0 if whole else ALL] = noise1(save) if kind == "noise1" else noise2(save)
    return Graph(f"{kind}_{where}", text(f"{kind}_{where}", *lines), writes)


READY_MADE = [
    Graph("steer", text("steer"),
          {("HiddenStates", 3): lambda h, s: h + 2.0 * s.vector("evil", 3)}),
    Graph("steer_prompt", text("steer_prompt"), changes=False),
    Graph("steer_response", text("steer_response"),
          {("HiddenStates", 3): lambda h, s: s.only(h, h + 2.0 * s.vector("evil", 3), tokens=[-1])}),
    Graph("steer_if", with_default("steer_if", "threshold", 0.1), {("HiddenStates", 3): steer_if},
          saves={"fired": lambda s: (s.old["HiddenStates", 3] @ s.unit("evil", 3) > 0.1).double().mean()}),
    Graph("project_out", text("project_out"),
          {("HiddenStates", 3): lambda h, s: h - (h @ s.unit("evil", 3))[..., None] * s.unit("evil", 3)}),
    Graph("cap", with_default("cap", "low", -0.1).replace("param(1.0", "param(0.1"), {("HiddenStates", 3): cap},
          saves={"capped": capped}),
    Graph("ablate_layer", text("ablate_layer"),
          {("AttentionOutput", 2): lambda x, s: torch.zeros_like(x),
           ("MLP2", 2): lambda x, s: torch.zeros_like(x)}),
    Graph("mean_ablate_layer", text("mean_ablate_layer"),
          {("AttentionOutput", 2): mean, ("MLP2", 2): mean}),
    Graph("ablate_head", text("ablate_head"),
          {("ContextLayer", 2): lambda x, s: put_heads(x, 1, 0.0)}),
    Graph("mean_ablate_head", text("mean_ablate_head"),
          {("ContextLayer", 2): lambda x, s: put_heads(x, 1, heads(x)[..., 1, :].mean(dim=(0, 1)))}),
    Graph("ablate_neuron", text("ablate_neuron"),
          {("MLPActivation", 2): lambda x, s: put(x, (..., [3, 17]), 0.0)}),
    Graph("mean_ablate_neuron", text("mean_ablate_neuron"),
          {("MLPActivation", 2): lambda x, s: put(x, (..., 3), x[..., 3].mean())}),
    Graph("patch_row", text("patch_row"),
          {("HiddenStates", 2): lambda h, s: torch.cat(
              [h[:1], torch.cat([h[1:, :-1], h[:1, -1:].expand(len(h) - 1, -1, -1)], 1)])}),
    Graph("patch_previous", text("patch_previous"),
          {("HiddenStates", 2): lambda h, s: s.before.get("before", h)},
          kept={"before": lambda s: s.old["HiddenStates", 2]}, steps=3),
    Graph("patch_file", text("patch_file"),
          {("HiddenStates", 2): lambda h, s: put(h, (slice(None), -1), s.world.files["resid"])}),
    Graph("clamp", with_default("clamp", "limit", 0.05),
          {("MLP2", 2): lambda x, s: x.clamp(-0.05, 0.05)}),
    Graph("scale", text("scale"), {("AttentionOutput", 2): lambda x, s: 0.5 * x}),
    Graph("scale_gradients", text("scale_gradients"),
          gradients={("HiddenStates", 2): lambda g, s: 0.5 * g}),
    Graph("skip_layer", text("skip_layer"), skips=lambda layer, s: layer == 3),
    Graph("save_norms", text("save_norms"), layered={
        "norm": lambda s: mean_norm("HiddenStates", s),
        "gradient_norm": lambda s: s.gradient["HiddenStates", s.layer].norm(dim=-1).mean()},
        changes=False),
    Graph("logit_attribution", text("logit_attribution"), changes=False, **Attribution(True).saves()),
    Graph("logit_attribution_rms", text("logit_attribution").replace("centred = 1.0", "centred = 0.0"),
          changes=False, **Attribution(False).saves()),
    *(noisy(kind, where) for kind in ("noise1", "noise2") for where in NOISY),
]  # fmt: skip
