#include "tensor_tracer/vectors/separation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tt::vectors {
namespace {

using Numbers = std::vector<double>;

TEST(Separation, TheAreaIsTheShareOfWonCombinations) {
  EXPECT_EQ(area_under_curve({2, 3}, {1}), 1.0);
  EXPECT_EQ(area_under_curve({1}, {2, 3}), 0.0);
  EXPECT_EQ(area_under_curve({1, 1}, {1, 1, 1}), 0.5);
  // 3 beats both, 1 beats one and ties with one of the three others.
  EXPECT_EQ(area_under_curve({3, 1}, {0, 1, 2}), 4.5 / 6);
  EXPECT_EQ(area_under_curve({}, {1}), std::nullopt);
  EXPECT_EQ(area_under_curve({1}, {}), std::nullopt);
}

// As the sum of ranks gives it, with ties.
TEST(Separation, TheAreaIsThatOfAllCombinations) {
  std::mt19937_64 random(5);
  Numbers positive, negative;
  for (int i = 0; i < 70; ++i) positive.push_back(static_cast<double>(random() % 30));
  for (int i = 0; i < 50; ++i) negative.push_back(static_cast<double>(random() % 25));
  double won = 0;
  for (const double a : positive)
    for (const double b : negative) won += a > b ? 1.0 : a == b ? 0.5 : 0.0;
  EXPECT_DOUBLE_EQ(*area_under_curve(positive, negative), won / (70 * 50));
}

TEST(Separation, PairsAreComparedOneByOne) {
  EXPECT_EQ(share_above({2, 0, 5, 1}, {1, 3, 4, 1}), 0.5);
  EXPECT_EQ(share_above({}, {}), std::nullopt);
}

TEST(Separation, TheEffectIsInStandardDeviations) {
  // Means 4 and 1, both with variance 1.
  EXPECT_DOUBLE_EQ(*effect_size({3, 4, 5}, {0, 1, 2}), 3.0);
  EXPECT_DOUBLE_EQ(*effect_size({0, 1, 2}, {3, 4, 5}), -3.0);
  EXPECT_DOUBLE_EQ(*effect_size({2, 4}, {0, 0, 0}), 3 / std::sqrt(2.0 / 3));
  EXPECT_EQ(effect_size({1}, {0, 2}), std::nullopt);
  EXPECT_EQ(effect_size({1, 1}, {0, 0}), std::nullopt);
}

}  // namespace
}  // namespace tt::vectors
