#include "tensor_tracer/points/place_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/points/place_table_builder.h"

namespace tt::points {
namespace {

Place hidden(const char* path, const char* name = "") {
  Place place{.name = name, .path = path, .text = "a value"};
  place.features = 64;
  place.gradient = mesh::Placement::replicate();
  return place;
}

// A pipeline stage: the embedding on the first one, layers [first, last], the logits on the last.
PlaceTable stage(int first, int last, int num_layers, std::uint16_t first_number) {
  PlaceTableBuilder builder(num_layers, {.batch = 2, .sequence = 8, .activations = "bfloat16"},
                            first_number);
  PlaceKey input;
  if (first == 1) input = builder.add(hidden("embedding.output", "Embedding"));
  PlaceKey output;
  for (int layer = first; layer <= last; ++layer) {
    builder.begin_layer(layer);
    const PlaceKey norm = builder.add(hidden("attention.input"));
    builder.add_alias(norm, "attention.qkv.input");
    Place states = hidden("output", "HiddenStates");
    states.legacy_flag = 7;
    output = builder.add(std::move(states));
  }
  builder.end_layers();
  builder.set_layer_ends(input, output);
  if (last == num_layers) builder.add(hidden("final_norm.output"));
  return builder.build();
}

TEST(PlaceTable, ALayerIsAddedToTheRowOfItsPath) {
  const PlaceTable table = stage(1, 3, 3, 16);
  ASSERT_EQ(table.rows().size(), 4U);
  const Place& norm = table.rows()[1];
  EXPECT_EQ(norm.name, "attention.input");
  EXPECT_EQ(norm.full_path(), "layers[n].attention.input");
  EXPECT_EQ(norm.first_layer, 1);
  EXPECT_EQ(norm.last_layer, 3);
  EXPECT_EQ(norm.shape, (std::vector<std::int64_t>{2, 8, 64}));
  EXPECT_EQ(norm.dtype, "bfloat16");
  EXPECT_FALSE(table.rows()[3].in_layers());
}

TEST(PlaceTable, IsAskedByNamePathOrAlias) {
  const PlaceTable table = stage(1, 3, 3, 16);
  EXPECT_EQ(table.find("HiddenStates"), 2U);
  EXPECT_EQ(table.find("output"), 2U);
  EXPECT_EQ(table.find("layers[n].output"), 2U);
  EXPECT_EQ(table.find("attention.qkv.input"), 1U);
  EXPECT_EQ(table.find("mlp.input"), std::nullopt);
}

TEST(PlaceTable, KeysAreUniqueAndBelowTheirNumber) {
  const PlaceTable table = stage(1, 3, 3, 16);
  std::set<std::uint32_t> keys;
  for (std::size_t row = 0; row < table.rows().size(); ++row) {
    const Place& place = table.rows()[row];
    for (int layer = place.first_layer; layer <= place.last_layer; ++layer) {
      const PlaceKey key = table.key(row, layer);
      EXPECT_EQ(key.row, row);
      EXPECT_EQ(key.layer, layer);
      EXPECT_LT(key.index, table.num_keys());
      EXPECT_TRUE(keys.insert(key.index).second);
    }
  }
  EXPECT_THROW(table.key(0, 1), base::CheckError) << "the embedding is outside the layers";
}

TEST(PlaceTable, APlaceIsMetAfterThoseBeforeIt) {
  const PlaceTable table = stage(1, 3, 3, 16);
  const auto moment = [&](const char* name, int layer) {
    return table.moment(*table.find(name), layer, false);
  };
  EXPECT_LT(moment("Embedding", 0), moment("attention.input", 1));
  EXPECT_LT(moment("attention.input", 1), moment("HiddenStates", 1));
  EXPECT_LT(moment("HiddenStates", 1), moment("attention.input", 2));
  EXPECT_LT(moment("HiddenStates", 3), moment("final_norm.output", 0));
  EXPECT_LT(table.moment(2, 3, true), table.moment(2, 2, true)) << "backwards";
  EXPECT_GT(table.moment(2, 3, true), moment("final_norm.output", 0));
}

TEST(PlaceTable, TheInputOfALayerIsWhatComesBefore) {
  const PlaceTable table = stage(1, 3, 3, 16);
  EXPECT_EQ(table.input_of_layer(1).row, *table.find("Embedding"));
  EXPECT_EQ(table.input_of_layer(1).layer, 0);
  EXPECT_EQ(table.input_of_layer(3).row, table.layer_output());
  EXPECT_EQ(table.input_of_layer(3).layer, 2);
}

TEST(PlaceTable, StagesOfAPipelineNumberTheirPartsApart) {
  const PlaceTable first = stage(1, 2, 4, 16);
  const PlaceTable second = stage(3, 4, 4, 1040);
  std::map<int, std::string> names;
  for (const PlaceTable* table : {&first, &second}) {
    for (const Place& place : table->rows()) {
      const auto [at, is_new] = names.emplace(place.number, place.name);
      EXPECT_TRUE(is_new || at->second == place.name) << place.number;
    }
  }
  EXPECT_EQ(names.at(7), "HiddenStates") << "a legacy flag is the number";
  EXPECT_EQ(second.rows()[0].first_layer, 3);
  EXPECT_EQ(second.key(1, 4).index, 1 * 5 + 4U);
}

TEST(PlaceTable, FactsHoldWhatPlansAndWhatProgramsMayName) {
  PlaceTableBuilder builder(1, {});
  Place weight{.name = "Fc1Weight",
               .path = "mlp.fc1.weight",
               .text = "weight of the first layer",
               .is_weight = true};
  weight.shape = {4, 2};
  builder.begin_layer(1);
  builder.add(std::move(weight));
  builder.add(hidden("mlp.input"));
  Place ratio = hidden("mlp.ratio");
  ratio.in_programs = false;
  builder.add(std::move(ratio));
  const PlaceTable table = builder.build();
  const nlohmann::json facts = table.to_json();
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_EQ(facts[0]["name"], "mlp.input");
  EXPECT_EQ(facts[0]["path"], "layers[n].mlp.input");
  EXPECT_EQ(facts[0]["flag"], table.rows()[1].number);
  EXPECT_EQ(facts[0]["compressor"], "tile");
  EXPECT_EQ(facts[0]["numbers"], "activation");
  EXPECT_TRUE(table.rows()[0].dims.empty());
  EXPECT_EQ(facts[1]["name"], "mlp.ratio");
  const nlohmann::json in_programs = table.program_places();
  ASSERT_EQ(in_programs.size(), 2U);
  EXPECT_EQ(in_programs[0], (nlohmann::json{{"path", "layers[n].mlp.fc1.weight"},
                                            {"text", "weight of the first layer"}}));
  EXPECT_EQ(in_programs[1]["path"], "layers[n].mlp.input");
}

TEST(PlaceTable, APlaceSaysItsDefaultCompressor) {
  EXPECT_EQ((Place{.features = 8}).default_compressor(), "tile");
  EXPECT_EQ((Place{.is_vocabulary = true, .features = 8}).default_compressor(), "topk");
  EXPECT_EQ((Place{.features = 0}).default_compressor(), "none");
  EXPECT_EQ((Place{.parameters = {"weight"}, .features = 8}).default_compressor(), "none");
}

TEST(PlaceTable, ANameIsGivenOnce) {
  PlaceTableBuilder builder(2, {});
  builder.begin_layer(1);
  builder.add(hidden("output", "HiddenStates"));
  EXPECT_THROW(builder.add(hidden("other", "HiddenStates")), base::CheckError);
  EXPECT_THROW(builder.add(hidden("output", "HiddenStates")), base::CheckError)
      << "twice in a layer";
  EXPECT_THROW(builder.begin_layer(1), base::CheckError);
}

}  // namespace
}  // namespace tt::points
