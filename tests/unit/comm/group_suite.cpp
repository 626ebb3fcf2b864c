#include "tests/unit/comm/group_suite.h"

#include <ATen/ATen.h>

#include <cstring>

#include "tensor_tracer/base/check.h"

namespace tt::comm {

void GroupSuite::run(const std::function<void(const ProcessGroup&, at::ScalarType)>& body) {
  using enum at::ScalarType;
  for (const at::ScalarType dtype : {Double, Float, BFloat16, Half, Long, Int}) {
    SCOPED_TRACE(c10::toString(dtype));
    run([&](const ProcessGroup& group) { body(group, dtype); });
  }
}

at::Tensor values_of(int rank, std::int64_t count, at::ScalarType dtype) {
  const at::Tensor whole = (at::arange(count, at::kLong) * 7 + (rank + 1) * 13).remainder(101) - 50;
  if (!at::isFloatingType(dtype)) return whole.to(dtype);
  return (whole.to(at::kDouble) / 8).to(dtype);
}

bool identical(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 || std::memcmp(a.contiguous().const_data_ptr(),
                                        b.contiguous().const_data_ptr(), a.nbytes()) == 0);
}

namespace {

at::ScalarType accumulator(at::ScalarType dtype) {
  return at::isReducedFloatingType(dtype) ? at::kFloat : dtype;
}

/// The reduction as the contract states it: in rank order, in the accumulator, rounded once.
at::Tensor reduced(const std::vector<at::Tensor>& parts, ReduceOp op) {
  at::Tensor result = parts[0].to(accumulator(parts[0].scalar_type()));
  for (std::size_t rank = 1; rank < parts.size(); ++rank) {
    const at::Tensor next = parts[rank].to(result.scalar_type());
    result = op == ReduceOp::kSum ? result + next : at::maximum(result, next);
  }
  return result.to(parts[0].scalar_type());
}

std::vector<at::Tensor> values_of_all(int size, std::int64_t count, at::ScalarType dtype) {
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < size; ++rank) parts.push_back(values_of(rank, count, dtype));
  return parts;
}

/// Values whose sum depends on the order.
at::Tensor rough_values(int rank, std::int64_t count, at::ScalarType dtype) {
  const at::Tensor angle = at::arange(count, at::kDouble) * 0.37 + rank;
  return (angle.sin() * (angle * 3.1).cos().exp() * 1000).to(dtype);
}

TEST_P(GroupSuite, AllReduce) {
  run([](const ProcessGroup& group, at::ScalarType dtype) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      for (const std::int64_t count : kCounts) {
        at::Tensor tensor = values_of(group.rank(), count, dtype);
        group.all_reduce(tensor, op);
        EXPECT_TRUE(identical(tensor, reduced(values_of_all(group.size(), count, dtype), op)))
            << count << " elements, rank " << group.rank();
      }
    }
  });
}

TEST_P(GroupSuite, AllReduceRepeatsBitForBitOnAllRanks) {
  run([](const ProcessGroup& group, at::ScalarType dtype) {
    for (const std::int64_t count : {1001, 200017}) {
      at::Tensor first = rough_values(group.rank(), count, dtype);
      group.all_reduce(first);
      for (int repeat = 0; repeat < 3; ++repeat) {
        at::Tensor next = rough_values(group.rank(), count, dtype);
        group.all_reduce(next);
        EXPECT_TRUE(identical(next, first));
      }
      at::Tensor all = at::empty({group.size(), count}, first.options());
      group.all_gather(first, all);
      for (int rank = 0; rank < group.size(); ++rank) EXPECT_TRUE(identical(all[rank], first));
    }
  });
}

TEST_P(GroupSuite, HalvesAreSummedInRankOrder) {
  run([](const ProcessGroup& group) {
    for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
      // Ranks 0 and 1 cancel each other; in any other order the small rest is rounded away in f32.
      std::vector<at::Tensor> parts;
      for (int rank = 0; rank < group.size(); ++rank) {
        at::Tensor part = values_of(rank, 50021, at::kFloat) / 65536;
        if (rank < 2) part = at::full({50021}, rank == 0 ? 32768.0F : -32768.0F);
        parts.push_back(part.to(dtype));
      }
      at::Tensor tensor = parts[group.rank()].clone();
      group.all_reduce(tensor);
      EXPECT_TRUE(identical(tensor, reduced(parts, ReduceOp::kSum)));
    }
  });
}

TEST_P(GroupSuite, MaximumOfNanIsNanOnEveryRank) {
  run([](const ProcessGroup& group) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    at::Tensor tensor = at::full({3}, -0.0F);
    if (group.rank() == 0) tensor[1] = nan;
    if (group.rank() == group.size() - 1) tensor[2] = 0.0F;
    group.all_reduce(tensor, ReduceOp::kMax);
    EXPECT_TRUE(identical(tensor, at::tensor({-0.0F, nan, 0.0F})));
  });
}

TEST_P(GroupSuite, AllGather) {
  run([](const ProcessGroup& group, at::ScalarType dtype) {
    for (const std::int64_t count : kCounts) {
      const at::Tensor expected = at::stack(values_of_all(group.size(), count, dtype));
      at::Tensor output = at::empty_like(expected);
      group.all_gather(values_of(group.rank(), count, dtype), output);
      EXPECT_TRUE(identical(output, expected)) << count << " elements";

      at::Tensor in_place = at::zeros_like(expected);
      in_place[group.rank()].copy_(values_of(group.rank(), count, dtype));
      group.all_gather(in_place[group.rank()], in_place);
      EXPECT_TRUE(identical(in_place, expected)) << count << " elements in place";
    }
  });
}

TEST_P(GroupSuite, InputsMayBeStrided) {
  run([](const ProcessGroup& group) {
    const at::Tensor wide = values_of(group.rank(), 600, at::kFloat).view({20, 30});
    at::Tensor output = at::empty({group.size(), 30, 20});
    group.all_gather(wide.t(), output);
    for (int rank = 0; rank < group.size(); ++rank)
      EXPECT_TRUE(identical(output[rank], values_of(rank, 600, at::kFloat).view({20, 30}).t()));
  });
}

TEST_P(GroupSuite, Gather) {
  run([](const ProcessGroup& group, at::ScalarType dtype) {
    for (const int root : {0, group.size() - 1}) {
      for (const std::int64_t count : kCounts) {
        const at::Tensor expected = at::stack(values_of_all(group.size(), count, dtype));
        at::Tensor output = group.rank() == root ? at::empty_like(expected) : at::Tensor();
        group.gather(values_of(group.rank(), count, dtype), output, root);
        EXPECT_TRUE(group.rank() != root || identical(output, expected)) << count << " elements";
      }
    }
  });
}

TEST_P(GroupSuite, ReduceScatter) {
  run([](const ProcessGroup& group, at::ScalarType dtype) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      for (const std::int64_t count : {0, 1, 7, 20011}) {
        const at::Tensor expected =
            reduced(values_of_all(group.size(), count * group.size(), dtype), op)
                .view({group.size(), count})[group.rank()];
        at::Tensor input = values_of(group.rank(), count * group.size(), dtype);
        at::Tensor output = at::empty_like(expected);
        group.reduce_scatter(input, output, op);
        EXPECT_TRUE(identical(output, expected)) << count << " elements";

        at::Tensor inside = input.view({group.size(), count})[group.rank()];
        group.reduce_scatter(input, inside, op);
        EXPECT_TRUE(identical(inside, expected)) << count << " elements inside the input";
      }
    }
  });
}

TEST_P(GroupSuite, Broadcast) {
  run([](const ProcessGroup& group, at::ScalarType dtype) {
    for (const int root : {0, group.size() - 1}) {
      for (const std::int64_t count : kCounts) {
        at::Tensor tensor = values_of(group.rank(), count, dtype);
        group.broadcast(tensor, root);
        EXPECT_TRUE(identical(tensor, values_of(root, count, dtype))) << count << " elements";
      }
    }
  });
}

TEST_P(GroupSuite, SendAndReceiveInARing) {
  if (GetParam() == 1) {
    run([](const ProcessGroup& group, at::ScalarType dtype) {
      at::Tensor own = values_of(0, 1, dtype);
      EXPECT_THROW(group.send(own, 0), base::CheckError);
      EXPECT_THROW(group.receive(own, 0), base::CheckError);
    });
    return;
  }
  run([](const ProcessGroup& group, at::ScalarType dtype) {
    const int next = (group.rank() + 1) % group.size();
    const int previous = (group.rank() + group.size() - 1) % group.size();
    for (const std::int64_t count : kCounts) {
      at::Tensor received = at::empty({count}, dtype);
      // The last rank receives first, since a send may wait.
      const bool last = group.rank() == group.size() - 1;
      if (last) group.receive(received, previous, 5);
      group.send(values_of(group.rank(), count, dtype), next, 5);
      if (!last) group.receive(received, previous, 5);
      EXPECT_TRUE(identical(received, values_of(previous, count, dtype))) << count << " elements";
    }
  });
}

TEST_P(GroupSuite, CarriesEveryRealDtype) {
  run([](const ProcessGroup& group) {
    using enum at::ScalarType;
    for (const at::ScalarType dtype : {Byte, Char, Short, Bool, Float8_e4m3fn}) {
      at::Tensor tensor = values_of(group.rank(), 33, Short).to(Byte).view(Byte);
      tensor = dtype == Bool ? tensor.to(Bool) : tensor.to(Float).to(dtype);
      const at::Tensor own = tensor.clone();
      at::Tensor all = at::empty({group.size(), 33}, dtype);
      group.all_gather(tensor, all);
      EXPECT_TRUE(identical(all[group.rank()], own)) << c10::toString(dtype);
      EXPECT_THROW(group.all_reduce(tensor), base::CheckError) << c10::toString(dtype);
    }
  });
}

}  // namespace
}  // namespace tt::comm
