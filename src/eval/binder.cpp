#include "src/eval/binder.h"

#include <algorithm>
#include <array>

#include "src/eval/convert.h"

namespace tt::eval {
namespace {

// Arguments that the caller of an expression sets; an expression cannot.
constexpr std::array<std::string_view, 10> kHidden = {
    "layout",       "device",      "pin_memory", "memory_format", "generator",
    "non_blocking", "sparse_grad", "copy",       "implicit",      "out"};

bool is_hidden(const c10::Argument& argument) {
  return std::ranges::find(kHidden, argument.name()) != kHidden.end();
}

// Also accepts NumPy's names, as PyTorch does.
std::vector<std::string> names_of(const c10::Argument& argument, const OperatorRow& row) {
  const std::string& name = argument.name();
  if (is_hidden(argument)) return {};
  if (name == "self") return {"input"};
  if (name == "dim") return {"dim", "axis"};
  if (name == "keepdim") return {"keepdim", "keepdims"};
  if (name == "ord" && row.name == "norm") return {"p"};
  return {name};
}

bool goes_by(const c10::Argument& argument, const OperatorRow& row, const std::string& name) {
  const auto names = names_of(argument, row);
  return std::ranges::find(names, name) != names.end();
}

class Binder {
 public:
  Binder(const c10::FunctionSchema& schema, const OperatorRow& row, const Call& call,
         Mismatch& mismatch)
      : parameters_(schema.arguments()),
        row_(row),
        call_(call),
        mismatch_(mismatch),
        bound_(parameters_.size()) {}

  std::optional<std::vector<PlanArgument>> bind() {
    if (!bind_self() || !bind_positional() || !bind_keywords() || !fill_in()) return std::nullopt;
    std::vector<PlanArgument> arguments;
    for (auto& argument : bound_) arguments.push_back(std::move(*argument));
    return arguments;
  }

 private:
  // An argument of the wrong kind is a better error message than a surplus argument.
  bool fail(expr::Span span, std::string what, bool is_wrong_kind = false) {
    const auto matched = std::ranges::count_if(bound_, [](const auto& b) { return b.has_value(); });
    const std::size_t progress = 2 * static_cast<std::size_t>(matched) + (is_wrong_kind ? 1 : 0);
    mismatch_ = {span, std::move(what), progress};
    return false;
  }

  bool bind_one(std::size_t index, const Value& value, expr::Span span) {
    const c10::Argument& parameter = parameters_[index];
    bound_[index] = convert(value, parameter, row_);
    if (bound_[index]) return true;
    return fail(span,
                "the argument \"" + shown_name(parameter) + "\" of " + row_.name + " is " +
                    expected_kind(parameter) + ", not " + describe(value),
                true);
  }

  std::string shown_name(const c10::Argument& parameter) const {
    const auto names = names_of(parameter, row_);
    return names.empty() ? parameter.name() : names.front();
  }

  bool bind_self() {
    if (!call_.self) return true;
    const auto self = std::ranges::find(parameters_, std::string("self"), &c10::Argument::name);
    if (self == parameters_.end()) {
      return parameters_.empty() ? fail(call_.span, row_.name + " is no method")
                                 : bind_one(0, *call_.self, call_.span);
    }
    return bind_one(static_cast<std::size_t>(self - parameters_.begin()), *call_.self, call_.span);
  }

  // Indices of the parameters that a positional argument may set.
  std::vector<std::size_t> places() const {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (!bound_[i] && !parameters_[i].kwarg_only() && !is_hidden(parameters_[i]))
        indices.push_back(i);
    return indices;
  }

  // view(2, 3) for view((2, 3)): if the only positional parameter is a list of integers.
  bool bind_spread_integers(const std::vector<std::size_t>& indices, std::size_t count) {
    if (indices.size() != 1 || count == 0) return false;
    const c10::Argument& parameter = parameters_[indices.front()];
    if (expected_kind(parameter) != "a list of integers") return false;
    Sequence sizes;
    for (std::size_t i = 0; i < count; ++i) {
      if (!call_.arguments[i].value.is<std::int64_t>()) return false;
      sizes.items.push_back(call_.arguments[i].value);
    }
    return bind_one(indices.front(), Value{sizes}, call_.span);
  }

  bool bind_positional() {
    const auto indices = places();
    const auto count = static_cast<std::size_t>(
        std::ranges::count_if(call_.arguments, [](const Given& g) { return g.name.empty(); }));
    if (bind_spread_integers(indices, count)) return true;
    for (std::size_t i = 0; i < count; ++i) {
      const Given& given = call_.arguments[i];
      if (i >= indices.size()) {
        return fail(given.span, row_.name + " takes no more than " +
                                    std::to_string(indices.size()) + " arguments here");
      }
      if (!bind_one(indices[i], given.value, given.span)) return false;
    }
    return true;
  }

  bool bind_keywords() {
    for (const Given& given : call_.arguments) {
      if (given.name.empty()) continue;
      const auto found = std::ranges::find_if(parameters_, [&](const c10::Argument& parameter) {
        return goes_by(parameter, row_, given.name);
      });
      if (found == parameters_.end())
        return fail(given.name_span, row_.name + " has no argument \"" + given.name + "\" here");
      const auto index = static_cast<std::size_t>(found - parameters_.begin());
      if (bound_[index])
        return fail(given.name_span, "the argument \"" + given.name + "\" is given twice");
      if (!bind_one(index, given.value, given.span)) return false;
    }
    return true;
  }

  bool fill_in() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const c10::Argument& parameter = parameters_[i];
      if (bound_[i]) continue;
      if (parameter.name() == "device" && row_.has(kFactory)) {
        bound_[i] = InputDevice{};
      } else if (parameter.default_value()) {
        bound_[i] = *parameter.default_value();
      } else if (parameter.type()->kind() == c10::TypeKind::OptionalType) {
        bound_[i] = c10::IValue();
      } else {
        return fail(call_.name_span,
                    row_.name + " needs the argument \"" + shown_name(parameter) + "\"");
      }
    }
    return true;
  }

  const std::vector<c10::Argument>& parameters_;
  const OperatorRow& row_;
  const Call& call_;
  Mismatch& mismatch_;
  std::vector<std::optional<PlanArgument>> bound_;
};

std::string shown_default(const c10::IValue& value) {
  if (value.isNone()) return "None";
  if (value.isBool()) return value.toBool() ? "True" : "False";
  if (value.isInt()) return std::to_string(value.toInt());
  if (value.isString()) return "\"" + value.toStringRef() + "\"";
  if (value.isDouble()) {
    std::string text = std::to_string(value.toDouble());
    while (text.ends_with("0") && !text.ends_with(".0")) text.pop_back();
    return text == "0.0" && value.toDouble() != 0 ? "..." : text;
  }
  return "()";
}

}  // namespace

std::optional<std::vector<PlanArgument>> bind(const c10::FunctionSchema& schema,
                                              const OperatorRow& row, const Call& call,
                                              Mismatch& mismatch) {
  return Binder(schema, row, call, mismatch).bind();
}

std::string usage(const c10::FunctionSchema& schema, const OperatorRow& row) {
  std::string text;
  bool is_first_keyword = true;
  for (const c10::Argument& argument : schema.arguments()) {
    const auto names = names_of(argument, row);
    if (names.empty()) continue;
    if (!text.empty()) text += ", ";
    if (argument.kwarg_only() && is_first_keyword) {
      text += "*, ";
      is_first_keyword = false;
    }
    text += names.front();
    if (argument.default_value()) text += "=" + shown_default(*argument.default_value());
  }
  return row.name + "(" + text + ")";
}

std::vector<std::string> keyword_names(const c10::FunctionSchema& schema, const OperatorRow& row) {
  std::vector<std::string> names;
  for (const c10::Argument& argument : schema.arguments())
    for (std::string& name : names_of(argument, row)) names.push_back(std::move(name));
  return names;
}

}  // namespace tt::eval
