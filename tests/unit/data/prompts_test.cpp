#include "tensor_tracer/data/prompts.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace tt::data {
namespace {

using testing::HasSubstr;

std::string refusal(const std::vector<PromptSet>& sets) {
  const base::Status status = check_prompt_sets(sets, "name");
  return status ? "" : status.error().message;
}

PromptSet set_of(std::string name, const std::vector<std::string>& texts, bool is_removed = false) {
  PromptSet set{std::move(name), {}, is_removed};
  for (const std::string& text : texts) set.prompts.push_back({text, bytes_of(text).value()});
  return set;
}

std::vector<PromptSet> numbered(std::size_t count, bool are_removed) {
  std::vector<PromptSet> sets;
  for (std::size_t i = 0; i < count; ++i)
    sets.push_back(set_of(std::to_string(i), {"a"}, are_removed));
  return sets;
}

TEST(Prompts, AreBytesFilledWithZeros) {
  const PromptSet set = set_of("a", {"ab", "\xc3\xa9!?"});
  EXPECT_EQ(set.shortest(), 2);
  EXPECT_EQ(set.longest(), 4);
  EXPECT_TRUE(at::equal(set.tokens(),
                        at::tensor({97, 98, 0, 0, 195, 169, 33, 63}, at::kLong).view({2, 4})));
}

// A tokenizer with one token for three characters.
base::Result<std::vector<std::int64_t>> thirds_of(const std::string& text) {
  if (text == "?") return base::invalid_argument("text", "no such token", "");
  return std::vector<std::int64_t>(text.size() / 3, 7);
}

TEST(Prompts, AreReadWithTheTokenizer) {
  const PromptReader reader{.tokenize = thirds_of, .seq_length = 2, .where = "text"};
  EXPECT_EQ(reader.read("abcdef", "it").value(), (Prompt{"abcdef", {7, 7}}));
  EXPECT_EQ(reader.read("abcdefghi", "it").error().message,
            "it has 3 tokens, the sequence length is 2");
  EXPECT_EQ(reader.read("ab", "it").error().message, "it has no tokens");
  EXPECT_EQ(reader.read("?", "it").error().message, "no such token");
}

TEST(Prompts, AByteOrderMarkOfTheFileIsNoText) {
  const std::filesystem::path file = testing::TempDir() + "tt_prompts_test_mark.txt";
  std::ofstream(file) << "\xEF\xBB\xBF"
                      << "abc\r\ndef\n";
  const PromptReader reader{.tokenize = thirds_of, .seq_length = 2, .where = "text"};
  const auto set = reader.read_file(file);
  std::filesystem::remove(file);
  ASSERT_TRUE(set.ok()) << to_string(set.error());
  EXPECT_EQ(set.value().prompts, (std::vector<Prompt>{{"abc", {7}}, {"def", {7}}}));
}

TEST(Prompts, TravelAsJson) {
  std::vector<PromptSet> sets = {set_of("a", {"ab", "c"}), set_of("b", {"d"}, true)};
  sets[0].prompts[0].tokens = {70000, 3};
  const std::vector<PromptSet> found = prompt_sets_of(to_json(sets));
  ASSERT_EQ(found.size(), 2U);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].name, sets[i].name);
    EXPECT_EQ(found[i].prompts, sets[i].prompts);
    EXPECT_EQ(found[i].is_removed, sets[i].is_removed);
  }
}

TEST(Prompts, NamesOfSetsThatWereRemovedAreFree) {
  EXPECT_THAT(refusal({set_of("a", {"x"}), set_of("a", {"y"})}),
              HasSubstr("two prompt sets \"a\""));
  EXPECT_EQ(refusal({set_of("a", {"x"}, true), set_of("a", {"y"})}), "");
}

TEST(Prompts, SetsAndTokensHaveLimits) {
  EXPECT_EQ(refusal(numbered(kMaxPromptSets, false)), "");
  EXPECT_THAT(refusal(numbered(kMaxPromptSets + 1, false)), HasSubstr("32 prompt sets are more"));
  EXPECT_EQ(refusal(numbered(kMaxNumberedSets, true)), "");
  EXPECT_THAT(refusal(numbered(kMaxNumberedSets + 1, true)), HasSubstr("has had 1024"));
  const std::string half(kMaxPromptTokens / 2, 'x');
  EXPECT_EQ(refusal({set_of("a", {half}, true), set_of("b", {half})}), "");
  EXPECT_THAT(refusal({set_of("a", {half}, true), set_of("b", {half, "y"})}),
              HasSubstr("262145 tokens"));
}

}  // namespace
}  // namespace tt::data
