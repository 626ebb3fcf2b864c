#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tt::data {

/// The dataset of each sample of a blend. The next sample comes from the dataset whose share of the
/// samples so far is farthest below its weight; of equal ones, from the first. So each beginning of
/// the order keeps the weights up to about one sample, as in Megatron-LM. Thread: one.
class BlendOrder {
 public:
  /// REQUIRES: at least one weight; all are above 0. They need not sum to 1.
  explicit BlendOrder(const std::vector<double>& weights);

  struct Pick {
    std::size_t part = 0;
    std::int64_t number = 0;  // of the sample among those of the part, from 0
  };
  /// The n-th sample of the blend, from 0.
  Pick at(std::int64_t n);

 private:
  struct State {
    std::int64_t n = 0;
    std::vector<std::int64_t> taken;  // samples of each part before the n-th
  };
  std::size_t next_part() const;

  std::vector<double> weights_;
  State now_;
  std::vector<State> kept_;  // at every kKeptEvery-th sample, to go back
};

}  // namespace tt::data
