#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tensor_tracer/graph/program.h"
#include "tests/unit/graph/gpt_places.h"

namespace tt::graph {
namespace {

struct Row {
  const char* written;
  const char* point;
  bool writable;
  bool has_gradient;
  bool has_heads;
};

// The table of docs/intervention_graph.md, in the order of the forward pass.
constexpr Row kRows[] = {
    {"tokens", "InputTokens", false, false, false},
    {"embedding.word_embeddings.output", "embedding.word_embeddings.output", true, true, false},
    {"embedding.position_embeddings.weight", "embedding.position_embeddings.weight", true, false,
     false},
    {"embedding.output", "Embedding", true, true, false},
    {"layers[7].input_norm.weight", "input_norm.weight", true, false, false},
    {"layers[7].input_norm.bias", "input_norm.bias", true, false, false},
    {"layers[7].attention.input", "attention.input", true, true, false},
    {"layers[7].attention.qkv.weight", "QkvWeight", true, false, false},
    {"layers[7].attention.qkv.bias", "attention.qkv.bias", true, false, false},
    {"layers[7].attention.qkv", "QKV", true, true, false},
    {"layers[7].attention.query", "Query", true, true, true},
    {"layers[7].attention.key", "Key", true, true, true},
    {"layers[7].attention.value", "Value", true, true, true},
    {"layers[7].attention.logits", "attention.logits", true, false, false},
    {"layers[7].attention.scores", "RawAttentionScore", false, false, false},
    {"layers[7].attention.context", "ContextLayer", true, true, true},
    {"layers[7].attention.proj.weight", "ProjWeight", true, false, false},
    {"layers[7].attention.proj.bias", "attention.proj.bias", true, false, false},
    {"layers[7].attention.output", "AttentionOutput", true, true, false},
    {"layers[7].mid", "ResidualMid", true, true, false},
    {"layers[7].mlp_norm.weight", "mlp_norm.weight", true, false, false},
    {"layers[7].mlp_norm.bias", "mlp_norm.bias", true, false, false},
    {"layers[7].mlp.input", "mlp.input", true, true, false},
    {"layers[7].mlp.fc1.weight", "Fc1Weight", true, false, false},
    {"layers[7].mlp.fc1.bias", "mlp.fc1.bias", true, false, false},
    {"layers[7].mlp.fc1", "MLP1", true, true, false},
    {"layers[7].mlp.activation", "MLPActivation", true, true, false},
    {"layers[7].mlp.fc2.weight", "Fc2Weight", true, false, false},
    {"layers[7].mlp.fc2.bias", "mlp.fc2.bias", true, false, false},
    {"layers[7].mlp.output", "MLP2", true, true, false},
    {"layers[7].output", "HiddenStates", true, true, false},
    {"final_norm.weight", "final_norm.weight", true, false, false},
    {"final_norm.bias", "final_norm.bias", true, false, false},
    {"final_norm.output", "FinalNorm", true, true, false},
    {"output_layer.weight", "OutputWeight", true, false, false},
    {"logits", "Logits", true, true, false},
};

bool is_parameter(const Row& row) {
  const std::string written = row.written;
  return written.ends_with(".weight") || written.ends_with(".bias");
}

// Rows of the manual's table of places: those whose first column is code.
std::vector<std::string> rows_of_the_manual() {
  std::ifstream file(std::string(TT_DOCS_DIR) + "/intervention_graph.md");
  std::vector<std::string> rows;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) in_table = line == "## Places";
    if (in_table && line.starts_with("| `")) rows.push_back(line);
  }
  return rows;
}

// As the manual writes it: whole, or the last part of one that stands beside others of its kind.
bool is_named(const std::string& row, std::string written) {
  if (const auto layer = written.find("[7]"); layer != std::string::npos) written[layer + 1] = 'n';
  const std::string places = row.substr(0, row.find(" | "));
  const auto stem =
      written.rfind('.', written.ends_with(".weight") ? written.size() - 8 : written.npos);
  return places.find('`' + written + '`') != std::string::npos ||
         (stem != std::string::npos &&
          places.find('`' + written.substr(stem) + '`') != std::string::npos);
}

// What `text` reads, if it is sound.
std::string point_of(const std::string& text) {
  const auto program = parse_program("save(" + text + ", \"x\")", {gpt_places(24)});
  if (!program.ok()) return program.error().message;
  const Leaf& leaf = program.value().values[0].leaves.at(0);
  return leaf.node == program.value().values[0].root ? leaf.place.point : "a part";
}

TEST(Places, EveryRowOfTheManual) {
  const auto places = gpt_places(24);
  std::vector<std::size_t> named;  // by programs
  for (std::size_t i = 0; i < places->rows().size(); ++i)
    if (places->rows()[i].in_programs) named.push_back(i);
  ASSERT_EQ(named.size(), std::size(kRows));
  for (std::size_t n = 0; n < std::size(kRows); ++n) {
    const Row& row = kRows[n];
    const std::size_t i = named[n];
    const points::Place& kind = places->rows()[i];
    EXPECT_EQ(kind.name, row.point);
    EXPECT_EQ(kind.writable, row.writable) << row.point;
    EXPECT_EQ(kind.has_program_gradient(), row.has_gradient) << row.point;
    EXPECT_EQ(kind.has_heads, row.has_heads) << row.point;
    EXPECT_EQ(kind.in_layers(), std::string(row.written).starts_with("layers")) << row.point;
    EXPECT_EQ(kind.is_weight, is_parameter(row)) << row.point;
    EXPECT_EQ(point_of(row.written), row.point);
    EXPECT_EQ(point_of((kind.in_layers() ? "layers[7]." : "") + kind.name), row.point);
    EXPECT_EQ(places->find(kind.path), i);
    EXPECT_EQ(places->find(kind.name), i);
    std::optional<LayerRef> layer;
    if (kind.in_layers()) layer = LayerRef{false, 7};
    EXPECT_EQ(to_string(Place{.path = kind.path, .layer = layer}), row.written);
  }
  EXPECT_EQ(places->find("layers"), std::nullopt);
}

TEST(Places, StandInTheManual) {
  const auto rows = rows_of_the_manual();
  for (const Row& row : kRows) {
    const auto found = std::ranges::find_if(
        rows, [&](const std::string& line) { return is_named(line, row.written); });
    ASSERT_NE(found, rows.end()) << row.written;
    EXPECT_TRUE(is_parameter(row) || found->find(row.point) != std::string::npos) << *found;
    EXPECT_EQ(found->find("read only") != std::string::npos, !row.writable) << *found;
  }
}

TEST(Places, InputIsWhatComesBefore) {
  const auto place = [](const std::string& text) {
    const auto program = parse_program("save(" + text + ", \"x\")", {gpt_places(24)});
    return program.ok() ? to_string(program.value().values[0].leaves.at(0).place)
                        : program.error().message;
  };
  EXPECT_EQ(place("layers[1].input"), "embedding.output");
  EXPECT_EQ(place("layers[2].input"), "layers[1].output");
  EXPECT_EQ(place("layers[24].input.grad"), "layers[23].output.grad");
}

TEST(Places, TheForwardPassMeetsThemInOrder) {
  constexpr int kLayers = 3;
  std::vector<std::int64_t> forward;
  std::vector<std::int64_t> backward;
  const auto places = gpt_places(kLayers);
  const auto meet = [&](std::size_t row, int layer) {
    forward.push_back(places->moment(row, layer, false));
    backward.push_back(places->moment(row, layer, true));
  };
  const std::size_t rows = places->rows().size();
  for (std::size_t row = 0; !places->rows()[row].in_layers(); ++row) meet(row, 99);
  for (int layer = 1; layer <= kLayers; ++layer) {
    for (std::size_t row = 0; row < rows; ++row)
      if (places->rows()[row].in_layers()) meet(row, layer);
  }
  for (std::size_t i = rows - 6; i < rows; ++i) meet(i, 99);
  for (std::size_t i = 1; i < forward.size(); ++i) {
    EXPECT_EQ(forward[i], forward[i - 1] + 1);
    EXPECT_LT(backward[i], backward[i - 1]);
  }
  EXPECT_GT(backward.back(), forward.back());
}

TEST(Places, AreWrittenWithTheirLayer) {
  EXPECT_EQ(to_string(Place{.path = "mlp.output", .layer = LayerRef{true, 0}, .gradient = true}),
            "layers[layer].mlp.output.grad");
  EXPECT_EQ(to_string(Place{.path = "mlp.output", .layer = LayerRef{true, 2}}),
            "layers[layer + 2].mlp.output");
  EXPECT_EQ(to_string(Place{.path = "mlp.output", .layer = LayerRef{true, -1}}),
            "layers[layer - 1].mlp.output");
}

}  // namespace
}  // namespace tt::graph
