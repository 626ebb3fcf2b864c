// Prompts that a viewer types, in runs on ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tensor_tracer/intervene/engine.h"
#include "tensor_tracer/trace/prompt_plan.h"
#include "tests/unit/train/tiny_run.h"

namespace tt::train {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

// Query is sharded by heads: if a rank were missing, so would its heads.
const json kPlan = {{"entries",
                     {{{"point", "Query"}, {"compressor", {{"kind", "none"}}}},
                      {{"point", "Logits"}, {"compressor", {{"kind", "topk"}, {"k", 3}}}}}}};

config::TrainConfig config_of(mesh::MeshShape shape) {
  config::TrainConfig config = tiny_config(shape);
  config.monitor.monitor_interval = 2;
  return config;
}

protocol::RunPrompt run_prompt(std::string text, std::optional<json> plan = kPlan) {
  return {std::move(text), std::move(plan)};
}

protocol::KeepPrompt keep(std::string name, std::string text) {
  return {std::move(name), std::move(text), kPlan};
}

// The answer to request `id`; null if it was refused.
json answer_to(const Script& script, std::uint64_t id) {
  for (const auto& [answered, result] : script.answers)
    if (answered == id) return result;
  return {};
}

// "code: message" of the refusal of request `id`.
std::string refusal_of(const Script& script, std::uint64_t id) {
  for (const auto& [refused, error] : script.refusals)
    if (refused == id) return error.code + ": " + error.message;
  return "";
}

std::string from_base64(const std::string& text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    const auto value = kDigits.find(digit);
    if (value == std::string_view::npos) break;
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xFFU);
  }
  return bytes;
}

std::vector<Script::Record> records_in(const json& answer, const char* which) {
  return records_of(from_base64(answer["records"][which].get<std::string>()));
}

void expect_same_records(const std::vector<Script::Record>& found,
                         const std::vector<Script::Record>& wanted) {
  ASSERT_FALSE(wanted.empty());
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto identity = [](const protocol::RecordHeader& header) {
      return std::tuple(header.step, header.phase, header.prompt_set, header.plan, header.entry,
                        header.point, header.layer, header.shape);
    };
    EXPECT_EQ(identity(found[i].first), identity(wanted[i].first));
    EXPECT_THAT(found[i].second,
                testing::Pointwise(testing::NanSensitiveFloatNear(1e-5F), wanted[i].second));
  }
}

// The records of prompt sets in the stream of a run.
std::vector<Script::Record> monitored(const Script& script) {
  std::vector<Script::Record> records;
  for (const Script::Record& record : script.records)
    if (record.first.prompt_set > 0) records.push_back(record);
  return records;
}

class PromptsOnMesh : public testing::TestWithParam<mesh::MeshShape> {};

INSTANTIATE_TEST_SUITE_P(Prompts, PromptsOnMesh,
                         testing::Values(mesh::MeshShape{.tensor = 2}, mesh::MeshShape{.data = 2}),
                         [](const auto& test) {
                           return "Tensor" + std::to_string(test.param.tensor) + "Data" +
                                  std::to_string(test.param.data);
                         });

TEST_P(PromptsOnMesh, ChangeNoBitOfTheTraining) {
  const auto plain = train(config_of(GetParam()), GetParam());
  Script script;
  script.requests = {{{1, run_prompt("once")}},
                     {},
                     {{2, keep("kept", "upon a time")}, {3, run_prompt("a", std::nullopt)}},
                     {},
                     {},
                     {{4, run_prompt("there was")}},
                     {},
                     {{5, protocol::RemovePrompt{"kept"}}}};
  const auto prompted = train(config_of(GetParam()), GetParam(), &script);
  EXPECT_THAT(script.refusals, IsEmpty());
  EXPECT_EQ(script.answers.size(), 5U);
  EXPECT_THAT(monitored(script), testing::Not(IsEmpty()));
  for (std::size_t rank = 0; rank < plain.size(); ++rank) {
    ASSERT_EQ(prompted[rank].reports.size(), plain[rank].reports.size());
    for (std::size_t i = 0; i < plain[rank].reports.size(); ++i) {
      EXPECT_EQ(prompted[rank].reports[i].loss, plain[rank].reports[i].loss);
      EXPECT_EQ(prompted[rank].reports[i].grad_norm, plain[rank].reports[i].grad_norm);
      EXPECT_EQ(prompted[rank].reports[i].valid_loss, plain[rank].reports[i].valid_loss);
    }
  }
}

TEST_P(PromptsOnMesh, GiveTheRecordsOfOneRank) {
  const auto run = [](mesh::MeshShape shape) {
    Script script;
    script.requests = {{}, {}, {{1, run_prompt("once upon")}}};
    train(config_of(shape), shape, &script);
    return answer_to(script, 1);
  };
  const json one = run({});
  const json two = run(GetParam());
  EXPECT_EQ(two["step"], 2);
  EXPECT_EQ(two["tokens"], json({'o', 'n', 'c', 'e', ' ', 'u', 'p', 'o', 'n'}));
  EXPECT_FALSE(two["records"].contains("on")) << "no program is in force";
  const auto records = records_in(two, "off");
  expect_same_records(records, records_in(one, "off"));
  ASSERT_EQ(records.size(), 3U);  // Query of two layers, Logits
  EXPECT_EQ(records[0].first.prompt_set, trace::kTypedPrompt);
  EXPECT_EQ(records[0].first.phase, protocol::RecordPhase::kEval);
  EXPECT_EQ(records[0].first.step, 2U);
  EXPECT_EQ(records[0].first.shape[1], 9U);
}

TEST_P(PromptsOnMesh, BeforeTheFirstStepHaveItsNumber) {
  Script script;
  script.requests = {{{1, run_prompt("once")}}};
  train(config_of(GetParam()), GetParam(), &script);
  const json answer = answer_to(script, 1);
  EXPECT_EQ(answer["step"], 0) << "the weights have seen no step";
  EXPECT_EQ(records_in(answer, "off").at(0).first.step, 1U);
}

TEST_P(PromptsOnMesh, ThatAreKeptAreMonitoredAsOnOneRank) {
  const auto run = [](mesh::MeshShape shape, Script& script) {
    script.requests = {{}, {}, {{1, keep("kept", "once")}},          {},
                       {}, {}, {{2, protocol::RemovePrompt{"kept"}}}};
    train(config_of(shape), shape, &script);
  };
  Script one, two;
  run({}, one);
  run(GetParam(), two);
  const json kept = answer_to(two, 1);
  EXPECT_EQ(kept["step"], 3);
  EXPECT_EQ(kept["ranks"], 2);
  EXPECT_EQ(kept["prompt_set"], 1);
  EXPECT_EQ(kept["tokens"], json({'o', 'n', 'c', 'e'}));
  EXPECT_EQ(kept["plan"]["entries"][0]["prompts"], "kept");
  EXPECT_THAT(answer_to(two, 2)["plan"]["entries"], IsEmpty());
  const auto records = monitored(two);
  expect_same_records(records, monitored(one));
  EXPECT_EQ(records.front().first.step, 4U);
  EXPECT_EQ(records.back().first.step, 6U) << "removed before step 7";
  std::vector<std::string> events;
  for (const auto& [event, params] : two.events) {
    if (event == "prompts" || event == "plan") events.push_back(event);
    if (event == "prompts" && params["step"] == 7) {
      EXPECT_EQ(params["prompt_sets"], json::parse(R"([{"name": "kept", "interval": 2,
          "prompts": ["once"], "tokens": [[111, 110, 99, 101]], "removed": true}])"));
    }
  }
  EXPECT_THAT(events, testing::ElementsAre("prompts", "plan", "prompts", "plan"));
}

// An engine for the tiny model.
std::unique_ptr<trace::InterventionHooks> engine_of(const config::TrainConfig& config,
                                                    const TrainerParts& parts) {
  intervene::Context context;
  context.model.places = parts.plan_context.places;
  context.model.prompt_sets = parts.plan_context.prompt_sets;
  context.tensor_ranks = parts.groups.shape.tensor;
  context.tensor_rank = parts.groups.coordinates.tensor;
  context.micro_batch_size = config.micro_batch_size;
  context.micro_batches = parts.plan_context.micro_batches;
  context.seq_length = config.model.seq_length;
  context.head_size = config.model.head_size();
  context.dtype = at::kDouble;
  return intervene::make_engine(std::move(context), parts.groups.tensor, parts.groups.control);
}

// A run with programs.
Script run_with_programs(mesh::MeshShape shape, std::deque<std::vector<trace::Request>> requests) {
  Script script;
  script.requests = std::move(requests);
  const config::TrainConfig config = config_of(shape);
  std::vector<std::unique_ptr<trace::InterventionHooks>> engines(
      static_cast<std::size_t>(shape.world_size()));
  train(config, shape, &script, [&](TrainerParts& parts, int rank) {
    auto& engine = engines[static_cast<std::size_t>(rank)];
    engine = engine_of(config, parts);
    parts.hooks = engine.get();
  });
  return script;
}

std::vector<json> params_of(const Script& script, const std::string& event) {
  std::vector<json> all;
  for (const auto& [name, params] : script.events)
    if (name == event) all.push_back(params);
  return all;
}

TEST_P(PromptsOnMesh, RunWithTheProgramsInForceOffAndOn) {
  const protocol::ApplyProgram apply{
      .name = "steer", .program = "layers[1].output *= 0.0\nsave(logits.mean(), \"s\")"};
  const Script script =
      run_with_programs(GetParam(), {{}, {{1, apply}}, {{2, run_prompt("once", std::nullopt)}}});
  ASSERT_TRUE(script.refusals.empty()) << to_string(script.refusals[0].second);
  const json answer = answer_to(script, 2);
  EXPECT_EQ(answer["programs"], json::parse(R"([{"name": "steer", "acted": true, "failed": 0,
                                                 "waiting": 0}])"));
  const auto off = records_in(answer, "off"), on = records_in(answer, "on");
  ASSERT_EQ(on.size(), off.size());
  const auto is_zero = [](const Script::Record& record) {
    return std::ranges::all_of(record.second, [](float value) { return value == 0.0F; });
  };
  // The default plan: tokens, logits, lens, hidden states, attention.
  bool has_states = false;
  for (std::size_t i = 0; i < off.size(); ++i) {
    if (off[i].first.entry != 3 || off[i].first.layer != 1) continue;
    has_states = true;
    EXPECT_FALSE(is_zero(off[i]));
    EXPECT_TRUE(is_zero(on[i])) << "the program names only training, but it acts on the prompt";
  }
  EXPECT_TRUE(has_states);
  // The prompt's forwards are not counted, and its values are not saved.
  const Script plain = run_with_programs(GetParam(), {{}, {{1, apply}}});
  EXPECT_EQ(params_of(script, "applied"), params_of(plain, "applied"));
  EXPECT_EQ(params_of(script, "saved").size(), params_of(plain, "saved").size());
}

TEST(Prompts, ThatAreWrongAreRefusedAndNothingChanges) {
  Script script;
  const json too_large = {
      {"entries", {{{"point", "Embedding"}, {"prompts", "kept"}}, {{"point", "HiddenStates"}}}}};
  script.requests = {{{1, run_prompt("")},
                      {2, run_prompt(std::string(17, 'x'))},
                      {3, run_prompt("\xff")},
                      {4, run_prompt("a", json{{"entries", {{{"point", "Qeury"}}}}})},
                      {5, run_prompt("a", too_large)},
                      {6, keep("a,b", "a")},
                      {7, keep("b", "")},
                      {8, keep("b", std::string(17, 'x'))},
                      {9, protocol::RemovePrompt{"b"}},
                      {10, run_prompt("a")},
                      {11, run_prompt("b")}},
                     {{12, keep("b", "b")}, {13, keep("b", "c")}}};
  train(config_of({}), {}, &script);
  EXPECT_EQ(refusal_of(script, 1), "invalid_argument: the prompt holds no text");
  EXPECT_EQ(refusal_of(script, 2),
            "invalid_argument: the prompt has 17 tokens, the sequence length is 16");
  EXPECT_EQ(refusal_of(script, 3), "invalid_argument: the prompt is not UTF-8");
  EXPECT_THAT(refusal_of(script, 4), HasSubstr("unknown point \"Qeury\""));
  EXPECT_THAT(refusal_of(script, 5), HasSubstr("the entry takes the typed prompt"));
  EXPECT_THAT(refusal_of(script, 6), HasSubstr("cannot be the name of a prompt set"));
  EXPECT_THAT(refusal_of(script, 7), HasSubstr("holds no text"));
  EXPECT_THAT(refusal_of(script, 8), HasSubstr("has 17 tokens"));
  EXPECT_THAT(refusal_of(script, 9), HasSubstr("not_found: there is no prompt set \"b\""));
  EXPECT_EQ(refusal_of(script, 11), "busy: another prompt is under way");
  EXPECT_THAT(refusal_of(script, 13), HasSubstr("there are two prompt sets \"b\""));
  EXPECT_EQ(script.refusals.size(), 11U);
  EXPECT_EQ(script.answers.size(), 2U);
  EXPECT_EQ(answer_to(script, 10)["step"], 0);
}

TEST(Prompts, AFullPlanTakesNoMore) {
  Script script;
  json entries = json::array();
  for (int i = 0; i < 63; ++i) entries.push_back({{"point", "InputTokens"}});
  script.requests = {{{1, protocol::SetPlan{{{"entries", entries}}}},
                      {2, keep("kept", "a")},
                      {3, keep("b", "b")}}};
  train(config_of({}), {}, &script);
  EXPECT_THAT(refusal_of(script, 2), HasSubstr("65 entries are more than 64"));
  EXPECT_THAT(refusal_of(script, 3), HasSubstr("65 entries are more than 64"));
  EXPECT_THAT(params_of(script, "prompts"), IsEmpty());
}

TEST(Prompts, ANumberNeverChangesItsMeaning) {
  Script script;
  const json names_a = {{"entries", {{{"point", "Query"}, {"prompts", "a"}}}}};
  script.requests = {{{1, keep("a", "first")},
                      {2, keep("b", "b")},
                      {3, protocol::RemovePrompt{"a"}},
                      {4, protocol::SetPlan{names_a}},
                      {5, keep("a", "second")},
                      {6, protocol::SetPlan{names_a}},
                      {7, protocol::RemovePrompt{"a"}},
                      {8, keep("a", "first")}}};
  train(config_of({}), {}, &script);
  EXPECT_EQ(answer_to(script, 1)["prompt_set"], 1);
  EXPECT_EQ(answer_to(script, 2)["prompt_set"], 2);
  EXPECT_THAT(refusal_of(script, 4), HasSubstr("unknown prompt set \"a\""));
  EXPECT_EQ(answer_to(script, 5)["prompt_set"], 3);
  EXPECT_TRUE(answer_to(script, 6).is_object());
  EXPECT_EQ(answer_to(script, 8)["prompt_set"], 1) << "the same name and text";
}

}  // namespace
}  // namespace tt::train
