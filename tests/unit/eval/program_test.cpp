#include "tensor_tracer/eval/program.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "src/eval/plan.h"

namespace tt::eval {
namespace {

using testing::HasSubstr;
using Shape = std::vector<std::int64_t>;

base::Result<Program> check(const char* text, Shape shape = {2, 3, 4}) {
  return Program::check(text, {{"data", std::move(shape), at::kDouble}});
}

TEST(Program, KnowsShapeAndDtypeBeforeItRuns) {
  struct Case {
    const char* text;
    Shape shape;
    at::ScalarType dtype;
  };
  const std::vector<Case> cases = {
      {"data.mean(-1)", {2, 3}, at::kDouble},
      {"data.mean()", {}, at::kDouble},
      {"data.argmax(-1)", {2, 3}, at::kLong},
      {"data > 0", {2, 3, 4}, at::kBool},
      {"data.float()", {2, 3, 4}, at::kFloat},
      {"data.std(dim=-1, keepdim=True)", {2, 3, 1}, at::kDouble},
      {"data.topk(2).values", {2, 3, 2}, at::kDouble},
      {"data @ data.mT", {2, 3, 3}, at::kDouble},
      {"data.sort(dim=0).indices", {2, 3, 4}, at::kLong},
      {"data.median(dim=1).values", {2, 4}, at::kDouble},
      {"data.std(dim=(0, 2))", {3}, at::kDouble},
      {"data.std(dim=(0, 2), keepdim=True)", {1, 3, 1}, at::kDouble},
      {"data.flip((0, 1))", {2, 3, 4}, at::kDouble},
      {"data[:, [0, 2, 1, 0]]", {2, 4, 4}, at::kDouble},
      {"data.mT.abs().view(2, 12)", {2, 12}, at::kDouble},
      {"data[..., None, ::2]", {2, 3, 1, 2}, at::kDouble},
  };
  for (const Case& c : cases) {
    const auto program = check(c.text);
    ASSERT_TRUE(program.ok()) << c.text << "\n" << program.error().message;
    EXPECT_EQ(program.value().facts().shape, c.shape) << c.text;
    EXPECT_EQ(program.value().facts().dtype, c.dtype) << c.text;
    const auto result = program.value().run({at::randn({2, 3, 4}, at::kDouble)});
    ASSERT_TRUE(result.ok()) << c.text;
    EXPECT_EQ(result.value().sizes(), at::IntArrayRef(c.shape)) << c.text;
  }
}

TEST(Program, EstimatesElementOperations) {
  const auto cost = [](const char* text) {
    const auto program = check(text, {8, 16});
    return program.ok() ? program.value().facts().cost : -1;
  };
  EXPECT_EQ(cost("data"), 0);
  EXPECT_EQ(cost("data.transpose(0, 1)"), 0);
  EXPECT_EQ(cost("data[:4, ::2]"), 0);
  EXPECT_EQ(cost("data + 1"), 128);
  EXPECT_EQ(cost("data.mean()"), 128);
  EXPECT_EQ(cost("(data + 1).abs()"), 256);
  EXPECT_EQ(cost("data.sort().values"), 128 * 7);
  EXPECT_EQ(cost("data @ data.mT"), 8 * 8 * 16);
  EXPECT_EQ(cost("data[:, None] + data"), 8 * 8 * 16);
}

TEST(Program, TakesSeveralInputs) {
  const auto program = Program::check(
      "h + alpha * v",
      {{"h", {2, 3}, at::kFloat}, {"alpha", {}, at::kFloat}, {"v", {3}, at::kFloat}});
  ASSERT_TRUE(program.ok()) << program.error().message;
  const at::Tensor h = at::randn({2, 3});
  const at::Tensor v = at::randn({3});
  const auto result = program.value().run({h, at::scalar_tensor(0.5), v});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(at::equal(result.value(), h + at::scalar_tensor(0.5) * v));
}

TEST(Program, RefusesInputsOfAnotherShapeDtypeOrNumber) {
  const auto program = check("data.mean(-1)");
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program.value().run({}).error().code, "invalid_argument");
  EXPECT_EQ(program.value().run({at::Tensor()}).error().code, "invalid_argument");
  EXPECT_EQ(program.value().run({at::zeros({2, 3, 5}, at::kDouble)}).error().code,
            "invalid_argument");
  const auto wrong_dtype = program.value().run({at::zeros({2, 3, 4})});
  EXPECT_EQ(wrong_dtype.error().code, "invalid_argument");
  EXPECT_THAT(wrong_dtype.error().message,
              HasSubstr("was checked with shape [2, 3, 4] and dtype Double and came with shape "
                        "[2, 3, 4] and dtype Float"));
}

TEST(Program, AnExceptionOfARunIsAnError) {
  const auto program = Program::check(
      "data.gather(-1, index)", {{"data", {2, 3}, at::kDouble}, {"index", {2, 1}, at::kLong}});
  ASSERT_TRUE(program.ok()) << program.error().message;
  const auto result =
      program.value().run({at::zeros({2, 3}, at::kDouble), at::full({2, 1}, 9, at::kLong)});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, "expression_failed");
  EXPECT_THAT(result.error().message, HasSubstr("out of bounds"));
  EXPECT_THAT(result.error().message, testing::Not(HasSubstr(".cpp")));
  EXPECT_THAT(result.error().message, testing::Not(HasSubstr("\n")));
}

TEST(FirstSentence, HasNoPathsAndNoStack) {
  const auto shown = [](const char* text) { return first_sentence(std::runtime_error(text)); };
  EXPECT_EQ(shown("Bad shape. Try another.\nException raised from f at /a/b.cpp:3"), "Bad shape");
  EXPECT_EQ(shown("Bad shape\nframe #0: f"), "Bad shape");
  EXPECT_EQ(shown("bad value at /a/b.cpp:3"), "bad value");
  EXPECT_EQ(shown("expected 0.5 but got 1.5."), "expected 0.5 but got 1.5");
  EXPECT_EQ(shown(""), "libtorch refused the call");
}

TEST(Program, TouchesNeitherInputsNorGradients) {
  const auto program = check("data.relu().clamp(min=0.5) + data.detach().sort().values");
  ASSERT_TRUE(program.ok());
  const at::Tensor data = at::randn({2, 3, 4}, at::kDouble).requires_grad_(true);
  const at::Tensor before = data.detach().clone();
  const auto version = data._version();
  const auto result = program.value().run({data});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result.value().requires_grad());
  EXPECT_TRUE(at::equal(data.detach(), before));
  EXPECT_EQ(data._version(), version);
  EXPECT_TRUE(data.requires_grad());
  EXPECT_FALSE(check("data").value().run({data}).value().requires_grad());
}

TEST(Program, CopiesShareOnePlanAndRepeatBitForBit) {
  const auto program =
      check("(data * 3).softmax(-1).cumsum(-1) + tensor([1.0, 2, 3, 4]) + data[..., [0, 0, 1, 2]]");
  ASSERT_TRUE(program.ok()) << program.error().message;
  const Program copy = program.value();  // NOLINT(performance-unnecessary-copy-initialization)
  const at::Tensor data = at::randn({2, 3, 4}, at::kDouble);
  const auto first = program.value().run({data});
  const auto second = copy.run({data});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(at::equal(first.value(), second.value()));
}

// The smallest integer by -1.
TEST(Program, DividesAnyIntegers) {
  for (const char* quotient : {"a // -1", "a % -1", "fmod(a, -1)", "a / -1", "a // a", "-1 % a",
                               "torch.div(a, -1, rounding_mode='floor')",
                               "torch.div(a.double(), -1, rounding_mode='trunc')"}) {
    for (const at::ScalarType dtype : {at::kLong, at::kInt}) {
      const at::Tensor a = at::full({40}, dtype == at::kLong ? INT64_MIN : INT32_MIN, dtype);
      const auto program = Program::check(quotient, {{"a", {40}, a.scalar_type()}});
      ASSERT_TRUE(program.ok()) << program.error().message;
      EXPECT_TRUE(program.value().run({a}).ok()) << quotient << " of " << dtype;
    }
  }
}

TEST(Program, HasTheSameBitsOnSeveralThreads) {
  const auto program = check("data.sum() + data.std() + (data * data).mean()", {1 << 18});
  ASSERT_TRUE(program.ok()) << program.error().message;
  const at::Tensor data = at::randn({1 << 18}, at::kDouble);
  const int before = at::get_num_threads();
  std::vector<double> sums;
  for (const int threads : {1, 2, 3, 4}) {
    at::set_num_threads(threads);
    sums.push_back(program.value().run({data}).value().item<double>());
    EXPECT_EQ(at::get_num_threads(), threads);
  }
  at::set_num_threads(before);
  EXPECT_THAT(sums, testing::Each(sums.front()));
}

TEST(Program, FoldsWhatItKnows) {
  const auto program =
      Program::check("data + (vector * 3).sum() * vector[0]",
                     {{"data", {2, 3}, at::kDouble}, {"vector", {3}, at::kDouble}});
  ASSERT_TRUE(program.ok()) << program.error().message;
  const at::Tensor data = at::randn({2, 3}, at::kDouble);
  const at::Tensor vector = at::randn({3}, at::kDouble);
  const auto expected = program.value().run({data, vector});
  const Program folded = program.value().fold({at::Tensor(), vector.clone()});
  const auto all = program.value().fold({data, vector});
  const auto result = folded.run({data, at::zeros_like(vector)});
  ASSERT_TRUE(expected.ok() && result.ok()) << result.error().message;
  EXPECT_TRUE(at::equal(result.value(), expected.value()));
  EXPECT_TRUE(at::equal(all.run({data, vector}).value(), expected.value()));
  EXPECT_TRUE(at::equal(program.value().run({data, vector}).value(), expected.value()));
}

TEST(Program, LeavesWhatFailsToTheRun) {
  const auto program = Program::check(
      "data + vector.gather(-1, index)",
      {{"data", {2}, at::kDouble}, {"vector", {3}, at::kDouble}, {"index", {2}, at::kLong}});
  ASSERT_TRUE(program.ok()) << program.error().message;
  const at::Tensor vector = at::zeros({3}, at::kDouble);
  const at::Tensor index = at::full({2}, 9, at::kLong);
  const Program folded = program.value().fold({at::Tensor(), vector, index});
  const auto result = folded.run({at::zeros({2}, at::kDouble), vector, index});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, "expression_failed");
}

TEST(Program, ShowsWhereTheMistakeIs) {
  const auto program = check("data.maen(dim=-1)");
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().code, "invalid_expression");
  EXPECT_EQ(program.error().where, "line 1, column 6");
  EXPECT_EQ(program.error().message,
            "there is no \"maen\", did you mean \"mean\"? (line 1, column 6)\n"
            "  data.maen(dim=-1)\n"
            "       ^~~~");
}

}  // namespace
}  // namespace tt::eval
