#include <gtest/gtest.h>

#include "tests/unit/graph/samples.h"

namespace tt::graph {
namespace {

// Of the last line.
bool changes_nothing(const std::string& text, double a = 0.0) {
  const auto program = parse_program("a = param(9)\nh = layers[3].output\n" + text, test_model());
  EXPECT_TRUE(program.ok()) << text << (program.ok() ? "" : program.error().message);
  return program.ok() && is_identity(program.value(), program.value().effects.back(), {{"a", a}});
}

TEST(Identity, ArithmeticWithZeroAndOne) {
  for (const char* value : {"h",
                            "layers[3].output",
                            "layers[3].HiddenStates",
                            "h + 0",
                            "0 + h",
                            "h - 0.0",
                            "h + -0.0",
                            "h * 1",
                            "1.0 * h",
                            "h / 1",
                            "+h",
                            "h + a",
                            "h + a * vector(\"v\")[3]",
                            "h + vector(\"v\")[3] * a",
                            "h + 0.0 * noise(layers[3].output)",
                            "h - a * 3 / 7",
                            "h + (a * vector(\"v\")[3])[None]",
                            "h * (1 + a)",
                            "h * (2 - 1) + (3 - 3)",
                            "where(h > 0, h, h)",
                            "torch.where(h > 0, h + a, h * 1)",
                            "h + a * vector(\"v\")[1] + a * vector(\"v\")[2]",
                            "h + -(a * vector(\"v\")[3])",
                            "h + 0 * 5 * h",
                            "h + a / 2 * h",
                            "h + where(h > 0, 0, 0)"})
    EXPECT_TRUE(changes_nothing("layers[3].output = " + std::string(value))) << value;
}

TEST(Identity, WhatMayChangeIsExecuted) {
  for (const char* value : {"h + 1",
                            "0",
                            "-h",
                            "h * 2",
                            "0 * h",
                            "a * h",
                            "h + vector(\"v\")[3]",
                            "h - h",
                            "h / 0",
                            "0 / h + h",
                            "layers[2].output",
                            "h.clone()",
                            "h[:]",
                            "0 - h",
                            "h ** 1",
                            "h + a / 0",
                            "where(h > 0, h, 0)",
                            "where(h > 0, 0, h)",
                            "maximum(h, h)",
                            "h.where(h, h)",
                            "1 / h",
                            "h + 1e-300",
                            "layers[3].mid",
                            "noise(layers[3].output)",
                            "h + 0 // h"})
    EXPECT_FALSE(changes_nothing("layers[3].output = " + std::string(value))) << value;
}

TEST(Identity, FollowsTheNumberInForce) {
  EXPECT_TRUE(changes_nothing("layers[3].output += a * vector(\"v\")[3]", 0.0));
  EXPECT_FALSE(changes_nothing("layers[3].output += a * vector(\"v\")[3]", 1e-9));
  EXPECT_TRUE(changes_nothing("layers[3].output *= a", 1.0));
  EXPECT_FALSE(changes_nothing("layers[3].output *= a", 0.0));
}

TEST(Identity, ThroughNames) {
  EXPECT_TRUE(changes_nothing("d = a * vector(\"v\")[3]\ng = h + d\nlayers[3].output = g"));
  EXPECT_FALSE(changes_nothing("d = vector(\"v\")[3]\ng = h + d\nlayers[3].output = g"));
}

TEST(Identity, OfThePartThatIsWritten) {
  EXPECT_TRUE(changes_nothing("layers[3].output[:, -1] += 0 * vector(\"v\")[3]"));
  EXPECT_TRUE(changes_nothing("layers[3].output[:, [0, 2]] = (h * 1)[:, [0, 2]]"));
  EXPECT_FALSE(changes_nothing("layers[3].output[:, -1] = h[:, -2]"));
  EXPECT_FALSE(changes_nothing("layers[3].output[:, -1] = h"));
  EXPECT_FALSE(changes_nothing("layers[3].output = h[:, -1]"));
  EXPECT_TRUE(changes_nothing("layers[3].Query.heads[2] *= 1"));
  EXPECT_FALSE(changes_nothing("layers[3].Query.heads[2] = layers[3].Query.heads[1] * 1"));
  EXPECT_FALSE(changes_nothing("layers[3].Query.heads[2] = layers[3].Query"));
}

TEST(Identity, OfEveryLayerAndOfGradients) {
  EXPECT_TRUE(changes_nothing("when(layers=\"2-3\")\nlayers[layer].output += a * layer"));
  EXPECT_FALSE(
      changes_nothing("when(layers=\"2-3\")\nlayers[layer].output = layers[layer - 1].output"));
  EXPECT_FALSE(changes_nothing("when(layers=\"3\")\nlayers[layer].output = h"));
  EXPECT_TRUE(changes_nothing("layers[3].output.grad *= 1"));
  EXPECT_FALSE(changes_nothing("layers[3].output.grad = layers[3].output"));
}

TEST(Identity, AValueReadBeforeAWriteIsOld) {
  EXPECT_FALSE(changes_nothing("layers[3].output += 1\nlayers[3].output = h"));
  EXPECT_FALSE(
      changes_nothing("when(layers=\"2-4\")\nlayers[layer].output += 1\nlayers[3].output = h"));
  EXPECT_TRUE(changes_nothing("layers[2].output += 1\nlayers[3].output = h"));
  EXPECT_TRUE(changes_nothing("layers[3].output += 1\nlayers[3].output *= 1"));
}

TEST(Identity, OnlyWritesCanBe) {
  EXPECT_FALSE(changes_nothing("save(h, \"h\")"));
  EXPECT_FALSE(changes_nothing("skip(layers[4])"));
}

}  // namespace
}  // namespace tt::graph
