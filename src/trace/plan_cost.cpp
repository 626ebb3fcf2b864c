#include "tensor_tracer/trace/plan_cost.h"

#include <algorithm>
#include <numeric>

#include "src/trace/captured.h"
#include "src/trace/pass_shape.h"

namespace tt::trace {
namespace {

// To compute a derived value of one layer. The first rows of the batch are computed, up to the last
// that the entry takes.
double flops_of(const PlanEntry& entry, const PlanContext& context, const PassSize& size) {
  const points::Place& point = context.places->rows()[entry.point];
  if (!point.is_derived()) return 0;
  const std::int64_t rows = row_window(entry, size.rows).end;
  return point.flops_per_token * static_cast<double>(rows * tokens_in(entry, size));
}

EntryCost cost_of_pass(const PlanEntry& entry, const PlanContext& context, const PassSize& size) {
  const auto record = shape_in(entry, context, size);
  if (!record) return {};
  const double layers = layers_taken(entry, context);
  const std::size_t bytes = bytes_of_record(record->shape, entry.dtype);
  return {layers * static_cast<double>(bytes), layers, layers * flops_of(entry, context, size)};
}

void add(EntryCost& sum, const EntryCost& pass, double times) {
  sum.bytes += times * pass.bytes;
  sum.records += times * pass.records;
  sum.flops += times * pass.flops;
}

// The fraction of steps at which both periods end.
double share(std::int64_t every, std::int64_t interval) {
  return interval > 0 ? 1.0 / static_cast<double>(std::lcm(every, interval)) : 0.0;
}

EntryCost cost_of_entry(const PlanEntry& entry, const PlanContext& context,
                        const OtherPasses& passes) {
  if (!entry.enabled) return {};
  EntryCost cost;
  for (const PassSize& size : pass_sizes(entry, context)) {
    const EntryCost pass = cost_of_pass(entry, context, size);
    if (entry.prompt_set > 0) {
      const std::int64_t interval =
          entry.responses ? passes.response_interval : passes.monitor_interval;
      add(cost, pass, share(entry.every, interval) * static_cast<double>(size.passes));
      continue;
    }
    if (entry.in_train) {
      const auto micro_batches =
          static_cast<double>(std::ranges::count(entry.takes_micro_batch, true));
      add(cost, pass, micro_batches / static_cast<double>(entry.every));
    }
    if (entry.in_eval) {
      const std::int64_t all = passes.eval_batches * context.micro_batches;
      const auto forwards = static_cast<double>(entry.all_eval_forwards ? all : 1);
      add(cost, pass, forwards * share(entry.every, passes.eval_interval));
    }
  }
  return cost;
}

}  // namespace

std::vector<EntryCost> cost_of(const Plan& plan, const PlanContext& context,
                               const OtherPasses& passes) {
  std::vector<EntryCost> costs;
  for (const PlanEntry& entry : plan.entries)
    costs.push_back(cost_of_entry(entry, context, passes));
  return costs;
}

nlohmann::json to_json(const std::vector<EntryCost>& costs) {
  nlohmann::json entries = nlohmann::json::array();
  double bytes = 0.0, flops = 0.0;
  for (const EntryCost& cost : costs) {
    entries.push_back({{"bytes", cost.bytes}, {"records", cost.records}, {"flops", cost.flops}});
    bytes += cost.bytes;
    flops += cost.flops;
  }
  return {{"entries", std::move(entries)}, {"bytes_per_step", bytes}, {"flops_per_step", flops}};
}

base::Result<nlohmann::json> check_plan(const nlohmann::json& plan, const PlanContext& context,
                                        const OtherPasses& passes) {
  const auto parsed = parse_plan(plan, context, 0);
  if (!parsed) return parsed.error();
  return to_json(cost_of(parsed.value(), context, passes));
}

}  // namespace tt::trace
