#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tt::data {

/// The tokens of a text: its bytes in UTF-8. Prompts are turned into tokens only here. Thread: any.
std::vector<std::int64_t> tokenize(std::string_view text);

}  // namespace tt::data
