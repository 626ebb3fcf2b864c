#include <algorithm>

#include "src/eval/builtins.h"
#include "src/eval/checker.h"

namespace tt::eval {
namespace {

// Overloads shown to a person whose call fits none.
constexpr std::size_t kShownForms = 4;

// Registered in this libtorch, and pure by its own schema.
std::optional<c10::OperatorHandle> find_overload(const OperatorRow& row,
                                                 const std::string& overload) {
  const auto op = c10::Dispatcher::singleton().findSchema({"aten::" + row.aten_name, overload});
  if (!op || op->schema().is_mutable()) return std::nullopt;
  return op;
}

struct Candidate {
  const OperatorRow* row;
  c10::OperatorHandle op;
};

std::vector<Candidate> find_candidates(const std::string& name) {
  std::vector<Candidate> candidates;
  for (const OperatorRow* row : find_operator(name)) {
    for (const std::string& overload : row->overloads) {
      if (const auto op = find_overload(*row, overload)) candidates.push_back({row, *op});
    }
  }
  return candidates;
}

std::string forms(const std::vector<Candidate>& candidates) {
  std::string text;
  std::vector<std::string> seen;
  for (const Candidate& candidate : candidates) {
    const std::string form = usage(candidate.op.schema(), *candidate.row);
    if (seen.size() == kShownForms || std::ranges::find(seen, form) != seen.end()) continue;
    text += (seen.empty() ? "it is called as " : " or ") + form;
    seen.push_back(form);
  }
  return text;
}

}  // namespace

std::optional<Call> Checker::read_call(const Node& node, const Callable& callee) {
  const Node& callee_node = ast_.node(node.children[0]);
  Call call;
  call.name = callee.name;
  if (!callee.self.empty()) call.self = callee.self.front();
  call.span = node.span;
  call.name_span =
      callee_node.kind == expr::Kind::kAttribute ? callee_node.name_span : callee_node.span;
  for (std::size_t i = 1; i < node.children.size(); ++i) {
    const Node& argument = ast_.node(node.children[i]);
    Given given{evaluate(node.children[i]), argument.span, "", {}};
    if (argument.kind == expr::Kind::kKeyword) {
      given.span = ast_.node(argument.children[0]).span;
      given.name = argument.text;
      given.name_span = argument.name_span;
    }
    call.arguments.push_back(std::move(given));
  }
  return problem_ ? std::nullopt : std::optional(std::move(call));
}

Value Checker::evaluate_call(const Node& node) {
  const Value callee = evaluate(node.children[0]);
  if (problem_) return {};
  const auto* callable = callee.get<Callable>();
  if (callable == nullptr) {
    return fail(ast_.node(node.children[0]).span, describe(callee) + " cannot be called");
  }
  const auto call = read_call(node, *callable);
  if (!call) return {};
  return is_builtin(call->name) ? call_builtin(*call) : call_operator(*call);
}

Value Checker::call_operator(const Call& call) {
  Mismatch nearest;
  bool has_mismatch = false;
  for (const Candidate& candidate : find_candidates(call.name)) {
    Mismatch mismatch;
    auto arguments = bind(candidate.op.schema(), *candidate.row, call, mismatch);
    if (arguments) {
      return call_overload(call, *candidate.row, candidate.op, std::move(*arguments));
    }
    if (!has_mismatch || mismatch.progress > nearest.progress) nearest = mismatch;
    has_mismatch = true;
  }
  return refuse_call(call, nearest);
}

Value Checker::refuse_call(const Call& call, const Mismatch& mismatch) {
  const auto candidates = find_candidates(call.name);
  if (candidates.empty()) {
    return fail(call.name_span, "this libtorch has no operator \"" + call.name + "\"");
  }
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) {
    for (std::string& name : keyword_names(candidate.op.schema(), *candidate.row)) {
      names.push_back(std::move(name));
    }
  }
  for (const Given& given : call.arguments) {
    if (given.name.empty() || std::ranges::find(names, given.name) != names.end()) continue;
    return fail(
        given.name_span,
        call.name + " has no argument \"" + given.name + "\"" + expr::suggestion(given.name, names),
        forms(candidates));
  }
  return fail(mismatch.span, mismatch.what, forms(candidates));
}

Value Checker::call_overload(const Call& call, const OperatorRow& row,
                             const c10::OperatorHandle& op, std::vector<PlanArgument> arguments) {
  auto results = recorder_.call(row, op, std::move(arguments), call.name_span);
  if (!results) return fail(call.name_span, call.name + ": " + recorder_.problem());
  const auto& returns = op.schema().returns();
  if (returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::TensorType) {
    return {results->front()};
  }
  Sequence sequence;
  for (TensorValue& result : *results) sequence.items.push_back({std::move(result)});
  for (const c10::Argument& named : returns) {
    if (!named.name().empty()) sequence.names.push_back(named.name());
  }
  return {std::move(sequence)};
}

// A call that the syntax makes: an operator sign, a piece of an index.
Value Checker::apply(const std::string& name, Span span, std::vector<Value> arguments) {
  if (problem_) return {};
  Call call{name, std::nullopt, span, span, {}};
  for (Value& argument : arguments) call.arguments.push_back({std::move(argument), span, "", {}});
  return call_operator(call);
}

}  // namespace tt::eval
