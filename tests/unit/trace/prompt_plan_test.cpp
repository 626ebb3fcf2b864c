#include "tensor_tracer/trace/prompt_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/trace/plan_cost.h"

namespace tt::trace {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;

PlanContext context(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                    std::int64_t seq_length) {
  config::ModelConfig model;
  model.num_layers = layers;
  model.hidden_size = hidden;
  model.num_attention_heads = heads;
  model.seq_length = seq_length;
  PlanContext about;
  about.places = model::describe_model(model, 1).places();
  about.micro_batch_size = 2;
  about.seq_length = seq_length;
  return about;
}

std::vector<std::string> points_of(const json& plan) {
  std::vector<std::string> points;
  for (const json& entry : plan["entries"]) points.push_back(entry["point"]);
  return points;
}

TEST(PromptPlan, TheDefaultFitsIntoAnAnswerForAnyModel) {
  for (const std::int64_t tokens : {1, 5, 64, 256, 1024}) {
    for (const std::int64_t layers : {2, 12, 96}) {
      const PlanContext about = context(layers, 64 * layers, 4 * layers, 1024);
      const json plan = default_prompt_plan(about, tokens, kMaxBytes);
      const auto parsed = parse_prompt_plan(plan, about, tokens, kMaxBytes);
      ASSERT_TRUE(parsed.ok()) << to_string(parsed.error());
      EXPECT_GE(points_of(plan).size(), 3U) << tokens << " tokens, " << layers << " layers";
    }
  }
}

TEST(PromptPlan, TheDefaultOfAShortPromptLeavesNothingOut) {
  const PlanContext about = context(4, 256, 4, 256);
  const json plan = default_prompt_plan(about, 12, kMaxBytes);
  EXPECT_THAT(points_of(plan), testing::ElementsAre("InputTokens", "Logits", "LogitLens",
                                                    "HiddenStates", "RawAttentionScore"));
  for (const json& entry : plan["entries"]) EXPECT_FALSE(entry.contains("tokens"));
}

TEST(PromptPlan, AllEntriesTakeTheTypedPromptAtEveryStep) {
  const PlanContext about = context(4, 256, 4, 256);
  const json text = {{"entries", {{{"point", "HiddenStates"}, {"every", 10}}}}};
  const auto plan = parse_prompt_plan(text, about, 12, kMaxBytes);
  ASSERT_TRUE(plan.ok());
  ForwardScope scope{.step = 7, .phase = Phase::kEval, .prompt_set = kTypedPrompt};
  EXPECT_TRUE(plan.value().entries[0].takes(scope));
  scope.prompt_set = 1;
  EXPECT_FALSE(plan.value().entries[0].takes(scope));
}

TEST(PromptPlan, IsRefusedIfItIsTooLargeOrNamesPromptsOrPasses) {
  const PlanContext about = context(4, 256, 4, 256);
  const auto refusal = [&about](const char* text) {
    const auto plan = parse_prompt_plan(json::parse(text), about, 256, kMaxBytes);
    return plan ? "" : plan.error().where + ": " + plan.error().message;
  };
  EXPECT_THAT(refusal(R"({"entries": [{"point": "QKV", "compressor": {"kind": "none"}}]})"),
              testing::MatchesRegex("plan: the plan would send 3[0-9]+ bytes.*holds 1048576"));
  EXPECT_EQ(refusal(R"({"entries": [{"point": "QKV", "prompts": "a"}]})"),
            "plan.entries[0].prompts: the entry takes the typed prompt");
  EXPECT_EQ(refusal(R"({"entries": [{"point": "QKV", "phases": ["eval"]}]})"),
            "plan.entries[0].phases: does not go with prompts");
  EXPECT_EQ(refusal(R"({"entries": 3})"), "plan.entries: must be a list");
  EXPECT_EQ(refusal(R"({"entries": [3]})"), "plan.entries[0]: must be an object");
}

}  // namespace
}  // namespace tt::trace
