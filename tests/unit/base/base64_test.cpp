#include "tensor_tracer/base/base64.h"

#include <gtest/gtest.h>

namespace tt::base {
namespace {

TEST(Base64, GivesTheVectorsOfRfc4648) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("f"), "Zg==");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  EXPECT_EQ(to_base64("foo"), "Zm9v");
  EXPECT_EQ(to_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(to_base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");
}

TEST(Base64, TakesEveryByte) {
  using namespace std::string_view_literals;
  EXPECT_EQ(to_base64("\x00\xFF\xFE"sv), "AP/+");
  EXPECT_EQ(to_base64("\xFB\xEF\xBE\x80"sv), "++++gA==");
}

}  // namespace
}  // namespace tt::base
