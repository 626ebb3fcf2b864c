#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/eval/reach.h"

namespace tt::eval {

struct Value;

struct None {};
struct Ellipsis {};

/// A tensor that a run will hold in a slot; `meta` has its shape and dtype and no data.
struct TensorValue {
  std::uint32_t slot = 0;
  at::Tensor meta;
  Reaches reaches;
};

/// A tuple or a list; the results of an operator also have names.
struct Sequence {
  std::vector<Value> items;
  std::vector<std::string> names;
};

/// start:stop:step
struct Slice {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  std::optional<std::int64_t> step;
};

/// "torch", "torch.linalg", …
struct Module {
  std::string path;
};

/// The name of an operator, and the tensor in front of the dot, if there is one.
struct Callable {
  std::string name;
  std::vector<Value> self;
};

/// The value of a part of an expression during the check. Only the numbers inside tensors are not
/// known yet.
struct Value {
  std::variant<None, bool, std::int64_t, double, std::string, at::ScalarType, Ellipsis, TensorValue,
               Sequence, Slice, Module, Callable>
      state;

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&state);
  }
  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(state);
  }
  /// bool, int or float.
  bool is_number() const { return is<bool>() || is<std::int64_t>() || is<double>(); }
  /// REQUIRES: bool or int.
  std::int64_t to_integer() const;
  /// REQUIRES: is_number().
  double to_double() const;
};

/// "a tensor of shape [2, 3]", "the integer 3", …
std::string describe(const Value& value);

}  // namespace tt::eval
