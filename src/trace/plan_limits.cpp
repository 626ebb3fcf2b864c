#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "src/trace/pass_shape.h"

namespace tt::trace {
namespace {

struct Bytes {
  std::size_t sent = 0;
  std::size_t gathered = 0;
};

Bytes bytes_of(const PlanEntry& entry, const PlanContext& context) {
  const auto record = shape_in(entry, context, pass_sizes(entry, context).front());
  if (!record) return {};
  const auto layers = static_cast<std::size_t>(layers_taken(entry, context));
  Bytes bytes{layers * bytes_of_record(record->shape, entry.dtype), 0};
  for (int rank = 0; record->packing != nullptr && rank < context.tensor_ranks; ++rank)
    bytes.gathered += layers * record->packing->part_bytes(static_cast<std::size_t>(rank));
  return bytes;
}

std::string in_mib(std::size_t bytes) {
  return std::to_string((bytes + (1U << 20U) - 1) >> 20U) + " MiB";
}

using Takes = std::function<bool(const PlanEntry&)>;

base::Status check_pass(const Plan& plan, const PlanContext& context, const std::string& pass,
                        const Takes& takes) {
  Bytes sum;
  for (const PlanEntry& entry : plan.entries) {
    if (!entry.enabled || !takes(entry)) continue;
    const Bytes bytes = bytes_of(entry, context);
    sum.sent += bytes.sent;
    sum.gathered += bytes.gathered;
  }
  const PlanLimits& limits = context.limits;
  constexpr std::string_view kRemedy = "take fewer layers, rows or tokens, or make them smaller: ";
  if (sum.sent > limits.max_pass_bytes) {
    return base::invalid_argument("plan.entries",
                                  pass + " would send " + in_mib(sum.sent) +
                                      " of records, more than the " +
                                      in_mib(limits.max_pass_bytes) + " that may wait for the hub",
                                  std::string(kRemedy) + "compressor, dtype");
  }
  if (sum.gathered > limits.max_gathered_bytes) {
    return base::invalid_argument("plan.entries",
                                  pass + " would gather " + in_mib(sum.gathered) +
                                      " of numbers, more than " + in_mib(limits.max_gathered_bytes),
                                  std::string(kRemedy) + "compressor");
  }
  return {};
}

}  // namespace

base::Status check_pass_bytes(const Plan& plan, const PlanContext& context) {
  const auto in_evaluation = [](const PlanEntry& entry) {
    return entry.in_eval && entry.prompt_set == 0;
  };
  base::Status status = check_pass(plan, context, "a training pass", &PlanEntry::in_train);
  if (status) status = check_pass(plan, context, "an evaluation pass", in_evaluation);
  std::map<std::pair<std::uint32_t, bool>, std::string> passes;  // with responses or without
  for (const PlanEntry& entry : plan.entries)
    if (entry.prompt_set > 0) passes[{entry.prompt_set, entry.responses}] = entry.prompts.name;
  for (const auto& [key, name] : passes) {
    if (!status) return status;
    status = check_pass(plan, context, "a pass of the prompts " + name,
                        [&key = key](const PlanEntry& one) {
                          return std::pair(one.prompt_set, one.responses) == key;
                        });
  }
  return status;
}

}  // namespace tt::trace
