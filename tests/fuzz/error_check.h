#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tests/fuzz/fuzz.h"

namespace tt::fuzz {

/// What must hold for every error: a person can read it, and a terminal does not obey it.
inline void check_error(const base::Error& error) {
  const std::string text = to_string(error);
  require(!text.empty(), "an error says something");
  for (const unsigned char c : text)
    require(c >= ' ' && c != 0x7F, "control characters are not shown");
  require(text.size() < 1000, "errors are short");
  static_cast<void>(nlohmann::json(text).dump());  // throws unless it is UTF-8
}

}  // namespace tt::fuzz
