#include "src/eval/recorder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "src/eval/cost.h"
#include "src/eval/probe.h"

namespace tt::eval {
namespace {

constexpr std::int64_t kTileRank = 3;  // lines, tiles, width

std::string shown(double number) {
  return std::to_string(static_cast<long long>(std::min(number, 9e18)));
}

// How often the operator goes over its tensor: diff n times, all others once.
double count_rounds(const c10::FunctionSchema& schema, const std::vector<PlanArgument>& arguments,
                    const std::vector<at::Tensor>& read) {
  const auto* n = arguments.size() < 2 ? nullptr : std::get_if<c10::IValue>(&arguments[1]);
  if (schema.name() != "aten::diff" || n == nullptr || read.empty()) return 1;
  const double longest = static_cast<double>(std::max<std::int64_t>(read.front().numel(), 1));
  return std::clamp(static_cast<double>(n->toInt()), 1.0, longest);
}

}  // namespace

Recorder::Recorder(std::string text, std::vector<Input> inputs, const Limits& limits)
    : limits_(limits), size_read_(inputs.size(), false) {
  plan_.text = std::move(text);
  plan_.inputs = std::move(inputs);
  for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
    const Input& input = plan_.inputs[i];
    Reaches reaches(plan_.inputs.size(), Reach::kNothing);
    reaches[i] = input.shape.size() == kTileRank ? Reach::kTile : Reach::kWide;
    is_view_[add_slot(meta_like(input.shape, input.dtype), std::move(reaches))] = true;
  }
}

std::uint32_t Recorder::add_slot(at::Tensor meta, Reaches reaches) {
  metas_.push_back(std::move(meta));
  reaches_.push_back(std::move(reaches));
  is_view_.push_back(false);
  return plan_.slots++;
}

TensorValue Recorder::input(std::size_t index) const {
  return {static_cast<std::uint32_t>(index), metas_[index], reaches_[index]};
}

TensorValue Recorder::constant(const at::Tensor& tensor) {
  const Reaches reaches(plan_.inputs.size(), Reach::kNothing);
  const std::uint32_t slot = add_slot(meta_like(tensor.sizes(), tensor.scalar_type()), reaches);
  plan_.constants.emplace_back(slot, tensor);
  return {slot, metas_[slot], reaches};
}

bool Recorder::charge(double cost) {
  if (plan_.cost + cost <= limits_.max_cost) return true;
  problem_ = "this brings the expression to " + shown(plan_.cost + cost) +
             " element operations, the limit is " + shown(limits_.max_cost);
  return false;
}

// How many tensors chunk, split and unbind would make, before they make them.
bool Recorder::check_parts(const OperatorRow& row, const c10::FunctionSchema& schema,
                           const std::vector<PlanArgument>& arguments) {
  const auto slots = slots_of(arguments);
  const auto dims = find_dims(schema, arguments);
  if (!row.has(kParts) || slots.empty() || !dims || dims->empty()) return true;
  const at::Tensor& self = metas_[slots.front()];
  const std::int64_t dim = dims->front() < 0 ? dims->front() + self.dim() : dims->front();
  if (dim < 0 || dim >= self.dim()) return true;  // refused by the operator, in its own words
  std::int64_t parts = self.size(dim);
  if (const auto* value = std::get_if<c10::IValue>(&arguments[1]); value != nullptr) {
    const bool is_size = schema.arguments()[1].name() == "split_size";
    if (value->isInt() && is_size && value->toInt() > 0) parts /= value->toInt();
    if (value->isInt() && !is_size && schema.name() != "aten::unbind") parts = value->toInt();
    if (value->isIntList()) parts = static_cast<std::int64_t>(value->toIntVector().size());
  }
  if (parts <= limits_.max_parts) return true;
  problem_ = "this gives " + std::to_string(parts) + " tensors, the limit is " +
             std::to_string(limits_.max_parts);
  return false;
}

// index_select and quantile run on zeros too, and may give more than they read: one result per
// index or quantile, for each place in the dimensions that stay.
bool Recorder::check_selected(const c10::FunctionSchema& schema,
                              const std::vector<PlanArgument>& arguments) {
  const auto slots = slots_of(arguments);
  const auto dims = find_dims(schema, arguments);
  if (slots.size() != 2) return true;
  const at::Tensor& self = metas_[slots[0]];
  double places = dims ? static_cast<double>(self.numel()) : 1;
  if (dims) {
    const std::int64_t dim = dims->front() < 0 ? dims->front() + self.dim() : dims->front();
    if (dim < 0 || dim >= self.dim()) return true;  // refused by the operator, in its own words
    places /= static_cast<double>(std::max<std::int64_t>(self.size(dim), 1));
  }
  const double selected = places * static_cast<double>(metas_[slots[1]].numel());
  if (selected <= static_cast<double>(limits_.max_intermediate_elements)) return charge(selected);
  problem_ = "this has " + shown(selected) + " elements, the limit is " +
             std::to_string(limits_.max_intermediate_elements);
  return false;
}

std::optional<std::vector<at::Tensor>> Recorder::run_without_data(
    const OperatorRow& row, const c10::OperatorHandle& op,
    const std::vector<PlanArgument>& arguments) {
  try {
    // Not on meta tensors: many such operators have no Meta kernel, and those know no wrong dtypes.
    if (row.pattern == Pattern::kElementwise) return run_on_single_ones(op, arguments, metas_);
    return eval::call(op, arguments, metas_, at::kMeta);
  } catch (const c10::NotImplementedError& error) {
    problem_ = first_sentence(error);
    if (!row.has(kProbe)) return std::nullopt;
  } catch (const std::exception& error) {
    problem_ = first_sentence(error);
    return std::nullopt;
  }
  if (!check_selected(op.schema(), arguments)) return std::nullopt;
  try {
    const bool is_along = row.pattern == Pattern::kAlongDim;
    return run_on_zeros(op, arguments, metas_,
                        is_along ? find_dims(op.schema(), arguments) : std::nullopt);
  } catch (const std::exception& error) {
    problem_ = first_sentence(error);
    return std::nullopt;
  }
}

bool Recorder::check_results(const std::vector<at::Tensor>& results) {
  for (const at::Tensor& tensor : results) {
    if (tensor.dim() > limits_.max_rank) {
      problem_ = "this has " + std::to_string(tensor.dim()) + " dimensions, the limit is " +
                 std::to_string(limits_.max_rank);
      return false;
    }
    if (tensor.numel() > limits_.max_intermediate_elements) {
      problem_ = "this has " + std::to_string(tensor.numel()) + " elements, the limit is " +
                 std::to_string(limits_.max_intermediate_elements);
      return false;
    }
  }
  return true;
}

// What the operator makes for itself on the way.
bool Recorder::check_scratch(Cost cost, const std::vector<at::Tensor>& read,
                             const std::vector<at::Tensor>& results) {
  const double elements = estimate_scratch(cost, read, results);
  if (elements <= static_cast<double>(limits_.max_intermediate_elements)) return true;
  problem_ = "this works on " + shown(elements) + " elements at one time, the limit is " +
             std::to_string(limits_.max_intermediate_elements);
  return false;
}

Reaches Recorder::combine_reaches(const OperatorRow& row, const c10::FunctionSchema& schema,
                                  const std::vector<PlanArgument>& arguments) const {
  const auto slots = slots_of(arguments);
  const auto dims = find_dims(schema, arguments);
  Reaches combined;
  for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
    std::vector<Reached> reached;
    for (const std::uint32_t slot : slots) {
      reached.push_back({reaches_[slot][i], metas_[slot].dim(), metas_[slot].numel()});
    }
    combined.push_back(combine(row.pattern, reached, dims));
  }
  return combined;
}

std::optional<std::vector<TensorValue>> Recorder::call(const OperatorRow& row,
                                                       const c10::OperatorHandle& op,
                                                       std::vector<PlanArgument> arguments,
                                                       expr::Span span) {
  std::vector<at::Tensor> read;
  for (const std::uint32_t slot : slots_of(arguments)) read.push_back(metas_[slot]);
  const double rounds = count_rounds(op.schema(), arguments, read);
  if (!charge(rounds * estimate_cost(row.cost, read, {}))) return std::nullopt;
  if (!check_parts(row, op.schema(), arguments)) return std::nullopt;
  const auto results = run_without_data(row, op, arguments);
  if (!results || !check_results(*results)) return std::nullopt;
  if (!check_scratch(row.cost, read, *results)) return std::nullopt;
  const double cost = rounds * estimate_cost(row.cost, read, *results);
  if (!charge(cost)) return std::nullopt;
  plan_.cost += cost;
  const Reaches reaches = combine_reaches(row, op.schema(), arguments);
  plan_.steps.push_back({op,
                         std::move(arguments),
                         plan_.slots,
                         static_cast<std::uint32_t>(results->size()),
                         {},
                         span});
  std::vector<TensorValue> values;
  for (const at::Tensor& tensor : *results) {
    const std::uint32_t slot = add_slot(tensor, reaches);
    is_view_[slot] = row.cost == Cost::kView;
    values.push_back({slot, tensor, reaches});
  }
  return values;
}

void Recorder::note_size_read(const TensorValue& value, std::int64_t dim) {
  const std::int64_t normal = dim < 0 && dim != kAllDims ? dim + value.meta.dim() : dim;
  for (std::size_t i = 0; i < size_read_.size(); ++i) {
    const bool is_own = value.reaches[i] == Reach::kTile && normal >= kTileRank - 1;
    if (value.reaches[i] != Reach::kNothing && !is_own) size_read_[i] = true;
  }
}

void Recorder::mark_dead_slots(std::uint32_t result) {
  std::vector<bool> is_read(plan_.slots, false);
  is_read[result] = true;
  for (auto step = plan_.steps.rbegin(); step != plan_.steps.rend(); ++step) {
    std::vector<std::uint32_t> touched = slots_of(step->arguments);
    for (std::uint32_t i = 0; i < step->results; ++i) touched.push_back(step->first_result + i);
    for (const std::uint32_t slot : touched) {
      if (!is_read[slot]) step->dead.push_back(slot);
      is_read[slot] = true;
    }
  }
}

bool Recorder::check_live_bytes() {
  const auto bytes = [&](std::uint32_t slot) {
    return is_view_[slot] ? 0 : static_cast<std::int64_t>(metas_[slot].nbytes());
  };
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (const Step& step : plan_.steps) {
    for (std::uint32_t i = 0; i < step.results; ++i) live += bytes(step.first_result + i);
    most = std::max(most, live);
    for (const std::uint32_t slot : step.dead) live -= bytes(slot);
  }
  if (most <= limits_.max_live_bytes) return true;
  problem_ = "the expression holds " + std::to_string(most) + " bytes at one time, the limit is " +
             std::to_string(limits_.max_live_bytes);
  return false;
}

std::optional<Plan> Recorder::finish(const TensorValue& result) {
  if (result.meta.numel() > limits_.max_result_elements) {
    problem_ = "the result has " + std::to_string(result.meta.numel()) +
               " elements, the limit is " + std::to_string(limits_.max_result_elements);
    return std::nullopt;
  }
  mark_dead_slots(result.slot);
  if (!check_live_bytes()) return std::nullopt;
  plan_.result = result.slot;
  plan_.shape = result.meta.sizes().vec();
  plan_.dtype = result.meta.scalar_type();
  plan_.reaches = result.reaches;
  for (std::size_t i = 0; i < size_read_.size(); ++i) {
    if (size_read_[i]) plan_.reaches[i] = Reach::kWide;
  }
  return std::move(plan_);
}

}  // namespace tt::eval
