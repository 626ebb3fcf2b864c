// The numbers of statistics and predictions, against ATen.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/unit/trace/packing_fixture.h"

namespace tt::trace {
namespace {

using namespace packing;

// Four numbers of each line, [rows, lines], by ATen in double.
at::Tensor softmax_numbers(const at::Tensor& whole, const LogicalShape& shape) {
  const at::Tensor scores = whole.to(at::kDouble);
  const at::Tensor logs = scores.log_softmax(-1);
  const std::vector<std::int64_t> list = targets_of(shape);
  const at::Tensor targets = at::tensor(list, at::kLong).view({shape.rows, shape.lines, 1});
  const at::Tensor loss = -logs.gather(-1, targets.clamp_min(0)).squeeze(-1);
  const at::Tensor unknown = targets.squeeze(-1) < 0;
  return at::stack({scores.logsumexp(-1), -(logs.exp() * logs).sum(-1),
                    loss.masked_fill(unknown, std::numeric_limits<double>::quiet_NaN()),
                    targets.squeeze(-1).to(at::kDouble)});
}

TEST(Packing, ScoresOfAVocabularyBringTheirSoftmax) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const std::int64_t k : {1, 3, 4, 10}) {
      const at::Tensor whole = 6 * normal({2, 5, 1000}, dtype);
      const LogicalShape shape = logical_shape(whole, mesh::Placement::replicate(), 1, {});
      const json topk = {{"kind", "topk"}, {"k", k}, {"vocabulary", true}};
      const at::Tensor found = traced({whole}, shape, topk).to(at::kDouble);
      const at::Tensor numbers =
          found.narrow(0, 2, found.size(0) - 2).permute({1, 2, 0, 3}).flatten(2).permute({2, 0, 1});
      ASSERT_EQ(numbers.size(0), (4 + k - 1) / k * k);
      EXPECT_TRUE(at::allclose(numbers.narrow(0, 0, 4), softmax_numbers(whole, shape),
                               dtype == at::kFloat ? 2e-6 : 1e-13, 0, /*equal_nan=*/true));
      EXPECT_TRUE(numbers.narrow(0, 4, numbers.size(0) - 4).isnan().all().item<bool>());
    }
  }
}

TEST(Packing, TheSoftmaxOfScoresThatAreNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  at::Tensor whole = normal({1, 4, 600}, at::kFloat);
  whole[0][0][300] = std::numeric_limits<double>::quiet_NaN();
  whole[0][1][300] = kInfinity;
  whole[0][2].narrow(0, 0, 600).fill_(-kInfinity);
  whole[0][3].narrow(0, 256, 256).fill_(-kInfinity);
  const LogicalShape shape = logical_shape(whole, mesh::Placement::replicate(), 1, {});
  const at::Tensor found =
      traced({whole}, shape, {{"kind", "topk"}, {"k", 4}, {"vocabulary", true}})[2][0];
  EXPECT_TRUE(found[0].narrow(0, 0, 3).isnan().all().item<bool>());
  EXPECT_EQ(found[1][0].item<double>(), kInfinity);
  EXPECT_EQ(found[2][0].item<double>(), -kInfinity);
  EXPECT_TRUE(found[1][1].isnan().item<bool>() && found[2][1].isnan().item<bool>());
  const at::Tensor last = whole[0][3].to(at::kDouble);
  EXPECT_NEAR(found[3][0].item<double>(), last.logsumexp(0).item<double>(), 1e-6);
}

TEST(Packing, StatsAreThoseOfATen) {
  at::Tensor whole = normal({2, 40, 200}, at::kDouble) * 3 + 100;
  whole[0][0].narrow(0, 0, 50).zero_();
  const at::Tensor stats = traced_on(whole, {"", 2, {200}, 0}, 4,
                                     {{{"kind", "stats"}, {"range", {90, 110}}, {"bins", 20}}})[0];
  const at::Tensor expected = at::stack(
      {at::full({}, 16000.0, at::kDouble), whole.mean(), whole.std(), whole.min(), whole.max(),
       whole.norm(), at::full({}, 50.0 / 16000, at::kDouble), at::zeros({}, at::kDouble),
       at::zeros({}, at::kDouble), at::zeros({}, at::kDouble)});
  EXPECT_TRUE(at::allclose(stats.narrow(0, 0, 10), expected, 1e-12, 1e-12)) << stats;
  // The ends take what lies beyond.
  const at::Tensor bins = at::histc(whole.clamp(90, 110), 20, 90, 110);
  EXPECT_TRUE(at::equal(stats.narrow(0, 10, 20), bins)) << stats;
}

TEST(Packing, TheSecondRowOfStatsHasKurtosisAndNorms) {
  at::Tensor whole = normal({2, 100, 200}, at::kDouble) * 3 + 1;
  whole[1][99][199] = 400;
  at::Tensor finite = whole.clone();
  whole[0][3][130] = std::numeric_limits<double>::infinity();
  finite[0][3][130] = 0;
  const at::Tensor stats = traced_on(whole, {"", 2, {200}, 0}, 4, {{{"kind", "stats"}}})[1];
  const at::Tensor left = whole.masked_select(whole.isfinite());
  const at::Tensor square = (left - left.mean()).square();
  const at::Tensor lines = finite.norm(2, -1), columns = finite.flatten(0, 1).norm(2, 0);
  const at::Tensor expected = at::stack(
      {square.square().mean() / square.mean().square(), left.square().mean().sqrt(), lines.min(),
       lines.mean(), lines.max(), columns.min(), columns.mean(), columns.max()});
  EXPECT_TRUE(at::allclose(stats.narrow(0, 0, 8), expected, 1e-12, 0)) << stats << expected;
  EXPECT_TRUE(stats.narrow(0, 8, 50).isnan().all().item<bool>()) << stats;
}

TEST(Packing, StatsWithoutARangeCountPowersOfTwo) {
  const at::Tensor whole =
      at::tensor({1.0, -1.5, 2.0, 3.9, 0.25, 1e-30, 1e30, 0.0}, at::kDouble).view({1, 1, 8});
  const at::Tensor bins =
      traced_on(whole, {"", 0, {8}, 0}, 1, {{{"kind", "stats"}}})[0].narrow(0, 10, 48);
  at::Tensor expected = at::zeros({48}, at::kDouble);
  expected[32] = 2;  // 1 and 1.5
  expected[33] = 2;  // 2 and 3.9
  expected[30] = 1;
  expected[0] = 1;
  expected[47] = 1;
  EXPECT_TRUE(at::equal(bins, expected)) << bins;
}

TEST(Packing, StatsOfNothingFiniteAreNaN) {
  const at::Tensor whole = at::full({1, 2, 64}, std::numeric_limits<double>::quiet_NaN());
  const at::Tensor stats = traced_on(whole, {"", 2, {64}, 0}, 2, {{{"kind", "stats"}}})[0];
  EXPECT_TRUE(stats.narrow(0, 1, 4).isnan().all().item<bool>()) << stats;
  EXPECT_EQ(stats[7].item<double>(), 128.0);
}

}  // namespace
}  // namespace tt::trace
