#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::trace {

/// What a list of ranges may hold, in words for its errors.
struct NumberRange {
  std::int64_t first = 0, last = 0;  // both included
  std::string of;                    // "layers of HiddenStates"
  std::string remedy;
};

/// Text such as "1-4,8": which numbers up to allowed.last it names.
base::Result<std::vector<bool>> parse_ranges(const nlohmann::json& text, const NumberRange& allowed,
                                             const std::string& where);

/// A list [first, end) of two whole numbers with 0 <= first < end <= most.
base::Result<std::pair<std::int64_t, std::int64_t>> parse_window(const nlohmann::json& value,
                                                                 std::int64_t most,
                                                                 const std::string& where);

}  // namespace tt::trace
