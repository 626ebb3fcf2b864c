#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor_tracer/expr/parse.h"

namespace tt::expr {
namespace {

using testing::HasSubstr;

std::string repeat(std::string_view piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

std::string problem(const std::string& text, const Limits& limits) {
  const auto ast = parse(text, limits);
  return ast.ok() ? "" : ast.error().message;
}

TEST(Limits, SourceBytes) {
  const Limits limits{.max_source_bytes = 10};
  EXPECT_EQ(problem("data + 123", limits), "");
  EXPECT_THAT(problem("data + 1234", limits), HasSubstr("has 11 bytes, the limit is 10"));
}

TEST(Limits, DepthOfParenthesesAndSigns) {
  const Limits limits{.max_depth = 5};
  EXPECT_EQ(problem("((((a))))", limits), "");
  EXPECT_THAT(problem("(((((a)))))", limits), HasSubstr("nested deeper than 5"));
  EXPECT_EQ(problem("----a", limits), "");
  EXPECT_THAT(problem("-----a", limits), HasSubstr("nested deeper than 5"));
  EXPECT_EQ(problem("2**2**2**2**2", limits), "");
  EXPECT_THAT(problem("2**2**2**2**2**2", limits), HasSubstr("nested deeper than 5"));
}

TEST(Limits, DepthOfTheTree) {
  const Limits limits{.max_depth = 5};
  EXPECT_EQ(problem("a+a+a+a+a", limits), "");
  EXPECT_THAT(problem("a+a+a+a+a+a", limits), HasSubstr("nested deeper than 5"));
  EXPECT_EQ(problem("a.b.b.b.b", limits), "");
  EXPECT_THAT(problem("a.b.b.b.b.b", limits), HasSubstr("nested deeper than 5"));
}

TEST(Limits, Nodes) {
  const Limits limits{.max_nodes = 4};
  EXPECT_EQ(problem("[a, a, a]", limits), "");
  EXPECT_THAT(problem("[a, a, a, a]", limits), HasSubstr("more than 4 parts"));
}

TEST(Limits, Digits) {
  const Limits limits{.max_digits = 5};
  EXPECT_EQ(problem("12345", limits), "");
  EXPECT_EQ(problem("0.1e234", limits), "");
  EXPECT_THAT(problem("123456", limits), HasSubstr("has 6 digits, the limit is 5"));
  EXPECT_THAT(problem("0.12e345", limits), HasSubstr("has 6 digits"));
}

// sum alone is the sum over everything.
TEST(Limits, ALongSumHasARemedy) {
  EXPECT_THAT(parse("a" + repeat("+a", 100), {}).error().remedy, HasSubstr("stack([...]).sum(0)"));
}

TEST(Limits, DefaultsStopHostileTexts) {
  const Limits defaults;
  EXPECT_NE(problem(repeat("(", 4000), defaults), "");
  EXPECT_NE(problem(repeat("[", 4000), defaults), "");
  EXPECT_NE(problem(repeat("-", 4000), defaults), "");
  EXPECT_NE(problem(repeat("f(", 2000), defaults), "");
  EXPECT_NE(problem("a" + repeat("[a", 2000), defaults), "");
  EXPECT_NE(problem("a" + repeat("**a", 1000), defaults), "");
  EXPECT_NE(problem("a" + repeat("+a", 2000), defaults), "");
  EXPECT_NE(problem("a" + repeat(".a", 2000), defaults), "");
  EXPECT_NE(problem("[" + repeat("1,", 2000) + "]", defaults), "");
}

}  // namespace
}  // namespace tt::expr
