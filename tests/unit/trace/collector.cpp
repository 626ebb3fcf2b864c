#include "tests/unit/trace/collector.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>

#include "tensor_tracer/model/gpt.h"

namespace tt::trace {
namespace {

// docs/protocol.md: offset and scale of every line, then all codes.
at::Tensor numbers_of_codes(std::span<const std::byte> payload,
                            const std::vector<std::int64_t>& shape) {
  at::Tensor numbers = at::empty(shape, at::kFloat);
  const std::int64_t columns = shape.back(), lines = numbers.numel() / columns;
  for (std::int64_t line = 0; line < lines; ++line) {
    float scale[2];
    std::memcpy(scale, payload.data() + 8 * line, 8);
    for (std::int64_t i = 0; i < columns; ++i) {
      const auto code = std::to_integer<int>(payload[8 * lines + line * columns + i]);
      const float infinity = std::numeric_limits<float>::infinity();
      numbers.mutable_data_ptr<float>()[line * columns + i] =
          code == 253   ? std::numeric_limits<float>::quiet_NaN()
          : code == 254 ? infinity
          : code == 255 ? -infinity
                        : scale[0] + scale[1] * static_cast<float>(code);
    }
  }
  return numbers;
}

}  // namespace

void Collector::send_records(std::string records) noexcept {
  ++messages;
  protocol::RecordReader reader(records);
  while (auto record = reader.next()) {
    std::vector<std::int64_t> shape(record->header.shape.begin(),
                                    record->header.shape.begin() + record->header.ndim);
    if (record->header.dtype == protocol::Dtype::kU8) {
      all.push_back({record->header, numbers_of_codes(record->payload, shape)});
      continue;
    }
    const at::ScalarType dtype = record->header.dtype == protocol::Dtype::kF64    ? at::kDouble
                                 : record->header.dtype == protocol::Dtype::kI32  ? at::kInt
                                 : record->header.dtype == protocol::Dtype::kBf16 ? at::kBFloat16
                                                                                  : at::kFloat;
    auto* payload = const_cast<std::byte*>(record->payload.data());
    all.push_back({record->header, at::from_blob(payload, shape, dtype).clone()});
  }
  EXPECT_TRUE(reader.status().ok());
}
PlanContext context(int ranks, std::int64_t groups, std::int64_t ffn_size) {
  config::ModelConfig model;
  model.num_layers = 3;
  model.hidden_size = 64;
  model.num_attention_heads = 8;
  model.num_query_groups = groups;
  model.ffn_hidden_size = ffn_size;
  model.swiglu = true;
  PlanContext about;
  about.places = model::describe_model(model, ranks).places();
  about.tensor_ranks = ranks;
  about.micro_batches = 2;
  about.micro_batch_size = 4;
  about.seq_length = 5;
  about.prompt_sets = points::PromptSets({{"probes", 4, 5}});
  return about;
}

std::shared_ptr<const Plan> plan_of(const nlohmann::json& text, const PlanContext& about) {
  auto plan = parse_plan(text, about, 9);
  if (!plan) throw std::runtime_error(to_string(plan.error()));
  return std::make_shared<const Plan>(std::move(plan).value());
}

points::PlaceKey key_of(const char* name, int layer) {
  static const PlanContext one_rank = context(1, 8);
  return one_rank.places->key(name, layer);
}

}  // namespace tt::trace
