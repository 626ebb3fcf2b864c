#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/trace/plan.h"
#include "tensor_tracer/trace/trace_sink.h"

/// A made-up run for tests of the tracer, and the records that its leader sends.
namespace tt::trace {

struct Record {
  protocol::RecordHeader header;
  at::Tensor values;
};

/// Keeps what a leader sends.
class Collector : public TraceSink {
 public:
  void send_records(std::string records) noexcept override;
  void send_event(std::string_view event, nlohmann::json params) noexcept override {
    events.emplace_back(std::string(event), std::move(params));
  }
  std::vector<Record> all;
  std::vector<std::pair<std::string, nlohmann::json>> events;
  int messages = 0;
};

/// Of a model of three layers; `groups`: of keys and values; `ffn_size`: half of the columns of
/// MLP1.
PlanContext context(int ranks, std::int64_t groups, std::int64_t ffn_size = 168);

/// Number 9. Throws what parse_plan() says.
std::shared_ptr<const Plan> plan_of(const nlohmann::json& text, const PlanContext& about);

/// The same on every mesh.
points::PlaceKey key_of(const char* name, int layer);

}  // namespace tt::trace
