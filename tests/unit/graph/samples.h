#pragma once

#include <string_view>

#include "tensor_tracer/graph/program.h"
#include "tests/unit/graph/gpt_places.h"

namespace tt::graph {

inline Model test_model() { return {gpt_places(24), points::PromptSets({{"probes"}, {"chat"}})}; }

/// Programs that are sound for test_model(); between them they use all of the language.
inline constexpr std::string_view kSamples[] = {
    "alpha = param(4.0, min=0.0, max=20.0)\nh = layers[12].output\n"
    "layers[12].output = h + alpha * vector(\"evil\")[12]\n"
    "save(layers[20].output[:, -1].norm(dim=-1), \"late_norm\")",
    "layers[12].output = 0",
    "layers[12].output += 1",
    "layers[12].output -= 1.5",
    "layers[12].output *= -2",
    "layers[12].output /= 3e-7",
    "layers[3].attention.context.heads[3] = 0.0",
    "layers[3].attention.context.heads[1:3][:, -1] = 0.0",
    "layers[3].attention.context.heads[[0, 2]] *= 2",
    "layers[3].attention.query.heads[-1].grad *= 0.5",
    "layers[3].attention.value.grad.heads[::2] = 0",
    "logits[:, -1, [5, 7]] = -inf",
    "logits[..., 3] = 0\nlogits[0, 1:-1:2] += 1\nlogits[-1] = 0",
    "embedding.output += noise(embedding.output) * 0.1",
    "Embedding += noise(Embedding, \"uniform\", seed=7)",
    "layers[5].mlp.fc1 = noise(layers[4].MLP1, distribution=\"uniform\")",
    "save(tokens, \"ids\")",
    "save(layers[2].attention.scores.amax(), \"peak\")",
    "save(RawAttentionScore_max, \"x\")",
    "layers[2].attention.qkv.weight *= 0.5\nlayers[2].attention.proj.weight = 0\n"
    "layers[2].mlp.fc1.weight[0] = 0\nlayers[2].Fc2Weight[:, 1] = 0\nOutputWeight *= 2",
    "final_norm.output = 0\nlogits = logits / 2",
    "save(output_layer(final_norm(layers[12].output[:, -1:])).softmax(dim=-1), \"lens\")",
    "h = final_norm(layers[3].output - 1) * 2\nlayers[4].output += 0.1 * h\n"
    "logits = logits + output_layer(h)",
    "if output_layer(layers[2].output).amax() > 9: skip(layers[5])",
    "layers[1].input += 1\nlayers[2].input += 1",
    "layers[4].mid = layers[4].attention.output + layers[3].output",
    "layers[4].mlp.activation = torch.relu(layers[4].MLPActivation)",
    "layers[4].QKV = torch.nn.functional.gelu(layers[4].attention.qkv)",
    "x = file(\"clean.safetensors\")[\"resid\"]\nlayers[9].output = x",
    "save(layers[9].output, \"kept\", send=False)\nlayers[9].output = saved(\"kept\")",
    "old = saved(\"a\")\nsave(layers[1].output.mean(), \"a\")\nlayers[2].output += old",
    "skip(layers[5])",
    "if layers[4].output.mean() > 0: skip(layers[5])",
    "if layers[1].output.abs().amax() > 3: save(logits, \"odd\")",
    "if (layers[12].output @ vector(\"evil\")[12] > 3)[..., None]: layers[12].output = 0.0",
    "if ~(tokens == 3)[..., None]: layers[1].output *= 2",
    "when(phase=\"train\", steps=\"100-200\", every=2, layers=\"8-12\", rows=\"0-3\", "
    "tokens=\"-1\")\n"
    "layers[layer].output += vector(\"evil\")[layer]",
    "when(phase=\"all\")\nlogits *= 1.0",
    "when(phase=\"train, eval\", prompts=\"probes,chat\")\nlogits *= 2",
    "when(prompts=\"*\", token_text=\" \\\"not\\\"\\\\\\n\")\nlogits *= 2",
    "when(prompts=\"probes\", rows=\"1,3-\")\nlogits *= 2",
    "when(positions=\"response\")\nlogits *= 2",
    "when(steps=\"5,10\")\nlogits *= 2",
    "when()\nlogits = 1",
    "when(layers=\"2-24\")\nlayers[layer].output = layers[layer - 1].output",
    "when(layers=\"1-4,8\")\nlayers[layer].output *= layer / 24",
    "when(layers=\"1-4\")\nn = layer\nlayers[layer].output += n",
    "when(layers=\"1-4\")\nlayers[layer + 1].output = vector(\"v\")[layer - 1]",
    "when(layers=\"1-4\")\nif layers[layer].output.mean() > 0: layers[layer + 2].output = 0",
    "when(layers=\"3-5\")\nskip(layers[layer])",
    "when(layers=\"3-5\")\nsave(layers[layer].output.norm(), \"n\")",
    "layers[3].output.grad *= 2",
    "layers[3].output.grad += layers[4].output.grad * layers[20].output",
    "save(layers[3].output.grad.norm(), \"g\")",
    "g = layers[3].output.grad\nsave(g, \"g\")",
    "a = param(1)\nb = param(-2.5, max=0)\nc = param(1, ramp_steps=10)\n"
    "d = param(4.0, ramp_from=-1.0, ramp_steps=100)\nlogits = a * b * c * d",
    "k = 3\nm = -0.5\ns = \"fro\"\nl = [0, 1]\nt = (1, 2.0)\nu = (1,)\nlogits[:, 1] = k * m",
    "h = layers[3].output\ng = h\nf = g\nlayers[4].output = f + g + h",
    "a = param(1)\nb = a\nlogits = b",
    "h = layers[3].output\nlayers[3].output = 0\nlayers[4].output = h + layers[3].output",
    "x = 1 + 2 * 3 - (4 - 5) - 6\nlogits = x",
    "x = (1 + 2) * 3 / (4 * 5) // 6 % 7\nlogits = x",
    "x = -2 ** 2 + (-2) ** 2 + 2 ** -3 ** 2 + (2 ** 3) ** 2 - --1 + +2\nlogits = x",
    "x = (1 < 2) == (3 >= 4)\ny = (1 != 2) & (3 <= 4) | (1 > 2) ^ ~(3 == 4)\nlogits = x",
    "x = (2).abs() + (-2).abs() + (2.5).abs() + (1 + 2).abs() + \"a\".b\nlogits = x",
    "x = logits[0] + logits[1:, None, ::2] + logits[..., [0, 1]] + logits[0,] + logits[:]\n"
    "save(x, \"x\")",
    "x = logits[(0, 1)] + logits[(0, 1), 2] + logits[(0, 1),] + logits[()]\nsave(x, \"x\")",
    "x = logits[None:, :None, 1 + 1:2 * 3:param_step]\nsave(x, \"x\")",
    "x = logits.max(dim=-1).values\ny = logits.topk(2, dim=-1)[0].mT\nsave(x + y, \"x\")",
    "x = torch.linalg.norm(logits, dim=(0, 1), keepdim=True, ord=\"fro\")\nsave(x, \"x\")",
    "x = where(logits > 0, logits, 0.0).to(torch.bfloat16).sum(-1, keepdim=False)\nsave(x, \"x\")",
    "x = f(b=logits + 1, a=layers[3].output * 2)\nsave(x, \"x\")",
    "x = stack([logits, logits * 2], dim=None)\nsave((x), 'it\\'s')",
    "save(1.0, \"one\")\nsave(1e300 + 1e-300 + 0.1 + 123456789.125 + 1e22 + 5., \"numbers\")",
    "save(nan + inf + pi + e, \"x\")\nsave(-0.0, \"y\")\nsave(True, \"z\")\nsave([], \"w\")",
};

}  // namespace tt::graph
