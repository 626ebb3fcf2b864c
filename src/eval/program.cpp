#include "tensor_tracer/eval/program.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "src/eval/checker.h"
#include "src/eval/plan.h"
#include "src/eval/recorder.h"
#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/expr/parse.h"

namespace tt::eval {
namespace {

// Correctly rounded operators: vector loops and their scalar remainders give the same bits. Sorted.
constexpr std::array<std::string_view, 42> kExactElementwise = {
    "aten::_to_copy",    "aten::abs",         "aten::add",         "aten::bitwise_and",
    "aten::bitwise_not", "aten::bitwise_or",  "aten::bitwise_xor", "aten::ceil",
    "aten::clamp",       "aten::clamp_max",   "aten::clamp_min",   "aten::copysign",
    "aten::div",         "aten::eq",          "aten::floor",       "aten::fmax",
    "aten::fmin",        "aten::ge",          "aten::gt",          "aten::isfinite",
    "aten::isnan",       "aten::le",          "aten::logical_and", "aten::logical_not",
    "aten::logical_or",  "aten::logical_xor", "aten::lt",          "aten::maximum",
    "aten::minimum",     "aten::mul",         "aten::ne",          "aten::neg",
    "aten::positive",    "aten::relu",        "aten::round",       "aten::rsub",
    "aten::sign",        "aten::sqrt",        "aten::sub",         "aten::to",
    "aten::trunc",       "aten::where"};

// A call with at most this cost runs during the check; it takes about a millisecond.
constexpr double kTrialCost = 1 << 20;

base::Result<Plan> make_plan(const expr::Ast& ast, expr::NodeId root, std::vector<Input> inputs,
                             const Substitutions& known, bool takes_number, const Limits& limits) {
  Recorder recorder(ast.source(), std::move(inputs), limits);
  const auto result = check_tensor(ast, root, known, takes_number, recorder);
  if (!result) return result.error();
  auto plan = recorder.finish(result.value());
  if (!plan) {
    const expr::Span span = ast.node(root).span;
    return expr::to_error(ast, {span, recorder.problem(), "reduce more, or take less"});
  }
  return std::move(*plan);
}

// The position in the text where the input is named, or the whole text.
expr::Span span_of(const expr::Ast& ast, expr::NodeId root, const Substitutions& known,
                   std::size_t input) {
  const auto found = std::ranges::find_if(
      known, [input](const auto& one) { return one.second == Substitution(input); });
  return ast.node(found == known.end() ? root : found->first).span;
}

base::Status check_inputs(const expr::Ast& ast, expr::NodeId root, const std::vector<Input>& inputs,
                          const Substitutions& known, const Limits& limits) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    double elements = 1;
    for (const std::int64_t size : input.shape) elements *= static_cast<double>(size);
    const bool fits = static_cast<std::int64_t>(input.shape.size()) <= limits.max_rank &&
                      elements <= static_cast<double>(limits.max_intermediate_elements);
    if (fits) continue;
    const std::string what = input.name.empty() ? "this" : "the input \"" + input.name + "\"";
    return expr::to_error(ast, {span_of(ast, root, known, i),
                                what + " of shape " + describe_shape(input.shape) +
                                    " is too large for an expression, which takes " +
                                    std::to_string(limits.max_rank) + " dimensions and " +
                                    std::to_string(limits.max_intermediate_elements) + " elements",
                                input.name.empty() ? "" : "watch fewer rows or layers"});
  }
  return {};
}

base::Status check_arguments(const Plan& plan, const std::vector<at::Tensor>& inputs) {
  const auto wrong = [](const std::string& what) {
    return base::Error{"invalid_argument", what, "", ""};
  };
  if (inputs.size() != plan.inputs.size()) {
    return wrong("the expression was checked for " + std::to_string(plan.inputs.size()) +
                 " inputs and got " + std::to_string(inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Input& expected = plan.inputs[i];
    if (!inputs[i].defined()) return wrong("the input \"" + expected.name + "\" is undefined");
    if (inputs[i].sizes() != at::IntArrayRef(expected.shape) ||
        inputs[i].scalar_type() != expected.dtype || inputs[i].device() != inputs[0].device()) {
      return wrong("the input \"" + expected.name + "\" was checked with shape " +
                   describe_shape(expected.shape) + " and dtype " + c10::toString(expected.dtype) +
                   " and came with shape " + describe_shape(inputs[i].sizes()) + " and dtype " +
                   c10::toString(inputs[i].scalar_type()));
    }
  }
  return {};
}

// Drops the warnings of ATen. Otherwise a viewer's expression would write to the run's standard
// error at every step.
class NoWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}

 private:
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

// Runs libtorch on one thread: a sum that several threads compute in parts has other bits than a
// sum by one thread.
class OneThread {
 public:
  explicit OneThread(bool is_wanted) : before_(is_wanted ? at::get_num_threads() : 1) {
    if (before_ > 1) at::set_num_threads(1);
  }
  ~OneThread() {
    if (before_ > 1) at::set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

// Marks a number as the input declares it. The tensor may come from code that does not set the
// mark.
at::Tensor as_declared(const at::Tensor& tensor, const Input& input) {
  if (is_number(tensor) == input.is_number) return tensor;
  at::Tensor declared = tensor.clone();
  if (input.is_number) mark_number(declared);
  return declared;
}

std::vector<at::Tensor> run_step(const Step& step, const std::vector<at::Tensor>& slots,
                                 c10::Device device) {
  std::vector<at::Tensor> results = call(step.op, step.arguments, slots, device);
  if (step.gives_number) std::ranges::for_each(results, mark_number);
  return results;
}

// `step`: the number of the running step, for the code that catches an exception.
at::Tensor execute(const Plan& plan, const std::vector<at::Tensor>& inputs, std::size_t& step) {
  const NoWarnings no_warnings;
  const OneThread one_thread(!plan.is_exact);
  const c10::Device device = inputs.empty() ? c10::Device(at::kCPU) : inputs.front().device();
  std::vector<at::Tensor> slots(plan.slots);
  for (std::size_t i = 0; i < inputs.size(); ++i) slots[i] = as_declared(inputs[i], plan.inputs[i]);
  for (const auto& [slot, tensor] : plan.constants) slots[slot] = tensor.to(device);
  for (step = 0; step < plan.steps.size(); ++step) {
    const Step& now = plan.steps[step];
    std::vector<at::Tensor> results = run_step(now, slots, device);
    TORCH_CHECK(results.size() == now.results, "an operator gave another number of results");
    std::ranges::move(results, slots.begin() + now.first_result);
    for (const std::uint32_t slot : now.dead) slots[slot].reset();
  }
  return slots[plan.result];
}

// torch.add(a, b, alpha=2) may be a fused multiply-add.
bool has_factor(const Step& step) {
  const auto& arguments = step.op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto* value = std::get_if<c10::IValue>(&step.arguments[i]);
    if (arguments[i].name() == "alpha" && (value == nullptr || value->toScalar().toDouble() != 1))
      return true;
  }
  return false;
}

bool acts_by_element(const Plan& plan) {
  return std::ranges::all_of(
      plan.steps,
      [](const Step& step) {
        return std::ranges::binary_search(kExactElementwise, step.op.schema().name()) &&
               !has_factor(step);
      });
}

// Meta kernels accept dtypes that the real kernels refuse. Plans of low cost run once on zeros to
// find this. Other failures are ignored, because the zeros may cause them.
std::optional<expr::Problem> find_wrong_dtype(const Plan& plan) {
  if (plan.cost > kTrialCost) return std::nullopt;
  std::vector<at::Tensor> zeros;
  for (const Input& input : plan.inputs)
    zeros.push_back(at::zeros({}, at::device(at::kCPU).dtype(input.dtype)).expand(input.shape));
  std::size_t step = 0;
  try {
    execute(plan, zeros, step);
  } catch (const std::exception& error) {
    const std::string why = first_sentence(error);
    if (why.find("not implemented for") == std::string::npos) return std::nullopt;
    return expr::Problem{plan.steps.at(step).span, why, "convert it first, for example .double()"};
  }
  return std::nullopt;
}

template <typename Predicate>
bool all_slots(const Step& step, const Predicate& predicate) {
  return std::ranges::all_of(
      step.arguments,
      [&](const PlanArgument& argument) {
        if (const auto* slot = std::get_if<Slot>(&argument)) return predicate(*slot);
        const auto* list = std::get_if<SlotList>(&argument);
        return list == nullptr || std::ranges::all_of(*list, predicate);
      });
}

// Runs the step on the values in `slots`, if all are known. False: it did not run. A step that
// throws or has a high cost is left for run().
bool run_early(const Step& step, std::vector<at::Tensor>& slots) {
  if (step.cost > kTrialCost) return false;
  if (all_slots(step, [](Slot) { return false; })) return false;
  if (!all_slots(step, [&](Slot slot) { return slots[slot.index].defined(); })) return false;
  try {
    std::vector<at::Tensor> results = run_step(step, slots, at::kCPU);
    std::ranges::move(results, slots.begin() + step.first_result);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

base::Result<Plan> check_plan(const expr::Ast& ast, expr::NodeId root, std::vector<Input> inputs,
                              const Substitutions& known, bool takes_number, const Limits& limits) {
  if (const auto status = check_inputs(ast, root, inputs, known, limits); !status.ok())
    return status.error();
  const c10::NoGradGuard no_grad;
  const NoWarnings no_warnings;
  try {
    auto plan = make_plan(ast, root, std::move(inputs), known, takes_number, limits);
    if (!plan.ok()) return plan;
    plan.value().is_exact = acts_by_element(plan.value());
    if (const auto wrong = find_wrong_dtype(plan.value())) return expr::to_error(ast, *wrong);
    return plan;
  } catch (const std::exception& error) {
    return expr::to_error(ast, {ast.node(root).span, first_sentence(error), ""});
  }
}

}  // namespace

base::Result<Program> Program::check(std::string_view text, std::vector<Input> inputs,
                                     const Limits& limits) {
  const auto ast = expr::parse(text, limits.text);
  if (!ast.ok()) return ast.error();
  auto plan = check_plan(ast.value(), ast.value().root(), std::move(inputs), {}, false, limits);
  if (!plan) return plan.error();
  return Program(std::make_shared<const Plan>(std::move(plan).value()));
}

base::Result<Program> Program::check(const expr::Ast& ast, expr::NodeId root,
                                     std::vector<Input> inputs, const Substitutions& known,
                                     const Limits& limits) {
  auto plan = check_plan(ast, root, std::move(inputs), known, true, limits);
  if (!plan) return plan.error();
  return Program(std::make_shared<const Plan>(std::move(plan).value()));
}

const ProgramFacts& Program::facts() const { return *plan_; }
const std::string& Program::text() const { return plan_->text; }

base::Result<at::Tensor> Program::run(const std::vector<at::Tensor>& inputs) const {
  const c10::NoGradGuard no_grad;
  auto result = run_with_gradient(inputs);
  if (!result.ok() || !result.value().requires_grad()) return result;
  return result.value().detach();
}

base::Result<at::Tensor> Program::run_with_gradient(const std::vector<at::Tensor>& inputs) const {
  if (const auto status = check_arguments(*plan_, inputs); !status.ok()) return status.error();
  std::size_t step = 0;
  try {
    at::Tensor result = execute(*plan_, inputs, step);
    if (result.sizes() == at::IntArrayRef(plan_->shape) && result.scalar_type() == plan_->dtype)
      return result;
    return base::Error{"expression_failed",
                       "the result has shape " + describe_shape(result.sizes()) +
                           ", the check had found " + describe_shape(plan_->shape),
                       "", ""};
  } catch (const std::exception& error) {
    return base::Error{"expression_failed", first_sentence(error), "", ""};
  }
}

Program Program::fold(const std::vector<at::Tensor>& known) const {
  const c10::NoGradGuard no_grad;
  const NoWarnings no_warnings;
  const OneThread one_thread(!plan_->is_exact);
  std::vector<at::Tensor> slots(plan_->slots);
  std::ranges::copy(known, slots.begin());
  for (const auto& [slot, tensor] : plan_->constants) slots[slot] = tensor;
  auto plan = std::make_shared<Plan>(*plan_);
  plan->steps.clear();
  for (const Step& step : plan_->steps)
    if (!run_early(step, slots)) plan->steps.push_back(step);
  plan->constants.clear();
  const auto keep = [&](Slot slot) {
    const bool is_input = slot.index < plan->inputs.size();
    const at::Tensor& tensor = slots[slot.index];
    if (!is_input && tensor.defined()) plan->constants.emplace_back(slot.index, tensor);
    return true;
  };
  for (const Step& step : plan->steps) all_slots(step, keep);
  keep({plan->result});
  return Program(std::move(plan));
}

std::optional<expr::Span> Program::find_gradient_stop(const std::vector<bool>& has_gradient) const {
  std::vector<bool> has(has_gradient);  // by slot
  has.resize(plan_->slots, false);
  for (const Step& step : plan_->steps) {
    if (all_slots(step, [&](Slot slot) { return !has[slot.index]; })) continue;
    for (std::uint32_t i = 0; i < step.results; ++i)
      has[step.first_result + i] = step.passes_gradient;
    const c10::FunctionSchema& schema = step.op.schema();
    const bool is_remainder_of_number =
        schema.name() == "aten::remainder" && schema.overload_name() == "Scalar_Tensor";
    if (schema.name() == "aten::floor_divide" || is_remainder_of_number) return step.span;
  }
  return std::nullopt;
}

// Counts whole storages, because a view keeps its whole storage.
std::size_t Program::constant_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [slot, tensor] : plan_->constants) bytes += tensor.storage().nbytes();
  return bytes;
}

bool Program::acts_on_last_dim_only(std::size_t input) const {
  return plan_->reaches.at(input) == Reach::kTile;
}

}  // namespace tt::eval
