#include "src/eval/names.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "src/eval/builtins.h"
#include "src/eval/refusals.h"

namespace tt::eval {
namespace {

constexpr std::array<std::string_view, 5> kModules = {"torch", "torch.linalg", "torch.special",
                                                      "torch.nn", "torch.nn.functional"};

bool is_module(const std::string& path) {
  return std::ranges::find(kModules, path) != kModules.end();
}

bool is_callable(const std::string& name) {
  const auto rows = find_operator(name);
  return is_builtin(name) || (!rows.empty() && !rows.front()->has(kInternal));
}

std::vector<std::string> known_names(const Recorder& recorder) {
  std::vector<std::string> names;
  for (const Input& input : recorder.inputs()) {
    if (!input.name.empty()) names.push_back(input.name);
  }
  std::set<std::string> callables(builtin_names().begin(), builtin_names().end());
  for (const OperatorRow& row : operator_table()) {
    if (!row.has(kInternal)) callables.insert(row.name);
  }
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
  if (found != sequence.names.end()) {
    return sequence.items[static_cast<std::size_t>(found - sequence.names.begin())];
  }
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
  if (input != inputs.end()) {
    return {calls.recorder().input(static_cast<std::size_t>(input - inputs.begin()))};
  }
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
