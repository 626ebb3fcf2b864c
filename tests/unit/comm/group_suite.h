#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tensor_tracer/comm/process_group.h"

// One suite for every backend. A binary defines run_ranks() and instantiates GroupSuite over the
// sizes it can offer. Bodies use EXPECT only: a rank that returned early would leave the others
// waiting.
namespace tt::comm {

/// Runs `body` on `size` ranks.
void run_ranks(int size, const std::function<void(const ProcessGroup&)>& body);

/// The parameter is the number of ranks.
class GroupSuite : public testing::TestWithParam<int> {
 protected:
  void run(const std::function<void(const ProcessGroup&)>& body) { run_ranks(GetParam(), body); }
  /// Once for every dtype that reductions take.
  void run(const std::function<void(const ProcessGroup&, at::ScalarType)>& body);
};

/// Every odd case: none, one, fewer than ranks, and more than any chunk's share.
inline constexpr std::int64_t kCounts[] = {0, 1, 7, 100003};

/// `count` values that differ from rank to rank; sums of up to 8 ranks are exact in f32, not in
/// bf16.
at::Tensor values_of(int rank, std::int64_t count, at::ScalarType dtype);

/// The same bits.
bool identical(const at::Tensor& a, const at::Tensor& b);

}  // namespace tt::comm
