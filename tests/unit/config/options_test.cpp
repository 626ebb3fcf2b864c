#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tensor_tracer/config/hub_config.h"
#include "tensor_tracer/config/option.h"
#include "tensor_tracer/config/train_config.h"

namespace tt::config {
namespace {

using nlohmann::json;

struct Fields {
  std::int64_t steps = 3;
  double rate = 0.1;
  std::optional<double> least;
  bool fast = false;
  std::string dtype = "float32";
  std::vector<std::string> files;
  std::optional<std::uint64_t> bytes;
  std::optional<bool> shown;
};

Options table_of(Fields& fields) {
  return {{"--max-steps", &fields.steps, "steps", positive()},
          {"--rate", &fields.rate, "a rate", within(0.1, 1e3)},
          {"--least", &fields.least, "optional", not_negative()},
          {"--fast", &fields.fast, "a flag"},
          {"--dtype", &fields.dtype, "a name", one_of({"float32", "float64"})},
          {"--files", &fields.files, "paths", existing_file()},
          {"--bytes", Bytes{&fields.bytes}, "a size"},
          {"--shown", Switch{&fields.shown}, "a switch"}};
}

TEST(Option, HasAKeyAndTheValueOfItsField) {
  Fields fields;
  const Options table = table_of(fields);
  EXPECT_EQ(key_of(table[0]), "max_steps");
  const auto values = [&] {
    json all;
    for (const Option& option : table) all.push_back(value_of(option));
    return all;
  };
  EXPECT_EQ(values(), json({3, 0.1, nullptr, false, "float32", json::array(), nullptr, nullptr}));
  fields = {5, 0.25, 0.5, true, "float64", {"a", "b"}, 7, false};
  EXPECT_EQ(values(), json({5, 0.25, 0.5, true, "float64", json({"a", "b"}), 7, false}));
}

TEST(Option, TakesGroupAgreementAndNeedFromItsTable) {
  Fields fields;
  const Options table =
      joined({in_group("One", agreed(table_of(fields))), needing(Needs::kPage, table_of(fields))});
  ASSERT_EQ(table.size(), 2 * table_of(fields).size());
  EXPECT_EQ(table.front().group, "One");
  EXPECT_EQ(table.front().agreement, Agreement::kValue);
  EXPECT_EQ(table.front().needs, Needs::kNothing);
  EXPECT_EQ(table.back().group, "");
  EXPECT_EQ(table.back().agreement, Agreement::kNothing);
  EXPECT_EQ(table.back().needs, Needs::kPage);
}

TEST(Option, IsShownWithAllDigitsThatMatter) {
  EXPECT_EQ(text_of(0.002), "0.002");
  EXPECT_EQ(text_of(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(text_of(-1e-5), "-1e-05");
  EXPECT_EQ(text_of(1.0), "1");
  EXPECT_EQ(text_of(true), "true");
  EXPECT_EQ(text_of(json::array({"a", "b"})), "a,b");
  EXPECT_EQ(text_of(nullptr), "");
}

TEST(Option, TellsTheWrongValueAndItsFlag) {
  const auto error_of = [](auto change) {
    Fields fields;
    const Options table = table_of(fields);
    EXPECT_TRUE(check(table).ok());
    change(fields);
    const base::Status status = check(table);
    return status.ok() ? "" : to_string(status.error());
  };
  EXPECT_EQ(error_of([](Fields& f) { f.steps = 0; }), "--max-steps: 0 is not above 0");
  EXPECT_EQ(error_of([](Fields& f) { f.rate = 0.05; }), "--rate: 0.05 is not in [0.1, 1000]");
  EXPECT_EQ(error_of([](Fields& f) { f.least = -1; }), "--least: -1 is below 0");
  EXPECT_EQ(error_of([](Fields& f) { f.dtype = "int8"; }),
            "--dtype: \"int8\" is not float32 or float64");
  const std::string file = testing::TempDir() + "/options_test";
  std::ofstream(file) << "x";
  EXPECT_EQ(error_of([&](Fields& f) { f.files = {file}; }), "");
  EXPECT_EQ(error_of([&](Fields& f) {
              f.files = {file, "no/file"};
            }),
            "--files: \"no/file\" does not exist, or is no file");
  std::filesystem::remove(file);
}

TEST(TrainOptions, HaveDefaultsThatAreRightAndDifferentNames) {
  TrainConfig config;
  HubConfig hub;
  for (const Options& table : {train_options(config), run_file_options(hub)}) {
    EXPECT_TRUE(check(table).ok());
    std::set<std::string> flags;
    for (const Option& option : table) EXPECT_TRUE(flags.insert(option.flag).second) << option.flag;
  }
}

// The values that ranks compare.
std::string compared(const TrainConfig& config) {
  TrainConfig resolved = config.resolved();
  std::string text;
  for (const Option& option : train_options(resolved))
    if (option.agreement == Agreement::kValue) text += text_of(value_of(option)) + ";";
  return text;
}

TEST(TrainOptions, AreComparedWithTheirDefaultsFilledIn) {
  const TrainConfig plain;
  TrainConfig spelled;
  spelled.model.ffn_hidden_size = 1024;
  spelled.model.num_query_groups = 4;
  spelled.model.kv_channels = 64;
  spelled.optimizer.min_lr = 0.1 * spelled.optimizer.lr;
  spelled.threads = 3;
  EXPECT_EQ(compared(plain), compared(spelled));
  spelled.model.norm_epsilon = 1.0000001e-5;
  EXPECT_NE(compared(plain), compared(spelled));
}

TEST(TrainOptions, OfTheModelAreFactsOfTheRun) {
  ModelConfig model;
  model.normalization = "RMSNorm";
  model.disable_bias_linear = true;
  const json facts = to_json(model);
  EXPECT_EQ(facts["normalization"], "RMSNorm");
  EXPECT_EQ(facts["position_embedding_type"], "learned_absolute");
  EXPECT_EQ(facts["add_bias_linear"], false);
  EXPECT_EQ(facts["ffn_hidden_size"], 1024);
  EXPECT_EQ(facts["kv_channels"], 64);
  EXPECT_FALSE(facts.contains("disable_bias_linear"));
}

}  // namespace
}  // namespace tt::config
