#include "tensor_tracer/vectors/group_sums.h"

#include <ATen/ATen.h>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/vectors/kinds.h"

// Shapes: S sides, G groups, K kinds, R rows, H hidden.

namespace tt::vectors {

GroupSums::GroupSums(std::int64_t rows, std::int64_t hidden_size)
    : states_(at::zeros({kNumSides, kGroups, kNumKinds, rows, hidden_size},
                        at::device(at::kCPU).dtype(at::kDouble))),
      counts_(at::zeros({kNumSides, kGroups, kNumKinds}, states_.options())) {}

std::int64_t GroupSums::group_of(std::int64_t index, std::int64_t size, std::uint64_t seed) {
  if (size <= kGroups) return index;
  return static_cast<std::int64_t>(base::mix(seed, static_cast<std::uint64_t>(index)) % kGroups);
}

void GroupSums::add(Side side, std::int64_t group, const at::Tensor& states,
                    const at::Tensor& has) {
  states_[side][group].add_(states);
  counts_[side][group].add_(has);
}

at::Tensor GroupSums::differences() const {
  const at::Tensor means_SKRH = states_.sum(1) / texts().unsqueeze(2).unsqueeze(3);
  return means_SKRH[kPositive] - means_SKRH[kNegative];
}

}  // namespace tt::vectors
