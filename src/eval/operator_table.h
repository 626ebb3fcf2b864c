#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/eval/reach.h"

namespace tt::eval {

/// How the cost of a call is estimated.
enum class Cost : std::uint8_t {
  kView,       // no cost
  kElements,   // the largest tensor that the operator reads or writes
  kSort,       // n log2 n
  kMatmul,     // multiply-adds
  kJoined,     // all elements that the operator reads and joins in a temporary
  kBroadcast,  // the shape that its tensors broadcast to, in a temporary
  kMatrix,     // a decomposition: sweeps × n × the longest side
};

enum Traits : std::uint8_t {
  kPlain = 0,
  kNumbers = 1,   // a Python number may replace a tensor, as in torch.add(x, 2)
  kFactory = 2,   // makes a tensor on the inputs' device
  kProbe = 4,     // some overload has no Meta kernel in libtorch and may be run on zeros
  kInternal = 8,  // for operators of the syntax; not callable by name
  kParts = 16,    // returns a list of tensors
};

/// Overloads of one operator under one name.
struct OperatorRow {
  std::string name;                    // in expressions
  std::string aten_name;               // without "aten::"
  std::vector<std::string> overloads;  // in the order of trials; "" is an overload too
  std::string_view group;
  Cost cost = Cost::kElements;
  Pattern pattern = Pattern::kAnywhere;
  int traits = kPlain;

  bool is_arithmetic = false;  // returns a number if all arguments are numbers

  bool has(Traits trait) const { return (traits & trait) != 0; }
};

/// The complete allow-list, in order. Thread: any.
const std::vector<OperatorRow>& operator_table();

/// The rows of one name, in the order of trials. Thread: any.
std::vector<const OperatorRow*> find_operator(std::string_view name);

}  // namespace tt::eval
