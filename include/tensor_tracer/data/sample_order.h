#pragma once

#include <cstdint>
#include <vector>

namespace tt::data {

/// Splits the samples of a dataset into training and validation, and orders them. Depends only on
/// their number, split and seed, not on the mesh. Validation gets runs of 16 neighbouring samples
/// at even distances, so that training and validation both have samples from every part of the
/// data. Thread: one.
class SampleOrder {
 public:
  /// REQUIRES: valid_percent in (0, 100).
  SampleOrder(std::int64_t samples, double valid_percent, std::uint64_t seed);

  std::int64_t num_train() const { return static_cast<std::int64_t>(train_.size()); }
  std::int64_t num_valid() const { return static_cast<std::int64_t>(valid_.size()); }

  /// The n-th training sample of the run, from 0; every epoch has a different permutation.
  /// REQUIRES: num_train() > 0.
  std::int64_t train_sample(std::int64_t n);
  /// The n-th validation sample. The order is shuffled once, so that a few samples represent the
  /// whole data; after the last sample it starts again. REQUIRES: num_valid() > 0.
  std::int64_t valid_sample(std::int64_t n) const;

 private:
  void shuffle_epoch(std::int64_t epoch);

  const std::uint64_t seed_;
  std::vector<std::int64_t> train_;     // in the order of the data
  std::vector<std::int64_t> valid_;     // shuffled once
  std::vector<std::int64_t> shuffled_;  // train_ in the order of this epoch
  std::int64_t epoch_ = -1;
};

}  // namespace tt::data
