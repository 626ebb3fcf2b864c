#include "tensor_tracer/dtypes/names.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tensor_tracer/base/check.h"

namespace tt::dtypes {
namespace {

TEST(Dtypes, HaveOneNameEach) {
  EXPECT_EQ(names().size(), 10U);
  for (const std::string& name : names()) EXPECT_EQ(name_of(named(name)), name);
  EXPECT_EQ(named("bfloat16"), at::kBFloat16);
  EXPECT_EQ(named("float64"), at::kDouble);
}

TEST(Dtypes, OfOtherNamesAreNone) {
  for (const char* name : {"", "float", "BF16", "complex64"}) EXPECT_FALSE(find(name)) << name;
  EXPECT_THROW(named("float8"), base::CheckError);
  EXPECT_EQ(name_of(at::kComplexFloat), "ComplexFloat");
}

}  // namespace
}  // namespace tt::dtypes
