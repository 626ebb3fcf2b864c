#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tt::vectors {

/// The two sides of a contrast, in this order in all tensors.
enum Side : std::int64_t { kPositive, kNegative, kNumSides };

/// Sums of the mean hidden states of texts, in float64, by side and by group. Each text is in one
/// group. The groups are what a bootstrap draws from, so that no text must stay in memory. Thread:
/// one.
class GroupSums {
 public:
  static constexpr std::int64_t kGroups = 32;

  GroupSums(std::int64_t rows, std::int64_t hidden_size);

  /// The group of text `index` of `size`: its own, if there are not more texts than groups, else a
  /// drawn one. Texts of the two sides with one index are in one group.
  static std::int64_t group_of(std::int64_t index, std::int64_t size, std::uint64_t seed);
  /// Adds a text. `states`: float64 [kinds, rows, hidden], zeros where there is no token. `has`:
  /// bool [kinds]: the kinds of which the text has a token.
  void add(Side side, std::int64_t group, const at::Tensor& states, const at::Tensor& has);

  /// float64 [kinds, rows, hidden]: the mean of the positive texts minus that of the negative ones;
  /// NaN if a side of the kind has no text.
  at::Tensor differences() const;
  /// float64 [sides, kinds]: texts.
  at::Tensor texts() const { return counts_.sum(1); }

  /// float64 [sides, groups, kinds, rows, hidden], and the texts in them, [sides, groups, kinds].
  at::Tensor& states() { return states_; }
  at::Tensor& counts() { return counts_; }
  const at::Tensor& states() const { return states_; }
  const at::Tensor& counts() const { return counts_; }

 private:
  at::Tensor states_, counts_;
};

}  // namespace tt::vectors
