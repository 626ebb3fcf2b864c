#include "src/eval/recorder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "src/eval/cost.h"
#include "src/eval/probe.h"

namespace tt::eval {
namespace {

std::string shown(double number) {
  return std::to_string(static_cast<long long>(std::min(number, 9e18)));
}

// How often the operator passes over its input: diff n times, all other operators once.
double count_rounds(const c10::FunctionSchema& schema, const std::vector<PlanArgument>& arguments,
                    const std::vector<at::Tensor>& read) {
  const auto* n = arguments.size() < 2 ? nullptr : std::get_if<c10::IValue>(&arguments[1]);
  if (schema.name() != "aten::diff" || n == nullptr || read.empty()) return 1;
  std::int64_t longest = 1;
  for (const at::Tensor& tensor : read) longest += tensor.numel();
  return std::clamp(static_cast<double>(n->toInt()), 1.0, static_cast<double>(longest));
}

// True if the result may share the memory of the operator's first tensor.
bool may_share(const OperatorRow& row, const c10::FunctionSchema& schema,
               const std::vector<at::Tensor>& read, const at::Tensor& result) {
  if (row.cost == Cost::kView) return true;
  const bool is_named = schema.returns().front().alias_info() != nullptr;
  return is_named && !read.empty() && read.front().scalar_type() == result.scalar_type();
}

// 2.0 * alpha is a number if alpha is a number; alpha.double() and full_like(alpha, 1) are tensors.
bool gives_a_number(const OperatorRow& row, const std::vector<at::Tensor>& read) {
  return row.is_arithmetic && !read.empty() && std::ranges::all_of(read, is_number);
}

// [lines, tiles, width] or [rows, lines, tiles, width].
bool has_tiles(const Input& input) { return input.shape.size() == 3 || input.shape.size() == 4; }

std::int64_t outer_dims(const Input& input) {
  return static_cast<std::int64_t>(input.shape.size()) - 1;
}

std::int64_t item_size(const std::vector<at::Tensor>& tensors) {
  return tensors.empty() ? 1 : static_cast<std::int64_t>(tensors.front().element_size());
}

}  // namespace

Recorder::Recorder(std::string text, std::vector<Input> inputs, const Limits& limits)
    : limits_(limits),
      max_elements_(static_cast<double>(limits.max_intermediate_elements)),
      size_read_(inputs.size(), false) {
  plan_.text = std::move(text);
  plan_.inputs = std::move(inputs);
  for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
    const Input& input = plan_.inputs[i];
    Reaches reaches(plan_.inputs.size(), Reach::kNothing);
    reaches[i] = has_tiles(input) ? Reach::kTile : Reach::kWide;
    at::Tensor meta = meta_like(input.shape, input.dtype);
    if (input.is_number) mark_number(meta);
    is_view_[add_slot(std::move(meta), std::move(reaches))] = true;
  }
}

std::uint32_t Recorder::add_slot(at::Tensor meta, Reaches reaches) {
  metas_.push_back(std::move(meta));
  reaches_.push_back(std::move(reaches));
  is_view_.push_back(false);
  owners_.push_back(plan_.slots);
  return plan_.slots++;
}

TensorValue Recorder::input(std::size_t index) const {
  return {static_cast<std::uint32_t>(index), metas_[index], reaches_[index]};
}

TensorValue Recorder::constant(const at::Tensor& tensor) {
  const Reaches reaches(plan_.inputs.size(), Reach::kNothing);
  at::Tensor meta = meta_like(tensor.sizes(), tensor.scalar_type());
  if (is_number(tensor)) mark_number(meta);
  const std::uint32_t slot = add_slot(std::move(meta), reaches);
  plan_.constants.emplace_back(slot, tensor);
  return {slot, metas_[slot], reaches};
}

// False sets the problem: "this has 5 elements, the limit is 4".
bool Recorder::fits(double number, double limit, const std::string& what, const std::string& of) {
  if (number <= limit) return true;
  problem_ = what + " " + shown(number) + " " + of + ", the limit is " + shown(limit);
  return false;
}

bool Recorder::charge(double cost) {
  return fits(plan_.cost + cost, limits_.max_cost, "this brings the expression to",
              "element operations");
}

// Checks the number of tensors that chunk, split and unbind would make, before they run.
bool Recorder::check_parts(const OperatorRow& row, const c10::FunctionSchema& schema,
                           const std::vector<PlanArgument>& arguments) {
  const auto slots = slots_of(arguments);
  const auto dims = find_dims(schema, arguments);
  if (!row.has(kParts) || slots.empty() || !dims || dims->empty()) return true;
  const at::Tensor& self = metas_[slots.front()];
  const std::int64_t dim = dims->front() < 0 ? dims->front() + self.dim() : dims->front();
  if (dim < 0 || dim >= self.dim()) return true;  // the operator refuses it later
  std::int64_t parts = self.size(dim);
  if (const auto* value = std::get_if<c10::IValue>(&arguments[1]); value != nullptr) {
    const bool is_size = schema.arguments()[1].name() == "split_size";
    if (value->isInt() && is_size && value->toInt() > 0)
      parts = parts / value->toInt() + (parts % value->toInt() > 0 ? 1 : 0);
    if (value->isInt() && !is_size && schema.name() != "aten::unbind") parts = value->toInt();
    if (value->isIntList()) {
      parts = static_cast<std::int64_t>(value->toIntVector().size());
      if (schema.name() == "aten::tensor_split") ++parts;  // the list has the cut positions
    }
  }
  return fits(static_cast<double>(parts), static_cast<double>(limits_.max_parts), "this gives",
              "tensors");
}

// index_select and quantile run on zeros too. They may return more elements than they read: one
// result per index or quantile, for each position in the other dimensions.
bool Recorder::check_selected(const c10::FunctionSchema& schema,
                              const std::vector<PlanArgument>& arguments) {
  const auto slots = slots_of(arguments);
  const auto dims = find_dims(schema, arguments);
  if (slots.size() != 2) return true;
  const at::Tensor& self = metas_[slots[0]];
  double places = dims ? static_cast<double>(self.numel()) : 1;
  if (dims) {
    const std::int64_t dim = dims->front() < 0 ? dims->front() + self.dim() : dims->front();
    if (dim < 0 || dim >= self.dim()) return true;  // the operator refuses it later
    places /= static_cast<double>(std::max<std::int64_t>(self.size(dim), 1));
  }
  const double selected = places * static_cast<double>(metas_[slots[1]].numel());
  return fits(selected, max_elements_, "this has", "elements") && charge(selected);
}

std::optional<std::vector<at::Tensor>> Recorder::run_without_data(
    const OperatorRow& row, const c10::OperatorHandle& op,
    const std::vector<PlanArgument>& arguments) {
  try {
    // Elementwise operators do not run on meta tensors: many have no Meta kernel, and Meta kernels
    // accept wrong dtypes.
    if (row.pattern == Pattern::kElementwise) return run_on_single_ones(op, arguments, metas_);
    return eval::call(op, arguments, metas_, at::kMeta);
  } catch (const c10::NotImplementedError& error) {
    problem_ = first_sentence(error);
    if (!row.has(kProbe)) return std::nullopt;
  } catch (const std::exception& error) {
    problem_ = first_sentence(error);
    return std::nullopt;
  }
  return try_on_zeros(row, op, arguments);
}

std::optional<std::vector<at::Tensor>> Recorder::try_on_zeros(
    const OperatorRow& row, const c10::OperatorHandle& op,
    const std::vector<PlanArgument>& arguments) {
  if (!check_selected(op.schema(), arguments)) return std::nullopt;
  try {
    const bool is_along = row.pattern == Pattern::kAlongDim;
    const auto dims = is_along ? find_dims(op.schema(), arguments) : std::nullopt;
    if (is_along && (!dims || dims->empty())) {
      if (auto results = run_on_small_zeros(op, arguments, metas_)) return results;
    }
    return run_on_zeros(op, arguments, metas_, dims, limits_.max_tried_elements);
  } catch (const std::exception& error) {
    problem_ = first_sentence(error);
    return std::nullopt;
  }
}

bool Recorder::check_results(const std::vector<at::Tensor>& results) {
  for (const at::Tensor& tensor : results) {
    const bool fit =
        fits(static_cast<double>(tensor.dim()), static_cast<double>(limits_.max_rank), "this has",
             "dimensions") &&
        fits(static_cast<double>(tensor.numel()), max_elements_, "this has", "elements");
    if (!fit) return false;
  }
  return true;
}

// If the smallest integer is divided by -1, the CPU raises a fault that ends the process.
bool Recorder::check_division(const c10::FunctionSchema& schema,
                              const std::vector<PlanArgument>& arguments,
                              const std::vector<at::Tensor>& results) {
  if (schema.overload_name() != "Tensor_mode" || at::isFloatingType(results.front().scalar_type()))
    return true;
  const auto& mode = std::get<c10::IValue>(arguments.back());
  if (!mode.isString() || mode.toStringRef() != "trunc") return true;
  problem_ =
      "integers are not divided with rounding_mode=\"trunc\": write \"floor\", or make one "
      "of them a float";
  return false;
}

Reaches Recorder::combine_reaches(const OperatorRow& row, const c10::FunctionSchema& schema,
                                  const std::vector<PlanArgument>& arguments) const {
  const auto slots = slots_of(arguments);
  const auto dims = find_dims(schema, arguments);
  Reaches combined;
  for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
    std::vector<Reached> reached;
    for (const std::uint32_t slot : slots)
      reached.push_back({reaches_[slot][i], metas_[slot].dim(), metas_[slot].numel()});
    combined.push_back(combine(row.pattern, reached, dims, outer_dims(plan_.inputs[i])));
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
  // Elements of the operator's temporaries.
  const double scratch = estimate_scratch(row.cost, read, *results);
  if (!fits(scratch, max_elements_, "this works on", "elements at one time")) return std::nullopt;
  if (!check_division(op.schema(), arguments, *results)) return std::nullopt;
  const double cost = rounds * estimate_cost(row.cost, read, *results);
  if (!charge(cost)) return std::nullopt;
  plan_.cost += cost;
  const Reaches reaches = combine_reaches(row, op.schema(), arguments);
  const auto slots = slots_of(arguments);
  scratch_.push_back(2 * static_cast<std::int64_t>(scratch) * item_size(*results));
  const bool gives_number = gives_a_number(row, read);
  const bool is_float = !results->empty() && at::isFloatingType(results->front().scalar_type());
  plan_.steps.push_back({.op = op,
                         .arguments = std::move(arguments),
                         .first_result = plan_.slots,
                         .results = static_cast<std::uint32_t>(results->size()),
                         .span = span,
                         .cost = cost,
                         .gives_number = gives_number,
                         .passes_gradient = is_float && op.schema().name() != "aten::detach"});
  std::vector<TensorValue> values;
  for (const at::Tensor& tensor : *results) {
    if (gives_number) mark_number(tensor);
    const std::uint32_t slot = add_slot(tensor, reaches);
    is_view_[slot] = row.cost == Cost::kView;
    if (may_share(row, op.schema(), read, tensor)) owners_[slot] = owners_[slots.front()];
    values.push_back({slot, tensor, reaches});
  }
  return values;
}

void Recorder::note_size_read(const TensorValue& value, std::int64_t dim) {
  const std::int64_t normal = dim < 0 && dim != kAllDims ? dim + value.meta.dim() : dim;
  for (std::size_t i = 0; i < size_read_.size(); ++i) {
    const bool is_own = value.reaches[i] == Reach::kTile && normal >= outer_dims(plan_.inputs[i]);
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

// Memory is freed together with the last value that shares it.
bool Recorder::check_live_bytes(std::uint32_t result) {
  std::vector<std::int64_t> held(plan_.slots, 0);  // by owner
  std::vector<std::size_t> users(plan_.slots, 0);  // by owner
  for (std::size_t i = 0; i < plan_.inputs.size(); ++i) ++users[i];
  for (const auto& [slot, tensor] : plan_.constants) ++users[slot];
  std::int64_t live = 0;
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const Step& step = plan_.steps[i];
    for (std::uint32_t slot = step.first_result; slot < step.first_result + step.results; ++slot) {
      const auto bytes = is_view_[slot] ? 0 : static_cast<std::int64_t>(metas_[slot].nbytes());
      live += bytes;
      held[owners_[slot]] += bytes;
      ++users[owners_[slot]];
    }
    plan_.live_bytes = std::max(plan_.live_bytes, live + scratch_[i]);
    for (const std::uint32_t slot : step.dead)
      if (--users[owners_[slot]] == 0) live -= std::exchange(held[owners_[slot]], 0);
  }
  plan_.held.bytes = held[owners_[result]];
  if (owners_[result] < plan_.inputs.size()) plan_.held.input = owners_[result];
  return fits(static_cast<double>(plan_.live_bytes), static_cast<double>(limits_.max_live_bytes),
              "the expression holds", "bytes at one time");
}

std::optional<Plan> Recorder::finish(const TensorValue& result) {
  if (!fits(static_cast<double>(result.meta.numel()),
            static_cast<double>(limits_.max_result_elements), "the result has", "elements"))
    return std::nullopt;
  mark_dead_slots(result.slot);
  if (!check_live_bytes(result.slot)) return std::nullopt;
  plan_.result = result.slot;
  plan_.shape = result.meta.sizes().vec();
  plan_.dtype = result.meta.scalar_type();
  plan_.is_number = is_number(result.meta);
  plan_.reaches = result.reaches;
  for (std::size_t i = 0; i < size_read_.size(); ++i)
    if (size_read_[i]) plan_.reaches[i] = Reach::kWide;
  return std::move(plan_);
}

}  // namespace tt::eval
