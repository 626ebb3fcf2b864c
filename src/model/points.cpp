#include "tensor_tracer/model/points.h"

#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/nn/attention.h"
#include "tensor_tracer/nn/mlp.h"

namespace tt::model {
namespace {

using trace::Placement;
using trace::PointDescription;
using trace::PointFlag;

Placement shard_columns(std::vector<trace::Segment> segments) {
  return Placement::shard(2, std::move(segments));
}

// A point of every layer whose columns are cut as `placement` says.
PointDescription cut_point(const char* name, PointFlag flag, const config::ModelConfig& config,
                           const Placement& placement, const std::string& bias, const char* text) {
  return {name,      flag, 1,   static_cast<int>(config.num_layers), placement.full_size(),
          placement, bias, text};
}

// A point of every layer that all tensor ranks hold whole.
PointDescription whole_point(const char* name, PointFlag flag, const config::ModelConfig& config,
                             const std::string& bias, const char* text) {
  return {name,
          flag,
          1,
          static_cast<int>(config.num_layers),
          config.hidden_size,
          Placement::replicate(),
          bias,
          text};
}

std::vector<PointDescription> attention_points(const config::ModelConfig& config, int ranks,
                                               const std::string& bias) {
  const auto qkv = nn::qkv_segments(config.num_attention_heads, config.query_groups(),
                                    config.head_size(), ranks);
  return {cut_point("QKV", PointFlag::kQkv, config, shard_columns(qkv), bias,
                    "queries, keys and values of all heads, before rotary embedding"),
          cut_point("Query", PointFlag::kQuery, config, shard_columns({qkv[0]}), bias,
                    "queries by head, before rotary embedding"),
          cut_point("Key", PointFlag::kKey, config, shard_columns({qkv[1]}), bias,
                    "keys by query group, before rotary embedding"),
          cut_point("Value", PointFlag::kValue, config, shard_columns({qkv[2]}), bias,
                    "values by query group"),
          cut_point("ContextLayer", PointFlag::kContextLayer, config, shard_columns({qkv[0]}),
                    "not applicable", "attention's weighted values by head, before the projection"),
          whole_point("AttentionOutput", PointFlag::kAttentionOutput, config, bias,
                      "output of attention, before the residual is added"),
          whole_point("ResidualMid", PointFlag::kResidualMid, config, "not applicable",
                      "residual stream between attention and MLP")};
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

trace::Catalogue make_catalogue(const config::ModelConfig& config, int tensor_ranks) {
  const Placement whole = Placement::replicate();
  const std::string bias = config.disable_bias_linear ? "none" : "included";
  std::vector<PointDescription> points = {
      {"InputTokens", PointFlag::kInputTokens, 0, 0, 0, whole, "not applicable",
       "token ids and positions"},
      {"Embedding", PointFlag::kEmbedding, 0, 0, config.hidden_size, whole, "not applicable",
       "input of the first layer: embedded tokens, learned positions added"}};
  for (auto& part :
       {attention_points(config, tensor_ranks, bias), mlp_points(config, tensor_ranks, bias)}) {
    points.insert(points.end(), part.begin(), part.end());
  }
  points.push_back(whole_point("HiddenStates", PointFlag::kHiddenStates, config, "not applicable",
                               "output of the transformer layer"));
  points.push_back({"FinalNorm", PointFlag::kFinalNorm, 0, 0, config.hidden_size, whole,
                    "not applicable", "input of the output layer"});
  return trace::Catalogue(std::move(points));
}

}  // namespace tt::model
