// Broken texts give a program or an error, and programs run or fail with one: nothing is thrown.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tensor_tracer/eval/program.h"

namespace tt::eval {
namespace {

constexpr std::array kSeeds = {
    "data.mean(dim=-1, keepdim=True) + data.std(-1)[..., None]",
    "torch.where((data > 0.5) & ~(data <= -1), data ** 2 // 3, -data % 0.7)",
    "torch.norm(data, p=2, dim=-1) / data.quantile(0.25, dim=-1).clamp(min=1e-6)",
    "data.topk(2, dim=-1, largest=False).values.sum(-1) * data.shape[-1]",
    "stack([data.amax(-1), data.sort(descending=True).indices[..., 0].double()], dim=0)",
    "data.view(3, 2, 2, 5).permute(0, 2, 1, 3).softmax(-1).cumsum(1) @ data[0, :2].mT[:5]",
};
constexpr std::array<std::string_view, 24> kPieces = {
    "-1", "0",  "99", "None", "True", "data", ".mean", "(", ")", "[", "]",   ",",
    ".",  "**", "//", "dim=", "inf",  "...",  ":",     "@", "~", "'", " + ", ".values"};

std::string mutate(std::string text, std::mt19937& random) {
  const auto pick = [&](std::size_t count) { return std::size_t{random()} % count; };
  for (std::size_t edits = 1 + pick(3); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = pick(text.size());
    switch (pick(7)) {
      case 0:
        text.erase(at, 1 + pick(6));
        break;
      case 1:
        text.insert(at, kPieces[pick(kPieces.size())]);
        break;
      case 2:
        text[at] = static_cast<char>(pick(256));
        break;
      case 3:
        text.resize(at);
        break;
      default:
        text.insert(at, text.substr(pick(text.size()), pick(12)));
        break;
    }
  }
  return text;
}

TEST(EvalMutation, EveryTextGivesAProgramOrAnError) {
  std::mt19937 random(7);
  const at::Tensor data = at::randn({3, 4, 5}, at::kDouble);
  std::size_t programs = 0;
  for (int i = 0; i < 5'000; ++i) {
    const std::string text = mutate(kSeeds[static_cast<std::size_t>(i) % kSeeds.size()], random);
    const auto program = Program::check(text, {{"data", {3, 4, 5}, at::kDouble}});
    if (!program.ok()) {
      EXPECT_EQ(program.error().code, "invalid_expression") << text;
      EXPECT_FALSE(program.error().message.empty()) << text;
      continue;
    }
    ++programs;
    const auto result = program.value().run({data});
    EXPECT_TRUE(result.ok() || result.error().code == "expression_failed") << text;
  }
  EXPECT_GT(programs, 100U);
}

}  // namespace
}  // namespace tt::eval
