#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/eval/reach.h"

namespace tt::eval {

/// How the cost of a call is estimated.
enum class Cost : std::uint8_t {
  kView,       // none
  kElements,   // the largest tensor it reads or writes
  kSort,       // n log2 n
  kMatmul,     // multiply-adds
  kJoined,     // all that it reads, which it joins for itself
  kBroadcast,  // the shape that its tensors broadcast to, which it makes for itself
  kMatrix,     // a decomposition: n times the longest side, a few times over
};

enum Traits : std::uint8_t {
  kPlain = 0,
  kNumbers = 1,   // a Python number may stand for a tensor, as in torch.add(x, 2)
  kFactory = 2,   // makes a tensor on the inputs' device
  kProbe = 4,     // some overload has no Meta kernel in libtorch and may be run on zeros
  kInternal = 8,  // for operators of the syntax; not callable by name
  kParts = 16,    // gives a list of tensors
};

/// Overloads of one operator that may be called by one name.
struct OperatorRow {
  std::string name;                    // in expressions
  std::string aten_name;               // without "aten::"
  std::vector<std::string> overloads;  // in the order in which they are tried; "" is one too
  std::string_view group;
  Cost cost = Cost::kElements;
  Pattern pattern = Pattern::kAnywhere;
  int traits = kPlain;

  bool is_arithmetic = false;  // of numbers it makes a number

  bool has(Traits trait) const { return (traits & trait) != 0; }
};

/// The whole allow-list, in order. Thread: any.
const std::vector<OperatorRow>& operator_table();

/// The rows of one name, in the order in which they are tried. Thread: any.
std::vector<const OperatorRow*> find_operator(std::string_view name);

}  // namespace tt::eval
