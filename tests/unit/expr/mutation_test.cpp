// Broken texts give an answer: never an exception, a crash or an endless loop.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tensor_tracer/expr/parse.h"
#include "tests/unit/expr/tree_text.h"

namespace tt::expr {
namespace {

constexpr std::array kSeeds = {
    "data.abs().amax(dim=-1, keepdim=True)[..., None, 1:-1:2]",
    "torch.where((data > 0.5) & ~(data <= 1e-3), data ** 2 // 3, -data @ data.mT)",
    "h + alpha * vector(\"evil\")[12] - [1, 2.5, (None, True)][0]",
};
constexpr std::string_view kAlphabet =
    "abe_x019.()[]{},:;=+-*/%@&|^~<>!'\"\\ \n\t#$\xC3\xA9\xFF\x01";

std::string mutate(std::string text, std::mt19937& random) {
  const auto pick = [&](std::size_t count) { return std::size_t{random()} % count; };
  for (std::size_t edits = 1 + pick(4); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = pick(text.size());
    switch (pick(5)) {
      case 0:
        text.erase(at, 1 + pick(5));
        break;
      case 1:
        text.insert(at, 1, kAlphabet[pick(kAlphabet.size())]);
        break;
      case 2:
        text[at] = kAlphabet[pick(kAlphabet.size())];
        break;
      case 3:
        text.resize(at);
        break;
      default:
        text.insert(at, text.substr(pick(text.size()), pick(20)));
        break;
    }
  }
  return text;
}

TEST(Mutation, EveryTextGivesATreeOrAnError) {
  std::mt19937 random(1);
  std::size_t trees = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = mutate(kSeeds[static_cast<std::size_t>(i) % kSeeds.size()], random);
    const auto ast = parse(text);
    if (ast.ok()) {
      ++trees;
      EXPECT_FALSE(tree_text(ast.value(), ast.value().root()).empty()) << text;
    } else {
      EXPECT_EQ(ast.error().code, "invalid_expression") << text;
      EXPECT_NE(ast.error().message.find("\n  "), std::string::npos) << text;
    }
  }
  EXPECT_GT(trees, 100U);
  EXPECT_LT(trees, 15'000U);
}

}  // namespace
}  // namespace tt::expr
