// Reductions on a device have the bits of those on the CPU.
#include "src/comm/c10d/device_reduce.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "src/comm/reduce.h"

namespace tt::comm {
namespace {

TEST(DeviceReduce, AddsInTheOrderOfTheRanks) {
  const at::Tensor numbers = at::randn({5, 3000}, at::detail::createCPUGenerator(4), at::kDouble);
  for (const at::ScalarType dtype :
       {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong, at::kInt}) {
    const at::Tensor parts = (numbers * 100).to(dtype);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      std::vector<const void*> sources;
      for (std::int64_t rank = 0; rank < parts.size(0); ++rank)
        sources.push_back(parts[rank].const_data_ptr());
      const at::Tensor expected = at::empty_like(parts[0]), found = at::empty_like(parts[0]);
      detail::reduce_in_order(sources, expected.mutable_data_ptr(), detail::elements_of(expected),
                              op);
      c10d::reduce_tensors(parts, op, found);
      EXPECT_TRUE(at::equal(found, expected)) << dtype;
    }
  }
}

}  // namespace
}  // namespace tt::comm
