#include "tensor_tracer/trace/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor_tracer/model/points.h"

namespace tt::trace {
namespace {

using nlohmann::json;

Catalogue catalogue() {
  config::ModelConfig model;
  model.num_layers = 4;
  model.hidden_size = 32;
  return model::make_catalogue(model, 2);
}

base::Result<Plan> parse(const char* text) { return parse_plan(json::parse(text), catalogue(), 5); }

TEST(Plan, DefaultsAreWrittenOut) {
  const auto plan = parse(R"({"entries": [{"point": "HiddenStates"}, {"point": "InputTokens"}]})");
  ASSERT_TRUE(plan.ok()) << to_string(plan.error());
  EXPECT_EQ(plan.value().number, 5u);
  EXPECT_EQ(to_json(plan.value(), catalogue()), json::parse(R"({"number": 5, "entries": [
      {"point": "HiddenStates", "every": 1, "phases": ["train"], "rows": 1,
       "compressor": {"kind": "tile", "tiles": 32}, "dtype": "f32"},
      {"point": "InputTokens", "every": 1, "phases": ["train"], "rows": 1,
       "compressor": {"kind": "none"}, "dtype": "i32"}]})"));
}

TEST(Plan, CompleteFormReadsBackAsItself) {
  const auto plan = parse(R"({"entries": [{"point": "QKV", "layers": "1-2,4", "every": 3,
      "phases": ["train", "eval"], "rows": 0, "compressor": {"kind": "tile", "tiles": 7},
      "dtype": "bf16"}]})");
  ASSERT_TRUE(plan.ok()) << to_string(plan.error());
  const PlanEntry& entry = plan.value().entries[0];
  EXPECT_THAT(entry.takes_layer, testing::ElementsAre(false, true, true, false, true));
  EXPECT_TRUE(entry.takes(6, Phase::kEval));
  EXPECT_FALSE(entry.takes(7, Phase::kTrain));
  const json form = to_json(plan.value(), catalogue());
  EXPECT_EQ(to_json(parse(form.dump().c_str()).value(), catalogue()), form);
}

TEST(Plan, RefusesWhatDoesNotFitAndNamesIt) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {R"([])", "plan: must be an object"},
      {R"({"entries": 3})", "plan.entries: must be a list"},
      {R"({"entries": [], "step": 2})", "plan: unknown key \"step\""},
      {R"({"entries": [7]})", "plan.entries[0]: must be an object"},
      {R"({"entries": [{}]})", "plan.entries[0].point: missing"},
      {R"({"entries": [{"point": "Hidden"}]})", "unknown point \"Hidden\"; known points: InputTok"},
      {R"({"entries": [{"point": "QKV", "layer": "1"}]})", "unknown key \"layer\""},
      {R"({"entries": [{"point": "QKV", "layers": "0-2"}]})", "layers 0-2 are outside 1-4 of QKV"},
      {R"({"entries": [{"point": "QKV", "layers": "3-2"}]})", "is not a list of layer ranges"},
      {R"({"entries": [{"point": "QKV", "layers": "1,"}]})", "is not a list of layer ranges"},
      {R"({"entries": [{"point": "QKV", "layers": 1}]})", "layers must be text"},
      {R"({"entries": [{"point": "QKV", "every": 0}]})", "0 is not a whole number from 1 to"},
      {R"({"entries": [{"point": "QKV", "every": 1e300}]})", "is not a whole number from 1 to"},
      {R"({"entries": [{"point": "QKV", "every": 18446744073709551615}]})", "not a whole number"},
      {R"({"entries": [{"point": "QKV", "rows": -1}]})", "-1 is not a whole number from 0 to"},
      {R"({"entries": [{"point": "QKV", "phases": []}]})", "phases must be a list"},
      {R"({"entries": [{"point": "QKV", "phases": ["test"]}]})", "phases must be a list"},
      {R"({"entries": [{"point": "MLP2", "compressor": {"kind": "tile", "tiles": 33}}]})",
       "33 is not a whole number from 1 to 32"},
      {R"({"entries": [{"point": "MLP2", "compressor": {"kind": "zip"}}]})",
       "unknown compressor \"zip\""},
      {R"({"entries": [{"point": "InputTokens", "compressor": {"kind": "tile", "tiles": 2}}]})",
       "InputTokens cannot be tiled"},
      {R"({"entries": [{"point": "InputTokens", "dtype": "f32"}]})", "InputTokens travels as i32"},
      {R"({"entries": [{"point": "QKV", "dtype": "f8"}]})", "unknown dtype \"f8\""},
  };
  for (const auto& [text, message] : cases) {
    const auto plan = parse(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_THAT(to_string(plan.error()), testing::HasSubstr(message)) << text;
  }
}

TEST(Plan, EntryLimitExceeded) {
  json text = {{"entries", json::array()}};
  for (std::size_t i = 0; i <= PlanLimits{}.max_entries; ++i) {
    text["entries"].push_back({{"point", "QKV"}});
  }
  EXPECT_THAT(to_string(parse_plan(text, catalogue(), 1).error()),
              testing::HasSubstr("65 entries are more than 64"));
}

TEST(Plan, EveryLimitExceeded) {
  const json text = {{"entries", {{{"point", "QKV"}, {"every", 1'000'001}}}}};
  EXPECT_FALSE(parse_plan(text, catalogue(), 1).ok());
}

}  // namespace
}  // namespace tt::trace
