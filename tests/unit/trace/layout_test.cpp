#include "tensor_tracer/trace/layout.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tensor_tracer/trace/column_kernels.h"

namespace tt::trace {
namespace {

struct Case {
  const char* name;
  std::vector<Segment> segments;  // pieces are set per number of ranks
  int max_pieces;
};

// The placement of `base` on `ranks` ranks.
Placement on_ranks(const Case& base, int ranks) {
  std::vector<Segment> segments = base.segments;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const bool is_kv = i > 0 && base.max_pieces > 0;
    segments[i].pieces = is_kv ? std::min(base.max_pieces, ranks) : ranks;
  }
  return Placement::shard(2, segments);
}

template <typename Number>
std::vector<Number> traced(const Case& base, int ranks, std::int64_t tiles,
                           const std::vector<Number>& logical, std::int64_t rows) {
  const Placement placement = on_ranks(base, ranks);
  const std::int64_t features = placement.full_size();
  const ColumnLayout layout = make_column_layout(placement, ranks, features, tiles);
  std::vector<std::vector<Number>> packed(static_cast<std::size_t>(ranks));
  std::vector<const Number*> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t width = local_size(placement, rank, ranks);
    std::vector<Number> local(static_cast<std::size_t>(rows * width));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (const Interval& at : intervals_of_rank(placement, rank, ranks)) {
        std::copy_n(logical.begin() + row * features + at.begin, at.end - at.begin,
                    local.begin() + row * width + at.local_begin);
      }
    }
    const auto r = static_cast<std::size_t>(rank);
    packed[r].resize(static_cast<std::size_t>(rows * layout.values_per_row[r]));
    pack_rows(local.data(), rows, width, layout.pieces[r], packed[r].data());
    parts.push_back(packed[r].data());
  }
  std::vector<Number> result(static_cast<std::size_t>(rows * layout.outputs()));
  unpack_rows(layout, rows, parts, result.data());
  return result;
}

template <typename Number>
std::vector<Number> random_numbers(std::int64_t count) {
  std::mt19937_64 generator(7);
  std::normal_distribution<double> normal;
  std::vector<Number> numbers(static_cast<std::size_t>(count));
  for (Number& number : numbers) number = static_cast<Number>(normal(generator));
  return numbers;
}

const Case kCases[] = {
    {"plain 768", {{768}}, 0},
    {"plain 1000", {{1000}}, 0},
    {"gate and up 2 x 14336", {{14336}, {14336}}, 0},
    {"multi-head", {{512}, {512}, {512}}, 8},
    {"grouped, 4 groups", {{1024}, {128}, {128}}, 4},
    {"multi-query", {{1024}, {64}, {64}}, 1},
};

template <typename Number>
void expect_invariant() {
  constexpr std::int64_t kRows = 3;
  for (const Case& base : kCases) {
    const std::int64_t features = on_ranks(base, 1).full_size();
    const auto logical = random_numbers<Number>(kRows * features);
    for (const std::int64_t tiles : {0, 1, 7, 64, 96}) {
      const auto whole = traced(base, 1, tiles, logical, kRows);
      for (const int ranks : {2, 4, 8}) {
        EXPECT_EQ(traced(base, ranks, tiles, logical, kRows), whole)
            << base.name << ", " << tiles << " tiles, " << ranks << " ranks";
      }
    }
  }
}

TEST(Layout, ShardedEqualsUnshardedBitForBitInFloat) { expect_invariant<float>(); }
TEST(Layout, ShardedEqualsUnshardedBitForBitInDouble) { expect_invariant<double>(); }

TEST(Layout, NoCompressorGivesBackTheLogicalTensor) {
  for (const Case& base : kCases) {
    const auto logical = random_numbers<float>(2 * on_ranks(base, 1).full_size());
    for (const int ranks : {1, 4}) EXPECT_EQ(traced(base, ranks, 0, logical, 2), logical);
  }
}

TEST(Layout, TileIsTheMeanOverItsTrueWidth) {
  // 10 columns in 4 tiles: [0,2) [2,5) [5,7) [7,10).
  std::vector<double> row = {1, 3, 2, 4, 9, 5, 6, 1, 2, 6};
  for (const int ranks : {1, 2, 5}) {
    EXPECT_EQ(traced<double>({"ten", {{10}}, 0}, ranks, 4, row, 1),
              (std::vector<double>{2, 5, 5.5, 3}));
  }
}

TEST(Layout, ConstantInConstantOut) {
  for (const Case& base : kCases) {
    const std::vector<float> ones(static_cast<std::size_t>(on_ranks(base, 1).full_size()), 1.0f);
    for (const int ranks : {1, 8}) {
      for (const float value : traced(base, ranks, 96, ones, 1)) ASSERT_EQ(value, 1.0f);
    }
  }
}

TEST(Layout, WholeTilesTravelAsOneNumber) {
  const auto layout = make_column_layout(Placement::shard(2, {{512, 2}}), 2, 512, 64);
  EXPECT_EQ(layout.values_per_row, (std::vector<std::int64_t>{32, 32}));
}

TEST(FixedOrderMean, DependsOnTheNumbersAloneAndNotOnTheirPlace) {
  const auto numbers = random_numbers<float>(1003);
  std::vector<float> moved(numbers.size() + 3);
  std::copy(numbers.begin(), numbers.end(), moved.begin() + 3);
  EXPECT_EQ(fixed_order_mean(numbers.data(), 1003), fixed_order_mean(moved.data() + 3, 1003));
  double exact = 0;
  for (const float number : numbers) exact += number;
  EXPECT_NEAR(fixed_order_mean(numbers.data(), 1003), exact / 1003, 1e-6);
}

}  // namespace
}  // namespace tt::trace
