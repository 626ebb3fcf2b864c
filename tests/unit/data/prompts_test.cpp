#include "tensor_tracer/data/prompts.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tt::data {
namespace {

using testing::HasSubstr;

std::string refusal(const std::vector<PromptSet>& sets) {
  const base::Status status = check_prompt_sets(sets, "name");
  return status ? "" : status.error().message;
}

std::vector<PromptSet> numbered(std::size_t count, bool are_removed) {
  std::vector<PromptSet> sets;
  for (std::size_t i = 0; i < count; ++i) sets.push_back({std::to_string(i), {"a"}, are_removed});
  return sets;
}

TEST(Prompts, AreBytesFilledWithZeros) {
  const PromptSet set{"a", {"ab", "\xc3\xa9!?"}};
  EXPECT_EQ(set.shortest(), 2);
  EXPECT_EQ(set.longest(), 4);
  EXPECT_TRUE(at::equal(set.tokens(),
                        at::tensor({97, 98, 0, 0, 195, 169, 33, 63}, at::kLong).view({2, 4})));
}

TEST(Prompts, NamesOfSetsThatWereRemovedAreFree) {
  EXPECT_THAT(refusal({{"a", {"x"}}, {"a", {"y"}}}), HasSubstr("two prompt sets \"a\""));
  EXPECT_EQ(refusal({{"a", {"x"}, true}, {"a", {"y"}}}), "");
}

TEST(Prompts, SetsAndTokensHaveLimits) {
  EXPECT_EQ(refusal(numbered(kMaxPromptSets, false)), "");
  EXPECT_THAT(refusal(numbered(kMaxPromptSets + 1, false)), HasSubstr("32 prompt sets are more"));
  EXPECT_EQ(refusal(numbered(kMaxNumberedSets, true)), "");
  EXPECT_THAT(refusal(numbered(kMaxNumberedSets + 1, true)), HasSubstr("has had 1024"));
  const std::string half(kMaxPromptTokens / 2, 'x');
  EXPECT_EQ(refusal({{"a", {half}, true}, {"b", {half}}}), "");
  EXPECT_THAT(refusal({{"a", {half}, true}, {"b", {half, "y"}}}), HasSubstr("262145 tokens"));
}

}  // namespace
}  // namespace tt::data
