"""Programs beyond plain writes, each beside what it should do in PyTorch: what they compute from,
conditions, `when`, skips, gradients, and what is kept from step to step."""

from __future__ import annotations

import torch
from hooked_gpt import ALL, Graph, Seen, put
from torch import Tensor

ROWS = slice(None)


def without(x: Tensor, u: Tensor) -> Tensor:
    return x - (x @ u)[..., None] * u


def recent(h: Tensor, s: Seen) -> Tensor:
    return h + s.before["mean"] - h.mean(dim=(0, 1)) if "mean" in s.before else h


def mixed_with_before(h: Tensor, s: Seen) -> Tensor:
    return 0.5 * (h + s.before["behind"]) if "behind" in s.before else h


def lens(x: Tensor, s: Seen) -> Tensor:
    return s.model.output_layer(s.model.final_norm(x))


COMPUTED = [
    Graph("lens", "h = layers[2].output\nsave(output_layer(final_norm(h[:, -1:])).softmax(dim=-1), \"last\")\n"
          "save(output_layer(final_norm(layers[layer].mid)).amax(dim=-1), \"best\")",
          saves={"last": lambda s: lens(s["HiddenStates", 2][:, -1:], s).softmax(dim=-1)},
          layered={"best": lambda s: lens(s["ResidualMid", s.layer], s).amax(dim=-1)}, changes=False),
    Graph("norm_of_mlp", "layers[3].output = layers[3].output + 0.1 * final_norm(layers[3].mlp.output)",
          {("HiddenStates", 3): lambda x, s: x + 0.1 * s.model.final_norm(s["MLP2", 3])}),
    Graph("early_exit", "early = output_layer(final_norm(layers[2].output))\nlogits = 0.7 * logits + 0.3 * early",
          {("Logits", 0): lambda x, s: 0.7 * x + 0.3 * lens(s["HiddenStates", 2], s)}),
    Graph("prediction_fed_back",
          "p = output_layer(layers[3].output).softmax(dim=-1)\n"
          "layers[4].output += 20 * p[..., :32]",
          {("HiddenStates", 4): lambda x, s: x + 20 * (
              s.model.output_layer(s["HiddenStates", 3]).softmax(dim=-1)[..., :32])}),
    Graph("matrix", "h = layers[2].output\nw = h.mT @ h / 16\nlayers[2].output = h @ w.softmax(dim=-1)",
          {("HiddenStates", 2): lambda x, s: x @ (x.mT @ x / 16).softmax(dim=-1)}),
    Graph("cumulative", "layers[2].output = layers[2].output.cumsum(dim=1) / 4",
          {("HiddenStates", 2): lambda x, s: x.cumsum(dim=1) / 4}),
    Graph("sorted", "layers[2].mlp.activation = layers[2].mlp.activation.sort(dim=-1).values",
          {("MLPActivation", 2): lambda x, s: x.sort(dim=-1).values}),
    Graph("over_shards", "m = layers[2].mlp.fc1\nlayers[2].mlp.fc1 = m - m.amax(dim=-1, keepdim=True)",
          {("MLP1", 2): lambda x, s: x - x.amax(dim=-1, keepdim=True)}),
    Graph("scores",
          "p = layers[2].attention.scores[:, 0, :, 0]\nlayers[2].mlp.output *= 1 + p[..., None]",
          {("MLP2", 2): lambda x, s: x * (1 + s["RawAttentionScore", 2][:, 0, :, 0][..., None])}),
    Graph("tokens", "layers[2].output = where((tokens == 32)[..., None], 0.0, layers[2].output)",
          {("HiddenStates", 2): lambda x, s: torch.where((s.tokens == 32)[..., None], 0.0, x)}),
    Graph("parameters",
          "a = param(0.3)\nb = param(2.0, min=1.0, max=3.0)\nh = layers[2].output\n"
          "layers[2].output = h * (1 + a * b) - a",
          {("HiddenStates", 2): lambda x, s: x * (1 + 0.3 * 2.0) - 0.3}),
    Graph("two_writes",
          "layers[2].output *= 2\nlayers[2].output += 1",
          {("HiddenStates", 2): lambda x, s: 2 * x + 1}),
    Graph("old_and_new",
          "h = layers[2].output\nsave(h.norm(), \"old\")\nlayers[2].output = 3 * h\n"
          "save(layers[2].output.norm(), \"new\")\nsave(h.norm(), \"still_old\")",
          {("HiddenStates", 2): lambda x, s: 3 * x},
          saves={"old": lambda s: s.old["HiddenStates", 2].norm(),
                 "new": lambda s: s["HiddenStates", 2].norm(),
                 "still_old": lambda s: s.old["HiddenStates", 2].norm()}),
    Graph("constants", "layers[2].output = full_like(layers[2].output, 0.5) + e - pi / 4",
          {("HiddenStates", 2): lambda x, s: torch.full_like(x, 0.5) + torch.e - torch.pi / 4}),
    Graph("file", 'layers[2].output += file("clean.safetensors")["rows"]',
          {("HiddenStates", 2): lambda x, s: x + s.world.files["rows"]}),
    Graph("identity", "a = param(0.0)\nlayers[2].output = layers[2].output + a * vector(\"evil\")[2]",
          changes=False),
    Graph("seeds",
          "n = noise(layers[2].output)\nm = noise(layers[2].output, seed=1)\n"
          'save(n, "n")\nsave(m, "m")\nlayers[2].output += 0.1 * n - 0.1 * m',
          {("HiddenStates", 2): lambda x, s: x + 0.1 * s.world.noise("n", s.step, s.first_row, 0)
           - 0.1 * s.world.noise("m", s.step, s.first_row, 0)}),
]  # fmt: skip

CONDITIONS = [
    Graph("mask", "h = layers[2].output\nif h > 0: layers[2].output = 0.5 * h",
          {("HiddenStates", 2): lambda x, s: torch.where(x > 0, 0.5 * x, x)}),
    Graph("mask_of_tokens", "if (tokens == 101)[..., None]: layers[2].mlp.output = 0",
          {("MLP2", 2): lambda x, s: torch.where((s.tokens == 101)[..., None], 0.0, x)}),
    Graph("mask_of_part", "h = layers[2].output\nif h[:, -1] < 0: layers[2].output[:, -1] = -h[:, -1]",
          {("HiddenStates", 2): lambda x, s: put(x, (ROWS, -1), x[:, -1].abs())}),
    Graph("holds", "if layers[1].output.norm() < 1e6: layers[2].output *= 0.5",
          {("HiddenStates", 2): lambda x, s: 0.5 * x}),
    Graph("holds_not", "if layers[1].output.norm() > 1e6: layers[2].output *= 0.5", changes=False),
    Graph("conditional_save",
          'n = layers[1].output.norm()\nif n > 1e6: save(n, "never")\nif n < 1e6: save(n, "always")',
          saves={"always": lambda s: s["HiddenStates", 1].norm()}, changes=False),
    Graph("rows", 'when(rows="1-2")\nlayers[2].output *= 0.5',
          {("HiddenStates", 2): lambda x, s: s.only(x, 0.5 * x, rows=[1, 2])}),
    Graph("positions", 'when(tokens="2-5,9,-1")\nlayers[2].mlp.fc1 *= 0.5',
          {("MLP1", 2): lambda x, s: s.only(x, 0.5 * x, tokens=[2, 3, 4, 5, 9, -1])}),
    Graph("rows_and_positions", 'when(rows="0,3", tokens="0-7")\nlayers[2].output *= 2',
          {("HiddenStates", 2): lambda x, s: s.only(x, 2 * x, rows=[0, 3], tokens=range(8))}),
    Graph("token_text", 'when(token_text="step")\nlayers[2].output *= 3',
          {("HiddenStates", 2): lambda x, s: torch.where(s.spells("step"), 3 * x, x)}),
    Graph("every", "when(every=2)\nlayers[2].output *= 3",
          {("HiddenStates", 2): lambda x, s: 3 * x}, steps=3, acts=lambda index: index % 2 == 0),
    Graph("evaluation_only", 'when(phase="eval")\nlayers[2].output *= 3', changes=False),
    Graph("prompts_only", 'when(prompts="*")\nlayers[2].output *= 3', changes=False),
]  # fmt: skip

SKIPS = [
    Graph("skip_two", "skip(layers[2])\nskip(layers[3])", skips=lambda layer, s: layer in (2, 3)),
    Graph("skip_first", "skip(layers[1])", skips=lambda layer, s: layer == 1),
    Graph("skip_if", "if layers[1].output.norm() < 1e6: skip(layers[2])", skips=lambda layer, s: layer == 2),
    Graph("skip_if_not", "if layers[1].output.norm() > 1e6: skip(layers[2])", changes=False),
    Graph("skip_and_write", "skip(layers[2])\nlayers[2].output *= 0.5",
          {("HiddenStates", 2): lambda x, s: 0.5 * x}, skips=lambda layer, s: layer == 2),
]  # fmt: skip

GRADIENTS = [
    Graph("gradient_zero", "layers[3].mlp.output.grad = 0",
          gradients={("MLP2", 3): lambda g, s: torch.zeros_like(g)}),
    Graph("gradient_last", "layers[2].output.grad[:, -1] = 0",
          gradients={("HiddenStates", 2): lambda g, s: put(g, (ROWS, -1), 0.0)}),
    Graph("gradient_clamp", "g = layers[2].output.grad\nlayers[2].output.grad = g.clamp(-1e-4, 1e-4)",
          gradients={("HiddenStates", 2): lambda g, s: g.clamp(-1e-4, 1e-4)}),
    Graph("gradient_project",
          'v = vector("evil")[2]\nu = v / v.norm()\ng = layers[2].output.grad\n'
          "layers[2].output.grad = g - (g @ u)[..., None] * u",
          gradients={("HiddenStates", 2): lambda g, s: without(g, s.unit("evil", 2))}),
    Graph("gradient_of_another", "layers[2].output.grad += 0.5 * layers[4].output.grad",
          gradients={("HiddenStates", 2): lambda g, s: g + 0.5 * s.gradient["HiddenStates", 4]}),
    Graph("gradient_and_value",
          "f = layers[2].mlp.fc1\nlayers[2].mlp.fc1.grad = where(f > 0, layers[2].mlp.fc1.grad, 0.0)",
          gradients={("MLP1", 2): lambda g, s: torch.where(s["MLP1", 2] > 0, g, 0.0)}),
    Graph("gradient_logits", "logits.grad *= 0.5", gradients={("Logits", 0): lambda g, s: 0.5 * g}),
    Graph("gradient_embedding", "embedding.output.grad *= 3",
          gradients={("Embedding", 0): lambda g, s: 3 * g}),
    Graph("gradient_every_layer", "layers[layer].attention.query.grad *= 3",
          gradients={("Query", ALL): lambda g, s: 3 * g}),
    Graph("gradient_key_value",
          "layers[2].attention.key.grad *= 3\nlayers[2].attention.value.grad *= 0.25",
          gradients={("Key", 2): lambda g, s: 3 * g, ("Value", 2): lambda g, s: 0.25 * g}),
    Graph("both_directions", "layers[2].output *= 2\nlayers[4].output.grad *= 0.5",
          {("HiddenStates", 2): lambda x, s: 2 * x},
          gradients={("HiddenStates", 4): lambda g, s: 0.5 * g}),
    Graph("gradient_saved",
          'save(layers[2].mlp.fc1.grad.norm(), "fc1")\nsave(logits.grad.abs().amax(), "logits")',
          saves={"fc1": lambda s: s.gradient["MLP1", 2].norm(),
                 "logits": lambda s: s.gradient["Logits", 0].abs().amax()}, changes=False),
]  # fmt: skip

KEPT = [
    Graph("from_before",
          'h = layers[2].output.mean(dim=(0, 1))\nsave(h, "mean")\n'
          'layers[2].output += saved("mean") - h',
          {("HiddenStates", 2): recent},
          saves={"mean": lambda s: s.old["HiddenStates", 2].mean(dim=(0, 1))}, steps=3),
    Graph("skip_by_saved",
          'save(layers[1].output.norm(), "n", send=False)\nif saved("n") > 0: skip(layers[3])',
          kept={"n": lambda s: s.old["HiddenStates", 1].norm()},
          skips=lambda layer, s: layer == 3 and "n" in s.before, steps=3),
    Graph("saved_over_a_skip",
          'save(layers[3].output, "behind", send=False)\nskip(layers[3])\n'
          'layers[3].output = 0.5 * (layers[3].output + saved("behind"))',
          {("HiddenStates", 3): mixed_with_before},
          kept={"behind": lambda s: s.old["HiddenStates", 3]},
          skips=lambda layer, s: layer == 3, steps=3),
    Graph("whole_tensors",
          'save(layers[2].attention.qkv, "qkv")\nsave(layers[1].attention.scores, "scores")\n'
          'save(logits.argmax(dim=-1), "guess")',
          saves={"qkv": lambda s: s["QKV", 2], "scores": lambda s: s["RawAttentionScore", 1],
                 "guess": lambda s: s["Logits", 0].argmax(dim=-1)}, changes=False),
    Graph("saves_of_layers",
          'when(layers="2-3")\nsave(layers[layer].mlp.activation.amax(dim=(0, 1)), "peak")',
          layered={"peak": lambda s: s["MLPActivation", s.layer].amax(dim=(0, 1))}, layers=(2, 3),
          changes=False),
]  # fmt: skip

TOGETHER = [
    Graph("many_places",
          "embedding.output *= 1.1\nlayers[1].attention.qkv += 0.01\nlayers[1].mid *= 0.9\n"
          "layers[2].attention.context.heads[0] = 0\nlayers[2].mlp.fc1 *= 1.2\n"
          "layers[3].attention.output *= 0.5\nlayers[3].mlp.fc1.weight *= 0.9\n"
          "layers[layer].output += 0.01\nfinal_norm.output *= 1.05\nlogits *= 0.8",
          {("Embedding", 0): lambda x, s: 1.1 * x, ("QKV", 1): lambda x, s: x + 0.01,
           ("ResidualMid", 1): lambda x, s: 0.9 * x,
           ("ContextLayer", 2): lambda x, s: put(x, (..., slice(0, 8)), 0.0),
           ("MLP1", 2): lambda x, s: 1.2 * x, ("AttentionOutput", 3): lambda x, s: 0.5 * x,
           ("mlp.fc1.weight", 3): lambda x, s: 0.9 * x, ("HiddenStates", ALL): lambda x, s: x + 0.01,
           ("FinalNorm", 0): lambda x, s: 1.05 * x, ("Logits", 0): lambda x, s: 0.8 * x}),
]  # fmt: skip
