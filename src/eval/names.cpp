#include "src/eval/names.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "src/eval/builtins.h"
#include "tensor_tracer/base/nearest.h"
#include "tensor_tracer/expr/diagnostic.h"

namespace tt::eval {
namespace {

constexpr std::array<std::string_view, 5> kModules = {"torch", "torch.linalg", "torch.special",
                                                      "torch.nn", "torch.nn.functional"};

struct Refusal {
  std::string_view names;  // separated by blanks
  std::string_view what;
  std::string_view remedy;
};

constexpr std::string_view kDataShape = "the shape of its result depends on the data";
constexpr std::string_view kPure = "an expression only calculates with its inputs";
constexpr std::string_view kNoFunctions = "there are no Python functions";

constexpr std::array kRefusals = {
    Refusal{"nonzero argwhere masked_select", kDataShape,
            "write where(mask, data, 0), or count with mask.sum()"},
    Refusal{"unique unique_consecutive", kDataShape, "write sort(...)"},
    Refusal{"bincount", kDataShape, "write (data == value).sum()"},
    Refusal{"item tolist numpy data_ptr", "it takes the numbers out of the tensor",
            "tensors stay tensors here: leave it out"},
    Refusal{"rand randn randint randperm rand_like randn_like bernoulli multinomial normal dropout "
            "manual_seed",
            "it is random", "an expression gives the same value every time"},
    Refusal{"load save open print eval exec compile getattr globals from_file register_hook",
            "it reaches outside the expression", kPure},
    Refusal{"backward", "it changes gradients", kPure},
    Refusal{"grad", "gradients have separate trace points", "watch the point's gradient"},
    Refusal{"requires_grad", "gradients are not followed here", kPure},
    Refusal{"cuda cpu", "it moves the tensor", "leave it out; everything runs where the data is"},
    Refusal{"len", kNoFunctions, "write data.size(0)"},
    Refusal{"range", kNoFunctions, "write arange(...)"},
};

bool is_aten_operator(std::string_view name) {
  const auto all = c10::Dispatcher::singleton().getAllOpNames();
  return std::ranges::any_of(all, [name](const c10::OperatorName& op) {
    return op.name.starts_with("aten::") && std::string_view(op.name).substr(6) == name;
  });
}

// The problem of a name that cannot be called or read: the reason, a replacement, and the nearest
// of the `known` names.
expr::Problem refuse_name(std::string_view name, expr::Span span,
                          const std::vector<std::string>& known) {
  const std::string quoted = "\"" + std::string(name) + "\"";
  const auto found = std::ranges::find_if(
      kRefusals, [name](const Refusal& row) { return base::has_word(row.names, name); });
  if (found != kRefusals.end()) {
    return {span, quoted + " is not admitted: " + std::string(found->what),
            std::string(found->remedy)};
  }
  if (name.ends_with("_")) {
    return {span, quoted + " is not admitted: it works in place",
            "call it without the last underscore"};
  }
  if (is_aten_operator(name)) {
    return {span, quoted + " is an operator of PyTorch but is not admitted here",
            "docs/expressions.md lists the operators that are"};
  }
  return {span, "there is no " + quoted + expr::suggestion(name, known),
          "docs/expressions.md lists the operators"};
}

bool is_module(const std::string& path) {
  return std::ranges::find(kModules, path) != kModules.end();
}

bool is_callable(const std::string& name) {
  const auto rows = find_operator(name);
  return is_builtin(name) || (!rows.empty() && !rows.front()->has(kInternal));
}

std::vector<std::string> known_names(const Recorder& recorder) {
  std::vector<std::string> names;
  for (const Input& input : recorder.inputs())
    if (!input.name.empty()) names.push_back(input.name);
  std::set<std::string> callables(builtin_names().begin(), builtin_names().end());
  for (const OperatorRow& row : operator_table())
    if (!row.has(kInternal)) callables.insert(row.name);
  names.insert(names.end(), callables.begin(), callables.end());
  names.insert(names.end(), {"torch", "inf", "nan", "pi", "True", "False", "None"});
  return names;
}

Value refuse(const expr::Node& node, expr::Span span, const std::vector<std::string>& known,
             CallChecker& calls) {
  expr::Problem problem = refuse_name(node.text, span, known);
  return calls.fail(problem.span, std::move(problem.what), std::move(problem.remedy));
}

Value attribute_of_module(const expr::Node& node, const Module& module, CallChecker& calls) {
  const std::string path = module.path + "." + node.text;
  if (is_module(path)) return {Module{path}};
  if (module.path == "torch") {
    if (const auto dtype = find_dtype(node.text)) return {*dtype};
    if (const auto constant = find_constant(node.text)) return {*constant};
  }
  const std::string prefix = module.path == "torch.linalg" ? "linalg_" : "";
  if (is_callable(prefix + node.text)) return {Callable{prefix + node.text, {}}};
  auto known = known_names(calls.recorder());
  for (std::string& name : dtype_names()) known.push_back(std::move(name));
  return refuse(node, node.name_span, known, calls);
}

Value attribute_of_tensor(const expr::Node& node, const Value& object, CallChecker& calls) {
  const TensorValue& tensor = *object.get<TensorValue>();
  if (node.text == "shape") return calls.shape_of(tensor);
  if (node.text == "ndim") return {tensor.meta.dim()};
  if (node.text == "dtype") return {tensor.meta.scalar_type()};
  if (node.text == "T" || node.text == "mT")
    return calls.apply(node.text, node.name_span, {object});
  if (is_callable(node.text)) return {Callable{node.text, {object}}};
  auto known = known_names(calls.recorder());
  known.insert(known.end(), {"shape", "ndim", "dtype"});
  return refuse(node, node.name_span, known, calls);
}

Value attribute_of_sequence(const expr::Node& node, const Sequence& sequence, CallChecker& calls) {
  const auto found = std::ranges::find(sequence.names, node.text);
  if (found != sequence.names.end())
    return sequence.items[static_cast<std::size_t>(found - sequence.names.begin())];
  const std::string remedy =
      sequence.names.empty() ? "take one of them with [0]" : "take one of them first";
  return calls.fail(node.name_span,
                    describe(Value{sequence}) + " has no \"" + node.text + "\"" +
                        expr::suggestion(node.text, sequence.names),
                    remedy);
}

}  // namespace

Value resolve_name(const expr::Node& node, CallChecker& calls) {
  const auto& inputs = calls.recorder().inputs();
  const auto input = std::ranges::find(inputs, node.text, &Input::name);
  if (input != inputs.end())
    return {calls.recorder().input(static_cast<std::size_t>(input - inputs.begin()))};
  if (is_module(node.text)) return {Module{node.text}};
  if (is_callable(node.text)) return {Callable{node.text, {}}};
  if (const auto constant = find_constant(node.text)) return {*constant};
  return refuse(node, node.span, known_names(calls.recorder()), calls);
}

Value resolve_attribute(const expr::Node& node, const Value& object, CallChecker& calls) {
  if (const auto* module = object.get<Module>()) return attribute_of_module(node, *module, calls);
  if (object.is<TensorValue>()) return attribute_of_tensor(node, object, calls);
  if (const auto* sequence = object.get<Sequence>())
    return attribute_of_sequence(node, *sequence, calls);
  const std::string remedy = object.is<Callable>() ? "call it first: add parentheses" : "";
  return calls.fail(node.name_span, describe(object) + " has no \"" + node.text + "\"", remedy);
}

}  // namespace tt::eval
