// The first rule of the project: what leaves a compressor does not depend on the mesh.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/unit/trace/packing_fixture.h"

namespace tt::trace {
namespace {

using namespace packing;

const std::vector<json> kCompressors = {
    {{"kind", "none"}},
    {{"kind", "tile"}, {"tiles", 1}},
    {{"kind", "tile"}, {"tiles", 7}},
    {{"kind", "tile"}, {"tiles", 64}, {"method", "sum"}},
    {{"kind", "tile"}, {"tiles", 96}},
    {{"kind", "tile"}, {"tiles", 96}, {"method", "absmax"}},
    {{"kind", "tile"}, {"tiles", 30}, {"method", "data.abs().amax(dim=-1)"}},
    {{"kind", "tile"}, {"tiles", 96}, {"method", "(data.tanh() * data.exp()).std(dim=-1)"}},
    {{"kind", "tile"}, {"tiles", 5}, {"method", "data.norm(dim=-1) / data.mean(-1)"}},
    {{"kind", "tile"}, {"tiles", 1}, {"method", "data.logsumexp(dim=-1)"}},
    {{"kind", "tile"}, {"tiles", 8}, {"method", "data.mean(-1) - data.mean(-1).mean()"}},
    {{"kind", "tile"}, {"tiles", 4}, {"method", "data.flatten(1).topk(3).values"}},
    {{"kind", "stats"}},
    {{"kind", "stats"}, {"range", {-3, 3}}, {"bins", 10}},
    {{"kind", "projection"}, {"vectors", {"a", "b"}}},
    {{"kind", "projection"}, {"vectors", {"b"}}, {"normalize", false}},
    {{"kind", "projection"}, {"vectors", {"b", "a"}}, {"cosine", true}},
    {{"kind", "topk"}, {"k", 5}},
    {{"kind", "topk"}, {"k", 5}, {"vocabulary", true}},
    {{"kind", "topk"}, {"k", 3}, {"vocabulary", true}},
    {{"kind", "outliers"}, {"k", 5}},
    {{"kind", "top_tokens"}, {"columns", {5, 0, 77}}},
    {{"kind", "top_tokens"}, {"vectors", {"b", "a"}}},
    {{"kind", "empty"}},
};

TEST(Packing, ADeviceWithoutAKernelIsRefusedByTheNamesOfCompressorAndDevice) {
  const at::Tensor on_meta = at::empty({1, 3, 96}, at::TensorOptions(at::kMeta));
  const LogicalShape shape = logical_shape(on_meta, mesh::Placement::replicate(), 1, {});
  for (const json& compressor : kCompressors) {
    const auto packing = parsed(compressor, shape)->packing(shape, false);
    std::vector<std::byte> part(packing->part_bytes(0));
    try {
      packing->pack({1}, 0, on_meta, part);
      ADD_FAILURE() << compressor << " was packed";
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      // An expression that looks beyond its tile is evaluated by the leader: the columns travel.
      const bool names =
          text.find('"' + compressor["kind"].get<std::string>() + '"') != text.npos ||
          text.find("\"none\"") != text.npos || text.find("\"projection\"") != text.npos;
      EXPECT_TRUE(names && text.find("device meta") != text.npos) << compressor << ": " << text;
    }
  }
}

TEST(Packing, AnIndexBeyondTheDataNamesTheExpressionAndTheRemedy) {
  const Layout whole{"whole", 0, {96}, 0};
  for (const std::string method :
       {"data.gather(-1, (data * 0 + 1e6).long()).sum(-1)",
        "data.flatten(1).gather(1, (data.flatten(1) * 0 + 1e6).long())"}) {
    const json compressor = {{"kind", "tile"}, {"tiles", 8}, {"method", method}};
    try {
      traced_on(normal({1, 3, 96}, at::kFloat), whole, 1, {compressor});
      ADD_FAILURE() << method << " was evaluated";
    } catch (const std::exception& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find('"' + method + '"'), std::string::npos) << text;
      EXPECT_NE(text.find("clamp()"), std::string::npos) << text;
      EXPECT_EQ(text.find(".cpp"), std::string::npos) << text;
    }
  }
}

// An expression that looks beyond its tile needs tiles of equal width.
bool fits(const json& compressor, std::int64_t features) {
  const bool looks_beyond = compressor.value("method", "").find("mean()") != std::string::npos ||
                            compressor.value("method", "").find("topk") != std::string::npos;
  return !looks_beyond || features % compressor["tiles"].get<std::int64_t>() == 0;
}

void expect_invariant(const Layout& layout, std::int64_t lines, std::int64_t features,
                      const Traced& window) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    at::Tensor whole = normal({2, lines, features}, dtype);
    whole[0][lines / 2][features / 3] = -0.0;
    whole[1][lines - 1][features - 1] = std::numeric_limits<double>::quiet_NaN();
    whole[1][0][features / 2] = -std::numeric_limits<double>::infinity();
    for (const json& compressor : kCompressors) {
      if (!fits(compressor, features)) continue;
      const Traced wanted{compressor, window.first_line, window.last_line};
      const at::Tensor expected = traced_on(whole, layout, 1, wanted);
      for (const int ranks : {2, 4, 8}) {
        EXPECT_TRUE(same_bits(traced_on(whole, layout, ranks, wanted), expected))
            << layout.name << ", " << lines << " lines, " << ranks << " ranks, " << compressor;
      }
    }
  }
}

TEST(Packing, IsTheSameBitForBitHoweverColumnsAreCut) {
  const Layout layouts[] = {{"plain 768", 2, {768}, 0},
                            {"plain 1000", 2, {1000}, 0},
                            {"plain 4096", 2, {4096}, 0},
                            {"gate and up 2 x 14336", 2, {14336, 14336}, 0},
                            {"multi-head", 2, {512, 512, 512}, 8},
                            {"grouped, 4 groups", 2, {1024, 128, 128}, 4},
                            {"grouped, 2 groups of 100", 2, {1000, 200, 200}, 2},
                            {"multi-query", 2, {1024, 64, 64}, 1}};
  for (const Layout& layout : layouts) expect_invariant(layout, 3, layout.size(), {});
}

TEST(Packing, IsTheSameBitForBitForAllShards) {
  for (const std::int64_t lines : {1, 7, 64, 96})
    for (const std::int64_t features : {768, 1000})
      expect_invariant({"lines", 1, {lines}, 0}, lines, features, {});
}

TEST(Packing, IsTheSameBitForBitIfARankHasLinesOfSeveralBlocks) {
  for (const std::int64_t lines : {16, 96})
    expect_invariant({"zigzag", 1, {lines}, 0, true}, lines, 384, {});
  expect_invariant({"zigzag", 1, {96}, 0, true}, 96, 384, {{}, 5, 61});
}

TEST(Packing, IsTheSameBitForBitIfRanksShareLinesAndColumns) {
  for (const int contexts : {2, 4}) {
    expect_invariant({"columns of lines", 2, {384}, 0, false, contexts}, 64, 384, {});
    expect_invariant({"two segments", 2, {256, 128}, 0, false, contexts}, 96, 384, {{}, 5, 61});
  }
}

TEST(Packing, IsTheSameBitForBitForEveryNumberOfLinesAndColumns) {
  for (const std::int64_t lines : {1, 7, 64, 96}) {
    for (const std::int64_t features : {768, 1000, 4096, 14336}) {
      const at::Tensor whole = normal({1, lines, features}, at::kFloat);
      const Layout layout{"columns", 2, {features}, 0};
      for (const json& compressor : kCompressors) {
        if (!fits(compressor, features)) continue;
        const at::Tensor expected = traced_on(whole, layout, 1, {compressor});
        for (const int ranks : {2, 8}) {
          EXPECT_TRUE(same_bits(traced_on(whole, layout, ranks, {compressor}), expected))
              << lines << " x " << features << ", " << ranks << " ranks, " << compressor;
        }
      }
    }
  }
}

TEST(Packing, WindowOfLinesIsTheSameBitForBit) {
  expect_invariant({"columns", 2, {768}, 0}, 64, 768, {{}, 5, 41});
  expect_invariant({"lines", 1, {64}, 0}, 64, 768, {{}, 5, 41});
  expect_invariant({"whole", 0, {768}, 0}, 64, 768, {{}, 5, 41});
}

TEST(Packing, PartialSumsAreAdded) {
  // Keys of two groups on four ranks: neighbours hold partial sums of one group's gradient.
  mesh::Placement keys = mesh::Placement::shard(2, {{64, 4}, {96, 2, true}});
  for (const mesh::Placement& placement : {keys, mesh::Placement::partial()}) {
    const at::Tensor whole = normal({2, 5, 160}, at::kDouble);
    std::vector<at::Tensor> locals;
    at::Tensor rest = whole;
    for (int rank = 0; rank < 4; ++rank) {
      if (placement.kind == mesh::Placement::Kind::kPartial) {
        const at::Tensor partial = rank == 3 ? rest : normal({2, 5, 160}, at::kDouble, 20 + rank);
        locals.push_back(partial);
        rest = rest - partial;
        continue;
      }
      at::Tensor local = shard_of(whole, placement, rank, 4).clone();
      const at::Tensor half = local.narrow(2, 16, 48);
      half.mul_(rank % 2 == 0 ? 0.25 : 0.75);
      locals.push_back(local);
    }
    for (const json& compressor : kCompressors) {
      if (!fits(compressor, 160)) continue;
      const at::Tensor one = traced(
          {whole}, logical_shape(whole, mesh::Placement::replicate(), 1, {compressor}), compressor);
      const at::Tensor sum =
          traced(locals, logical_shape(whole, placement, 4, {compressor}), compressor);
      EXPECT_TRUE(at::allclose(sum, one, 1e-9, 1e-12, /*equal_nan=*/true)) << compressor;
    }
  }
}

TEST(Packing, ConstantInConstantOut) {
  const at::Tensor ones = at::ones({1, 2, 14336}, at::kFloat);
  for (const int ranks : {1, 2, 8}) {
    for (const std::int64_t tiles : {64, 96, 1000}) {
      const Traced wanted{{{"kind", "tile"}, {"tiles", tiles}}};
      EXPECT_TRUE(at::equal(traced_on(ones, {"", 2, {14336}, 0}, ranks, wanted),
                            at::ones({1, 2, tiles}, at::kFloat)));
    }
  }
}

TEST(Packing, TilesHaveTheirTrueWidth) {
  const at::Tensor whole = normal({2, 3, 1000}, at::kDouble);
  const at::Tensor traced_tiles =
      traced_on(whole, {"", 2, {1000}, 0}, 4, {{{"kind", "tile"}, {"tiles", 96}}});
  for (std::int64_t tile = 0; tile < 96; ++tile) {
    const std::int64_t begin = tile * 1000 / 96, end = (tile + 1) * 1000 / 96;
    EXPECT_TRUE(at::allclose(traced_tiles.select(-1, tile),
                             whole.narrow(-1, begin, end - begin).mean(-1), 1e-12, 1e-14));
  }
}

TEST(Packing, ExpressionsSeeTheirTileOrTheWholeTensor) {
  const at::Tensor whole = normal({2, 3, 1000}, at::kDouble);
  const Layout columns{"", 2, {1000}, 0};
  const at::Tensor deviation = traced_on(
      whole, columns, 4, {{{"kind", "tile"}, {"tiles", 100}, {"method", "data.std(dim=-1)"}}});
  EXPECT_TRUE(at::allclose(deviation, whole.view({2, 3, 100, 10}).std(-1), 1e-12, 1e-14));
  const at::Tensor centred =
      traced_on(whole, columns, 4,
                {{{"kind", "tile"}, {"tiles", 10}, {"method", "data.mean(-1) - data.mean()"}}});
  EXPECT_TRUE(
      at::allclose(centred, whole.view({2, 3, 10, 100}).mean(-1) - whole.mean(), 1e-12, 1e-14));
  const at::Tensor scalar = traced_on(
      whole, columns, 2, {{{"kind", "tile"}, {"tiles", 1}, {"method", "data.abs().max()"}}});
  EXPECT_EQ(scalar.dim(), 0);
  EXPECT_EQ(scalar.item<double>(), whole.abs().max().item<double>());
}

TEST(Packing, ExpressionsOfFourDimsSeeRowsAndLines) {
  const at::Tensor whole = normal({2, 3, 1000}, at::kDouble);
  const Layout columns{"", 2, {1000}, 0};
  const auto traced_by = [&](const char* method) {
    return traced_on(whole, columns, 4,
                     {{{"kind", "tile"}, {"tiles", 100}, {"method", method}, {"data_dims", 4}}});
  };
  const at::Tensor data = whole.view({2, 3, 100, 10});
  for (const char* method : {"data.std(dim=3)", "data.std(dim=-1)"}) {
    const at::Tensor deviation = traced_by(method);
    EXPECT_EQ(deviation.sizes(), (std::vector<std::int64_t>{2, 3, 100})) << method;
    EXPECT_TRUE(at::allclose(deviation, data.std(-1), 1e-12, 1e-14)) << method;
  }
  EXPECT_TRUE(at::allclose(traced_by("data.mean(dim=1)"), data.mean(1), 1e-12, 1e-14));
  EXPECT_TRUE(at::equal(traced_by("data[0]"), data[0]));
}

TEST(Packing, ExpressionsRefuseWidthsThatTheyWereNotCheckedFor) {
  const mesh::Placement all = mesh::Placement::replicate();
  const LogicalShape checked = logical_shape(normal({2, 3, 64}, at::kFloat), all, 1, {});
  const LogicalShape other = logical_shape(normal({2, 3, 50}, at::kFloat), all, 1, {});
  for (const char* method : {"data - data.mean()", "data[..., 3:]", "data[..., 3]"}) {
    const auto compressor = parsed({{"kind", "tile"}, {"tiles", 16}, {"method", method}}, checked);
    EXPECT_NO_THROW(compressor->packing(checked, false)) << method;
    EXPECT_THROW(compressor->packing(other, false), base::CheckError) << method;
  }
}

TEST(Packing, TopKIsThatOfATen) {
  const at::Tensor whole = normal({2, 3, 1000}, at::kFloat);
  const at::Tensor top = traced_on(whole, {"", 2, {1000}, 0}, 8, {{{"kind", "topk"}, {"k", 10}}});
  const auto [values, columns] = whole.topk(10, -1);
  EXPECT_TRUE(at::equal(top[0], values));
  EXPECT_TRUE(at::equal(top[1], columns.to(at::kFloat)));
}

TEST(Packing, OutliersAreTheLargestMagnitudesWithTheirSigns) {
  const at::Tensor whole = normal({2, 3, 1000}, at::kFloat);
  const at::Tensor found =
      traced_on(whole, {"", 2, {1000}, 0}, 8, {{{"kind", "outliers"}, {"k", 10}}});
  const at::Tensor columns = std::get<1>(whole.abs().topk(10, -1));
  EXPECT_TRUE(at::equal(found[0], whole.gather(-1, columns)));
  EXPECT_TRUE(at::equal(found[1], columns.to(at::kFloat)));
}

TEST(Packing, OutliersPutNaNFirstAndEqualMagnitudesByColumn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor whole =
      at::tensor({1.0, -2.0, 2.0, nan, -0.5, -infinity, -2.0, 0.0}, at::kDouble).view({1, 1, 8});
  const at::Tensor found =
      traced_on(whole, {"", 2, {8}, 0}, 4, {{{"kind", "outliers"}, {"k", 5}}}).flatten(1);
  EXPECT_TRUE(at::allclose(found[0], at::tensor({nan, -infinity, -2.0, 2.0, -2.0}, at::kDouble), 0,
                           0, /*equal_nan=*/true))
      << found;
  EXPECT_TRUE(at::equal(found[1], at::tensor({3.0, 5.0, 1.0, 2.0, 6.0}, at::kDouble))) << found;
}

// Tensor Tracer's numbers: each rank's own tiles, then tiles of those.
TEST(Packing, TwoStagesReduceWhatEachRankReduced) {
  const at::Tensor whole = normal({1, 3, 1000}, at::kDouble);
  const Traced wanted{{{"kind", "tile"},
                       {"tiles", 10},
                       {"tiles_one_rank", 7},
                       {"method", "absmax"},
                       {"method_one_rank", "mean"}}};
  std::vector<at::Tensor> first;
  for (int rank = 0; rank < 4; ++rank) {
    for (std::int64_t tile = 0; tile < 7; ++tile) {
      const std::int64_t begin = 250 * rank + tile * 250 / 7;
      const std::int64_t end = 250 * rank + (tile + 1) * 250 / 7;
      first.push_back(whole.narrow(-1, begin, end - begin).mean(-1));
    }
  }
  const at::Tensor joined = at::stack(first, -1);  // 28 columns
  std::vector<at::Tensor> second;
  for (std::int64_t tile = 0; tile < 10; ++tile) {
    const std::int64_t begin = tile * 28 / 10, end = (tile + 1) * 28 / 10;
    second.push_back(joined.narrow(-1, begin, end - begin).abs().amax(-1));
  }
  EXPECT_TRUE(at::allclose(traced_on(whole, {"", 2, {1000}, 0}, 4, wanted), at::stack(second, -1),
                           1e-12, 1e-14));
}

// As Tensor Tracer does with one rank, and with what every rank holds whole.
TEST(Packing, BothStagesRunWithOneRankAndWhereRanksHoldAll) {
  const at::Tensor whole = normal({1, 3, 1000}, at::kDouble);
  const Traced wanted{{{"kind", "tile"},
                       {"tiles", 4},
                       {"tiles_one_rank", 10},
                       {"method", "absmax"},
                       {"method_one_rank", "sum"}}};
  const at::Tensor sums = whole.view({1, 3, 10, 100}).sum(-1);
  std::vector<at::Tensor> second;
  for (std::int64_t tile = 0; tile < 4; ++tile) {
    const std::int64_t begin = tile * 10 / 4, end = (tile + 1) * 10 / 4;
    second.push_back(sums.narrow(-1, begin, end - begin).abs().amax(-1));
  }
  const at::Tensor expected = at::stack(second, -1);
  const Layout columns{"", 2, {1000}, 0}, lines{"", 1, {3}, 0}, all{"", 0, {1000}, 0};
  for (const auto& [layout, ranks] :
       {std::pair(columns, 1), std::pair(all, 1), std::pair(all, 4), std::pair(lines, 3)}) {
    EXPECT_TRUE(at::allclose(traced_on(whole, layout, ranks, wanted), expected, 1e-12, 1e-14))
        << layout.dim << " " << ranks;
  }
}

// As the first example of Tensor Tracer's document, where a rank holds few columns.
TEST(Packing, TwoStagesGiveNoRankMoreTilesThanItHasColumns) {
  const at::Tensor whole = normal({1, 3, 64}, at::kDouble);
  const auto tiles_of = [](int tiles, int one_rank = 60) {
    return Traced{{{"kind", "tile"}, {"tiles", tiles}, {"tiles_one_rank", one_rank}}};
  };
  const Layout columns{"", 2, {64}, 0};
  // 4 ranks with 16 columns each: all of them reach the second stage.
  EXPECT_TRUE(at::equal(traced_on(whole, columns, 4, tiles_of(64)), whole));
  EXPECT_TRUE(at::allclose(traced_on(whole, columns, 4, tiles_of(16)),
                           whole.view({1, 3, 16, 4}).mean(-1), 1e-12, 1e-14));
  // Two ranks with 8 queries, 2 keys and 2 values each.
  const Layout fused{"", 2, {16, 4, 4}, 0};
  EXPECT_TRUE(at::equal(traced_on(whole.narrow(-1, 0, 24), fused, 2, tiles_of(24, 24)),
                        whole.narrow(-1, 0, 24)));
}

TEST(Packing, TwoStagesGiveEverySegmentATile) {
  const at::Tensor whole =
      at::cat({at::full({1, 1, 96}, 1.0), at::full({1, 1, 4}, 2.0), at::full({1, 1, 4}, 3.0)}, -1);
  const at::Tensor tiles = traced_on(whole, {"", 2, {96, 4, 4}, 0}, 2,
                                     {{{"kind", "tile"}, {"tiles", 20}, {"tiles_one_rank", 1}}});
  EXPECT_TRUE(at::equal(tiles.flatten().to(at::kDouble),
                        at::tensor({1.0, 1.0, 2.0, 2.0, 3.0, 3.0}, at::kDouble)));
}

TEST(Packing, TwoStagesKeepFusedLayoutsInLogicalOrder) {
  // Each rank holds a piece of q, k and v; the first stage's tiles must come back as q, k, v.
  const at::Tensor whole = at::cat(
      {at::full({1, 1, 512}, 1.0), at::full({1, 1, 512}, 2.0), at::full({1, 1, 512}, 3.0)}, -1);
  const at::Tensor tiles = traced_on(whole, {"", 2, {512, 512, 512}, 8}, 4,
                                     {{{"kind", "tile"}, {"tiles", 3}, {"tiles_one_rank", 96}}});
  EXPECT_TRUE(at::equal(tiles.flatten().to(at::kDouble), at::tensor({1.0, 2.0, 3.0}, at::kDouble)));
}

}  // namespace
}  // namespace tt::trace
