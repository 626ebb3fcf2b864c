#include "tensor_tracer/trace/tracer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/model/points.h"
#include "tensor_tracer/nn/parameter.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::trace {
namespace {

using nlohmann::json;

struct Record {
  protocol::RecordHeader header;
  at::Tensor values;
};

// Keeps what a leader sends.
class Collector : public Outlet {
 public:
  void send_records(std::string records) noexcept override {
    ++messages;
    protocol::RecordReader reader(records);
    while (auto record = reader.next()) {
      std::vector<std::int64_t> shape(record->header.shape.begin(),
                                      record->header.shape.begin() + record->header.ndim);
      const at::ScalarType dtype = record->header.dtype == protocol::Dtype::kF64    ? at::kDouble
                                   : record->header.dtype == protocol::Dtype::kI32  ? at::kInt
                                   : record->header.dtype == protocol::Dtype::kBf16 ? at::kBFloat16
                                                                                    : at::kFloat;
      auto* payload = const_cast<std::byte*>(record->payload.data());
      all.push_back({record->header, at::from_blob(payload, shape, dtype).clone()});
    }
    EXPECT_TRUE(reader.status().ok());
  }
  void send_event(std::string_view event, json params) noexcept override {
    events.emplace_back(std::string(event), std::move(params));
  }
  std::vector<Record> all;
  std::vector<std::pair<std::string, json>> events;
  int messages = 0;
};

std::shared_ptr<const Catalogue> catalogue(int ranks, std::int64_t groups) {
  config::ModelConfig model;
  model.num_layers = 3;
  model.hidden_size = 64;
  model.num_attention_heads = 8;
  model.num_query_groups = groups;
  model.ffn_hidden_size = 168;
  model.swiglu = true;
  return std::make_shared<const Catalogue>(model::make_catalogue(model, ranks));
}

at::Tensor logical(PointFlag flag, int layer, std::int64_t features, at::ScalarType dtype) {
  const auto seed = static_cast<std::uint64_t>(flag) * 100 + static_cast<std::uint64_t>(layer);
  return at::empty({4, 5, features}, at::kDouble)
      .normal_(0.0, 1.0, at::detail::createCPUGenerator(seed))
      .to(dtype);
}

// One watched forward of made-up tensors on `ranks` ranks; what the leader sent.
std::vector<Record> watch(int ranks, std::int64_t groups, const json& plan, at::ScalarType dtype) {
  Collector collector;
  comm::run_local(ranks, [&](const comm::ProcessGroup& group) {
    const auto points = catalogue(ranks, groups);
    Tracer tracer(points, {77, {group.rank(), 0, 0}}, group,
                  group.rank() == 0 ? &collector : nullptr);
    tracer.set_plan(std::make_shared<const Plan>(parse_plan(plan, *points, 9).value()));
    tracer.begin_forward({6, 0, 0, Phase::kTrain});
    tracer.capture(PointFlag::kInputTokens, 0, at::arange(40, at::kLong).view({2, 4, 5}));
    for (int layer = 1; layer <= 3; ++layer) {
      for (const PointFlag flag : {PointFlag::kQkv, PointFlag::kMlp1, PointFlag::kHiddenStates}) {
        const PointDescription& point = points->at(flag);
        at::Tensor local = logical(flag, layer, point.features, dtype);
        if (point.tensor.kind == Placement::Kind::kShard) {
          local = nn::take_shard(local, point.tensor, group.rank(), ranks);
        }
        tracer.capture(flag, layer, local);
      }
    }
    tracer.end_forward();
    tracer.finish();
  });
  EXPECT_EQ(collector.messages, collector.all.empty() ? 0 : 1);
  return std::move(collector.all);
}

const json kEverything = json::parse(R"({"entries": [
    {"point": "QKV", "rows": 3, "compressor": {"kind": "tile", "tiles": 7}, "dtype": "f64"},
    {"point": "MLP1", "layers": "2-3", "compressor": {"kind": "tile", "tiles": 96},
     "dtype": "f64"},
    {"point": "HiddenStates", "rows": 0, "compressor": {"kind": "none"}, "dtype": "f64"},
    {"point": "InputTokens"}]})");

TEST(Tracer, RecordsAreTheSameBitForBitOnEveryTensorAxis) {
  for (const std::int64_t groups : {8, 2, 1}) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      const auto whole = watch(1, groups, kEverything, dtype);
      ASSERT_EQ(whole.size(), 9u);
      for (const int ranks : {2, 4, 8}) {
        const auto sharded = watch(ranks, groups, kEverything, dtype);
        ASSERT_EQ(sharded.size(), whole.size());
        for (std::size_t i = 0; i < whole.size(); ++i) {
          EXPECT_TRUE(at::equal(sharded[i].values, whole[i].values))
              << "record " << i << ", " << ranks << " ranks, " << groups << " groups";
          EXPECT_EQ(sharded[i].header.entry, whole[i].header.entry);
          EXPECT_EQ(sharded[i].header.layer, whole[i].header.layer);
        }
      }
    }
  }
}

TEST(Tracer, TilesAreAtensMeansAndHeadersSayWhatIsWhat) {
  const auto records = watch(2, 2, kEverything, at::kDouble);
  std::uint64_t sequence = 0;
  for (const Record& record : records) {
    EXPECT_EQ(record.header.run, 77u);
    EXPECT_EQ(record.header.sequence, ++sequence);
    EXPECT_EQ(record.header.step, 6u);
    EXPECT_EQ(record.header.plan, 9u);
    if (record.header.point != static_cast<int>(PointFlag::kQkv)) continue;
    const std::int64_t features = record.header.features;
    const at::Tensor full = logical(PointFlag::kQkv, record.header.layer, features, at::kDouble);
    ASSERT_EQ(record.values.sizes(), (std::vector<std::int64_t>{3, 5, 7}));
    for (std::int64_t tile = 0; tile < 7; ++tile) {
      const std::int64_t begin = tile * features / 7;
      const at::Tensor mean =
          full.narrow(0, 0, 3).narrow(2, begin, (tile + 1) * features / 7 - begin).mean(-1);
      EXPECT_TRUE(at::allclose(record.values.select(2, tile), mean, 1e-12, 1e-14));
    }
  }
}

TEST(Tracer, InputTokensAreIdsThenPositions) {
  const auto records =
      watch(2, 2, json{{"entries", {{{"point", "InputTokens"}, {"rows", 2}}}}}, at::kFloat);
  ASSERT_EQ(records.size(), 1u);
  const at::Tensor expected = at::arange(40, at::kInt).view({2, 4, 5}).narrow(1, 0, 2);
  EXPECT_TRUE(at::equal(records[0].values, expected));
}

TEST(Tracer, NarrowDtypesAreRoundedOnce) {
  const json plan = json::parse(
      R"({"entries": [{"point": "HiddenStates", "compressor": {"kind": "none"}, "dtype": "bf16"}]})");
  const auto records = watch(1, 8, plan, at::kFloat);
  const at::Tensor full = logical(PointFlag::kHiddenStates, 1, 64, at::kFloat).narrow(0, 0, 1);
  EXPECT_TRUE(at::equal(records[0].values, full.to(at::kBFloat16)));
}

TEST(Tracer, NothingIsSentWhereThePlanDoesNotAsk) {
  const json every_fourth = json{{"entries", {{{"point", "QKV"}, {"every", 4}}}}};
  EXPECT_TRUE(watch(2, 8, every_fourth, at::kFloat).empty());
  const json eval_only = json{{"entries", {{{"point", "QKV"}, {"phases", {"eval"}}}}}};
  EXPECT_TRUE(watch(2, 8, eval_only, at::kFloat).empty());
}

TEST(Tracer, ACaptureThatFailsIsToldAndTheRestGoesOn) {
  Collector collector;
  const auto points = catalogue(1, 8);
  Tracer tracer(points, {}, comm::ProcessGroup(), &collector);
  const json plan = {{"entries", {{{"point", "HiddenStates"}}, {{"point", "MLP2"}}}}};
  tracer.set_plan(std::make_shared<const Plan>(parse_plan(plan, *points, 1).value()));
  for (int step = 1; step <= 2; ++step) {
    tracer.begin_forward({step, 0, 0, Phase::kTrain});
    tracer.capture(PointFlag::kHiddenStates, 1, at::empty({2, 5, 64}, at::kMeta));
    tracer.capture(PointFlag::kMlp2, 1, at::ones({2, 5, 64}));
    tracer.end_forward();
    tracer.finish();
  }
  ASSERT_EQ(collector.all.size(), 2u);
  EXPECT_EQ(collector.all[0].header.entry, 1u);
  ASSERT_EQ(collector.events.size(), 1u);
  EXPECT_THAT(collector.events[0].second["message"].get<std::string>(),
              testing::HasSubstr("plan entry 0 (HiddenStates) was switched off"));
}

TEST(Tracer, WatchingLeavesGradientsAlone) {
  const auto points = catalogue(1, 8);
  const auto gradient = [&](bool watched) {
    Collector collector;
    Tracer tracer(points, {}, comm::ProcessGroup(), &collector);
    if (watched) {
      tracer.set_plan(std::make_shared<const Plan>(
          parse_plan({{"entries", {{{"point", "HiddenStates"}}}}}, *points, 1).value()));
    }
    at::Tensor x = logical(PointFlag::kHiddenStates, 1, 64, at::kFloat).set_requires_grad(true);
    tracer.begin_forward({1, 0, 0, Phase::kTrain});
    const at::Tensor y = x.exp();
    tracer.capture(PointFlag::kHiddenStates, 1, y);
    tracer.end_forward();
    EXPECT_EQ(y.grad_fn()->name(), "ExpBackward0");
    y.sum().backward();
    tracer.finish();
    EXPECT_EQ(collector.all.size(), watched ? 1u : 0u);
    return x.grad();
  };
  EXPECT_TRUE(at::equal(gradient(true), gradient(false)));
}

}  // namespace
}  // namespace tt::trace
