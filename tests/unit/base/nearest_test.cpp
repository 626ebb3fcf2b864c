#include "tensor_tracer/base/nearest.h"

#include <gtest/gtest.h>

namespace tt::base {
namespace {

TEST(EditDistance, CountsInsertedRemovedReplacedAndSwappedLetters) {
  EXPECT_EQ(edit_distance("mean", "mean"), 0U);
  EXPECT_EQ(edit_distance("", "mean"), 4U);
  EXPECT_EQ(edit_distance("mean", ""), 4U);
  EXPECT_EQ(edit_distance("mean", "men"), 1U);
  EXPECT_EQ(edit_distance("maen", "mean"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(NearestWord, IsTheNearestWithinAThirdOfTheLength) {
  const std::vector<std::string> known = {"mean", "median", "amax"};
  EXPECT_EQ(nearest_word("maen", known), "mean");
  EXPECT_EQ(nearest_word("MEAN", known), "mean");
  EXPECT_EQ(nearest_word("medain", known), "median");
  EXPECT_EQ(nearest_word("xyz", known), "");
  EXPECT_EQ(nearest_word(std::string(1000, 'm'), known), "");
}

}  // namespace
}  // namespace tt::base
