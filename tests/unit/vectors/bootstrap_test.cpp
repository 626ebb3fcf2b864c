#include "tensor_tracer/vectors/bootstrap.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tt::vectors {
namespace {

const auto kDoubles = at::device(at::kCPU).dtype(at::kDouble);

// Adds a text whose only kind with tokens is the response, to sums of 1 row of 2.
void add(GroupSums& sums, Side side, std::int64_t group, double x, double y) {
  const at::Tensor states = at::zeros({kNumKinds, 1, 2}, kDoubles);
  states[kResponse][0].copy_(at::tensor({x, y}, kDoubles));
  const at::Tensor has = at::zeros({kNumKinds}, at::kBool);
  has[kResponse].fill_(true);
  sums.add(side, group, states, has);
}

TEST(GroupSums, TheDifferenceIsThatOfTheMeans) {
  GroupSums sums(1, 2);
  add(sums, kPositive, 0, 1, 2);
  add(sums, kPositive, 5, 3, 6);
  add(sums, kNegative, 0, 1, 1);
  EXPECT_TRUE(sums.differences()[kResponse][0].equal(at::tensor({1.0, 3.0}, kDoubles)));
  EXPECT_TRUE(sums.texts()[kPositive].equal(at::tensor({2.0, 0.0, 0.0}, kDoubles)));
  EXPECT_TRUE(sums.differences()[kPrompt].isnan().all().item<bool>());
}

TEST(GroupSums, FewTextsAreGroupsAndManyAreSpread) {
  for (std::int64_t i = 0; i < GroupSums::kGroups; ++i)
    EXPECT_EQ(GroupSums::group_of(i, GroupSums::kGroups, 7), i);
  std::vector<int> sizes(GroupSums::kGroups);
  for (std::int64_t i = 0; i < 32'000; ++i) ++sizes[GroupSums::group_of(i, 32'000, 7)];
  EXPECT_THAT(sizes, testing::Each(testing::AllOf(testing::Gt(850), testing::Lt(1150))));
  int same = 0;
  for (std::int64_t i = 0; i < 1000; ++i)
    same += GroupSums::group_of(i, 1000, 7) == GroupSums::group_of(i, 1000, 8) ? 1 : 0;
  EXPECT_LT(same, 100);
}

TEST(Bootstrap, TextsThatAgreeGiveCosinesOfOne) {
  GroupSums sums(1, 2);
  for (std::int64_t group = 0; group < 6; ++group) {
    add(sums, kPositive, group, 5, 1);
    add(sums, kNegative, group, 1, 0);
  }
  for (const bool is_paired : {false, true}) {
    const Stability found = bootstrap(sums, kResponse, is_paired, 100, 1);
    EXPECT_NEAR(found.mean.item<double>(), 1, 1e-12);
    EXPECT_NEAR(found.low.item<double>(), 1, 1e-12);
  }
}

// Of the pairs, half differ by (1, 1) and half by (1, -1). A draw with k of n of the first kind
// gives the cosine 1 / sqrt(1 + (2 k / n - 1)^2), and k is binomial. Each side alone varies much
// more than the pairs do.
TEST(Bootstrap, PairsAreDrawnTogether) {
  GroupSums sums(1, 2);
  constexpr std::int64_t kPairs = 8;
  for (std::int64_t pair = 0; pair < kPairs; ++pair) {
    const double common = 100.0 * static_cast<double>(pair);
    add(sums, kPositive, pair, common + 1, pair % 2 == 0 ? 1 : -1);
    add(sums, kNegative, pair, common, 0);
  }
  double expected = 0, chance = std::pow(0.5, kPairs);
  for (int k = 0; k <= kPairs; ++k) {
    const double y = 2.0 * k / kPairs - 1;
    expected += chance / std::sqrt(1 + y * y);
    chance *= static_cast<double>(kPairs - k) / (k + 1);
  }
  const Stability paired = bootstrap(sums, kResponse, true, 20'000, 3);
  EXPECT_NEAR(paired.mean.item<double>(), expected, 0.003);
  EXPECT_LT(bootstrap(sums, kResponse, false, 2000, 3).mean.item<double>(), expected - 0.1);
  EXPECT_TRUE(bootstrap(sums, kResponse, true, 20'000, 3).mean.equal(paired.mean));
  EXPECT_FALSE(bootstrap(sums, kResponse, true, 20'000, 4).mean.equal(paired.mean));
}

TEST(Bootstrap, OneGroupTellsNothing) {
  GroupSums sums(1, 2);
  add(sums, kPositive, 0, 1, 2);
  add(sums, kNegative, 0, 1, 1);
  const Stability found = bootstrap(sums, kResponse, true, 10, 1);
  EXPECT_TRUE(std::isnan(found.mean.item<double>()) && std::isnan(found.low.item<double>()));
}

}  // namespace
}  // namespace tt::vectors
