#include "tensor_tracer/vectors/contrast.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tt::vectors {
namespace {

using nlohmann::json;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Optional;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
const auto kDoubles = at::device(at::kCPU).dtype(at::kDouble);

// One text of each side whose response differs by `difference` at each row.
GroupSums sums_of(const std::vector<double>& difference) {
  const auto rows = static_cast<std::int64_t>(difference.size());
  GroupSums sums(rows, 1);
  const at::Tensor states = at::zeros({kNumKinds, rows, 1}, kDoubles);
  const at::Tensor has = at::zeros({kNumKinds}, at::kBool);
  has[kResponse].fill_(true);
  sums.add(kNegative, 0, states, has);
  states[kResponse].select(1, 0).copy_(at::tensor(difference, kDoubles));
  sums.add(kPositive, 0, states, has);
  return sums;
}

// `positive`, `negative`: for each text its projections on 4 rows.
HeldOutProjections held_out(std::vector<std::vector<double>> positive,
                            const std::vector<std::vector<double>>& negative) {
  const auto count = std::ssize(positive);
  positive.insert(positive.end(), negative.begin(), negative.end());
  const at::Tensor numbers = at::full({std::ssize(positive), kNumKinds, 4}, kNaN, kDoubles);
  for (std::size_t text = 0; text < positive.size(); ++text)
    numbers[static_cast<std::int64_t>(text)][kResponse].copy_(at::tensor(positive[text], kDoubles));
  return {numbers, count};
}

// By hand. The texts 0, 2, … choose the layer, and the others are compared.
TEST(Contrast, SeparationIsCountedRowByRow) {
  const std::vector<std::vector<double>> positive = {{0, 1, 2, 9}, {kNaN, 1, 3, 0},
                                                     {0, 1, 4, 9}, {kNaN, 2, 2, 0},
                                                     {0, 1, 3, 9}, {kNaN, 0, 6, kNaN}},
                                         negative = {{0, 2, 1, 0}, {kNaN, 1, 2, 9},
                                                     {0, 2, 3, 0}, {kNaN, 1, 2, 9},
                                                     {0, 2, 2, 0}, {kNaN, 5, 5, 9}};
  const GroupSums sums = sums_of({1, 1, 1, 1});
  const auto paired = extract_vector(sums, held_out(positive, negative), kResponse, true, 1);
  EXPECT_EQ(paired.best_layer, 2);
  EXPECT_THAT(paired.scores->texts, ElementsAre(2, 2)) << "of the last row";
  EXPECT_THAT(paired.scores->area,
              ElementsAre(std::nullopt, Optional(DoubleNear(3.0 / 9, 1e-12)),
                          Optional(DoubleNear(6.0 / 9, 1e-12)), Optional(0.0)));
  EXPECT_THAT(paired.scores->pairs_above,
              ElementsAre(std::nullopt, Optional(DoubleNear(1.0 / 3, 1e-12)),
                          Optional(DoubleNear(2.0 / 3, 1e-12)), Optional(0.0)));
  const auto fewer = std::vector(negative.begin(), negative.begin() + 5);
  const auto apart = extract_vector(sums, held_out(positive, fewer), kResponse, false, 1);
  EXPECT_THAT(apart.scores->texts, ElementsAre(2, 2));
  EXPECT_TRUE(apart.scores->pairs_above.empty());
  EXPECT_THAT(apart.scores->area, ElementsAre(std::nullopt, Optional(DoubleNear(3.0 / 6, 1e-12)),
                                              Optional(DoubleNear(5.0 / 6, 1e-12)), Optional(0.0)));
}

// The other half of the texts would choose layer 1.
TEST(Contrast, OfLayersThatSeparateEquallyTheOneWithTheLargerEffectIsTheBest) {
  const auto projections =
      held_out({{5, 1, 3, 9}, {5, 100, 3, 9}, {5, 2, 4, 10}, {5, 101, 4, 10}},
               {{0, 0, 0, 0}, {0, 0, 0, 0}, {1, 0.5, 0.5, 0}, {1, 0.5, 0.5, 0}});
  EXPECT_EQ(extract_vector(sums_of({1, 1, 1, 1}), projections, kResponse, true, 1).best_layer, 2);
}

TEST(Contrast, TheEvidenceHasNullWhereThereIsNoNumber) {
  const HeldOutProjections no_texts{at::zeros({0, kNumKinds, 2}, kDoubles), 0};
  const auto vector = extract_vector(sums_of({1, 2}), no_texts, kResponse, true, 1);
  EXPECT_TRUE(vector.rows.select(1, 0).equal(at::tensor({1.0, 2.0}, kDoubles)));
  EXPECT_EQ(evidence_of(vector),
            json::parse(R"({"texts_in_vector": [1, 1], "best_layer": null, "held_out_texts": null,
                            "by_row": {"cosine": [null, null], "cosine_5%": [null, null]}})"));
  EXPECT_FALSE(extract_vector(sums_of({1, 2}), no_texts, kPrompt, true, 1).rows.defined());
}

TEST(Contrast, TheFirstRowThatIsNotFiniteIsNamed) {
  EXPECT_NO_THROW(require_finite(sums_of({1, 2}))) << "the prompt has no token";
  EXPECT_THAT(
      [] {
        require_finite(sums_of({1, kNaN, kNaN}));
      },
      testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("of row 1 are not")));
}

}  // namespace
}  // namespace tt::vectors
