#pragma once

#include <string>
#include <vector>

namespace tt::eval {

/// The operators of one kind, as docs/expressions.md lists them.
struct OperatorGroup {
  std::string title;
  std::vector<std::string> names;  // sorted
};

/// The allow-list: everything an expression may call. Thread: any.
std::vector<OperatorGroup> operator_groups();

}  // namespace tt::eval
