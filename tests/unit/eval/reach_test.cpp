// Program::acts_on_last_dim_only: true only where the structure proves it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tensor_tracer/eval/program.h"

namespace tt::eval {
namespace {

constexpr const char* kLocal[] = {
    "data",
    "data.mean(-1)",
    "data.abs().amax(dim=-1)",
    "data.mean(dim=2, keepdim=True)",
    "data - data.mean(-1, keepdim=True)",
    "(data - data.mean(-1, keepdim=True)) / data.std(-1, keepdim=True)",
    "data.softmax(-1).max(dim=-1).values",
    "data.cumsum(-1)",
    "data.sort(dim=-1).indices",
    "data.topk(2).values",
    "data.quantile(0.5, dim=-1)",
    "data.norm(dim=-1)",
    "data.norm(p=1, dim=(-1,))",
    "data[..., 0]",
    "data[..., 1:]",
    "data[:, :, -1]",
    "data[..., [0, 2]]",
    "data[..., None, :]",
    "data[..., 1:] - data[..., :-1]",
    "torch.where(data > 0, data, 0.0)",
    "(data > 0).float().mean(-1)",
    "data.mean(-1) * 2 + data.amax(-1)",
    "data * arange(6)",
    "data.mean(-1) * data.size(-1)",
    "data.sum(-1) / data.shape[-1]",
    "data.sum(-1) / data.shape[2]",
    "data.clamp(min=tensor(0.5))",
    "zeros_like(data)",
    "data.roll(1, -1)",
    "data.chunk(2, dim=-1)[0].sum(-1)",
    "data.unflatten(-1, (2, 3)).mean(-1)",
    "torch.cosine_similarity(data, data * 2, dim=-1)",
};

constexpr const char* kNotLocal[] = {
    "data.mean()",
    "data.mean(0)",
    "data.mean(1)",
    "data.mean(dim=(-1, -2))",
    "data.mean(-1).mean(-1)",
    "data - data.mean()",
    "data - data.max()",
    "data.std()",
    "data.norm()",
    "data.argmax()",
    "data.softmax(0)",
    "data.cumsum(1)",
    "data.quantile(0.5)",
    "data.quantile(tensor([0.5, 0.6], dtype=torch.float64), dim=-1)",
    "data.roll(1)",
    "data.roll(1, 0)",
    "data[0]",
    "data[:, 0]",
    "data[:2]",
    "data[:, 1:]",
    "data[None]",
    "data.view(5, 6, 4)",
    "data.reshape(4, 5, 6)",
    "data.flatten(1)",
    "data.transpose(0, 1)",
    "data.transpose(0, 1).mean(-1)",
    "data.permute(2, 0, 1)",
    "data.flip((0,))",
    "data @ data.mT",
    "cat([data, data], -1)",
    "stack([data, data])",
    "data.expand(4, 5, 6)",
    "data.mean(-1) * data.size(0)",
    "data.mean(-1) * data.size(1)",
    "data.mean(-1) / data.shape[1]",
    "data.mean(-1) / data.shape[-2]",
    "data.mean(-1) / data.numel()",
    "data * data.shape[:2][0]",
    "data * data[0, 0, 0]",
    "data.mean(-1) * data[0].sum()",
    "data + arange(5).view(5, 1)",
    "data.mean(-1) + arange(5)",
    "data + zeros(4, 1, 1)",
    "arange(6)",
    "zeros(4, 5)",
    "data.repeat_interleave(2)",
    "data.squeeze()",
    "torch.gather(data, 0, zeros(1, 5, 6).long())",
    "torch.cosine_similarity(data, data)",
};

bool is_local(const char* text, std::vector<std::int64_t> shape) {
  const auto program = Program::check(text, {{"data", std::move(shape), at::kDouble}});
  EXPECT_TRUE(program.ok()) << text << "\n" << program.error().message;
  return program.ok() && program.value().acts_on_last_dim_only(0);
}

TEST(Reach, SeesWhatLooksAtItsOwnTileOnly) {
  for (const char* text : kLocal) EXPECT_TRUE(is_local(text, {4, 5, 6})) << text;
}

TEST(Reach, LetsNothingElsePass) {
  for (const char* text : kNotLocal) EXPECT_FALSE(is_local(text, {4, 5, 6})) << text;
}

TEST(Reach, EqualSizesDeceiveNobody) {
  // [4, 4] against [4, 4, 4] broadcasts tile on line, not tile on tile.
  EXPECT_FALSE(is_local("data - data.mean(-1)", {4, 4, 4}));
  EXPECT_FALSE(is_local("data * arange(4).view(4, 1)", {4, 4, 4}));
  EXPECT_FALSE(is_local("data.mean(-1) * arange(4)", {4, 4, 4}));
  EXPECT_FALSE(is_local("data.mT", {4, 4, 4}));
}

TEST(Reach, IsForLinesTilesAndWidthOnly) {
  EXPECT_FALSE(is_local("data.mean(-1)", {4, 5}));
  EXPECT_FALSE(is_local("data.mean(-1)", {3, 4, 5, 6, 7}));
}

TEST(Reach, RowsMayStandBeforeTheLines) {
  for (const char* text : {"data.mean(-1)", "data.mean(dim=3)", "data[:, :, :, 0]",
                           "data - data.mean(-1, keepdim=True)", "data.sum(-1) / data.shape[3]"})
    EXPECT_TRUE(is_local(text, {3, 4, 5, 6})) << text;
  for (const char* text : {"data.mean(1)", "data.mean(2)", "data.mean(-2)", "data[:, :, 0]",
                           "data.mean(-1) + arange(5)", "data + arange(30).view(5, 6)",
                           "data.sum(-1) / data.shape[2]"})
    EXPECT_FALSE(is_local(text, {3, 4, 5, 6})) << text;
}

TEST(Reach, IsToldForEachInput) {
  const auto program =
      Program::check("data * vector + other.mean()", {{"data", {4, 5, 6}, at::kDouble},
                                                      {"vector", {6}, at::kDouble},
                                                      {"other", {2, 2, 2}, at::kDouble}});
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_TRUE(program.value().acts_on_last_dim_only(0));
  EXPECT_FALSE(program.value().acts_on_last_dim_only(1));
  EXPECT_FALSE(program.value().acts_on_last_dim_only(2));
}

// The promise itself: a subset of the tiles gives the same bits as the whole.
TEST(Reach, APieceGivesThePieceOfTheWhole) {
  const at::Tensor data = at::randn({4, 5, 6}, at::kDouble);
  const at::Tensor piece = data.slice(0, 1, 3).slice(1, 2, 5).contiguous();
  for (const char* text : kLocal) {
    const auto whole = Program::check(text, {{"data", {4, 5, 6}, at::kDouble}});
    const auto part = Program::check(text, {{"data", {2, 3, 6}, at::kDouble}});
    ASSERT_TRUE(whole.ok() && part.ok()) << text;
    const auto expected = whole.value().run({data});
    const auto actual = part.value().run({piece});
    ASSERT_TRUE(expected.ok() && actual.ok()) << text;
    EXPECT_TRUE(at::equal(expected.value().slice(0, 1, 3).slice(1, 2, 5), actual.value())) << text;
  }
}

}  // namespace
}  // namespace tt::eval
