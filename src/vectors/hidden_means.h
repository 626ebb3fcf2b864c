#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/trace/intervention_pass.h"

namespace tt::vectors {

/// Reads the hidden states of a forward and keeps weighted sums of them over tokens, so that no
/// layer's states stay in memory. It changes nothing. Row 0 is the embedding, row n the output of
/// layer n, and the last row the output of the final norm in place of the last layer's output, as
/// `hidden_states` of transformers. Thread: the thread that runs the model.
class HiddenMeans : public trace::InterventionPass {
 public:
  explicit HiddenMeans(const points::PlaceTable& places);

  /// Begins a forward. `weights`: float64 [batch, kinds, tokens]. `lengths`: tokens of each row;
  /// the others are padding.
  void begin(at::Tensor weights, std::vector<std::int64_t> lengths);
  /// float64 [batch, kinds, rows, hidden], after the forward.
  const at::Tensor& sums() const { return sums_; }

  at::Tensor at_point(const points::PlaceKey& place, const at::Tensor& local) override;
  bool reads(const points::PlaceKey&) const override { return false; }
  bool writes(const points::PlaceKey&) const override { return false; }
  bool skips(int) override { return false; }
  void end() override {}

 private:
  std::unique_ptr<bool[]> acts_here_;
  std::vector<std::int64_t> row_of_key_;  // by PlaceKey::index
  const std::int64_t num_rows_;
  at::Tensor weights_, sums_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace tt::vectors
