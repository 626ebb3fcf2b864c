#include "tensor_tracer/data/sample_order.h"

#include <gtest/gtest.h>

#include <set>

namespace tt::data {
namespace {

TEST(SampleOrder, EverySampleOnceInTrainingOrValidation) {
  SampleOrder order(10'000, 5.0, 3);
  std::set<std::int64_t> train, valid;
  for (std::int64_t n = 0; n < order.num_train(); ++n) train.insert(order.train_sample(n));
  for (std::int64_t n = 0; n < order.num_valid(); ++n) valid.insert(order.valid_sample(n));
  EXPECT_EQ(static_cast<std::int64_t>(train.size()), order.num_train());
  EXPECT_EQ(train.size() + valid.size(), 10'000u);
  EXPECT_EQ(valid.size(), 496u);  // 31 of 625 runs of 16
  for (const std::int64_t sample : valid) EXPECT_FALSE(train.contains(sample));
  // The first few validation samples come from all over the text.
  EXPECT_LT(std::min(order.valid_sample(0), order.valid_sample(1)), 9'000);
  EXPECT_GT(std::abs(order.valid_sample(0) - order.valid_sample(1)), 16);
}

TEST(SampleOrder, EpochsAreDifferentPermutationsAndRepeatWithTheSeed) {
  SampleOrder first(100, 10.0, 3), again(100, 10.0, 3), other(100, 10.0, 4);
  const std::int64_t epoch = first.num_train();
  std::vector<std::int64_t> one, two, same, different;
  for (std::int64_t n = 0; n < epoch; ++n) {
    one.push_back(first.train_sample(n));
    same.push_back(again.train_sample(n));
    different.push_back(other.train_sample(n));
  }
  for (std::int64_t n = 0; n < epoch; ++n) two.push_back(first.train_sample(epoch + n));
  EXPECT_EQ(one, same);
  EXPECT_NE(one, different);
  EXPECT_NE(one, two);
  EXPECT_EQ(std::set(one.begin(), one.end()), std::set(two.begin(), two.end()));
  EXPECT_EQ(first.train_sample(5), one[5]);  // going back an epoch
}

TEST(SampleOrder, TooFewSamplesLeaveOnePartEmpty) {
  EXPECT_EQ(SampleOrder(0, 5.0, 1).num_train(), 0);
  EXPECT_EQ(SampleOrder(9, 5.0, 1).num_valid(), 0);
}

}  // namespace
}  // namespace tt::data
