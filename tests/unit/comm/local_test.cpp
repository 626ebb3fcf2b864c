#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/comm/world.h"
#include "tests/unit/comm/group_suite.h"

namespace tt::comm {

void run_ranks(int size, const std::function<void(const ProcessGroup&)>& body) {
  run_local(
      size,
      [&](const ProcessGroup& group) {
        at::set_num_threads(1);
        body(group);
      });
}

INSTANTIATE_TEST_SUITE_P(Local, GroupSuite, testing::Values(1, 2, 3, 4, 8),
                         testing::PrintToStringParamName());

namespace {

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Rank 1 of 3 breaks; the others wait as `wait` says.
void expect_all_give_up(const std::function<void(const ProcessGroup&)>& wait) {
  std::atomic<int> gave_up = 0;
  EXPECT_THROW(run_local(3,
                         [&](const ProcessGroup& group) {
                           group.barrier();
                           if (group.rank() == 1) throw Broken("rank 1");
                           try {
                             wait(group);
                           } catch (const CommError& error) {
                             EXPECT_THAT(error.what(), testing::HasSubstr("has failed"));
                             ++gave_up;
                             throw;
                           }
                         }),
               Broken);
  EXPECT_EQ(gave_up, 2);
}

TEST(Local, AFailedRankFreesThoseThatWait) {
  expect_all_give_up([](const ProcessGroup& group) {
    at::Tensor tensor = at::ones({3});
    group.all_reduce(tensor);
  });
  expect_all_give_up([](const ProcessGroup& group) { group.barrier(); });
  expect_all_give_up([](const ProcessGroup& group) {
    at::Tensor tensor = at::ones({3});
    group.receive(tensor, 1);
  });
  expect_all_give_up([](const ProcessGroup& group) {
    group.broadcast_bytes(at::zeros({3}, at::kByte), 1).wait();
  });
}

TEST(Local, AFailedRankFreesSubgroupsToo) {
  std::atomic<int> gave_up = 0;
  const auto body = [&](const ProcessGroup& group) {
    // 0 and 1 wait in a group that the failing rank 2 is no part of: rank 1 for rank 2, and rank 0
    // for rank 1.
    const ProcessGroup part = group.split(group.rank() < 2 ? 0 : 1, 0);
    if (group.rank() == 2) throw Broken("rank 2");
    try {
      at::Tensor tensor = at::ones({3});
      if (group.rank() == 1) group.receive(tensor, 2);
      part.barrier();
    } catch (const CommError&) {
      ++gave_up;
      throw;
    }
  };
  EXPECT_THROW(run_local(3, body), Broken);
  EXPECT_EQ(gave_up, 2);
}

TEST(Local, SizesThatDifferBetweenRanksAreACheck) {
  EXPECT_THROW(run_local(
                   3,
                   [](const ProcessGroup& group) {
                     at::Tensor tensor = at::ones({group.rank() == 2 ? 5 : 4});
                     group.all_reduce(tensor);
                   }),
               base::CheckError);
}

TEST(Local, AnOperationKeepsItsTensors) {
  run_local(
      2,
      [](const ProcessGroup& group) {
        const bool is_root = group.rank() == 0;
        const std::vector<std::size_t> counts{3, 3};
        at::Tensor output = at::zeros({is_root ? 6 : 0}, at::kByte);
        const at::Tensor view = output.view({-1});
        Work work = group.gather_bytes(at::full({3}, group.rank() + 1, at::kByte), counts, view, 0);
        const auto users = output.storage().use_count();
        group.barrier();
        work.wait();
        if (!is_root) return;
        EXPECT_GT(users, output.storage().use_count());
        EXPECT_TRUE(output.equal(at::tensor({1, 1, 1, 2, 2, 2}, at::kByte)));
      });
}

TEST(Single, CarriesEveryDevice) {
  const ProcessGroup group;
  at::Tensor there = at::empty({4}, at::kMeta);
  at::Tensor output = at::empty({1, 4}, at::kMeta);
  EXPECT_TRUE(group.supports(at::kMeta));
  group.all_reduce(there);
  group.all_gather(there, output);
  group.reduce_scatter(output, there);
}

TEST(Single, HasOneRankAndNeedsNobody) {
  const ProcessGroup group;
  EXPECT_EQ(group.rank(), 0);
  EXPECT_EQ(group.size(), 1);
  const at::Tensor input = at::arange(5);
  at::Tensor output = at::zeros({1, 5}, at::kLong);
  group.all_gather(input, output);
  EXPECT_TRUE(output[0].equal(input));
}

TEST(World, WithoutALauncherIsOneRank) {
  const World world(Launch{.launcher = "none"});
  EXPECT_EQ(world.group().size(), 1);
  EXPECT_EQ(world.group().rank(), 0);
}

TEST(WorldDeathTest, AbortEndsWithTheCode) {
  EXPECT_EXIT(World(Launch{.launcher = "none"}).abort(7), testing::ExitedWithCode(7), "");
}

TEST(Work, OfNothingIsDone) {
  Work work;
  EXPECT_TRUE(work.test());
  work.wait();
}

}  // namespace
}  // namespace tt::comm
