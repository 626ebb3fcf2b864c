#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/nn/parameter.h"

namespace tt::nn {

/// The part of a linear layer that an adapter changes: the columns of some segments of its output.
struct AdapterTarget {
  std::string name;       // a value of --lora-target-modules: "query"
  std::string module;     // its parameters are <module>.lora_A.weight and <module>.lora_B.weight
  std::size_t first = 0;  // segment
  std::size_t segments = 0;
};

/// The sharding of the linear layer that an adapter changes.
struct AdapterSite {
  std::string layer;  // the layer's parameters are <layer>.weight and <layer>.bias
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  mesh::Placement weight;  // [out, in]
};

/// A low-rank update of a linear layer: y += alpha / rank * B (A x), where A [rank, in] and
/// B [out, rank] are trained and the layer is frozen. B begins with zeros. Source: LoRA, Hu et al.
/// 2021, arXiv 2106.09685. Copies share the parameters.
class LowRank {
 public:
  LowRank(const BuildContext& context, const config::ModelConfig& config, const AdapterSite& site,
          const AdapterTarget& target);

  /// The update of this rank's columns of y that columns() names; `x`: the input of the layer.
  at::Tensor forward(const at::Tensor& x) const;
  /// First of this rank's columns of y, and their number.
  std::pair<std::int64_t, std::int64_t> columns() const { return {begin_, size_}; }

  const Parameter& a() const { return a_; }
  const Parameter& b() const { return b_; }
  const std::string& target() const { return target_; }
  const std::string& layer() const { return layer_; }
  /// The first row of the layer's whole weight that the update changes.
  std::int64_t first_row() const { return first_row_; }
  double scale() const { return scale_; }

 private:
  comm::ProcessGroup group_;
  std::string target_, layer_;
  double scale_;
  bool sums_input_;  // x is sharded: the ranks add their A x
  std::int64_t begin_ = 0, size_ = 0, first_row_ = 0;
  Parameter a_, b_;
};

/// The adapters of a layer: those of `targets` that --lora-target-modules names.
std::vector<LowRank> make_adapters(const BuildContext& context, const config::ModelConfig& config,
                                   const AdapterSite& site,
                                   const std::vector<AdapterTarget>& targets);

}  // namespace tt::nn
