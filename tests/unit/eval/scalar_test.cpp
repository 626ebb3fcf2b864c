// Numbers are calculated as Python does it.
#include "src/eval/scalar.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tensor_tracer/eval/program.h"

namespace tt::eval {
namespace {

struct Case {
  const char* text;
  double value;
  at::ScalarType dtype;  // of torch.full((), value): int64, float32 or bool
};

constexpr Case kCases[] = {
    {"7 // 2", 3, at::kLong},       {"-7 // 2", -4, at::kLong},
    {"7 // -2", -4, at::kLong},     {"-7 % 3", 2, at::kLong},
    {"7 % -3", -2, at::kLong},      {"6 / 3", 2, at::kFloat},
    {"-7.5 // 2", -4, at::kFloat},  {"-7.5 % 2", 0.5, at::kFloat},
    {"7.5 % -2", -0.5, at::kFloat}, {"2 ** 10", 1024, at::kLong},
    {"2 ** -1", 0.5, at::kFloat},   {"(-1) ** 1000000001", -1, at::kLong},
    {"0 ** 0", 1, at::kLong},       {"-2 ** 2", -4, at::kLong},
    {"True + True", 2, at::kLong},  {"True & False", 0, at::kBool},
    {"6 & 3", 2, at::kLong},        {"6 | 3", 7, at::kLong},
    {"6 ^ 3", 5, at::kLong},        {"~6", -7, at::kLong},
    {"1 < 1.5", 1, at::kBool},      {"9007199254740993 == 9007199254740992.0", 0, at::kBool},
    {"3 != 3", 0, at::kBool},       {"nan == nan", 0, at::kBool},
    {"-1 // inf", -1, at::kFloat},  {"1 // inf", 0, at::kFloat},
    {"1 - 0.5", 0.5, at::kFloat},   {"+True", 1, at::kLong},
};

TEST(Scalar, CalculatesAsPythonDoes) {
  for (const Case& c : kCases) {
    const auto program = Program::check(std::string("full((), ") + c.text + ")", {});
    ASSERT_TRUE(program.ok()) << c.text << "\n" << program.error().message;
    EXPECT_EQ(program.value().facts().dtype, c.dtype) << c.text;
    const auto result = program.value().run({});
    ASSERT_TRUE(result.ok()) << c.text;
    EXPECT_EQ(result.value().to(at::kDouble).item<double>(), c.value) << c.text;
  }
}

}  // namespace
}  // namespace tt::eval
