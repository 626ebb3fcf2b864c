#include "tensor_tracer/base/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor_tracer/base/result.h"

namespace tt::base {
namespace {

TEST(Check, ShowsBothValuesPlaceAndRank) {
  set_rank_label("rank 3 (tensor 1, data 1)");
  try {
    TT_CHECK_EQ(1 + 1, 3);
    FAIL() << "nothing thrown";
  } catch (const CheckError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("1 + 1 == 3 (2 against 3) at "));
    EXPECT_THAT(error.what(), testing::HasSubstr("check_test.cpp:"));
    EXPECT_THAT(error.what(), testing::HasSubstr(" on rank 3 (tensor 1, data 1)"));
  }
  set_rank_label("");
}

TEST(Result, ValueOfAnErrorIsACheck) {
  Result<int> result = Error{"invalid_argument", "7 is odd", "--count", "give an even number"};
  EXPECT_THROW((void)result.value(), CheckError);
  EXPECT_EQ(to_string(result.error()), "--count: 7 is odd; give an even number");
}

}  // namespace
}  // namespace tt::base
