#pragma once

#include <memory>
#include <string>

#include "tensor_tracer/points/place_table_builder.h"

namespace tt::graph {

/// A table with the rows of a GPT, without libtorch: tests/unit/model/gpt_test.cpp holds it against
/// that of the model.
inline std::shared_ptr<const points::PlaceTable> gpt_places(int num_layers) {
  points::PlaceTableBuilder builder(num_layers, {});
  const auto weight = [&](const char* name, const char* path) {
    points::Place place{.name = name, .path = path, .is_weight = true};
    place.shape = {8, 8};
    builder.add(std::move(place));
  };
  const auto value = [&](const char* name, const char* path, int legacy_flag = 0,
                         bool has_heads = false) {
    points::Place place{
        .name = name, .path = path, .legacy_flag = legacy_flag, .has_heads = has_heads};
    place.features = 8;
    place.gradient = mesh::Placement::replicate();
    return builder.add(std::move(place));
  };
  const auto derived = [&](const char* name, const char* path) {
    points::Place place{.name = name, .path = path, .formula = "made", .in_programs = false};
    place.writable = false;
    place.features = 8;
    builder.add(std::move(place));
  };
  builder.add({.name = "InputTokens",
               .path = "tokens",
               .legacy_flag = 8,
               .writable = false,
               .dims = {"ids_positions", "batch", "sequence"}});
  value("", "embedding.word_embeddings.output");
  weight("", "embedding.position_embeddings.weight");
  const points::PlaceKey embedding = value("Embedding", "embedding.output");
  derived("LogitLensEmbedding", "embedding.lens");
  points::PlaceKey output;
  for (int layer = 1; layer <= num_layers; ++layer) {
    builder.begin_layer(layer);
    weight("", "input_norm.weight");
    weight("", "input_norm.bias");
    value("", "attention.input");
    weight("QkvWeight", "attention.qkv.weight");
    weight("", "attention.qkv.bias");
    value("QKV", "attention.qkv", 1);
    value("Query", "attention.query", 0, true);
    value("Key", "attention.key", 0, true);
    value("Value", "attention.value", 0, true);
    points::Place logits{.path = "attention.logits", .formula = "made"};
    logits.features = 8;
    logits.gradient = mesh::Placement::replicate();
    builder.add(std::move(logits));
    points::Place scores{.name = "RawAttentionScore",
                         .path = "attention.scores",
                         .legacy_flag = 2,
                         .formula = "made",
                         .writable = false};
    scores.features = 8;
    builder.add(std::move(scores));
    derived("", "attention.entropy");
    derived("", "attention.largest_score");
    derived("", "attention.first_token_share");
    value("ContextLayer", "attention.context", 3, true);
    weight("ProjWeight", "attention.proj.weight");
    weight("", "attention.proj.bias");
    value("AttentionOutput", "attention.output", 6);
    derived("", "attention.contribution");
    derived("", "attention.contribution_ratio");
    value("ResidualMid", "mid");
    derived("LogitLensMid", "mid_lens");
    weight("", "mlp_norm.weight");
    weight("", "mlp_norm.bias");
    value("", "mlp.input");
    weight("Fc1Weight", "mlp.fc1.weight");
    weight("", "mlp.fc1.bias");
    value("MLP1", "mlp.fc1", 4);
    value("MLPActivation", "mlp.activation");
    weight("Fc2Weight", "mlp.fc2.weight");
    weight("", "mlp.fc2.bias");
    value("MLP2", "mlp.output", 5);
    derived("", "mlp.contribution");
    derived("", "mlp.contribution_ratio");
    output = value("HiddenStates", "output", 7);
    derived("LogitLens", "lens");
  }
  builder.end_layers();
  builder.set_layer_ends(embedding, output);
  weight("", "final_norm.weight");
  weight("", "final_norm.bias");
  value("FinalNorm", "final_norm.output");
  weight("OutputWeight", "output_layer.weight");
  value("Logits", "logits");
  derived("Updates", "updates");
  return std::make_shared<const points::PlaceTable>(builder.build());
}

}  // namespace tt::graph
