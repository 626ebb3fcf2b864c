#include "tensor_tracer/model/points.h"

#include "tensor_tracer/nn/attention.h"
#include "tensor_tracer/nn/mlp.h"

namespace tt::model {

trace::Catalogue make_catalogue(const config::ModelConfig& config, int tensor_ranks) {
  using trace::Placement;
  using trace::PointFlag;
  const auto qkv =
      Placement::shard(2, nn::qkv_segments(config.num_attention_heads, config.query_groups(),
                                           config.head_size(), tensor_ranks));
  const auto fc1 =
      Placement::shard(2, nn::fc1_segments(config.ffn_size(), config.swiglu, tensor_ranks));
  const auto whole = Placement::replicate();
  const int last = static_cast<int>(config.num_layers);
  const std::string bias = config.disable_bias_linear ? "none" : "included";
  return trace::Catalogue({{"InputTokens", PointFlag::kInputTokens, 0, 0, 0, whole,
                            "not applicable", "token ids and positions"},
                           {"QKV", PointFlag::kQkv, 1, last, qkv.full_size(), qkv, bias,
                            "queries, keys and values of all heads"},
                           {"MLP1", PointFlag::kMlp1, 1, last, fc1.full_size(), fc1, bias,
                            config.swiglu ? "gate and up projections, before the activation"
                                          : "first MLP product, before the activation"},
                           {"MLP2", PointFlag::kMlp2, 1, last, config.hidden_size, whole, bias,
                            "output of the MLP, before the residual is added"},
                           {"HiddenStates", PointFlag::kHiddenStates, 1, last, config.hidden_size,
                            whole, "not applicable", "output of the transformer layer"}});
}

}  // namespace tt::model
