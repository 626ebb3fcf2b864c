#include "tensor_tracer/model/points.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/nn/attention.h"
#include "tensor_tracer/nn/mlp.h"

namespace tt::model {
namespace {

using mesh::Placement;
using trace::PointDescription;
using trace::PointFlag;

Placement shard_columns(std::vector<mesh::Segment> segments) {
  return Placement::shard(2, std::move(segments));
}

// A point of every layer whose columns are cut as `placement` says.
PointDescription cut_point(const char* name, PointFlag flag, const config::ModelConfig& config,
                           const Placement& placement, const std::string& bias, const char* text) {
  PointDescription point;
  point.name = name;
  point.flag = flag;
  point.last_layer = static_cast<int>(config.num_layers);
  point.features = placement.full_size();
  point.tensor = placement;
  point.bias = bias;
  point.text = text;
  point.gradient = placement;
  return point;
}

// A point of every layer that all tensor ranks hold whole.
PointDescription whole_point(const char* name, PointFlag flag, const config::ModelConfig& config,
                             const std::string& bias, const char* text) {
  PointDescription point;
  point.name = name;
  point.flag = flag;
  point.last_layer = static_cast<int>(config.num_layers);
  point.features = config.hidden_size;
  point.bias = bias;
  point.text = text;
  point.gradient = Placement::replicate();
  return point;
}

// The same outside the layers.
PointDescription outside_layers(PointDescription point) {
  point.first_layer = point.last_layer = 0;
  return point;
}

// Ranks that hold copies of a piece have addends of its gradient.
Placement gradient_of(std::vector<mesh::Segment> segments, int ranks) {
  for (mesh::Segment& segment : segments) segment.partial = segment.pieces < ranks;
  return shard_columns(std::move(segments));
}

PointDescription probabilities(const config::ModelConfig& config, int ranks) {
  PointDescription point;
  point.name = "RawAttentionScore";
  point.flag = PointFlag::kRawAttentionScore;
  point.last_layer = static_cast<int>(config.num_layers);
  point.features = config.seq_length;
  point.tensor = Placement::shard(1, {{config.num_attention_heads, ranks}});
  point.bias = "not applicable";
  point.text = "attention probabilities by head, recomputed from queries and keys, before dropout";
  point.dims = {"batch", "heads", "sequence", "keys"};
  point.gradient = point.tensor;
  return point;
}

std::vector<PointDescription> attention_points(const config::ModelConfig& config, int ranks,
                                               const std::string& bias) {
  const auto qkv = nn::qkv_segments(config.num_attention_heads, config.query_groups(),
                                    config.head_size(), ranks);
  std::vector<PointDescription> points = {
      cut_point("QKV", PointFlag::kQkv, config, shard_columns(qkv), bias,
                "queries, keys and values of all heads, before rotary embedding"),
      cut_point("Query", PointFlag::kQuery, config, shard_columns({qkv[0]}), bias,
                "queries by head, before rotary embedding"),
      cut_point("Key", PointFlag::kKey, config, shard_columns({qkv[1]}), bias,
                "keys by query group, before rotary embedding"),
      cut_point("Value", PointFlag::kValue, config, shard_columns({qkv[2]}), bias,
                "values by query group"),
      probabilities(config, ranks),
      cut_point("ContextLayer", PointFlag::kContextLayer, config, shard_columns({qkv[0]}),
                "not applicable", "attention's weighted values by head, before the projection"),
      whole_point("AttentionOutput", PointFlag::kAttentionOutput, config, bias,
                  "output of attention, before the residual is added"),
      whole_point("ResidualMid", PointFlag::kResidualMid, config, "not applicable",
                  "residual stream between attention and MLP")};
  points[0].gradient = gradient_of(qkv, ranks);
  points[2].gradient = gradient_of({qkv[1]}, ranks);
  points[3].gradient = gradient_of({qkv[2]}, ranks);
  return points;
}

PointDescription input_tokens() {
  PointDescription point;
  point.name = "InputTokens";
  point.flag = PointFlag::kInputTokens;
  point.first_layer = point.last_layer = 0;
  point.bias = "not applicable";
  point.text = "token ids and positions";
  point.dims = {"ids_positions", "batch", "sequence"};
  return point;
}

PointDescription logits(const config::ModelConfig& config, int ranks) {
  return outside_layers(cut_point("Logits", PointFlag::kLogits, config,
                                  shard_columns({{config.vocab_size, ranks}}), "none",
                                  "scores of the next token, before the softmax"));
}

// Probabilities are computed anew in float32, or in float64 where the model is.
std::string dtype_of(const PointDescription& point, const std::string& activations) {
  if (point.holds_integers()) return "int64";
  const bool is_made = point.flag == PointFlag::kRawAttentionScore;
  return is_made && activations != "float64" ? "float32" : activations;
}

void set_shape(PointDescription& point, const config::ModelConfig& config,
               const ForwardShape& forward) {
  const std::map<std::string, std::int64_t> sizes = {{"ids_positions", 2},
                                                     {"batch", forward.batch},
                                                     {"sequence", config.seq_length},
                                                     {"heads", config.num_attention_heads},
                                                     {"keys", config.seq_length},
                                                     {"features", point.features}};
  for (const std::string& dim : point.dims) point.shape.push_back(sizes.at(dim));
  point.dtype = dtype_of(point, forward.dtype);
}

std::vector<PointDescription> mlp_points(const config::ModelConfig& config, int ranks,
                                         const std::string& bias) {
  const auto fc1 = nn::fc1_segments(config.ffn_size(), config.swiglu, ranks);
  return {cut_point("MLP1", PointFlag::kMlp1, config, shard_columns(fc1), bias,
                    config.swiglu ? "gate and up projections, before the activation"
                                  : "first MLP product, before the activation"),
          cut_point("MLPActivation", PointFlag::kMlpActivation, config, shard_columns({fc1[0]}),
                    "not applicable",
                    config.swiglu ? "silu(gate) times up" : "GELU of the first MLP product"),
          whole_point("MLP2", PointFlag::kMlp2, config, bias,
                      "output of the MLP, before the residual is added")};
}

}  // namespace

trace::Catalogue make_catalogue(const config::ModelConfig& config, int tensor_ranks,
                                const ForwardShape& forward) {
  const std::string bias = config.disable_bias_linear ? "none" : "included";
  std::vector<PointDescription> points = {
      input_tokens(),
      outside_layers(whole_point("Embedding", PointFlag::kEmbedding, config, "not applicable",
                                 "input of the first layer: embedded tokens, learned positions "
                                 "added"))};
  points.back().hidden_state = 0;
  for (auto& part :
       {attention_points(config, tensor_ranks, bias), mlp_points(config, tensor_ranks, bias)}) {
    points.insert(points.end(), part.begin(), part.end());
  }
  points.push_back(whole_point("HiddenStates", PointFlag::kHiddenStates, config, "not applicable",
                               "output of the transformer layer"));
  points.push_back(outside_layers(whole_point("FinalNorm", PointFlag::kFinalNorm, config,
                                              "not applicable", "input of the output layer")));
  points.back().hidden_state = static_cast<int>(config.num_layers);
  points.push_back(logits(config, tensor_ranks));
  for (PointDescription& point : points) set_shape(point, config, forward);
  return trace::Catalogue(std::move(points));
}

std::vector<trace::WeightDescription> make_weights(const config::ModelConfig& config, int ranks) {
  const int layers = static_cast<int>(config.num_layers);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t heads = config.num_attention_heads * config.head_size();
  const auto qkv = nn::qkv_segments(config.num_attention_heads, config.query_groups(),
                                    config.head_size(), ranks);
  const auto fc1 = nn::fc1_segments(config.ffn_size(), config.swiglu, ranks);
  const auto rows = [](const std::vector<mesh::Segment>& segments) {
    return Placement::shard(0, segments);
  };
  const auto columns = [ranks](std::int64_t size) { return Placement::shard(1, {{size, ranks}}); };
  return {
      {"QkvWeight", PointFlag::kQkvWeight, 1, layers, {rows(qkv).full_size(), hidden}, rows(qkv)},
      {"ProjWeight", PointFlag::kProjWeight, 1, layers, {hidden, heads}, columns(heads)},
      {"Fc1Weight", PointFlag::kFc1Weight, 1, layers, {rows(fc1).full_size(), hidden}, rows(fc1)},
      {"Fc2Weight",
       PointFlag::kFc2Weight,
       1,
       layers,
       {hidden, config.ffn_size()},
       columns(config.ffn_size())},
      {"OutputWeight",
       PointFlag::kOutputWeight,
       0,
       0,
       {config.vocab_size, hidden},
       rows({{config.vocab_size, ranks}})}};
}

}  // namespace tt::model
