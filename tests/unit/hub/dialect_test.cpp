#include "src/hub/legacy/dialect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/hub/legacy/native_plan.h"
#include "src/hub/legacy/numbers.h"
#include "src/hub/legacy/shown_records.h"
#include "src/hub/legacy/texts.h"

namespace tt::hub::dialect {
namespace {

using nlohmann::json;
using protocol::Dtype;

json facts() {
  return json::parse(R"({"micro_batch_size": 2, "global_batch_size": 12, "mesh": {"data": 2},
    "model": {"num_layers": 4, "seq_length": 8, "num_attention_heads": 2},
    "points": [{"name": "QKV", "features": 48}, {"name": "MLP1", "features": 64},
               {"name": "MLP2", "features": 80}, {"name": "HiddenStates", "features": 80},
               {"name": "RawAttentionScore", "features": 8},
               {"name": "InputTokens", "features": 0}],
    "vectors": ["evil", "v2.calm"]})");
}

json plan_of(Dialect dialect, const json& message) {
  const auto plan = make_plan(dialect, message, facts());
  return plan.ok() ? plan.value().at("entries") : json(base::to_string(plan.error()));
}

json compressor_of(const char* flag, const json& config) {
  const json plan = plan_of(Dialect::kTensorTracer, {{"visualization_flags", {{flag, true}}},
                                                     {"compressor_config", config}});
  return plan.is_array() ? plan.at(0).at("compressor") : plan;
}

TEST(Dialect, IsChosenByWhatOnlyOneOfThemSends) {
  const auto chosen = [](const char* text) { return dialect_of(json::parse(text)); };
  EXPECT_EQ(chosen(R"({"type":"x"})"), Dialect::kTensorTracer);
  EXPECT_EQ(chosen(R"({"visualization_flags":{"MLP1_mat_mul":"True"}})"), Dialect::kTensorTracer);
  EXPECT_EQ(chosen(R"({"compressor_config":{"QKV":{"pixels":9}}})"), Dialect::kMegaScope);
  EXPECT_EQ(chosen(R"({"compressor_config":{"MLP":{}}})"), Dialect::kMegaScope);
  EXPECT_EQ(chosen(R"({"disturbance_configs":{}})"), Dialect::kMegaScope);
  EXPECT_EQ(chosen(R"({"visualization_flags":{"Result":"False"}})"), Dialect::kMegaScope);
  EXPECT_EQ(chosen(R"({"compressor_config":{"HiddenStates":{}},"disturbance_configs":{}})"),
            Dialect::kTensorTracer);
  EXPECT_EQ(chosen(R"({"compressor_config":[],"visualization_flags":1})"), Dialect::kTensorTracer);
}

TEST(Dialect, AMessageHasATextTypeAndNoMethod) {
  EXPECT_TRUE(is_legacy({{"type", "ping"}}));
  EXPECT_FALSE(is_legacy({{"type", "ping"}, {"method", "hello"}}));
  EXPECT_FALSE(is_legacy({{"type", 3}}));
  EXPECT_FALSE(is_legacy({{"event", "x"}}));
  EXPECT_FALSE(is_legacy(json::array({"type"})));
}

TEST(Dialect, SwitchesAreTrueOrTheTextTrue) {
  for (const json& on : {json(true), json("true"), json("True"), json("TRUE")})
    EXPECT_TRUE(is_on(on)) << on;
  for (const json& off :
       {json(false), json(1), json("1"), json("yes"), json(), json("False"), json::array({true})})
    EXPECT_FALSE(is_on(off)) << off;
}

TEST(DialectPlan, OfTensorTracerHasEveryMember) {
  const json plan = plan_of(Dialect::kTensorTracer, json::parse(R"({"visualization_flags":
      {"HiddenStates":"True","QKV_mat_mul":true,"MLP2_mat_mul":"no","InputTokens":"true","X":true},
      "compressor_config":{"QKV_mat_mul":{"compressor_type":"TileCompressor"}}})"));
  EXPECT_EQ(plan, json::parse(R"([
    {"point":"InputTokens","direction":"value","every":1,"rows":0,"compressor":{"kind":"none"},
     "dtype":"i32","micro_batches":"0-2","phases":["train","eval"],
     "eval_forwards":"all"},
    {"point":"QKV","direction":"value","every":1,"rows":0,
     "compressor":{"kind":"tile","tiles":48,"method":"mean"},
     "dtype":"f32","micro_batches":"0-2","phases":["train","eval"],
     "eval_forwards":"all"},
    {"point":"HiddenStates","direction":"value","every":1,"rows":0,"compressor":{"kind":"empty"},
     "dtype":"f32","micro_batches":"0-2","phases":["train","eval"],
     "eval_forwards":"all"}])"));
  EXPECT_EQ(plan_of(Dialect::kTensorTracer, {{"type", "run_training_step"}}), json::array());
}

TEST(DialectPlan, OfTensorTracersCompressors) {
  const auto made = [](const char* entry) {
    return compressor_of("MLP1_mat_mul", {{"MLP1_mat_mul", json::parse(entry)}});
  };
  EXPECT_EQ(made(R"({"compressor_type":"NoOpCompressor","compressor_configs":{"x":1}})"),
            json({{"kind", "none"}}));
  EXPECT_EQ(made(R"({"compressor_type":"Nonesuch"})"), json({{"kind", "empty"}}));
  EXPECT_EQ(made(R"({})"), json({{"kind", "empty"}}));
  EXPECT_EQ(made(R"j({"compressor_type":"TileCompressor","compressor_configs":
                     {"tiles":8,"method":"data.abs().amax(dim=-1)"}})j"),
            json::parse(R"j({"kind":"tile","tiles":8,"method":"data.abs().amax(dim=-1)",
                             "data_dims":4})j"));
  EXPECT_EQ(made(R"({"compressor_type":"TileCompressor","compressor_configs":
                    {"tiles":18446744073709551615,"tiles_one_rank":16}})"),
            json::parse(R"({"kind":"tile","tiles":64,"method":"mean","tiles_one_rank":16,
                            "method_one_rank":"mean"})"));
  EXPECT_EQ(made(R"j({"compressor_type":"TileCompressor","compressor_configs":
                     {"tiles":8,"method_one_rank":"data.sum(dim=3)"}})j")
                .at("data_dims"),
            4);
}

TEST(DialectPlan, InputTokensAreNeverCompressed) {
  for (const char* type : {"TileCompressor", "ProjectionCompressor", "EmptyCompressor", "Other"}) {
    EXPECT_EQ(compressor_of("InputTokens", {{"InputTokens", {{"compressor_type", type}}}}),
              json({{"kind", "none"}}))
        << type;
  }
}

TEST(DialectPlan, AVectorIsANameOfTheRunsNeverAPath) {
  const auto made = [](const char* path) {
    return compressor_of("HiddenStates", {{"HiddenStates",
                                           {{"compressor_type", "ProjectionCompressor"},
                                            {"compressor_configs", {{"vector_path", path}}}}}});
  };
  const json evil = json::parse(R"({"kind":"projection","vectors":["evil"],"normalize":true})");
  EXPECT_EQ(made("/data/persona/evil.pt"), evil);
  EXPECT_EQ(made("C:\\data\\evil.npy"), evil);
  EXPECT_EQ(made("evil"), evil);
  EXPECT_EQ(made("v2.calm").at("vectors"), json::array({"v2.calm"}));
  EXPECT_EQ(made("v2.calm.pt").at("vectors"), json::array({"v2.calm"}));
  EXPECT_EQ(made("/etc/passwd"),
            "compressor_config.HiddenStates.compressor_configs.vector_path: the run has no vector "
            "\"passwd\"; known vectors: evil, v2.calm");
  EXPECT_EQ(made(""),
            "compressor_config.HiddenStates.compressor_configs.vector_path: must name a "
            "vector of the run; known vectors: evil, v2.calm");
}

TEST(DialectPlan, OfMegaScopeObeysQkvAndMlp) {
  const json plan = plan_of(Dialect::kMegaScope, json::parse(R"j({"visualization_flags":
      {"QKV_mat_mul":"True","RawAttentionScore_mat_mul":true,"MLP2_mat_mul":"False",
       "Result":"True","MLP2_Plot":"True"},
      "compressor_config":{"QKV":{"pixels":12,"method":"data.mean(dim=-1)"}}})j"));
  ASSERT_EQ(plan.size(), 3U) << plan;
  EXPECT_EQ(plan[0].at("point"), "QKV");
  EXPECT_EQ(plan[0].at("compressor"), json::parse(R"({"kind":"tile","tiles":12,"method":"mean"})"));
  EXPECT_EQ(plan[1].at("point"), "RawAttentionScore");
  EXPECT_EQ(plan[1].at("compressor"), json({{"kind", "none"}}));
  EXPECT_EQ(plan[2].at("point"), "MLP1") << "on where it is missing";
  EXPECT_EQ(plan[2].at("compressor"), json::parse(R"({"kind":"tile","tiles":64,"method":"mean"})"));
}

TEST(DialectPlan, WrongConfigsAreErrorsThatNameTheMember) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {R"({"visualization_flags":[]})", "visualization_flags: must be an object"},
      {R"({"compressor_config":"x"})", "compressor_config: must be an object"},
      {R"({"compressor_config":{"MLP":3}})",
       "compressor_config.MLP: must be an object with pixels and method"},
      {R"({"compressor_config":{"MLP":{"pixels":0}}})",
       "compressor_config.MLP.pixels: must be an integer from 1"},
      {R"({"compressor_config":{"MLP":{"pixels":2.5}}})",
       "compressor_config.MLP.pixels: must be an integer from 1"},
      {R"({"compressor_config":{"MLP":{"method":7}}})",
       "compressor_config.MLP.method: must be a text such as \"data.mean(dim=-1)\""}};
  for (const auto& [message, error] : wrong)
    EXPECT_EQ(plan_of(Dialect::kMegaScope, json::parse(message)), error);
  EXPECT_EQ(compressor_of("MLP1_mat_mul", {{"MLP1_mat_mul", json::array()}}),
            "compressor_config.MLP1_mat_mul: must be an object with compressor_type and an object "
            "compressor_configs");
}

TEST(DialectPlan, AnUpdateThatIsTooLargeIsRefused) {
  json large = facts();
  large["model"]["seq_length"] = 65536;
  const json message = {
      {"visualization_flags", {{"MLP1_mat_mul", true}}},
      {"compressor_config", {{"MLP1_mat_mul", {{"compressor_type", "NoOpCompressor"}}}}}};
  const auto plan = make_plan(Dialect::kTensorTracer, message, large);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().message, "an update would have 8388608 numbers, more than 4194304");
  large["model"]["seq_length"] = 32768;
  EXPECT_TRUE(make_plan(Dialect::kTensorTracer, message, large).ok());
}

TEST(DialectPlan, FactsOfAnyFormAreRead) {
  for (const char* text : {"{}", "[]", R"({"points":3,"mesh":[],"model":"x","vectors":{"a":1}})"}) {
    const auto plan = make_plan(Dialect::kMegaScope, {{"type", "x"}}, json::parse(text));
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan.value().at("entries").at(0).at("micro_batches"), "0");
    EXPECT_EQ(json::parse(start_text(json::parse(text))).at("num_layers"), 0);
  }
}

template <typename Number>
std::string record_of(protocol::RecordHeader header, const std::vector<Number>& numbers) {
  std::string out;
  protocol::append_record(out, header, std::as_bytes(std::span(numbers)));
  return out;
}

protocol::RecordHeader header_of(std::uint16_t point, std::vector<std::uint32_t> shape,
                                 Dtype dtype = Dtype::kF32) {
  protocol::RecordHeader header;
  header.plan = 3;
  header.point = point;
  header.layer = 2;
  header.dtype = dtype;
  header.compressor = protocol::RecordCompressor::kTile;
  header.ndim = static_cast<std::uint8_t>(shape.size());
  std::ranges::copy(shape, header.shape.begin());
  return header;
}

std::string update_of(Dialect dialect, const std::string& record) {
  return update_text(dialect, protocol::read_record(record).value());
}

TEST(DialectTexts, AnUpdateOfEachDialect) {
  const std::string record =
      record_of<float>(header_of(1, {1, 2, 3}), {1, -0.5F, 0.1F, NAN, INFINITY, 1e30F});
  EXPECT_EQ(update_of(Dialect::kTensorTracer, record),
            R"({"type":"update","update_type":1,"layer_id":2,"args":[1,2,3],"result":)"
            R"([1.0,-0.5,0.10000000149011612,null,null,1.0000000150474662e+30]})");
  EXPECT_EQ(json::parse(update_of(Dialect::kMegaScope, record)).at("args"), json::array({2}));
  const std::string attention =
      record_of<float>(header_of(2, {2, 2, 1, 2}), std::vector<float>(8, 0.5F));
  const json update = json::parse(update_of(Dialect::kMegaScope, attention));
  EXPECT_EQ(update.at("args"), json::parse("[2,1,2]"));
  EXPECT_EQ(update.at("result").size(), 8U);
  const std::string empty = record_of<float>(header_of(7, {1, 2, 0}), {});
  EXPECT_EQ(update_of(Dialect::kTensorTracer, empty),
            R"({"type":"update","update_type":7,"layer_id":2,"args":[1,2,0],"result":[]})");
}

template <typename Number>
std::string numbers_of(Dtype dtype, const std::vector<Number>& numbers) {
  const std::string record =
      record_of(header_of(7, {static_cast<std::uint32_t>(numbers.size())}, dtype), numbers);
  std::string out;
  append_numbers(out, protocol::read_record(record).value());
  return out;
}

TEST(DialectNumbers, OfEveryDtype) {
  EXPECT_EQ(numbers_of<double>(Dtype::kF64, {0.1, -0.0, 1e22, -NAN, -INFINITY}),
            "0.1,-0.0,1e+22,null,null");
  EXPECT_EQ(numbers_of<std::int32_t>(Dtype::kI32, {-7, 65}), "-7,65");
  EXPECT_EQ(numbers_of<std::int64_t>(Dtype::kI64, {std::int64_t{1} << 60}), "1152921504606846976");
  EXPECT_EQ(
      numbers_of<std::uint16_t>(Dtype::kF16, {0x3C00, 0xC100, 0x0001, 0x7BFF, 0x7C00, 0x7E00}),
      "1.0,-2.5,5.960464477539063e-08,65504.0,null,null");
  EXPECT_EQ(numbers_of<std::uint16_t>(Dtype::kBf16, {0x3F80, 0xC0A0, 0x7FC0, 0xFF80}),
            "1.0,-5.0,null,null");
}

TEST(DialectNumbers, OfU8HaveTheirLinesOffsetAndScale) {
  std::vector<std::uint8_t> payload(16);
  const float lines[4] = {1.0F, 0.5F, -2.0F, 0.0F};
  std::memcpy(payload.data(), lines, sizeof lines);
  for (const int code : {0, 252, 253, 7, 254, 255})
    payload.push_back(static_cast<std::uint8_t>(code));
  std::string out;
  const std::string record = record_of(header_of(7, {2, 3}, Dtype::kU8), payload);
  append_numbers(out, protocol::read_record(record).value());
  EXPECT_EQ(out, "1.0,127.0,null,-2.0,null,null");
}

class ShownRecordsTest : public testing::Test {
 protected:
  void SetUp() override {
    shown_.set_plan(json::parse(R"({"number": 3, "entries": [
      {"point":"QKV","compressor":{"kind":"stats"}}, {"point":"QKV","compressor":{"kind":"tile"}},
      {"point":"QKV"}, {"point":"HiddenStates","direction":"gradient"},
      {"point":"HiddenStates","prompts":"p"}, {"point":"HiddenStates","enabled":false},
      {"point":"HiddenStates"}, {"point":"Logits"}, {"point":"RawAttentionScore"}]})"));
  }
  bool wants(Dialect dialect, std::uint16_t point, std::uint32_t entry) const {
    protocol::RecordHeader header = header_of(point, {1, 2, 3});
    header.entry = entry;
    return shown_.wants(dialect, header);
  }
  ShownRecords shown_;
};

TEST_F(ShownRecordsTest, TheFirstEntryOfEveryPointThatTheDialectKnows) {
  std::vector<std::uint32_t> tensor_tracer;
  std::vector<std::uint32_t> mega_scope;
  const std::uint16_t points[] = {1, 1, 1, 7, 7, 7, 7, 23, 2};
  for (std::uint32_t entry = 0; entry < 9; ++entry) {
    if (wants(Dialect::kTensorTracer, points[entry], entry)) tensor_tracer.push_back(entry);
    if (wants(Dialect::kMegaScope, points[entry], entry)) mega_scope.push_back(entry);
  }
  EXPECT_EQ(tensor_tracer, (std::vector<std::uint32_t>{1, 6}));
  EXPECT_EQ(mega_scope, (std::vector<std::uint32_t>{1, 8}));
}

TEST_F(ShownRecordsTest, NothingElseOfAWantedEntry) {
  protocol::RecordHeader header = header_of(1, {1, 2, 3});
  header.entry = 1;
  const auto wants = [&](auto change) {
    protocol::RecordHeader changed = header;
    change(changed);
    return shown_.wants(Dialect::kTensorTracer, changed);
  };
  using Header = protocol::RecordHeader;
  EXPECT_TRUE(wants([](Header&) {}));
  EXPECT_TRUE(wants([](Header& h) { h.phase = protocol::RecordPhase::kEval; }));
  EXPECT_FALSE(wants([](Header& h) { h.phase = static_cast<protocol::RecordPhase>(2); }));
  EXPECT_FALSE(wants([](Header& h) { h.plan = 2; }));
  EXPECT_FALSE(wants([](Header& h) { h.prompt_set = 1; }));
  EXPECT_FALSE(wants([](Header& h) { h.direction = protocol::RecordDirection::kGradient; }));
  EXPECT_FALSE(wants([](Header& h) { h.compressor = protocol::RecordCompressor::kStats; }));
  EXPECT_FALSE(wants([](Header& h) { h.dtype = static_cast<Dtype>(99); }));
  EXPECT_FALSE(wants([](Header& h) { h.shape = {4096, 1025, 1, 1}; }));
  EXPECT_FALSE(shown_.shows(Dialect::kTensorTracer, "no record"));
  EXPECT_TRUE(shown_.shows(Dialect::kTensorTracer, record_of<float>(header, {1, 2, 3, 4, 5, 6})));
  shown_.set_plan(json());
  EXPECT_FALSE(wants([](Header&) {}));
}

}  // namespace
}  // namespace tt::hub::dialect
