#include "src/eval/value.h"

#include <sstream>

#include "tensor_tracer/eval/program.h"

namespace tt::eval {
namespace {

struct Describe {
  std::string operator()(const None&) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(std::int64_t value) const {
    return "the integer " + std::to_string(value);
  }
  std::string operator()(double value) const { return "the number " + std::to_string(value); }
  std::string operator()(const std::string& value) const { return "the string \"" + value + "\""; }
  std::string operator()(at::ScalarType value) const {
    return std::string("the dtype ") + c10::toString(value);
  }
  std::string operator()(const Ellipsis&) const { return "..."; }
  std::string operator()(const TensorValue& value) const {
    return "a tensor of shape " + describe_shape(value.meta.sizes());
  }
  std::string operator()(const Sequence& value) const {
    if (value.items.empty()) return "an empty list";
    std::string names;
    for (const std::string& name : value.names) names += (names.empty() ? "" : ", ") + name;
    const std::string of = names.empty() ? std::to_string(value.items.size()) + " values" : names;
    return "a tuple or list of " + of;
  }
  std::string operator()(const Slice&) const { return "a slice"; }
  std::string operator()(const Module& value) const { return "the module " + value.path; }
  std::string operator()(const Callable& value) const { return "the operator " + value.name; }
};

}  // namespace

std::int64_t Value::to_integer() const {
  if (const auto* truth = get<bool>()) return *truth ? 1 : 0;
  return std::get<std::int64_t>(state);
}

double Value::to_double() const {
  const auto* real = get<double>();
  return real != nullptr ? *real : static_cast<double>(to_integer());
}

std::string describe(const Value& value) { return std::visit(Describe{}, value.state); }

std::string describe_shape(at::IntArrayRef shape) {
  std::ostringstream text;
  text << shape;
  return text.str();
}

}  // namespace tt::eval
