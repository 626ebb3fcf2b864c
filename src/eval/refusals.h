#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/expr/diagnostic.h"

namespace tt::eval {

/// Why nothing of this name may be called or read, what to write instead, and which of the
/// `known` names is near.
expr::Problem refuse_name(std::string_view name, expr::Span span,
                          const std::vector<std::string>& known);

}  // namespace tt::eval
