"""Programs that write values, each beside what it should do in PyTorch: every place, every way to
name a part of one, weights, and several layers."""

from __future__ import annotations

import torch
from hooked_gpt import ALL, Graph, Seen, heads, put, put_heads
from torch import Tensor

ROWS = slice(None)


def quantised(w: Tensor, s: Seen) -> Tensor:
    step = w.abs().amax(dim=-1, keepdim=True) / 7
    return (w / step).round() * step


def swapped(q: Tensor, s: Seen) -> Tensor:
    return put_heads(q, [2, 0], heads(q)[..., [0, 2], :])


def largest(a: Tensor, s: Seen) -> Tensor:
    return torch.where(a.abs() > a.abs().kthvalue(40, dim=-1, keepdim=True).values, a, 0.0)


def mixed(h: Tensor, s: Seen) -> Tensor:
    return 0.5 * (h + s["HiddenStates", s.layer - 1])


def without(w: Tensor, s: Seen) -> Tensor:
    u = s.unit("evil", 2)
    return w - (w @ u)[:, None] * u


PLACES = [
    Graph("embedding", 'embedding.output += 0.1 * vector("evil")[0]',
          {("Embedding", 0): lambda x, s: x + 0.1 * s.vector("evil", 0)}),
    Graph("input", "layers[3].input *= 1.5", {("HiddenStates", 2): lambda x, s: 1.5 * x}),
    Graph("first_input", "layers[1].input = layers[1].input.tanh()",
          {("Embedding", 0): lambda x, s: x.tanh()}),
    Graph("qkv", "x = layers[2].attention.qkv\nlayers[2].attention.qkv = x.tanh()",
          {("QKV", 2): lambda x, s: x.tanh()}),
    Graph("qkv_border", "layers[2].attention.qkv[..., 28:40] = 0.25",
          {("QKV", 2): lambda x, s: put(x, (..., slice(28, 40)), 0.25)}),
    Graph("query", "layers[2].attention.query *= 5",
          {("Query", 2): lambda x, s: 5 * x}),
    Graph("key", "layers[3].attention.key[:, 2:5] *= 2.0",
          {("Key", 3): lambda x, s: put(x, (ROWS, slice(2, 5)), 2 * x[:, 2:5])}),
    Graph("value_heads", "layers[2].attention.value.heads[0] = 0",
          {("Value", 2): lambda x, s: put_heads(x, 0, 0.0)}),
    Graph("query_heads",
          "q = layers[2].attention.query.heads[[0, 2]]\nlayers[2].attention.query.heads[[2, 0]] = q",
          {("Query", 2): swapped}),
    Graph("context_heads", "layers[3].attention.context.heads[1:3] *= 0.3",
          {("ContextLayer", 3): lambda x, s: put_heads(x, slice(1, 3), 0.3 * heads(x)[..., 1:3, :])}),
    Graph("context", "layers[2].ContextLayer = layers[2].ContextLayer.relu()",
          {("ContextLayer", 2): lambda x, s: x.relu()}),
    Graph("attention_output",
          "x = layers[2].attention.output\n"
          "layers[2].attention.output = x / (x.norm(dim=-1, keepdim=True) + 1)",
          {("AttentionOutput", 2): lambda x, s: x / (x.norm(dim=-1, keepdim=True) + 1)}),
    Graph("mid", "layers[1].mid = layers[1].mid.clamp(-0.2, 0.3)",
          {("ResidualMid", 1): lambda x, s: x.clamp(-0.2, 0.3)}),
    Graph("fc1", "layers[2].mlp.fc1 = layers[2].mlp.fc1.relu()",
          {("MLP1", 2): lambda x, s: x.relu()}),
    Graph("fc1_border", "layers[2].mlp.fc1[..., 80:96] = 0.5",
          {("MLP1", 2): lambda x, s: put(x, (..., slice(80, 96)), 0.5)}),
    Graph("activation",
          "a = layers[2].mlp.activation\n"
          "t = a.abs().kthvalue(40, dim=-1, keepdim=True).values\n"
          "layers[2].mlp.activation = where(a.abs() > t, a, 0.0)",
          {("MLPActivation", 2): largest}),
    Graph("mlp_output", "m = layers[2].MLP2\nlayers[2].MLP2 = m * m.softmax(dim=-1)",
          {("MLP2", 2): lambda x, s: x * x.softmax(dim=-1)}),
    Graph("output", "h = layers[2].output\nlayers[2].output = h - 0.5 * h.mean(dim=1, keepdim=True)",
          {("HiddenStates", 2): lambda x, s: x - 0.5 * x.mean(dim=1, keepdim=True)}),
    Graph("last_layer", "layers[4].HiddenStates *= 0.5", {("HiddenStates", 4): lambda x, s: 0.5 * x}),
    Graph("last_token", "layers[3].output[:, -1] *= 2",
          {("HiddenStates", 3): lambda x, s: put(x, (ROWS, -1), 2 * x[:, -1])}),
    Graph("every_other", "layers[3].output[:, 1::2, 3:9] = -0.5",
          {("HiddenStates", 3): lambda x, s: put(x, (ROWS, slice(1, None, 2), slice(3, 9)), -0.5)}),
    Graph("one_row", "layers[3].output[1] = layers[2].output[0]",
          {("HiddenStates", 3): lambda x, s: put(x, 1, s["HiddenStates", 2][0])}),
    Graph("shift", "h = layers[2].output\nlayers[2].output[:, 4:8] = h[:, 0:4]",
          {("HiddenStates", 2): lambda x, s: put(x, (ROWS, slice(4, 8)), x[:, :4])}),
    Graph("final_norm", "final_norm.output -= 0.25", {("FinalNorm", 0): lambda x, s: x - 0.25}),
    Graph("temperature", "logits /= 1.7", {("Logits", 0): lambda x, s: x / 1.7}),
    Graph("vocabulary", "logits[..., 128:] = -5.0",
          {("Logits", 0): lambda x, s: put(x, (..., slice(128, None)), -5.0)}),
    Graph("some_logits", "logits[..., [3, 200, 70]] += 2.0",
          {("Logits", 0): lambda x, s: put(x, (..., [3, 200, 70]), x[..., [3, 200, 70]] + 2)}),
]  # fmt: skip

WEIGHTS = [
    Graph("weight_qkv", "layers[2].attention.qkv.weight *= 0.9",
          {("attention.qkv.weight", 2): lambda w, s: 0.9 * w}),
    Graph("weight_proj",
          "w = layers[2].attention.proj.weight\nlayers[2].attention.proj.weight = w.clamp(-0.1, 0.1)",
          {("attention.proj.weight", 2): lambda w, s: w.clamp(-0.1, 0.1)}),
    Graph("weight_fc1", "layers[3].mlp.fc1.weight[80:96] = 0",
          {("mlp.fc1.weight", 3): lambda w, s: put(w, slice(80, 96), 0.0)}),
    Graph("weight_project",
          'v = vector("evil")[2]\nu = v / v.norm()\nw = layers[3].mlp.fc1.weight\n'
          "layers[3].mlp.fc1.weight = w - (w @ u)[:, None] * u",
          {("mlp.fc1.weight", 3): without}),
    Graph("weight_fc2",
          "w = layers[3].mlp.fc2.weight\ns = w.abs().amax(dim=-1, keepdim=True) / 7\n"
          "layers[3].mlp.fc2.weight = (w / s).round() * s",
          {("mlp.fc2.weight", 3): quantised}),
    Graph("weight_output", "output_layer.weight *= 1.1",
          {("output_layer.weight", 0): lambda w, s: 1.1 * w}),
    Graph("weight_output_rows", "output_layer.weight[:, 0:3] = output_layer.weight[:, 3:6]",
          {("output_layer.weight", 0): lambda w, s: put(w, (ROWS, slice(0, 3)), w[:, 3:6])}),
]  # fmt: skip

LAYERS = [
    Graph("every_layer", "layers[layer].output *= 0.9", {("HiddenStates", ALL): lambda x, s: 0.9 * x}),
    Graph("some_layers", 'when(layers="2-3")\nlayers[layer].mlp.output *= 0.5',
          {("MLP2", 2): lambda x, s: 0.5 * x, ("MLP2", 3): lambda x, s: 0.5 * x}),
    Graph("layer_before",
          'when(layers="2-4")\nlayers[layer].output = 0.5 * (layers[layer].output + layers[layer - 1].output)',
          {("HiddenStates", n): mixed for n in (2, 3, 4)}),
    Graph("layer_after", 'when(layers="1-2")\nlayers[layer + 1].output += 0.1 * layers[layer].output',
          {("HiddenStates", n): lambda x, s: x + 0.1 * s["HiddenStates", s.layer - 1] for n in (2, 3)}),
    Graph("layer_number", "layers[layer].mlp.output *= 1 / layer",
          {("MLP2", ALL): lambda x, s: x * (1 / s.layer)}),
    Graph("vector_of_layer", 'layers[layer].output += 0.5 * vector("evil")[layer]',
          {("HiddenStates", ALL): lambda x, s: x + 0.5 * s.vector("evil", s.layer)}),
    Graph("early_to_late", "layers[4].output += 0.5 * layers[1].output",
          {("HiddenStates", 4): lambda x, s: x + 0.5 * s["HiddenStates", 1]}),
    Graph("embedding_to_late", 'layers[3].mid += embedding.output - 0.1 * vector("evil")[0]',
          {("ResidualMid", 3): lambda x, s: x + s["Embedding", 0] - 0.1 * s.vector("evil", 0)}),
]  # fmt: skip
