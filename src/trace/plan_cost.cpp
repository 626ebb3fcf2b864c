#include "tensor_tracer/trace/plan_cost.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "src/trace/captured.h"

namespace tt::trace {
namespace {

// Batch rows and tokens of one forward pass.
struct PassSize {
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
};

const Placement& placement_of(const PlanEntry& entry, const PointDescription& point) {
  return entry.gradient ? *point.gradient : point.tensor;
}

// As rank 0 holds the point's tensor.
std::vector<std::int64_t> local_sizes(const PlanEntry& entry, const PointDescription& point,
                                      const PassSize& size, int ranks) {
  const Placement& placement = placement_of(entry, point);
  const bool has_heads = point.dims.size() == 4;
  std::vector<std::int64_t> sizes =
      has_heads ? std::vector{size.rows, std::int64_t{1}, size.tokens, size.tokens}
                : std::vector{size.rows, size.tokens, point.features};
  if (placement.kind == Placement::Kind::kShard) {
    sizes[static_cast<std::size_t>(placement.dim)] = local_size(placement, 0, ranks);
  }
  return sizes;
}

std::size_t payload_bytes(const std::vector<std::int64_t>& shape, protocol::Dtype dtype) {
  const std::int64_t count =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t columns = shape.empty() ? 1 : shape.back();
  const std::int64_t lines = columns > 0 ? count / columns : 0;
  return static_cast<std::size_t>(count) * protocol::dtype_bytes(dtype) +
         (dtype == protocol::Dtype::kU8 ? static_cast<std::size_t>(lines) * protocol::kU8LineBytes
                                        : 0);
}

std::optional<std::vector<std::int64_t>> integer_shape(const PlanEntry& entry,
                                                       const PassSize& size) {
  const std::int64_t rows = std::min(entry.end_row.value_or(size.rows), size.rows);
  const auto [first, end] = entry.tokens.value_or(std::pair{std::int64_t{0}, size.tokens});
  const std::int64_t tokens = std::min(end, size.tokens) - first;
  if (rows <= entry.first_row || tokens <= 0) return std::nullopt;
  const bool is_empty = entry.compressor->code() == protocol::RecordCompressor::kEmpty;
  return std::vector{std::int64_t{2}, rows - entry.first_row, is_empty ? 0 : tokens};
}

// Of the record of one layer; nothing where rows or tokens lie beyond the pass.
std::optional<std::vector<std::int64_t>> record_shape(const PlanEntry& entry,
                                                      const PlanContext& context,
                                                      const PassSize& size) {
  const PointDescription& point = context.catalogue->points()[entry.point];
  if (point.holds_integers()) return integer_shape(entry, size);
  const auto sizes = local_sizes(entry, point, size, context.tensor_ranks);
  const auto shape = logical_shape(entry, point, sizes, context.tensor_ranks);
  if (!shape) return std::nullopt;
  return entry.compressor->packing(*shape, false)->shape();
}

int layers_taken(const PlanEntry& entry, const PointDescription& point) {
  int layers = 0;
  for (int layer = point.first_layer; layer <= point.last_layer; ++layer) {
    if (entry.takes_layer[static_cast<std::size_t>(layer)]) ++layers;
  }
  return layers;
}

EntryCost cost_of_pass(const PlanEntry& entry, const PlanContext& context, const PassSize& size) {
  const auto shape = record_shape(entry, context, size);
  if (!shape) return {};
  const double layers = layers_taken(entry, context.catalogue->points()[entry.point]);
  const std::size_t bytes = protocol::record_bytes(payload_bytes(*shape, entry.dtype));
  return {layers * static_cast<double>(bytes), layers};
}

void add(EntryCost& sum, const EntryCost& pass, double times) {
  sum.bytes += times * pass.bytes;
  sum.records += times * pass.records;
}

// How often two periods of steps fall together.
double share(std::int64_t every, std::int64_t interval) {
  return interval > 0 ? 1.0 / static_cast<double>(std::lcm(every, interval)) : 0.0;
}

EntryCost cost_of_prompts(const PlanEntry& entry, const PlanContext& context,
                          const OtherPasses& passes) {
  const OtherPasses::Prompts& set = passes.prompts.at(entry.prompt_set - 1);
  const std::int64_t batch = context.micro_batch_size;
  const auto full_batches = static_cast<double>(set.rows / batch);
  const double times = share(entry.every, passes.monitor_interval);
  EntryCost cost;
  add(cost, cost_of_pass(entry, context, {batch, set.tokens}), times * full_batches);
  add(cost, cost_of_pass(entry, context, {set.rows % batch, set.tokens}), times);
  return cost;
}

EntryCost cost_of_entry(const PlanEntry& entry, const PlanContext& context,
                        const OtherPasses& passes) {
  if (!entry.enabled) return {};
  if (entry.prompt_set > 0) return cost_of_prompts(entry, context, passes);
  const EntryCost pass =
      cost_of_pass(entry, context, {context.micro_batch_size, context.seq_length});
  EntryCost cost;
  if (entry.in_train) {
    const auto micro_batches =
        static_cast<double>(std::ranges::count(entry.takes_micro_batch, true));
    add(cost, pass, micro_batches / static_cast<double>(entry.every));
  }
  if (entry.in_eval) add(cost, pass, share(entry.every, passes.eval_interval));
  return cost;
}

}  // namespace

std::vector<EntryCost> cost_of(const Plan& plan, const PlanContext& context,
                               const OtherPasses& passes) {
  std::vector<EntryCost> costs;
  for (const PlanEntry& entry : plan.entries) {
    costs.push_back(cost_of_entry(entry, context, passes));
  }
  return costs;
}

nlohmann::json to_json(const std::vector<EntryCost>& costs) {
  nlohmann::json entries = nlohmann::json::array();
  double bytes = 0.0;
  for (const EntryCost& cost : costs) {
    entries.push_back({{"bytes", cost.bytes}, {"records", cost.records}});
    bytes += cost.bytes;
  }
  return {{"entries", std::move(entries)}, {"bytes_per_step", bytes}};
}

}  // namespace tt::trace
