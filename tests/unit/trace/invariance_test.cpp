// Every point of the catalogue through the whole tracer: on every tensor axis the bytes of one
// rank.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tensor_tracer/comm/shards.h"
#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::trace {
namespace {

using nlohmann::json;

constexpr std::int64_t kBatch = 2;

/// A record of one entry, as bytes.
struct Sent {
  std::uint32_t entry = 0;
  std::vector<std::int64_t> shape;
  std::string payload;
  bool operator==(const Sent&) const = default;
};

class Collector : public TraceSink {
 public:
  void send_records(std::string records) noexcept override {
    protocol::RecordReader reader(records);
    while (auto record = reader.next()) {
      const auto& header = record->header;
      const auto* payload = reinterpret_cast<const char*>(record->payload.data());
      all.push_back({header.entry,
                     {header.shape.begin(), header.shape.begin() + header.ndim},
                     {payload, record->payload.size()}});
    }
  }
  void send_event(std::string_view, json params) noexcept override { told += params.dump(); }
  std::vector<Sent> all;
  std::string told;
};

/// Vectors for whatever width the points of the residual stream have.
class Vectors : public VectorLibrary {
 public:
  explicit Vectors(std::int64_t hidden_size) : hidden_size_(hidden_size) {}
  std::vector<std::string> names() override { return {"a"}; }
  base::Result<std::shared_ptr<const DirectionVector>> find(const std::string& name) override {
    auto vector = std::make_shared<DirectionVector>();
    vector->name = name;
    vector->hidden_size = hidden_size_;
    vector->has_embedding_row = true;
    const at::Tensor rows =
        at::randn({2 * hidden_size_}, at::detail::createCPUGenerator(5), at::kFloat);
    vector->rows.assign(rows.const_data_ptr<float>(), rows.const_data_ptr<float>() + rows.numel());
    return std::shared_ptr<const DirectionVector>(std::move(vector));
  }

 private:
  const std::int64_t hidden_size_;
};

config::ModelConfig model_of(std::int64_t groups, bool swiglu, std::int64_t sequence) {
  config::ModelConfig model;
  model.num_layers = 1;
  model.hidden_size = 96;
  model.num_attention_heads = 8;
  model.num_query_groups = groups;
  model.ffn_hidden_size = 200;
  model.swiglu = swiglu;
  model.seq_length = sequence;
  model.vocab_size = 50;
  return model;
}

const std::vector<json> kCompressors = {
    {{"kind", "none"}},
    {{"kind", "empty"}},
    {{"kind", "tile"}, {"tiles", 1}},
    {{"kind", "tile"}, {"tiles", 7}},
    {{"kind", "tile"}, {"tiles", 48}, {"method", "absmax"}},
    {{"kind", "tile"}, {"tiles", 5}, {"method", "data.std(dim=-1)"}},
    {{"kind", "tile"}, {"tiles", 2}, {"method", "data.mean(-1) - data.mean()"}},
    {{"kind", "stats"}},
    {{"kind", "stats"}, {"range", {-3, 3}}, {"bins", 10}},
    {{"kind", "topk"}, {"k", 3}},
    {{"kind", "outliers"}, {"k", 3}},
    {{"kind", "projection"}, {"vectors", {"a"}}},
    {{"kind", "projection"}, {"vectors", {"a"}}, {"cosine", true}},
};

/// Those compressors that this point can have, in every dtype that numbers travel in.
std::shared_ptr<const Plan> plan_of(const points::Place& point, const PlanContext& about) {
  json entries = json::array();
  const auto add = [&](json entry) {
    if (parse_plan({{"entries", {entry}}}, about, 1)) entries.push_back(std::move(entry));
  };
  for (const json& compressor : kCompressors)
    add({{"point", point.name}, {"rows", 0}, {"compressor", compressor}, {"dtype", "f64"}});
  for (const char* dtype : {"f32", "bf16", "f16", "u8"})
    add({{"point", point.name}, {"rows", 0}, {"dtype", dtype}});
  auto plan = parse_plan({{"entries", entries}}, about, 1);
  if (!plan) throw std::runtime_error(to_string(plan.error()));
  return std::make_shared<const Plan>(std::move(plan).value());
}

at::Tensor logical(const points::Place& point) {
  const auto seed = static_cast<std::uint64_t>(point.number) + 1;
  if (point.holds_integers()) return at::arange(2 * kBatch * point.shape[2]).view(point.shape);
  at::Tensor whole = at::randn(point.shape, at::detail::createCPUGenerator(seed), at::kFloat);
  whole.flatten()[whole.numel() / 3] = -0.0;
  return whole;
}

/// What the leader sends of every point, by point.
std::vector<std::vector<Sent>> watch(int ranks, const config::ModelConfig& model) {
  std::vector<std::vector<Sent>> sent;
  Vectors vectors(model.hidden_size);
  comm::run_local(ranks, [&](const comm::ProcessGroup& group) {
    PlanContext about;
    about.places = model::describe_model(model, ranks, kBatch).places();
    about.tensor_ranks = ranks;
    about.micro_batch_size = kBatch;
    about.seq_length = model.seq_length;
    about.vectors = &vectors;
    for (std::size_t row = 0; row < about.places->rows().size(); ++row) {
      const points::Place& point = about.places->rows()[row];
      if (!point.traceable()) continue;
      Collector collector;
      Tracer tracer(about, {1, {group.rank(), 0, 0}}, group,
                    group.rank() == 0 ? &collector : nullptr);
      tracer.set_plan(plan_of(point, about));
      Pass pass = tracer.begin({});
      at::Tensor local = logical(point);
      if (point.placement.kind == mesh::Placement::Kind::kShard)
        local = comm::take_shard(local, point.placement, group.rank(), ranks);
      pass.capture(about.places->key(row, point.first_layer), local);
      pass.end_forward();
      pass.finish();
      EXPECT_EQ(collector.told, "") << point.name;
      if (group.rank() == 0) sent.push_back(std::move(collector.all));
    }
  });
  return sent;
}

// Query groups and tokens of a row.
using Shape = std::tuple<std::int64_t, std::int64_t>;

class InvarianceOf : public testing::TestWithParam<Shape> {};

TEST_P(InvarianceOf, EveryPointAndCompressorSendsTheBytesOfOneRank) {
  const auto [groups, sequence] = GetParam();
  const config::ModelConfig model = model_of(groups, sequence % 2 == 0, sequence);
  const auto whole = watch(1, model);
  ASSERT_EQ(whole.size(), 31U);
  std::size_t records = 0;
  for (const auto& of_point : whole) records += of_point.size();
  EXPECT_GE(records, 28U * 10U);
  for (const int ranks : {2, 4, 8}) EXPECT_TRUE(watch(ranks, model) == whole) << ranks << " ranks";
}

std::string name_of(const testing::TestParamInfo<Shape>& tested) {
  const auto [groups, sequence] = tested.param;
  return std::to_string(groups) + "_groups_" + std::to_string(sequence) + "_tokens";
}

INSTANTIATE_TEST_SUITE_P(Shapes, InvarianceOf,
                         testing::Combine(testing::Values(8, 2, 1), testing::Values(1, 7, 64, 96)),
                         name_of);

}  // namespace
}  // namespace tt::trace
