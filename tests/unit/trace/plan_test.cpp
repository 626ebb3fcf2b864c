#include "tensor_tracer/trace/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/trace/plan_cost.h"

namespace tt::trace {
namespace {

using nlohmann::json;

PlanContext context() {
  config::ModelConfig model;
  model.num_layers = 4;
  model.hidden_size = 32;
  PlanContext about;
  about.places = model::describe_model(model, 2).places();
  about.tensor_ranks = 2;
  about.micro_batches = 4;
  about.micro_batch_size = 8;
  about.seq_length = 16;
  about.prompt_sets = points::PromptSets({{"probes", 11, 10}});
  return about;
}

base::Result<Plan> parse(const char* text) { return parse_plan(json::parse(text), context(), 5); }

TEST(Plan, DefaultsAreWrittenOut) {
  const auto plan = parse(R"({"entries": [{"point": "HiddenStates"}, {"point": "InputTokens"}]})");
  ASSERT_TRUE(plan.ok()) << to_string(plan.error());
  EXPECT_EQ(plan.value().number, 5u);
  EXPECT_EQ(to_json(plan.value(), context()), json::parse(R"({"number": 5, "entries": [
      {"point": "HiddenStates", "direction": "value", "every": 1, "phases": ["train"],
       "micro_batches": "0", "rows": 1,
       "compressor": {"kind": "tile", "tiles": 32, "method": "mean"}, "dtype": "f32"},
      {"point": "InputTokens", "direction": "value", "every": 1, "phases": ["train"],
       "micro_batches": "0", "rows": 1,
       "compressor": {"kind": "none"}, "dtype": "i32"}]})"));
}

TEST(Plan, CompleteFormReadsBackAsItself) {
  const auto plan = parse(R"({"entries": [{"point": "QKV", "layers": "1-2,4", "every": 3,
      "phases": ["train", "eval"], "rows": 0, "compressor": {"kind": "tile", "tiles": 7},
      "dtype": "bf16"}]})");
  ASSERT_TRUE(plan.ok()) << to_string(plan.error());
  const PlanEntry& entry = plan.value().entries[0];
  EXPECT_THAT(entry.takes_layer, testing::ElementsAre(false, true, true, false, true));
  EXPECT_TRUE(entry.takes({6, 0, 0, Phase::kEval}));
  EXPECT_FALSE(entry.takes({7, 0, 0, Phase::kTrain}));
  const json form = to_json(plan.value(), context());
  EXPECT_EQ(to_json(parse(form.dump().c_str()).value(), context()), form);
}

TEST(Plan, TakesTheFirstForwardOfAnEvaluationOrAll) {
  const auto first = parse(R"({"entries": [{"point": "QKV", "phases": ["eval"]}]})");
  const auto all = parse(R"({"entries": [{"point": "QKV", "phases": ["eval"],
                                          "eval_forwards": "all"}]})");
  ASSERT_TRUE(first.ok() && all.ok());
  for (const auto& [micro_batch, batch] : {std::pair(0, 0), std::pair(1, 0), std::pair(0, 1)}) {
    const ForwardScope scope{1, micro_batch, 0, Phase::kEval, 0, batch};
    EXPECT_EQ(first.value().entries[0].takes(scope), micro_batch + batch == 0);
    EXPECT_TRUE(all.value().entries[0].takes(scope));
  }
  const json form = to_json(all.value(), context());
  EXPECT_EQ(form["entries"][0]["eval_forwards"], "all");
  EXPECT_EQ(to_json(parse(form.dump().c_str()).value(), context()), form);
  for (const auto& [text, message] :
       {std::pair(R"({"entries": [{"point": "QKV", "phases": ["eval"], "eval_forwards": 2}]})",
                  "eval_forwards: 2 is neither \"first\" nor \"all\""),
        std::pair(R"({"entries": [{"point": "QKV", "eval_forwards": "all"}]})",
                  "eval_forwards: the entry takes no evaluation; add \"eval\" to phases"),
        std::pair(R"({"entries": [{"point": "QKV", "prompts": "probes",
                                   "eval_forwards": "all"}]})",
                  "eval_forwards: does not go with prompts")})
    EXPECT_THAT(to_string(parse(text).error()), testing::HasSubstr(message)) << text;
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
      {R"({"entries": [{"point": "final_norm.input"}]})",
       "\"final_norm.input\" is the value of HiddenStates in layer 4; trace HiddenStates"},
      {R"({"entries": [{"point": "layers[n].input"}]})",
       "\"layers[n].input\" is the value of HiddenStates in the previous layer; trace"},
      {R"({"entries": [{"point": "QKV", "layer": "1"}]})", "unknown key \"layer\""},
      {R"({"entries": [{"point": "QKV", "layers": "0-2"}]})",
       "0-2 is outside 1-4, the layers of QKV; layers count"},
      {R"({"entries": [{"point": "QKV", "layers": "3-2"}]})", "is not a list of ranges in a text"},
      {R"({"entries": [{"point": "QKV", "layers": "1,"}]})", "is not a list of ranges in a text"},
      {R"({"entries": [{"point": "QKV", "layers": 1}]})", "1 is not a list of ranges in a text"},
      {R"({"entries": [{"point": "QKV", "micro_batches": "2-4"}]})",
       "2-4 is outside 0-3, the micro-batches of a step"},
      {R"({"entries": [{"point": "QKV", "micro_batches": 1}]})", "micro_batches must be text"},
      {R"({"entries": [{"point": "QKV", "direction": "back"}]})",
       "\"back\" is neither \"value\" nor \"gradient\""},
      {R"({"entries": [{"point": "InputTokens", "direction": "gradient"}]})",
       "InputTokens has no gradient"},
      {R"({"entries": [{"point": "QKV", "direction": "gradient", "phases": ["eval"]}]})",
       "evaluation has no gradients"},
      {R"({"entries": [{"point": "QKV", "prompts": "none"}]})",
       "unknown prompt set \"none\"; known prompt sets: probes"},
      {R"({"entries": [{"point": "QKV", "prompts": "probes", "phases": ["train"]}]})",
       "does not go with prompts"},
      {R"({"entries": [{"point": "QKV", "rows": [3, 3]}]})", "is not [first, end] with"},
      {R"({"entries": [{"point": "QKV", "tokens": [0, 17]}]})",
       "is not [first, end] with 0 <= first < end <= 16"},
      {R"({"entries": [{"point": "QKV", "tokens": 4}]})", "is not [first, end] with"},
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
       "InputTokens holds whole numbers and is not compressed"},
      {R"({"entries": [{"point": "InputTokens", "dtype": "f32"}]})",
       "unknown dtype \"f32\" for InputTokens; known dtypes: i32, i64"},
      {R"({"entries": [{"point": "QKV", "compressor": "tile"}]})",
       "compressor: must be an object with a \"kind\""},
      {R"({"entries": [{"point": "QKV", "compressor": {"kind": "none", "tiles": 3}}]})",
       "unknown key \"tiles\""},
      {R"({"entries": [{"point": "QKV", "compressor": {"kind": "stats", "bins": 9}}]})",
       "without a range the bins are the 48 powers of two"},
      {R"({"entries": [{"point": "QKV", "compressor": {"kind": "stats", "range": [1, 1]}}]})",
       "must be two numbers, the lower first"},
      {R"({"entries": [{"point": "QKV", "compressor": {"kind": "stats"}, "dtype": "bf16"}]})",
       "counts and columns do not fit bf16"},
      {R"({"entries": [{"point": "QKV", "compressor": {"kind": "topk", "k": 0}}]})",
       "0 is not a whole number from 1 to 96"},
      {R"({"entries": [{"point": "QKV", "dtype": "u8", "compressor": {"kind": "outliers"}}]})",
       "counts and columns do not fit u8"},
      {R"({"entries": [{"point": "RawAttentionScore", "compressor": {"kind": "topk"}}]})",
       "RawAttentionScore has too many dims for topk"},
      {R"({"entries": [{"point": "HiddenStates",
                        "compressor": {"kind": "projection", "vectors": ["evil"]}}]})",
       "this run has no vectors; start it with --tensor-tracer-vectors"},
      {R"x({"entries": [{"point": "QKV", "compressor": {"kind": "tile", "method": "data.meen(-1)"}}]})x",
       "compressor.method, line 1"},
      {R"x({"entries": [{"point": "QKV", "compressor": {"kind": "tile", "method": "data.mean(-1"}}]})x",
       "compressor.method, line 1"},
      {R"x({"entries": [{"point": "QKV", "compressor": {"kind": "tile", "tiles": 7,
                                                       "method": "data.mean()"}}]})x",
       "looks beyond its own tile, so it gets the whole tensor and needs tiles of equal width"},
      {R"({"entries": [{"point": "QKV", "compressor": {"kind": "tile",
          "method": "data.__class__.__mro__"}}]})",
       "compressor.method, line 1"},
      {R"({"entries": [{"point": "QKV", "dtype": "f8"}]})", "unknown dtype \"f8\""},
  };
  for (const auto& [text, message] : cases) {
    const auto plan = parse(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_THAT(to_string(plan.error()), testing::HasSubstr(message)) << text;
  }
}

TEST(Plan, ExpressionThatCostsTooMuchIsRefused) {
  PlanContext about = context();
  const json text = {
      {"entries",
       {{{"point", "QKV"}, {"compressor", {{"kind", "tile"}, {"method", "data.exp().std(-1)"}}}}}}};
  ASSERT_TRUE(parse_plan(text, about, 1).ok());
  about.limits.expression.max_cost = 1000;
  EXPECT_THAT(to_string(parse_plan(text, about, 1).error()),
              testing::HasSubstr("the limit is 1000"));
}

TEST(Plan, AnExpressionsCostIsThatOfTheRowsAndTokensTaken) {
  PlanContext about = context();
  json entry = {{"point", "HiddenStates"},
                {"rows", 0},
                {"compressor", {{"kind", "tile"}, {"method", "data.exp().std(-1)"}}}};
  const auto taken = [&] { return parse_plan({{"entries", {entry}}}, about, 1).ok(); };
  about.seq_length = 4096;
  about.limits.expression.max_cost = 1e6;
  EXPECT_FALSE(taken());
  entry["rows"] = 1;
  EXPECT_TRUE(taken());
  entry["rows"] = 0;
  entry["tokens"] = {2, 4};
  EXPECT_TRUE(taken());
}

// Of a capture of one row and so many tokens.
std::vector<std::int64_t> record_shape(const PlanEntry& entry, std::int64_t tokens) {
  LogicalShape shape;
  shape.lines = shape.last_line = tokens;
  shape.features = 32;
  shape.line_dims = {tokens};
  return entry.compressor->packing(shape, false)->shape();
}

TEST(Plan, AnExpressionsDimsDoNotDependOnHowManyLinesThereAre) {
  const auto plan = parse(R"x({"entries": [
      {"point": "HiddenStates", "compressor": {"kind": "tile", "tiles": 16,
                                               "method": "data.mean(dim=0)"}},
      {"point": "HiddenStates", "rows": 0, "tokens": [0, 8], "compressor": {"kind": "tile",
       "tiles": 8, "method": "data.transpose(0, 1).unsqueeze(-1)"}},
      {"point": "HiddenStates", "compressor": {"kind": "tile", "tiles": 16,
                                               "method": "data - data.mean()"}}]})x");
  ASSERT_TRUE(plan.ok()) << to_string(plan.error());
  using Shape = std::vector<std::int64_t>;
  const auto& entries = plan.value().entries;
  for (const std::int64_t tokens : {1, 7, 8, 16}) {
    EXPECT_EQ(record_shape(entries[0], tokens), (Shape{16, 2}));
    EXPECT_EQ(record_shape(entries[1], tokens), (Shape{8, tokens, 4, 1}));
    EXPECT_EQ(record_shape(entries[2], tokens), (Shape{1, tokens, 16, 2}));
  }
}

TEST(Plan, ExpressionIsCheckedInTheDtypeThatItRunsIn) {
  for (const char* dtype : {"bfloat16", "float32", "float64"}) {
    PlanContext about = context();
    config::ModelConfig model;
    about.places = model::describe_model(model, 2, 2, dtype).places();
    const bool is_double = std::string(dtype) == "float64";
    for (const bool says_double : {false, true}) {
      const std::string q = says_double ? "tensor([0.5], dtype=torch.float64)" : "tensor([0.5])";
      const json compressor = {
          {"kind", "tile"}, {"tiles", 1}, {"method", "data.quantile(" + q + ", dim=-1)"}};
      const auto plan =
          parse_plan({{"entries", {{{"point", "QKV"}, {"compressor", compressor}}}}}, about, 1);
      EXPECT_EQ(plan.ok(), says_double == is_double) << dtype << " " << q;
    }
  }
}

TEST(Plan, ExpressionWithMoreDimsThanARecordIsRefused) {
  for (const auto& [method, told] :
       {std::pair("data[:, :, :, None]", "its result has 5 dims"),
        std::pair("data[None, None]", "its result has 5 dims"), std::pair("data.cumsum(-1)", "")}) {
    const json entry = {{"point", "QKV"},
                        {"compressor", {{"kind", "tile"}, {"tiles", 1}, {"method", method}}}};
    const auto plan = parse_plan({{"entries", {entry}}}, context(), 1);
    EXPECT_EQ(plan.ok(), std::string(told).empty()) << method;
    if (plan) continue;
    EXPECT_THAT(to_string(plan.error()), testing::HasSubstr(told));
  }
}

TEST(Plan, EntryLimitExceeded) {
  json text = {{"entries", json::array()}};
  for (std::size_t i = 0; i <= PlanLimits{}.max_entries; ++i)
    text["entries"].push_back({{"point", "QKV"}});
  EXPECT_THAT(to_string(parse_plan(text, context(), 1).error()),
              testing::HasSubstr("65 entries are more than 64"));
}

json one_entry(json entry) { return {{"entries", {std::move(entry)}}}; }

// A set's passes are padded to its longest prompt, here 10 of at most 16 tokens, and 11 prompts
// make a pass of 8 and one of 3.
TEST(Plan, MethodsAreCheckedForThePassesOfTheirPrompts) {
  const struct {
    const char* point;
    int tiles;
    const char* method;
    const char* message;  // none: it fits
  } cases[] = {
      {"RawAttentionScore", 8, "(data - data.mean()).amax(dim=-1)", "8 tiles do not divide 10"},
      {"RawAttentionScore", 5, "(data - data.mean()).amax(dim=-1)", ""},
      {"RawAttentionScore", 16, "(data - data.mean()).amax(dim=-1)", ""},  // 10 of one key each
      {"RawAttentionScore", 4, "data[..., 3:]", "5 dims"},
      {"HiddenStates", 4, "data[29:].mean()", ""},
      {"HiddenStates", 4, "data[30].mean()", "30"},
  };
  for (const auto& each : cases) {
    const json compressor = {{"kind", "tile"}, {"tiles", each.tiles}, {"method", each.method}};
    json entry = {{"point", each.point}, {"rows", 0}, {"compressor", compressor}};
    EXPECT_EQ(parse_plan(one_entry(entry), context(), 1).ok(), each.tiles != 5) << each.method;
    entry["prompts"] = "probes";
    const auto plan = parse_plan(one_entry(entry), context(), 1);
    const std::string error = plan ? "" : to_string(plan.error());
    EXPECT_EQ(plan.ok(), *each.message == 0) << each.method << ": " << error;
    EXPECT_THAT(error, testing::HasSubstr(each.message));
  }
}

// Of 11 prompts 8 are in one pass and 3 in another.
TEST(Plan, MethodsOfFourDimsAreCheckedForTheirRows) {
  const auto parsed = [](const char* method, json more) {
    json entry = {
        {"point", "HiddenStates"},
        {"rows", 0},
        {"compressor", {{"kind", "tile"}, {"tiles", 16}, {"method", method}, {"data_dims", 4}}}};
    entry.update(more);
    return parse_plan(one_entry(entry), context(), 1);
  };
  const json prompts = {{"prompts", "probes"}};
  EXPECT_TRUE(parsed("data[7, 15, 15, 1]", json::object()).ok());
  EXPECT_FALSE(parsed("data[8]", json::object()).ok());
  EXPECT_FALSE(parsed("data[0, 16]", json::object()).ok());
  EXPECT_TRUE(parsed("data[2, 9]", prompts).ok());
  EXPECT_FALSE(parsed("data[3, 9]", prompts).ok());
  EXPECT_FALSE(parsed("data[2, 10]", prompts).ok());
  EXPECT_FALSE(parsed("data[3]", {{"rows", {2, 5}}}).ok());
  EXPECT_TRUE(parsed("data[2]", {{"rows", {2, 5}}}).ok());
  const auto plan = parsed("data.mean(dim=3)", json::object());
  ASSERT_TRUE(plan.ok()) << to_string(plan.error());
  EXPECT_EQ(to_json(plan.value(), context())["entries"][0]["compressor"]["data_dims"], 4);
  json five = {{"point", "QKV"}, {"compressor", {{"kind", "tile"}, {"data_dims", 5}}}};
  EXPECT_THAT(to_string(parse_plan(one_entry(five), context(), 1).error()),
              testing::HasSubstr("data_dims: 5 is not a whole number from 3 to 4"));
}

TEST(Plan, PassByteLimitsExceeded) {
  PlanContext about = context();
  const json entry = {
      {"point", "RawAttentionScore"}, {"rows", 0}, {"compressor", {{"kind", "none"}}}};
  const std::size_t heads =
      about.places->rows()[*about.places->find("RawAttentionScore")].placement.full_size();
  const std::size_t numbers = 4 * 8 * heads * 16 * 16;  // layers, rows, heads, queries and keys
  about.limits.max_pass_bytes = 4 * (numbers + 128);    // and a header of 128 bytes for each layer
  about.limits.max_gathered_bytes = 4 * numbers;
  EXPECT_TRUE(parse_plan(one_entry(entry), about, 1).ok());
  about.limits.max_pass_bytes -= 1;
  EXPECT_THAT(to_string(parse_plan(one_entry(entry), about, 1).error()),
              testing::HasSubstr("a training pass would send 1 MiB of records, more than the"));
  json twice = one_entry(entry);
  twice["entries"].push_back(entry);
  twice["entries"][1]["phases"] = {"eval"};
  about.limits.max_pass_bytes += 1;
  EXPECT_TRUE(parse_plan(twice, about, 1).ok()) << "passes of their own";
  twice["entries"][1]["phases"] = {"train", "eval"};
  EXPECT_FALSE(parse_plan(twice, about, 1).ok());
  twice["entries"][1]["enabled"] = false;
  EXPECT_TRUE(parse_plan(twice, about, 1).ok());
  about.limits.max_gathered_bytes -= 1;
  EXPECT_THAT(to_string(parse_plan(one_entry(entry), about, 1).error()),
              testing::HasSubstr("a training pass would gather"));
  json prompts = entry;
  prompts["prompts"] = "probes";
  EXPECT_TRUE(parse_plan(one_entry(prompts), about, 1).ok());
  about.limits.max_gathered_bytes = 1000;
  EXPECT_THAT(to_string(parse_plan(one_entry(prompts), about, 1).error()),
              testing::HasSubstr("a pass of the prompts probes would gather"));
}

TEST(Plan, TheDefaultFitsItsLimits) {
  PlanContext about = context();
  EXPECT_FALSE(default_plan(about)["entries"][1].contains("tokens"));
  const std::size_t header = 128, tokens = 8 * 10 * 2 * 4;  // ids and positions of the prompts
  about.limits.max_pass_bytes = header + tokens + 4 * (header + 8 * 5 * 32 * 4);
  const json plan = default_plan(about);
  EXPECT_TRUE(parse_plan(plan, about, 1).ok());
  ASSERT_EQ(plan["entries"].size(), 4u);
  EXPECT_EQ(plan["entries"][1]["tokens"], json({0, 4}));
  EXPECT_EQ(plan["entries"][3]["tokens"], json({0, 4}));
  EXPECT_EQ(plan["entries"][3]["prompts"], "probes");
  EXPECT_FALSE(plan["entries"][2].contains("tokens"));
}

TEST(Plan, TheDefaultShowsHowPromptsArePredicted) {
  PlanContext about = context();
  about.seq_length = 200;
  about.prompt_sets =
      points::PromptSets({{"short", 1, 10},
                          {"long", 2, 200},
                          {.name = "both", .rows = 2, .tokens = 200, .shortest = 80}});
  const json plan = default_plan(about);
  ASSERT_TRUE(parse_plan(plan, about, 1).ok());
  std::map<std::string, int> taken;
  for (const json& entry : plan["entries"]) {
    const std::string point = entry["point"];
    if (point != "LogitLens" && !point.starts_with("attention.")) continue;
    ++taken[entry["prompts"].get<std::string>() + " " + point];
    EXPECT_EQ(entry["every"], 10);
    const std::map<std::string, json> tokens = {
        {"short", json()}, {"long", json({136, 200})}, {"both", json({16, 200})}};
    EXPECT_EQ(entry.value("tokens", json()), tokens.at(entry["prompts"]));
  }
  EXPECT_EQ(taken.size(), 12U);
  EXPECT_EQ(taken["long LogitLens"], 1);
}

TEST(Plan, UpdatesBelongToTrainingStepsAndAreSentAsTheyAre) {
  const PlanContext about = context();
  const auto plan = parse_plan(one_entry({{"point", "Updates"}, {"every", 5}}), about, 1);
  ASSERT_TRUE(plan.ok()) << to_string(plan.error());
  EXPECT_EQ(plan.value().entries[0].compressor->form["kind"], "none");
  EXPECT_TRUE(parse_plan(to_json(plan.value(), about), about, 2).ok());
  const std::pair<json, const char*> wrong[] = {
      {{{"point", "Updates"}, {"phases", {"train", "eval"}}}, "belongs to a training step"},
      {{{"point", "Updates"}, {"prompts", "probes"}}, "belongs to a training step"},
      {{{"point", "Updates"}, {"micro_batches", "1"}}, "belongs to a training step"},
      {{{"point", "Updates"}, {"direction", "gradient"}}, "no gradient"},
      {{{"point", "Updates"}, {"compressor", {{"kind", "stats"}}}}, "sent as they are"}};
  for (const auto& [entry, message] : wrong) {
    const auto refused = parse_plan(one_entry(entry), about, 1);
    ASSERT_FALSE(refused.ok()) << entry;
    EXPECT_THAT(to_string(refused.error()), testing::HasSubstr(message));
  }
}

class ManyVectors : public VectorLibrary {
 public:
  std::vector<std::string> names() override {
    std::vector<std::string> names;
    for (int i = 10; i < 43; ++i) names.push_back("v" + std::to_string(i));
    return names;
  }
  base::Result<std::shared_ptr<const DirectionVector>> find(const std::string& name) override {
    return std::make_shared<const DirectionVector>(
        DirectionVector{name, 32, true, std::vector<float>(5 * 32, 1.0F)});
  }
};

TEST(Plan, TheDefaultProjectsOnAsManyVectorsAsAnEntryTakes) {
  ManyVectors vectors;
  PlanContext about = context();
  about.vectors = &vectors;
  const json plan = default_plan(about);
  const auto parsed = parse_plan(plan, about, 1);
  ASSERT_TRUE(parsed.ok()) << to_string(parsed.error());
  const FileContents contents = contents_of(parsed.value());
  EXPECT_EQ(contents.vectors.size(), 32U);
  EXPECT_TRUE(contents.vectors.contains("v10"));
  EXPECT_FALSE(contents.vectors.contains("v42"));
  json asked = plan;
  asked["entries"][2]["compressor"]["vectors"] = vectors.names();
  EXPECT_THAT(to_string(parse_plan(asked, about, 1).error()), testing::HasSubstr("1 to 32 names"));
}

TEST(Plan, TheDefaultProjectsThePlaceOfEachRowOfAVector) {
  ManyVectors vectors;
  PlanContext about = context();
  about.vectors = &vectors;
  const json plan = default_plan(about);
  std::vector<std::string> found;
  for (const json& entry : plan["entries"]) {
    if (!entry.contains("compressor") || entry.contains("mean_over")) continue;
    if (entry["compressor"]["kind"] != "projection") continue;
    const std::string point = entry["point"], of = entry.value("prompts", "training data");
    found.push_back(of + " " + point + " " + entry.value("layers", ""));
  }
  // The last row of a vector belongs to the final norm.
  EXPECT_THAT(found,
              testing::ElementsAre("training data HiddenStates 1-3", "training data FinalNorm ",
                                   "probes HiddenStates 1-3", "probes FinalNorm "));
}

TEST(Plan, MeansAndResponsesBelongToPrompts) {
  PlanContext about = context();
  about.response_tokens = 3;
  const auto refusal = [&](json members) {
    json entry = {{"point", "HiddenStates"}, {"prompts", "probes"}};
    entry.update(members);
    if (entry["prompts"].is_null()) entry.erase("prompts");
    const auto plan = parse_plan(one_entry(entry), about, 1);
    return plan.ok() ? "" : to_string(plan.error());
  };
  using testing::HasSubstr;
  EXPECT_EQ(refusal({{"mean_over", "prompt"}}), "");
  EXPECT_EQ(refusal({{"mean_over", "last-prompt"}}), "");
  EXPECT_EQ(refusal({{"mean_over", "response"}, {"responses", true}}), "");
  EXPECT_THAT(refusal({{"mean_over", "response"}}), HasSubstr("add \"responses\": true"));
  EXPECT_THAT(refusal({{"mean_over", "answer"}}), HasSubstr("names no tokens"));
  EXPECT_THAT(refusal({{"mean_over", "prompt"}, {"prompts", nullptr}}),
              HasSubstr("has no prompts"));
  EXPECT_THAT(refusal({{"responses", true}, {"prompts", nullptr}}), HasSubstr("has no responses"));
  EXPECT_THAT(refusal({{"mean_over", "prompt"}, {"tokens", {0, 2}}}), HasSubstr("go with tokens"));
  EXPECT_THAT(refusal({{"mean_over", "prompt"}, {"point", "RawAttentionScore"}}),
              HasSubstr("has no mean over tokens"));
  EXPECT_THAT(refusal({{"mean_over", "prompt"},
                       {"compressor", {{"kind", "top_tokens"}, {"columns", {0}}}}}),
              HasSubstr("needs each token"));
  about.response_tokens = 0;
  EXPECT_THAT(refusal({{"responses", true}}), HasSubstr("--monitor-generate-interval"));
}

TEST(Plan, ARecordOfMeansHasOneTokenAndOneOfResponsesHasBoth) {
  PlanContext about = context();
  about.seq_length = 64;
  about.response_tokens = 3;
  const auto bytes = [&](json members) {
    json entry = {{"point", "HiddenStates"}, {"prompts", "probes"}, {"layers", "1"}};
    entry.update(members);
    const auto plan = parse_plan(one_entry(entry), about, 1);
    EXPECT_TRUE(plan.ok()) << to_string(plan.error());
    return cost_of(plan.value(), about, {.monitor_interval = 1, .response_interval = 1})[0].bytes;
  };
  const json none = {{"kind", "none"}};
  const double passes = 2, header = 128, token = 32 * 4;  // 11 prompts, 8 in a micro-batch
  EXPECT_EQ(bytes({{"compressor", none}}), passes * (header + 10 * token));
  EXPECT_EQ(bytes({{"compressor", none}, {"mean_over", "prompt"}}), passes * (header + token));
  EXPECT_EQ(bytes({{"compressor", none}, {"responses", true}}), passes * (header + 13 * token));
}

TEST(Plan, TheDefaultFollowsTheLastTokenOfPromptsAndTheMeanOfResponses) {
  ManyVectors vectors;
  PlanContext about = context();
  about.vectors = &vectors;
  const auto means = [&] {
    std::vector<std::string> found;
    const json plan = default_plan(about);
    EXPECT_TRUE(parse_plan(plan, about, 1).ok());
    for (const json& entry : plan["entries"]) {
      if (!entry.contains("mean_over")) continue;
      const std::string point = entry["point"], layers = entry.value("layers", "");
      found.push_back(entry["mean_over"].get<std::string>() + " " + point + " " + layers);
    }
    return found;
  };
  // The last row of a vector belongs to the final norm.
  EXPECT_THAT(means(),
              testing::ElementsAre("last-prompt HiddenStates 1-3", "last-prompt FinalNorm "));
  about.response_tokens = 2;
  EXPECT_THAT(means(),
              testing::ElementsAre("last-prompt HiddenStates 1-3", "last-prompt FinalNorm ",
                                   "response HiddenStates 1-3", "response FinalNorm "));
  about.vectors = nullptr;
  EXPECT_THAT(means(), testing::IsEmpty());
}

TEST(Plan, EveryLimitExceeded) {
  const json text = {{"entries", {{{"point", "QKV"}, {"every", 1'000'001}}}}};
  EXPECT_FALSE(parse_plan(text, context(), 1).ok());
}

}  // namespace
}  // namespace tt::trace
