#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::data {

/// Turns a text into the tokens of the model. An error says why it cannot.
using Tokenizer = std::function<base::Result<std::vector<std::int64_t>>(const std::string& text)>;

/// The tokens of our own models: the bytes of the text in UTF-8. Thread: any.
base::Result<std::vector<std::int64_t>> bytes_of(const std::string& text);

}  // namespace tt::data
