#include "tensor_tracer/mesh/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor_tracer/base/check.h"

namespace tt::mesh {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;

auto is(std::int64_t begin, std::int64_t end, int owner, std::int64_t local_begin) {
  return AllOf(Field(&Interval::begin, begin), Field(&Interval::end, end),
               Field(&Interval::owner, owner), Field(&Interval::local_begin, local_begin));
}

// Two context-parallel ranks: rank 0 has the first and the last quarter of a sequence.
Placement zigzag(std::int64_t size) {
  return Placement::shard(1, {{.size = size, .chunks = 2, .blocks = {0, 1, 1, 0}}});
}

TEST(Placement, ARankHoldsItsBlocksInLogicalOrder) {
  EXPECT_THAT(intervals_of_rank(zigzag(12), 0, 2), ElementsAre(is(0, 3, 0, 0), is(9, 12, 0, 3)));
  EXPECT_THAT(intervals_of_rank(zigzag(12), 1, 2), ElementsAre(is(3, 6, 1, 0), is(6, 9, 1, 3)));
  EXPECT_EQ(local_size(zigzag(12), 1, 2), 6);
}

TEST(Placement, NeighbouringBlocksOfOneRankAreOneInterval) {
  EXPECT_THAT(owned_intervals(zigzag(12), 2, 12),
              ElementsAre(is(0, 3, 0, 0), is(3, 9, 1, 0), is(9, 12, 0, 3)));
}

TEST(Placement, OfCopiesOfBlocksTheLowestRankIsTheOwner) {
  EXPECT_THAT(owned_intervals(zigzag(12), 4, 12),
              ElementsAre(is(0, 3, 0, 0), is(3, 9, 2, 0), is(9, 12, 0, 3)));
  EXPECT_THAT(intervals_of_rank(zigzag(12), 3, 4), ElementsAre(is(3, 6, 2, 0), is(6, 9, 2, 3)));
}

TEST(Placement, TheTextTellsBlocksApart) {
  EXPECT_EQ(to_string(Placement::shard(1, {{.size = 12, .chunks = 2}})), "shard(1)");
  EXPECT_EQ(to_string(zigzag(12)), "shard(1) of segments 12 in blocks 0 1 1 0");
}

TEST(Placement, BlocksHaveEqualSizes) {
  EXPECT_THROW(intervals_of_rank(zigzag(10), 0, 2), base::CheckError);
}

}  // namespace
}  // namespace tt::mesh
