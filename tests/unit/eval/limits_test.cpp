// Each limit at its edge and one past it; and hostile texts cost neither time nor memory.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tensor_tracer/eval/program.h"

namespace tt::eval {
namespace {

using testing::HasSubstr;

std::string problem(const std::string& text, const Limits& limits,
                    std::vector<std::int64_t> shape) {
  const auto program = Program::check(text, {{"data", std::move(shape), at::kDouble}}, limits);
  return program.ok() ? "" : program.error().message;
}

TEST(EvalLimits, Rank) {
  const Limits limits{.max_rank = 3};
  EXPECT_EQ(problem("data[None]", limits, {2, 2}), "");
  EXPECT_THAT(problem("data[None, None]", limits, {2, 2}),
              HasSubstr("4 dimensions, the limit is 3"));
  EXPECT_EQ(problem("tensor([[[1]]]).sum()", limits, {}), "");
  EXPECT_THAT(problem("tensor([[[[1]]]]).sum()", limits, {}),
              HasSubstr("4 dimensions, the limit is 3"));
  EXPECT_THAT(problem("data", limits, {1, 1, 1, 1}), HasSubstr("too large"));
}

TEST(EvalLimits, ResultElements) {
  const Limits limits{.max_result_elements = 12};
  EXPECT_EQ(problem("data.repeat(2)", limits, {6}), "");
  EXPECT_EQ(problem("data.repeat(3).sum()", limits, {6}), "");
  EXPECT_THAT(problem("data.repeat(3)[:13]", limits, {6}),
              HasSubstr("the result has 13 elements, the limit is 12"));
}

TEST(EvalLimits, IntermediateElements) {
  const Limits limits{.max_intermediate_elements = 8};
  EXPECT_EQ(problem("data.repeat(2).sum()", limits, {4}), "");
  EXPECT_THAT(problem("data.repeat(3).sum()", limits, {4}),
              HasSubstr("12 elements, the limit is 8"));
  EXPECT_THAT(problem("data.expand(3, 4).sum()", limits, {4}), HasSubstr("12 elements"));
  EXPECT_THAT(problem("data[..., [0, 0, 0, 0, 0, 0, 0, 0, 0]].sum()", limits, {4}),
              HasSubstr("9 elements"));
  EXPECT_EQ(problem("data", limits, {8}), "");
  EXPECT_THAT(problem("data", limits, {9}), HasSubstr("too large"));
  EXPECT_THAT(problem("data", limits, {9}), HasSubstr("  data\n  ^~~~")) << "the place is shown";
}

// What an operator makes for itself counts too.
TEST(EvalLimits, ScratchElements) {
  const std::string cosine = "torch.cosine_similarity(data[:, None], data[None], dim=-1)";
  EXPECT_EQ(problem(cosine, {.max_intermediate_elements = 36}, {3, 4}), "");
  EXPECT_THAT(problem(cosine, {.max_intermediate_elements = 35}, {3, 4}),
              HasSubstr("works on 36 elements at one time, the limit is 35"));
  const std::string product = "(data[:, None, None] @ data[None, :, :, None]).sum()";
  EXPECT_EQ(problem(product, {.max_intermediate_elements = 36}, {3, 4}), "");
  EXPECT_THAT(problem(product, {.max_intermediate_elements = 35}, {3, 4}),
              HasSubstr("works on 36 elements"));
}

TEST(EvalLimits, LiveBytes) {
  // data + 1 holds 32 bytes, and its sum 8 more.
  EXPECT_EQ(problem("(data + 1).sum()", {.max_live_bytes = 40}, {4}), "");
  EXPECT_THAT(problem("(data + 1).sum()", {.max_live_bytes = 39}, {4}),
              HasSubstr("holds 40 bytes at one time, the limit is 39"));
  EXPECT_EQ(problem("data.unflatten(0, (2, 2)).mT", {.max_live_bytes = 0}, {4}), "");
}

// A view keeps all of the memory that it is a part of, and so does what may be a view.
TEST(EvalLimits, LiveBytesOfViews) {
  // Three values of 32 bytes stay until they are stacked to 24 more.
  const std::string parts = "stack([(data + 1)[0], (data + 2)[0], (data + 3)[0]]).sum()";
  EXPECT_EQ(problem(parts, {.max_live_bytes = 120}, {4}), "");
  EXPECT_THAT(problem(parts, {.max_live_bytes = 119}, {4}), HasSubstr("holds 120 bytes"));
  for (const char* part : {"contiguous()", "reshape(1)", "to(torch.float64)", "flatten()"}) {
    const std::string kept = std::string("(data + 1)[:1].") + part + " + (data + 2)[0] + data[0]";
    EXPECT_THAT(problem(kept, {.max_live_bytes = 71}, {4}), HasSubstr("bytes at one time")) << part;
  }
  const std::string copied = "(data + 1)[:1].float() + (data + 2)[0].float()";
  EXPECT_EQ(problem(copied, {.max_live_bytes = 71}, {4}), "") << "another dtype is a copy";
  std::string large = "ones([134217728], dtype=torch.float64)[:1]";
  for (int i = 0; i < 24; ++i) large += ", ones([134217728], dtype=torch.float64)[:1]";
  EXPECT_THAT(problem("stack([" + large + "]).sum()", {}, {}), HasSubstr("bytes at one time"));
}

// Two of what diff joins and goes over, beside its result.
TEST(EvalLimits, LiveBytesOfScratch) {
  EXPECT_EQ(problem("data.diff(n=2)", {.max_live_bytes = 80}, {4}), "");
  EXPECT_THAT(problem("data.diff(n=2)", {.max_live_bytes = 79}, {4}), HasSubstr("holds 80 bytes"));
}

// What makes one number of all is tried on one zero; along a dimension, on so many as it has.
TEST(EvalLimits, TriedElements) {
  EXPECT_EQ(problem("data.max()", {.max_tried_elements = 1}, {64}), "");
  EXPECT_EQ(problem("data.median(0).values", {.max_tried_elements = 4}, {4, 64}), "");
  EXPECT_THAT(problem("data.median(0).values", {.max_tried_elements = 3}, {4, 64}),
              HasSubstr("tried on 4 zeros, the limit is 3"));
}

TEST(EvalLimits, Parts) {
  const Limits limits{.max_parts = 3};
  EXPECT_EQ(problem("data.unbind(0)[0]", limits, {3}), "");
  EXPECT_THAT(problem("data.unbind(0)[0]", limits, {4}), HasSubstr("4 tensors, the limit is 3"));
  EXPECT_EQ(problem("data.split(2)[0]", limits, {6}), "");
  EXPECT_THAT(problem("data.split(2)[0]", limits, {8}), HasSubstr("4 tensors"));
  EXPECT_THAT(problem("data.split(2)[0]", limits, {7}), HasSubstr("4 tensors"));
  EXPECT_EQ(problem("data.tensor_split((1, 2))[0]", limits, {7}), "");
  EXPECT_THAT(problem("data.tensor_split((1, 2, 3))[0]", limits, {7}), HasSubstr("4 tensors"));
  EXPECT_EQ(problem("data.chunk(3)[0]", limits, {8}), "");
  EXPECT_THAT(problem("data.chunk(4)[0]", limits, {8}), HasSubstr("4 tensors"));
}

TEST(EvalLimits, Cost) {
  EXPECT_EQ(problem("data + 1", {.max_cost = 8}, {8}), "");
  EXPECT_THAT(problem("data + 1", {.max_cost = 7}, {8}),
              HasSubstr("8 element operations, the limit is 7"));
  EXPECT_EQ(problem("data @ data", {.max_cost = 64}, {4, 4}), "");
  EXPECT_THAT(problem("data @ data", {.max_cost = 63}, {4, 4}), HasSubstr("64 element operations"));
  EXPECT_EQ(problem("data.median()", {.max_cost = 24}, {8}), "");
  EXPECT_THAT(problem("data.median()", {.max_cost = 23}, {8}), HasSubstr("24 element operations"));
  EXPECT_THAT(problem("data + 1 + 1 + 1", {.max_cost = 23}, {8}), HasSubstr("column 14"));
  EXPECT_EQ(problem("data[:1].diff(n=7, append=data)", {.max_cost = 63}, {8}), "");
  EXPECT_THAT(problem("data[:1].diff(n=7, append=data)", {.max_cost = 62}, {8}),
              HasSubstr("63 element operations"));
}

TEST(EvalLimits, TextLimitsComeFirst) {
  const auto program =
      Program::check("data + 1", {{"data", {4}, at::kDouble}}, {.text = {.max_source_bytes = 7}});
  EXPECT_THAT(program.error().message, HasSubstr("8 bytes, the limit is 7"));
}

constexpr const char* kHostile[] = {
    "zeros(1000000000000)",
    "ones(1000000, 1000000)",
    "arange(10**12)",
    "arange(0, 1, 1e-18)",
    "linspace(0, 1, 10**10)",
    "eye(10**7)",
    "full((10**6, 10**6), 1).median()",
    "data.repeat(10**6, 10**6)",
    "data.repeat(10**18, 10**18, 10**18)",
    "data.tile((10**9,))",
    "data.repeat_interleave(10**12)",
    "data[0, 0].expand(2**31, 2**31, 64).std()",
    "data[0, 0].expand(10**8, 64).std()",
    "data[0, 0].expand(10**7, 64).sort().values",
    "data.index_select(-1, zeros(10**8).long())",
    "data[..., None] * data.flatten()[:, None, None, None, None]",
    "data.view(-1, 1) @ data.view(1, -1)",
    "where(data.view(-1, 1) > 0, data.view(1, -1), 0.0)",
    "data.quantile(linspace(0, 1, 10**7).double(), dim=-1)",
    "torch.linalg.norm(data[0].expand(512, 64, 64).reshape(2048, 1024), 'nuc')",
    "data.unbind(-1)[0].unsqueeze(-1).expand(64, 64, 10**6).unbind(-1)[0]",
    "data.chunk(10**9, -1)[0].expand(10**9, 64, 64, 1)",
    "data.kthvalue(10**9).values",
    "data.topk(10**9).values",
    "data.diff(n=10**9)",
    "data[0, 0, :1].diff(n=16000000, append=zeros([16000000], dtype=torch.float64)).sum()",
    "data.view(10**9, -1)",
    "data.narrow(0, 0, 10**9)",
    "data.unflatten(0, (10**9, -1))",
    "torch.cosine_similarity(data.view(-1, 1, 1), data.view(1, -1, 1), dim=-1)",
    "torch.dist(data.view(-1, 1), data.view(1, -1))",
    "data.roll((10**9, 1, 1), (0, 1, 7))",
};

TEST(EvalLimits, HostileTextsAreRefusedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  for (const char* text : kHostile) EXPECT_NE(problem(text, {}, {64, 64, 64}), "") << text;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 20);
}

}  // namespace
}  // namespace tt::eval
